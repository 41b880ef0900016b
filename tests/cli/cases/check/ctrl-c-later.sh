# Interrupted in run 3: the comparison of runs 1 and 2 stands.
"$PYTHON" "$CASES/../interrupt.py" third twinrun check --runs 5 -- sh -c "echo x >>n; [ \$(wc -l <n) = 3 ] && touch third; $JOB; [ ! -f third ] || sleep 30"
