# Not what the runs computed: what surrounded them, by the power to change bits.
echo '{"lr": 1, "n": 2}' >a.json
twinrun record -q -- "$JOB" --steps 2 --config=a.json >/dev/null
OMP_NUM_THREADS=3 TORCH_LOGS=all MASTER_PORT=9 SOME_TOKEN=x twinrun record -q -- "$JOB" --steps 2 --config=a.json >/dev/null
echo '{"n": 2, "lr": 1.0}' >a.json
twinrun record -q -- "$JOB" --steps 2 --config=a.json >/dev/null
twinrun diff --env last~2 last~1 >said
echo "exit $?"
sed 's/redacted:[0-9a-f]*/redacted:HASH/' said
twinrun diff --env last~2 last
echo "exit $?"
twinrun diff --env --json last~1 last~1
echo "exit $?"
twinrun diff --env last
echo "exit $?"
twinrun diff --env last~1 last --github
echo "exit $?"
