# A budget that ends before anything has parted, and one that ends later: the smallest so far.
twinrun shrink -q --max-runs 4 -- "$JOB" --steps 3
echo "exit $?"
twinrun shrink -q --max-runs 7 -- "$JOB" --steps 40 --noise-at 7
echo "exit $?"
