# --steps ends the job, as asked: that is no failure.
twinrun record -q --steps 10 -- "$JOB" --steps 100000 --sleep-ms 20
code=$?
twinrun show last --json | "$PYTHON" -c 'import json, sys; r = json.load(sys.stdin); print(r["state"], 10 <= r["traces"][0]["steps"] < 100)'
exit $code
