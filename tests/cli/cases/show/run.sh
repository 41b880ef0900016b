twinrun record -q -- "$JOB" --steps 3
twinrun show last
