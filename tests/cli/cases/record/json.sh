# --json FILE: what show --json prints, in a file, since stdout is the job's. A place that cannot be
# written is said before the job is started; what goes wrong later changes no exit code.
twinrun record -q --json run.json -- "$JOB" --steps 1
echo "exit $?"
cat > look.py <<'EOF'
import json, subprocess, sys
run = json.load(open("run.json"))
shown = json.loads(subprocess.run(["twinrun", "show", "last", "--json"], stdout=-1).stdout)
shown.pop("comparisons", None)  # the ledger's, which is asked when it is shown
for one in run, shown:
    one["wall_s"] = round(one["wall_s"], 6)  # read back from decimal digits
print(run["schema"], run["state"], run["exit_code"], run["traces"][0]["steps"], run == shown)
EOF
"$PYTHON" look.py
twinrun run -q --pin hash-seed --json run.json -- sh -c "$JOB --steps 1 >/dev/null; exit 4"
echo "exit $?"
"$PYTHON" look.py
twinrun show last | grep ' rank 0 of 1 '
twinrun record --json nowhere/run.json -- touch started
twinrun run --json nowhere/run.json -- touch started
twinrun run --cost --json run.json -- touch started
test -e started || echo "the job was not started"
twinrun record -q --json gone/run.json -- true 2>/dev/null
mkdir gone
twinrun record -q --json gone/run.json -- rm -r gone
echo "exit $?"
