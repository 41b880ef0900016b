# Of this job nothing is seen: isolate says what check says, in every form, and after a resume.
echo 'import random; random.random()' >silent.py
twinrun isolate -q -- "$PYTHON" silent.py >said
echo "exit $?"
grep -vE '^(page|baseline)' said | sed 's/[0-9.]* s$/T s/'
grep -o 'nothing that it printed or wrote could be compared' .twinrun/searches/*/report.html | head -1
twinrun isolate -q --resume --json -- "$PYTHON" silent.py >said.json
echo "exit $?"
"$PYTHON" -c "
import json
r = json.load(open('said.json'))
print(r['outcome'], r['reason'], r['runs_used'], r['bound'], r['unseen'], r['next'])"
echo "--- a printed line is compared, so all runs are made"
twinrun isolate -q --max-runs 40 -- "$PYTHON" -c 'print(3)' >said
echo "exit $?"
grep -A2 -E '^(outcome|unseen)' said | grep -v '^page' | sed 's/[0-9.]* s$/T s/'
