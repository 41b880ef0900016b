# Ctrl-C in run 1: children end, traces are readable, exit 130.
"$PYTHON" "$CASES/../interrupt.py" '.twinrun/runs/*/ranks/*.twt' twinrun check -q -- "$JOB" --steps 100000 --sleep-ms 20 >said
sed 's/after [0-9]* steps/after N steps/' said
twinrun show last --verify | grep -c intact
