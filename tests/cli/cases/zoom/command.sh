# Two runs of a window.
twinrun zoom --window 3:4 -- "$JOB" --runs-file runs --part-at 2
