# Runs at the same time find the same cause; each has a folder of its own and reads the same stdin.
D=$PWD
job='read -r x; [ "$x" = hello ] || exit 9; mkdir written || exit 8
"$0" --ordered --quiet --steps 10 --seed "$(od -An -N4 -tu4 /dev/urandom | tr -d " ")"'
echo hello | twinrun isolate -q --jobs 3 --pin entropy,threads -- sh -c "$job" "$TRAINER" >said
echo "exit $?"
grep -E '^(cause|note|cost)' said
[ -e written ] || echo "the folder is as it was"
"$PYTHON" -c "
import glob, json
runs = [json.loads(line) for line in open(glob.glob('.twinrun/searches/*/log.jsonl')[0])]
print({r['status'] for r in runs})"
# The first run is alone, so 'several' means that runs go on at the same time: they all end, whoever is told to.
job='echo $$ >>"$1/pids"; mkdir "$1/first" 2>/dev/null || touch "$1/several"
"$0" --ordered --quiet --steps 10 --seed "$(od -An -N4 -tu4 /dev/urandom | tr -d " ")"; [ -f "$1/go" ] || [ ! -f "$1/several" ] || sleep 300'
"$PYTHON" "$CASES/../interrupt.py" several twinrun isolate -q --jobs 3 --pin entropy,threads -- sh -c "$job" "$TRAINER" "$D" | grep -E '^(exit|something)'
rm several
twinrun isolate -q --jobs 3 --pin entropy,threads --resume -- sh -c "$job" "$TRAINER" "$D" >/dev/null &
while [ ! -e several ]; do sleep 0.05; done
kill -TERM $!
wait $!
echo "exit $?"
for pid in $(cat pids); do kill -0 "$pid" 2>/dev/null && echo "$pid still lives"; done
touch go
twinrun isolate -q --jobs 3 --pin entropy,threads --resume -- sh -c "$job" "$TRAINER" "$D" | grep '^cause'
twinrun isolate -q --pin entropy,threads --resume -- sh -c "$job" "$TRAINER" "$D" 2>&1
