# What a job shows by twinrun.record is found at the job's own line, whatever phase its name says, also when twinrun
# itself is installed elsewhere, and the annotation of GitHub points there.
cat >rec.py <<'P'
import array, os
import twinrun

def show(name, step):
    noise = os.urandom(1)[0] if step == 3 else step
    twinrun.record(name, array.array("d", [step, noise]))

import sys
for step in range(6):
    twinrun.record("batch:x", array.array("d", [step]))
    show(sys.argv[1], step)
    twinrun.step()
P
for name in weight:w w gradient:g; do
    twinrun check -q --runs 4 --github -- "$PYTHON" rec.py $name | grep -o 'rec.py.*in.*\|::error.*title'
done
mkdir elsewhere && cp -R "$CASES/../../../python/twinrun" elsewhere/
PYTHONPATH=$PWD/elsewhere twinrun check -q --runs 4 --github -- "$PYTHON" rec.py w | grep -o '[^ ]*:[0-9]* in .*\|::error.*title'
