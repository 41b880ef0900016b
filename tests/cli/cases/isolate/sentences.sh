# What stands beside a cause: each line that asks, each pin that did not take effect, what comes with two commands.
cat >nine.py <<'EOF'
import os
kept = [0]
kept.append(os.urandom(4))
kept.append(os.urandom(4))
kept.append(os.urandom(4))
kept.append(os.urandom(4))
kept.append(os.urandom(4))
kept.append(os.urandom(4))
kept.append(os.urandom(4))
kept.append(os.urandom(4))
print("result", *(int.from_bytes(x, "little") for x in kept[1:]))
EOF
twinrun isolate -qv --pin entropy,hash-seed -- "$PYTHON" nine.py >said
echo "exit $?"
sed -n '/^where/,/^pin/p' said | grep -v '^pin'
grep '^unit' said
# A pin that both commands undo.
twinrun isolate -qv --pin threads --a "OMP_NUM_THREADS=3 $TRAINER --ordered --quiet --steps 5 --seed 1" --b "OMP_NUM_THREADS=3 $TRAINER --ordered --quiet --steps 5 --seed 2" >said
echo "exit $?"
grep -E '^(steps|note)' said | sed 's/process [0-9]*/process N/; s/step 0.*/step 0 .../'
# Another library comes with the other command.
mkdir one two
echo '__version__ = "1.26"' >one/numpy.py
echo '__version__ = "2.1"' >two/numpy.py
cat >version.py <<'EOF'
import array, numpy, twinrun
twinrun.record("weight:w", array.array("d", [float(numpy.__version__)]))
twinrun.step()
EOF
twinrun isolate -qv --a "PYTHONPATH=one '$PYTHON' version.py" --b "PYTHONPATH=two '$PYTHON' version.py" >said
echo "exit $?"
grep -E '^(cause|note)' said | sed -E 's#, [0-9]+ runs.*##'
