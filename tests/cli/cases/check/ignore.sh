# What is left out is no finding.
twinrun check -q --ignore '*' -- "$JOB" --runs-file runs --part-at 5 | head -1
rm runs
twinrun check -q --ignore 'backward/*' --ignore 'optimizer/*' --ignore 'forward/*' -- "$JOB" --runs-file runs --part-at 5 | head -1
