# A later run that has parted is cut short: a long job does not cost its length again.
twinrun check -q --json --runs 2 -- "$JOB" --runs-file runs --part-at 5 --steps 900 --sleep-ms 20 >verdict.json
echo "exit $?"
"$PYTHON" -c '
import json
v = json.load(open("verdict.json"))
print(v["first"]["step"])
states = [json.load(open(d + "/run.json")) for d in v["runs_dir"][:2]]
print([s["outcome"] for s in states])'
