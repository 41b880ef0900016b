# SIGTERM to twinrun ends the job and is its outcome.
twinrun record -q -- "$JOB" --steps 100000 --sleep-ms 20 &
until [ -e .twinrun/runs/*/ranks/*.twt ]; do sleep 0.05; done
kill -TERM $!
wait $!
echo "exit $?"
twinrun ls | sed -n 's/.*\(interrupted\).*/\1/p'
