# The time is up in run 2: judged by what there is, and said.
twinrun check -q --max-time 3 --runs 3 -- "$JOB" --steps 100 --sleep-ms 20 >said
echo "exit $?"
sed -n 's/^\(SAME\).*/\1/p; /max-time/p' said
