# Records, but no step ever ends.
twinrun check -- "$JOB" --no-steps --steps 5
