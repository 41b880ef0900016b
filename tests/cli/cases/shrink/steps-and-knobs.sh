# The fewest steps and the smallest numbers that keep the divergence. Where the job fails, and where it parts elsewhere, is no smaller job.
cat >train.sh <<'END'
[ "$2" -ge 6 ] || exit 3                              # does not work with less than six samples
[ "$LAYERS" -ge 3 ] || export NOISE='--sleep-ms 0'    # one layer alone repeats itself
exec "$JOB" --steps 40 ${NOISE:---noise-at 7}
END
export LAYERS=8
twinrun shrink --knob --samples=64:2 --knob env:LAYERS=8:1 -- sh train.sh --samples 64
echo "exit $?"
twinrun shrink --json -q --knob --samples=64:2 -- sh train.sh --samples 64 >said.json
echo "exit $?"
"$PYTHON" -c "
import json
r = json.load(open('said.json'))
print(r['schema'], r['outcome'], r['steps']['from'], r['steps']['value'], [(k['name'], k['kind'], k['from'], k['value']) for k in r['knobs']])
print(r['first'] == r['first_before'], r['first']['step'], r['first']['name'], r['baseline']['diverged'], r['confirmed']['diverged'], r['command'])"
