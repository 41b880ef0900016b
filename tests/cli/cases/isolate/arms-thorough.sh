# A search between two commands that found the main cause goes on with --resume --thorough, as its own report says: nothing is made
# again, what holds is said with more clean runs, and every claim of it holds.
a="$TRAINER --ordered --quiet --steps 5 --seed 1" b="B=3 $TRAINER --ordered --quiet --steps 5 --seed 2"
twinrun isolate -q --no-cases --a "$a" --b "$b" | grep -E '^(outcome|cause|left|applied)' | sed -E 's#, [0-9]+ runs,#, N runs,#'
cp .twinrun/searches/*/log.jsonl before
twinrun isolate -q --no-cases --resume --thorough --a "$a" --b "$b" >said
echo "exit $?"
grep -E '^(outcome|cause|left|applied)' said | sed -E 's#, [0-9]+ runs,#, N runs,#'
cat .twinrun/searches/*/log.jsonl | head -n "$(wc -l <before)" | cmp - before && echo "the runs that were made stand"
[ "$(cat .twinrun/searches/*/log.jsonl | wc -l)" -eq "$(ls .twinrun/runs | wc -l)" ] && echo "no run twice"
PYTHONPATH="$ROOT/python" "$PYTHON" -m twinrun.recheck .twinrun/searches/*/verdict.json | tail -n 1 | sed 's/^[0-9]* /N /'
