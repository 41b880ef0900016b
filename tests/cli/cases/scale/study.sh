# A study of a job that takes n ms a step: what the file says is what the runs took; the curve is drawn again from the file alone.
twinrun scale --counts 4,1,2 --work-per-step '16*{n},samples' --price 7.2 --csv curve.csv -- "$JOB" --steps 25 --sleep-ms {n} > said 2> progress; echo "exit $?"
grep -c '^round' progress; grep -c '^not timed' progress; grep '^plan' progress
sed -E '/^ +[124] +3 +[0-9]/s/[0-9][0-9.,e+-]*/N/3g; /^ +[124] +[0-9.e-]+ +[0-9]/s/[0-9][0-9.,e+-]*/N/2g; /^ +[124] +[0-9.e+-]+ [mu]?s \(/s/[0-9][0-9.,e+-]*/N/2g; s/^(SCALING.*do ).*/\1N times .../; s/on [^ ]*$/on HOST/; s/^(measured) +[-0-9]+/\1  DAY/' said | grep -v 'oversubscribed\|^study\|^next\|went into watching' | sed 's/^note/    /; s/ [mu]s / s /g'
mv .twinrun gone
twinrun scale --from gone/studies/*/result.json > again; grep -v '^study\|^next' said | diff - again && echo "the same from the file"
twinrun scale --from gone/studies/*/result.json --json > one.json
twinrun scale --from one.json --json | cmp - one.json && echo "JSON reads back"
"$PYTHON" - <<'END'
import csv, json, math
j = json.load(open("one.json"))
table = {int(row["workers"]): row for row in csv.DictReader(open("curve.csv"))}
print(j["schema"], j["counts"], j["work"])
rates = {}
for r in j["runs"]:
    if r["round"]:
        assert math.isclose(r["rate"], 16 * r["workers"] * r["timed_steps"] / r["timed_s"]), r
        assert math.isclose(sum(r["step_s"]), r["timed_s"]) and r["timed_steps"] == 24, r
        rates.setdefault(r["workers"], []).append(r["rate"])
mean = {n: math.exp(sum(map(math.log, x)) / len(x)) for n, x in rates.items()}
for p in j["points"]:
    n = p["workers"]
    assert math.isclose(p["throughput"]["value"], mean[n]) and math.isclose(p["efficiency"]["value"], mean[n] / n / mean[1])
    assert math.isclose(p["worker_seconds"]["value"], n / mean[n]) and math.isclose(p["price"]["value"], n / mean[n] * 7.2 / 3600)
    half = 4.302652729911275 * math.sqrt(sum((math.log(x / mean[n])) ** 2 for x in rates[n]) / 2 / 3)  # t of 2 degrees of freedom
    low, high = p["throughput"]["interval"]
    assert math.isclose(low, mean[n] * math.exp(-half)) and math.isclose(high, mean[n] * math.exp(half))
    assert float(table[n]["throughput_low"]) == low and float(table[n]["efficiency"]) == p["efficiency"]["value"]
    assert n / 1000 < p["step_p50"]["value"] < n / 1000 + .05, p
print([(x["workers"], x["runs"], x["classes"], x["equal"]) for x in j["results"]])
END
# The package carries the study: whoever has it draws the same curve; what is no study is not packed.
twinrun pack "$(ls -d gone/runs/* | head -1)" --study one.json -o packed > /dev/null && twinrun verify packed | head -1 | cut -c1-10
twinrun scale --from packed | diff - again && twinrun scale --from packed --html page.html > /dev/null && grep -c 'How much faster do more workers make it' page.html
echo '{}' > none.json; twinrun pack "$(ls -d gone/runs/* | head -1)" --study none.json -o other; echo "exit $?"; ls -d other
twinrun scale --from one.json --html nowhere/page.html; echo "exit $?"
