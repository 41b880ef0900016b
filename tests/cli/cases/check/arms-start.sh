# Where B begins may be said instead of found.
"$JOB" --steps 20 --save-at 8 >/dev/null
twinrun check -q --b-starts-at 8 --a "$JOB --steps 20" --b "$JOB --steps 20 --from 8" | head -1
