# An interrupted search goes on where it was: no run is made twice.
job='"$0" --ordered --quiet --steps 10 --seed "$(od -An -N4 -tu4 /dev/urandom | tr -d " ")"; [ -f go ] || sleep 1'
"$PYTHON" "$CASES/../interrupt.py" '.twinrun/searches/*/log.jsonl+' twinrun isolate -q -- sh -c "$job" "$TRAINER" >said
grep -E '^exit' said
touch go
before=$(cat .twinrun/searches/*/log.jsonl | wc -l)
twinrun isolate -q --resume -- sh -c "$job" "$TRAINER" | grep '^cause'
[ "$before" -ge 1 ] && echo "went on"
"$PYTHON" -c "
import glob, json
numbers = [json.loads(line)['number'] for line in open(glob.glob('.twinrun/searches/*/log.jsonl')[0])]
print(sorted(set(numbers)) == numbers)"
