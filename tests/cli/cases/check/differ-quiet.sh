# -q: nothing but the verdict.
twinrun check -q -- "$JOB" --runs-file runs --part-at 5 | head -1
