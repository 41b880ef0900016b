# Interrupted in run 3: the comparison of runs 1 and 2 stands.
"$PYTHON" "$CASES/../interrupt.py" third twinrun check --runs 5 -- sh -c "echo x >>n; $JOB; [ \$(wc -l <n) -lt 3 ] || { touch third; sleep 300; }"
