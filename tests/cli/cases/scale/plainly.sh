# Studies of a stranger: runs that are equally fast, a single run, a loss that is no number, figures that are none. What cannot be said is not said.
"$PYTHON" - "$ROOT/tests/golden/scale/v1-study.json" <<'END'
import copy, json, sys
study = json.load(open(sys.argv[1]))
def save(name, change):
    j = copy.deepcopy(study)
    change(j)
    json.dump(j, open(name, "w"), allow_nan=True)
def equally_fast(j):
    j["runs"] = [r for r in j["runs"] for k in range(1 if r["round"] == 0 else 3 if r["round"] == 1 else 1)]
    for r in j["runs"]:
        r["timed_s"], r["step_s"] = 0.005 * r["workers"], [0.001 * r["workers"]] * 5
save("equal.json", equally_fast)
save("once.json", lambda j: j.update(runs=[r for r in j["runs"] if r["round"] < 2]))
save("none.json", lambda j: j.update(runs=[]))
save("loss.json", lambda j: [r.update(loss=None, loss_distance=None, nonfinite_step=3) for r in j["results"]])
save("nan.json", lambda j: j["runs"][5].update(timed_s=float("nan")))
save("zero.json", lambda j: j["runs"][5].update(timed_s=0))
save("minus.json", lambda j: j["runs"][5]["step_s"].__setitem__(0, -1))
save("tiny.json", lambda j: j["runs"][5].update(timed_s=5e-324))
save("mixed.json", lambda j: j.update(counts=[4, 2, 1]))
END
twinrun scale --from equal.json > said; echo "exit $?"; sed '/^results/,/^$/d; /^note/,$!d' said | grep MAD; sed -n '1p; /^ *workers/,/^$/p' said
for name in once none loss nan zero minus tiny mixed; do
    echo "== $name"; twinrun scale --from $name.json > said; echo "exit $?"; head -1 said; sed -n '/could be timed/p; /^note/s/.*\(no interval.*\)/\1/p' said
done
twinrun scale --from loss.json | sed -n '/^results/,/^$/p'
twinrun scale --from once.json > said
grep -c 'none: one run\|(one run)' said
grep 'interval' said | head -1
# In place of a package's study something that never ends; none at all.
mkdir -p odd/data/study bare && mkfifo odd/data/study/study.json
twinrun scale --from odd; echo "exit $?"
twinrun scale --from bare; echo "exit $?"
