twinrun record -q -- "$JOB" --steps 3
twinrun show last --step 2
twinrun show last --record 'backward/*' | wc -l
twinrun show last --step 99
