# Values cannot be given to a C program: said after the first run, with what to do. Bad use is found before it.
code() { "$@"; echo "exit $?"; }
code twinrun check --transplant step -- "$JOB" --steps 3
code twinrun check --transplant weights -- "$JOB"
code twinrun check --transplant step --runs 2 -- "$JOB"
code twinrun check --transplant step --a "$JOB" --b "$JOB"
code twinrun check --window 3:4 -- "$JOB"
code twinrun check --transplant step --transplant-limit 4X -- "$JOB"
ls .twinrun/runs | wc -l
