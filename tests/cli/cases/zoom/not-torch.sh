# There is nothing to zoom into: said, and the verdict stands.
twinrun record -q -- "$JOB" --runs-file runs --part-at 5
twinrun record -q -- "$JOB" --runs-file runs --part-at 5
twinrun zoom last~1 last
