twinrun ls
twinrun record -q -- "$JOB" --steps 3 >/dev/null
twinrun record -q -- sh -c 'exit 4'
twinrun record -q -- sh -c 'kill -SEGV $$'
twinrun ls
twinrun ls -n 1 --json | "$PYTHON" -c 'import json, sys; r = json.load(sys.stdin); print(r["schema"], [(x["state"], x["exit_code"], x["argv"]) for x in r["runs"]])'
