twinrun ls
twinrun record -q -- "$JOB" --steps 3 >/dev/null
twinrun record -q -- sh -c 'exit 4'
twinrun record -q -- sh -c 'kill -SEGV $$'
twinrun ls
twinrun ls -n 1 --json | "$PYTHON" -c 'import json, sys; r = json.load(sys.stdin); print(r["schema"], [(x["state"], x["exit_code"], x["argv"]) for x in r["runs"]])'
echo "--- no wider than the terminal, and below its own column"
COLUMNS=60 twinrun ls -n 1
COLUMNS=60 twinrun show last | sed -n '/^traces/,$p'
COLUMNS=60 twinrun show last | grep -vE '^(run|id|command|in) ' | awk 'length($0) > 60'
twinrun record -q -- true $(seq 1000 1040)
twinrun ls -n 1 | tail -1
