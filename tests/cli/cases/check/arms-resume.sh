# A continuous and a resumed job: the overlap is found by the weights, and is the same.
"$JOB" --steps 20 --save-at 8 >/dev/null
twinrun check -q --a "$JOB --steps 20" --b "$JOB --steps 20 --from 8"
