# A seed from the system: the cause is named, with its pin; under that pin the job repeats itself.
job='"$0" --ordered --quiet --steps 10 --seed "$(od -An -N4 -tu4 /dev/urandom | tr -d " ")"'
twinrun isolate -q -- sh -c "$job" "$TRAINER" >said
echo "exit $?"
grep -E '^(cause|fix|pin|seen)' said
twinrun isolate --json -q -- sh -c "$job" "$TRAINER" >said.json
echo "exit $?"
"$PYTHON" -c "
import json
r = json.load(open('said.json'))
c, = r['causes']
print(r['schema'], r['outcome'], c['factor'], c['layer'], c['necessary']['diverged'] == c['necessary']['trials'], c['sufficient']['diverged'], c['p_value'] <= r['alpha'], r['runs_used'] <= 24)"
for i in 1 2; do twinrun run -q --pin entropy --label r -- sh -c "$job" "$TRAINER" 2>/dev/null; done
twinrun diff last~1 last | grep -o '^SAME'
# The page: in the search's folder, and where one wants it.
twinrun isolate -qv --html page.html -- sh -c "$job" "$TRAINER" | grep -E '^(classes|steps|cost)' | sed -E 's#(run [0-9]+ diverges at step 0; )+.*#...#; s#(step 0, 0, 0).*#\1 ...#' | sed 's/: [0-9.]* times as long (.*with the pin, .*/: known/'
grep -c '<h1>The runs diverge mainly because of entropy' page.html
cmp page.html "$(ls -d .twinrun/searches/* | tail -1)/report.html" && echo "the same page"
# A run of the search says what the search found, and so does its page; another run does not.
twinrun report last | grep '^search' | cut -c32-
twinrun report --html one.html last
grep -o '<td class="what">entropy</td>' one.html
twinrun report --json last | "$PYTHON" -c 'import json, sys; print([s["cause"] for s in json.load(sys.stdin)["searches"]])'
other=$(ls -d .twinrun/runs/*-r-* | tail -1)
twinrun report "$other" | grep -c '^search'
twinrun report --html other.html "$other"
grep -c 'What did the search find' one.html other.html
twinrun isolate -q --html no/such/folder.html -- true 2>&1
echo "exit $?"
