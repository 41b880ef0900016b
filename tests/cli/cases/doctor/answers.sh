# Each check has its line; a missing interpreter is named; nothing is left behind.
twinrun doctor --json >answer
echo "exit $?"
"$PYTHON" -c '
import json
r = json.load(open("answer"))
print(r["schema"], r["ok"], sorted({c["id"] for c in r["checks"]} & {"agent", "hooks", "fingerprint", "home", "ptrace", "python", "arming"}))
print({c["state"] for c in r["checks"]} <= {"ok", "limited", "no", "absent"})'
twinrun doctor --python ./no-such-python | grep no-such-python
: >file
twinrun doctor --home file/home >said
echo "exit $?"
grep -c '^no .*file/home' said
ls -A
