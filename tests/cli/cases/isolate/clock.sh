# The clock experiment of a search: what a job prints of its own speed is no divergence, with --text either; beside a real cause the
# clock is not named for it; a result that is made from the time is named, as without the experiment.
command -v "$PYTHON" >/dev/null || exit 77
cat >job.py <<'EOF'
import array, os, random, sys, time
sys.path.insert(0, sys.argv[1])
import twinrun
draws, result = "draws" in sys.argv, "result" in sys.argv
for step in range(3):
    begin = time.time()
    twinrun.record("input", array.array("d", [step]))
    time.sleep(.1 + .03 * random.random())  # a busy machine must not make one step take three times as long
    twinrun.record("weights", array.array("d", [os.urandom(2)[0] if draws else 1 / (step + 1)]))
    twinrun.step()
    print("conv1: %.2f ms" % ((time.time() - begin) * 1e3))
    if result:
        print("loss: %.9f" % (time.time() % 1))
EOF
said() { echo "exit $?"; grep -E '^(outcome|cause|note +clock|bound)' said | sed -E 's#, [0-9]+ runs,#, N runs,#; s/[0-9.]+ ms/T/g; s/· p.*//; s/[0-9.]+ of comp/P of comp/'; }
twinrun isolate -q --no-cases --text --pin clock,entropy -- "$PYTHON" job.py "$ROOT/python" >said
said
PYTHONPATH="$ROOT/python" "$PYTHON" -m twinrun.recheck .twinrun/searches/*/verdict.json | grep -E 'REFUTED|search| 0 refuted' | sed 's/^[0-9]* /N /'
rm -r .twinrun/searches
twinrun isolate -q --no-cases --text --pin clock,entropy -- "$PYTHON" job.py "$ROOT/python" draws >said
said
PYTHONPATH="$ROOT/python" "$PYTHON" -m twinrun.recheck "$(ls .twinrun/searches/*/verdict.json | tail -n 1)" | grep -E 'REFUTED| 0 refuted' | sed 's/^[0-9]* /N /'
# A lie about the experiment is refuted: another folder, another number.
"$PYTHON" - "$ROOT/python" <<'END'
import copy, glob, json, sys
sys.path.insert(0, sys.argv[1])
from twinrun import recheck
path, = glob.glob(".twinrun/searches/*/verdict.json")
verdict = json.load(open(path))
at = next(i for i, c in enumerate(verdict["claims"]) if c["claim"] == "pair" and any(d["claim"] == "clock" for d in c["verdict"]["claims"]))
def refuted(change):
    lie = copy.deepcopy(verdict)
    inner = lie["claims"][at]["verdict"]["claims"]
    k = next(i for i, d in enumerate(inner) if d["claim"] == "clock")
    change(inner, k)
    json.dump(lie, open("lie.json", "w"))
    return any(state == "refuted" for state, _, _ in recheck.recheck("lie.json"))
print("as it is", refuted(lambda inner, k: None))
print("factors", refuted(lambda inner, k: inner[k]["factors"].reverse()))
print("folders", refuted(lambda inner, k: inner[k]["faster"].__setitem__(0, inner[k]["faster"][1])))
print("number", refuted(lambda inner, k: inner[k]["columns"][0].__setitem__("number", "3")))
print("without", refuted(lambda inner, k: inner.pop(k)))
END
twinrun isolate -q --no-cases --no-clock --text --pin clock,entropy -- "$PYTHON" job.py "$ROOT/python" >said
said
twinrun isolate -q --no-cases --pin clock,entropy -- "$PYTHON" job.py "$ROOT/python" result >said
said
