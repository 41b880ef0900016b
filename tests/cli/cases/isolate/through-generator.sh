# Generators of the job's own that nobody seeded, behind two commands that differ in something harmless: --through names the entropy
# that they start from, and says that A by itself diverges as well, so that the difference of the commands is not to blame.
cat >draw.py <<'EOF'
import random
generator = random.Random()
for step in range(3):
    print("loss", generator.gauss(0, 1))
EOF
said() { grep -E '^(outcome|cause|fix|through|where)' said | sed -E 's#, [0-9]+ runs.*##'; }
twinrun isolate -q --no-cases --through --pin entropy,hash-seed,clock --a "'$PYTHON' draw.py one" --b "'$PYTHON' draw.py two" >said
echo "exit $?"
said
PYTHONPATH="$ROOT/python" "$PYTHON" -m twinrun.recheck .twinrun/searches/*/verdict.json >rechecked
grep -E '^(REFUTED|confirmed +repeats)' rechecked
# The page's headline says no more than that.
grep -o '<title>[^<]*' .twinrun/searches/*/report.html | sed 's/.*<title>//'
# A's first run is deleted, the search is taken up again: nothing is said of what was not looked at.
rm -r "$("$PYTHON" -c "
import glob, json, os
path = glob.glob('.twinrun/searches/*/verdict.json')[0]
verdict = json.load(open(path))
repeats = next(c for c in verdict['claims'] if c['claim'] == 'repeats')
print(os.path.join(os.path.dirname(path), verdict['runs_dir'][repeats['reference'] - 1]))")"
twinrun isolate -q --no-cases --resume --through --pin entropy,hash-seed,clock --a "'$PYTHON' draw.py one" --b "'$PYTHON' draw.py two" >said
echo "exit $?"
said
grep -o '<title>[^<]*' .twinrun/searches/*/report.html | sed 's/.*<title>//'
