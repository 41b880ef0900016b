# SIGINT ends the job; its traces stay readable.
"$PYTHON" "$CASES/../interrupt.py" '.twinrun/runs/*/ranks/*.twt' twinrun record -q -- "$JOB" --steps 100000 --sleep-ms 20
twinrun show last --verify | grep -c intact
twinrun ls | sed -n 's/.*\(interrupted\).*/\1/p'
