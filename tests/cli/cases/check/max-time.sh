# The time is up in run 2: judged by what there is, and said.
twinrun check -q --max-time 6 --runs 3 -- sh -c '"$0" --steps 5; [ ! -e first ] || sleep 300; touch first' "$JOB" >said
echo "exit $?"
sed -n 's/^\(SAME\).*/\1/p; /max-time/p' said
