# What cannot work is said before the first run.
twinrun isolate; echo "exit $?"
twinrun isolate --max-runs 3 -- true; echo "exit $?"
twinrun isolate --pin entrop -- true; echo "exit $?"
twinrun isolate --resume -- true; echo "exit $?"
twinrun isolate -q -- false >said; echo "exit $?"
head -1 said | sed 's/[0-9.]* s$/T s/'
ls .twinrun/runs | wc -l
twinrun isolate --json --max-runs 3 -- true 2>/dev/null | "$PYTHON" -c "import json, sys; r = json.load(sys.stdin); print(r['outcome'], 'too small' in r['message'])"
