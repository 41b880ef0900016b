# Two sets of runs: what differs, from which source.
for i in 1 2; do
    twinrun record -q --label a -- "$JOB" --steps 12 >/dev/null
    twinrun record -q --label b -- "$JOB" --steps 12 --noise-at 7 >/dev/null
done
rm -r .twinrun/runs/*/telemetry
twinrun report label:a label:b | sed -e 's/wall time .* are too/wall time A, B; 2 and 2 runs are too/' -e 's/against .*/against ANOTHER/'
twinrun report --json label:a label:b | python3 -c 'import json, sys; r = json.load(sys.stdin); print(r["schema"], r["kind"], r["bits"], [(f["kind"], f["source"]) for f in r["findings"]])'
twinrun report label:a label:nobody
echo "exit $?"
