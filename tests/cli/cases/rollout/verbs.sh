# A flag file from start to end, what is said of it, and what is refused.
export TWINRUN_PROJECT=vision TWINRUN_ROLLOUT=
names() { sed -E 's/[0-9a-f]{16}/ID/; s/20[0-9TZ-]{18}/WHEN/; s/[0-9.]+ m?s;/TIME;/; s/^time .*/time/'; }
twinrun rollout
twinrun rollout step
twinrun rollout start --flag flag
twinrun rollout start threads --flag flag --share 110%
twinrun rollout start threads --flag flag --max-slowdown 0.5
twinrun rollout start threads --flag flag --fallback off --fallback-pins all
twinrun rollout start threads --flag flag --ladder 50%,25%
twinrun rollout step --flag flag
echo "exit $?"
twinrun rollout start threads=2 --share 100% --flag flag | names
twinrun rollout start threads=2 --flag flag 2>&1 | names
sed -E '/^(id|began|decided|end) /d' flag
for i in 1 2 3; do TWINRUN_ROLLOUT=flag TWINRUN_ROLLOUT_KEY=$i twinrun record -q -- "$JOB" --steps 3 >/dev/null; done
twinrun rollout step --flag flag | names
echo "exit $?"
twinrun rollout stop --flag flag --why 'fixed in the code' | names
twinrun rollout list | names
twinrun rollout status --flag flag --json | "$PYTHON" -c 'import json, sys; r = json.load(sys.stdin); print(r["schema"], r["state"], r["share"], r["pins"], r["seen"]["canary"]["runs"], r["seen"]["canary"]["same"], [d["decision"] for d in r["decisions"]])'
