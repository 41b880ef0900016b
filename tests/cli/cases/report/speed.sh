# Where a run was slow, out of recorded counters; runs that say nothing about it.
twinrun record -q --level steps -- "$JOB" --steps 3
run=$(echo .twinrun/runs/*)
rm -r "$run/telemetry"
twinrun report last
echo "exit $?"
mkdir "$run/telemetry"
awk 'BEGIN {
    OFS = "\t"
    print "twinrun.telemetry/1", "process", "n", 0, 1, 7, "main"
    print "t_ns", "steps", "thread", "ran_ns", "wait_ns"
    for (t = ran = waited = i = 0; i <= 300; i++) {
        printf "%.0f\t%d\t7\t%.0f\t%.0f\n", 1e9 + t * 1e6, i, ran * 1e6, waited * 1e6
        slow = i >= 120 && i < 180
        t += 20 + 12 * slow + i % 3 / 10
        ran += 20
        waited += 12 * slow + i % 3 / 10
    }
}' >"$run/telemetry/0.7"
twinrun report last
twinrun report --json last | python3 -c 'import json, sys; r = json.load(sys.stdin)["ranks"][0]; print(r["outcome"], r["cause"], r["first"], r["last"], r["moved"][0]["counter"])'
head -n 30 "$run/telemetry/0.7" >cut && mv cut "$run/telemetry/0.7"
twinrun report last
echo nonsense >"$run/telemetry/0.7"
twinrun report last
echo "exit $?"
# Two ranks, one of them slow all through; a sensor that may not be read.
rm "$run/telemetry/0.7"
for rank in 0 1; do
    awk -v rank=$rank 'BEGIN {
        OFS = "\t"
        print "twinrun.telemetry/1", "process", "n", rank, 2, 7 + rank, "main"
        print "t_ns", "steps", "thread", "ran_ns", "wait_ns"
        for (t = ran = i = 0; i <= 200; i++) {
            printf "%.0f\t%d\t7\t%.0f\t0\n", 1e9 + t * 1e6, i, ran * 1e6
            t += 20 + i % 3 / 10
            ran += (rank ? 20 : 14) + i % 3 / 10
        }
    }' >"$run/telemetry/$rank.$((7 + rank))"
done
printf 'twinrun.telemetry/1\thost\tn\nt_ns\tbusy_ns\tsteal_ns\tkhz\n1000000000\t0\t0\t-\n5000000000\t4000000000\t0\t-\n' >"$run/telemetry/host"
twinrun report last
head -n 9 "$run/telemetry/1.8" >cut && mv cut "$run/telemetry/1.8"
twinrun report last
