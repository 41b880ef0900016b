# An interrupted search goes on where it was: no run is made twice. Not with another file of
# factors: what its runs had pinned is no longer what is asked for.
own() {
    printf '[[factor]]\nid = "user:mode"\nlayer = "data"\ntitle = "mode"\nenv = {MODE = "%s"}\n' \
        "$1" >own.toml
}
own 1
job='"$0" --ordered --quiet --steps 10 --seed "$(od -An -N4 -tu4 /dev/urandom | tr -d " ")"; [ -f go ] || sleep 1'
"$PYTHON" "$CASES/../interrupt.py" '.twinrun/searches/*/log.jsonl+' \
    twinrun isolate -q --factor-file own.toml -- sh -c "$job" "$TRAINER" >said
grep -E '^exit' said
touch go
own 2
twinrun isolate -q --factor-file own.toml --resume -- sh -c "$job" "$TRAINER" 2>&1 | head -2 |
    tr -s ' \n' ' '
echo
own 1
before=$(cat .twinrun/searches/*/log.jsonl | wc -l)
twinrun isolate -q --factor-file own.toml --resume -- sh -c "$job" "$TRAINER" | grep '^cause'
[ "$before" -ge 1 ] && echo "went on"
"$PYTHON" -c "
import glob, json
numbers = [json.loads(line)['number'] for line in open(glob.glob('.twinrun/searches/*/log.jsonl')[0])]
print(sorted(set(numbers)) == numbers)"
