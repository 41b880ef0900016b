# On a terminal one line is rewritten; elsewhere, and with -q, there is none.
"$PYTHON" "$CASES/../on_terminal.py" twinrun check --runs 2 -- "$JOB" --steps 60 --sleep-ms 20 >seen
grep -c 'run 1/2  [0-9.]* s  step' seen | awk '{print ($1 > 0) ? "progress" : "no progress"}'
grep -c 'left in this run' seen | awk '{print ($1 > 0) ? "estimate" : "no estimate"}'
"$PYTHON" "$CASES/../on_terminal.py" twinrun check -q --runs 2 -- "$JOB" --steps 60 --sleep-ms 20 >seen
grep -c 'run 1/2' seen
true
