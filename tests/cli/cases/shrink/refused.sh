# What cannot work is said before the first run.
twinrun shrink; echo "exit $?"
for knob in size=4:2 --steps=4:2 --steps=9:9 --steps=9 env:=4:2 =4:2 --noise-at=7:x; do
    twinrun shrink --knob "$knob" -- "$JOB" --steps 9 --noise-at; echo "exit $?"
done
twinrun shrink --knob --noise-at=7:2 -- "$JOB" --steps 9 --noise-at; echo "exit $?"
twinrun shrink -q -- false; echo "exit $?"
twinrun shrink --json -q -- false 2>/dev/null | "$PYTHON" -c "import json, sys; r = json.load(sys.stdin); print(r['schema'], r['outcome'], r['message'])"
ls .twinrun/runs | wc -l
