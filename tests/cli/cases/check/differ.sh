# Parts in run 2 at step 5: the gradient is named, the origin, and what was equal before.
twinrun check -- "$JOB" --runs-file runs --part-at 5
