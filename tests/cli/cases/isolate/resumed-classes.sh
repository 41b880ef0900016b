# Runs of two kinds in turn. A search that goes on knows the kinds that its earlier runs were of: a run of the second kind agrees with
# the first of that kind, which another process has made.
job='n=$(cat "$0" 2>/dev/null || echo 0); echo $((n + 1)) >"$0"; echo "result $((n % 2))"'
twinrun isolate -q --max-runs 12 --ignore file:count --pin entropy,hash-seed -- sh -c "$job" "$PWD/count" >/dev/null
echo "exit $?"
before=$(cat .twinrun/searches/*/log.jsonl | wc -l)
twinrun isolate -q --max-runs 24 --ignore file:count --pin entropy,hash-seed --resume -- sh -c "$job" "$PWD/count" >/dev/null
echo "exit $?"
"$PYTHON" - "$before" <<'END'
import collections, glob, json, sys
lines = [json.loads(line) for line in open(glob.glob(".twinrun/searches/*/log.jsonl")[0])]
first, wrong, known = {}, 0, 0
for i, line in enumerate(lines):
    if not line["parted"]:
        continue
    world = tuple(line["pinned"])
    wrong += int(line["agrees"], 16) != int(first.get(world, "0"), 16)
    known += i >= int(sys.argv[1]) and world in first
    first.setdefault(world, line["run"])
print("wrong", wrong, "known after the resume", known > 0)
END
