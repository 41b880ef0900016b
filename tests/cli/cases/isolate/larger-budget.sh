# A search whose budget was too small goes on with a larger one: no run is made twice.
job='"$0" --ordered --quiet --steps 10 --seed "$(od -An -N4 -tu4 /dev/urandom | tr -d " ")"'
twinrun isolate -q --max-runs 12 -- sh -c "$job" "$TRAINER" >said
echo "exit $?"
grep -c -- '--resume --max-runs' said
twinrun isolate -q --resume --max-runs 60 -- sh -c "$job" "$TRAINER" | grep '^cause'
"$PYTHON" -c "
import glob, json
numbers = [json.loads(line)['number'] for line in open(glob.glob('.twinrun/searches/*/log.jsonl')[0])]
print(len(numbers) > 12, sorted(set(numbers)) == numbers)"
