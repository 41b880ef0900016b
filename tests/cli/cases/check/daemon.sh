# A job that leaves a daemon behind: the check ends all the same, and the daemon is named.
twinrun check -q --runs 2 -- sh -c "setsid sleep 300 >/dev/null 2>&1 </dev/null & echo \$! >>pids; $JOB" >said
echo "exit $?"
for p in $(cat pids); do kill "$p"; done
head -1 said
