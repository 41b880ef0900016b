# All runs fail: trouble, with the end of what the job said.
twinrun check -- "$JOB" --die-at 7
