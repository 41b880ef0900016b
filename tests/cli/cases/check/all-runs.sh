# --all goes on after the first divergence.
twinrun check --all --runs 4 -- "$JOB" --runs-file runs --part-at 5 | head -1
