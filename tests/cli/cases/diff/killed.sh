# A run that was killed in the middle is compared as far as it goes.
twinrun record -q -- "$JOB" --steps 40 >/dev/null
twinrun record -q -- "$JOB" --steps 40 --die-at 30 2>/dev/null
twinrun diff last~1 last
