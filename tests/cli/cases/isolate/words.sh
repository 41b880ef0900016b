# Only words differ: no verdict by themselves; taken for a divergence, their cause is the hash salt and not the entropy that it is drawn from.
cat >words.py <<'END'
print(*{"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"})
END
twinrun isolate -q -- "$PYTHON" words.py >said
echo "exit $?"
grep -oE '^outcome   [a-z ]*' said
grep '^next' said | sed "s|$PYTHON|python|"
twinrun isolate -q --text -- "$PYTHON" words.py >said
echo "exit $?"
grep -E '^(cause|fix)' said
# The drawn arrangement of the confirmation decides about a run more or less; the mean is held by ghosts/run (16).
# What the natural runs have not met is not tried: no torch, no clock, no threads. Who asked: the line that draws, not one in which modules
# seed themselves while they are imported.
mkdir -p site-packages
echo 'import os; salt = [os.urandom(4) for _ in range(5)]' >site-packages/model.py
cat >draw.py <<'END'
import random, sys
sys.path.append("site-packages")
def build():
    import model
    return model
build(); size = 1
generator = random.Random()
print(generator.random())
END
twinrun isolate --json -q -- "$PYTHON" draw.py >said.json
"$PYTHON" -c "
import json
r = json.load(open('said.json'))
print(r['outcome'], r['causes'][0]['factor'], r['runs_used'] <= 18, r['causes'][0]['where'], {'torch-deterministic', 'threads', 'loader-workers', 'executor-order'} <= set(r['left_out']))"
