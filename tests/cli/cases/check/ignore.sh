# What is left out is no finding, and no evidence either.
twinrun check -q --ignore '*' -- "$JOB" --runs-file runs --part-at 5 | grep -v '^next'
rm runs
twinrun check -q --ignore 'backward/*' --ignore 'optimizer/*' --ignore 'runs' -- "$JOB" --runs-file runs --steps 10 --part-at 5 | head -1
rm runs
twinrun check -q --ignore 'data/*' --ignore 'runs' -- "$JOB" --runs-file runs --steps 10 | head -1
