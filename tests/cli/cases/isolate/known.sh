# Known cases: a hint, worded as one; a case of one's own is written, found again, and comes first; files that are wrong are named.
job='"$0" --ordered --quiet --steps 10 --seed "$(od -An -N4 -tu4 /dev/urandom | tr -d " ")"'
twinrun isolate -q --save-case ../x -- true
echo "exit $?"
twinrun isolate -q --save-case mine -- sh -c "$job" "$TRAINER" | grep -oE '^(hint .*\(default-seed-is-new\)|hint .*)' | cut -c1-80
grep -E '^(id|factors|phase|kind|stack)' .twinrun/cases/mine.toml
echo '[[case]]' >.twinrun/cases/half.toml
twinrun isolate --json -q -- sh -c "$job" "$TRAINER" >said.json
"$PYTHON" -c "
import json
for c in json.load(open('said.json'))['seen_before']:
    print(c['id'], c['why'], c['points'], c['of'])"
twinrun isolate -q --save-case mine -- true
twinrun isolate -q --no-cases -- sh -c "$job" "$TRAINER" | grep -c ^hint
rm .twinrun/cases/half.toml
# check knows no factor: the case of one's own is found by its source line.
twinrun check -q -- sh -c "$job" "$TRAINER" | grep -E '^(hint|next| +twinrun isolate)' | sed 's/ There: .*//; s/ -- .*//'
twinrun check -q --no-cases -- sh -c "$job" "$TRAINER" | grep -c ^hint
