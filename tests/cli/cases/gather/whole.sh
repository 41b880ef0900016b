# What becomes of each part. The second node fails, and began an attempt of its own.
node() { # NODE RANK COMMAND...
    node=$1 rank=$2
    shift 2
    TWINRUN_HOME=$node MASTER_ADDR=node0 MASTER_PORT=4000 RANK=$rank WORLD_SIZE=2 \
        twinrun record -q -- "$@" >"$node.out" 2>&1
    mv "$node"/runs/* "$node.run"
}
node a 0 "$JOB" --steps 3
node b 1 sh -c "'$JOB' --steps 3; TORCHELASTIC_RESTART_COUNT=1 RANK=0 '$JOB' --steps 2; exit 3"
echo '{}' >a.run/verdict.json
echo '{}' >b.run/verdict.json
mkdir a.run/work
ln -s /nowhere a.run/work/link
twinrun gather b.run a.run --into x || echo "exit $?"
twinrun show x | sed -n '/^ended/p; /^traces/,/^processes/p; /^note/p' | sed 's/that of [^;]*;/that of HOST;/'
ls x/verdict.json x/nodes/*/verdict.json 2>&1 | sed 's|nodes/\(.\)-[^/]*|nodes/\1-HOST|; s/^ls: cannot access .\([^:]*\)'"'"':/\1:/'
readlink x/work/link
"$PYTHON" - <<'PY'
import json
parts = [json.load(open(name + "/run.json")) for name in ("a.run", "b.run", "x")]
a, b, x = parts
print(len({part["id"] for part in parts}), "ids")
print(x["outcome"], x["exit_code"], len(x["processes"]) == len(a["processes"]) + len(b["processes"]))
print([(node["id"] == part["id"], node["base"]) for node, part in zip(x["gathered"]["nodes"], (b, a))])
PY
# A process of which nothing is left is no trace of its rank.
cp -r b.run silent.run
for trace in silent.run/ranks/1.*; do
    head -c 512 "$trace" >cut
    cat cut >"$trace"
done
twinrun gather a.run silent.run --into silent >out || echo "exit $?"
# In another order the id is the same, and so is the id of two copies of one run.
twinrun gather a.run b.run --into y >out
twinrun gather a.run a.run --into z >out 2>&1
"$PYTHON" -c '
import json
x, y, z, a = (json.load(open(name + "/run.json"))["id"] for name in ("x", "y", "z", "a.run"))
print(x == y, z == a)
print([node["base"] for node in json.load(open("y/run.json"))["gathered"]["nodes"]])'
# A run of yesterday is no part, and neither is one of another number of ranks, or with a pipe.
cp -r b.run old.run
"$PYTHON" - <<'PY'
import json
run = json.load(open("old.run/run.json"))
run["start_realtime_ns"] -= 86400 * 10**9
json.dump(run, open("old.run/run.json", "w"))
PY
twinrun gather a.run old.run --into w || echo "exit $?"
twinrun gather old.run a.run --into w || echo "exit $?"
TWINRUN_HOME=c MASTER_ADDR=node0 MASTER_PORT=4000 RANK=2 WORLD_SIZE=3 twinrun record -q -- "$JOB" >out
twinrun gather a.run c/runs/* --into w 2>&1 | sed 's/, [^ ]* 3$/, RUN 3/'
mkfifo a.run/pipe
twinrun gather a.run b.run --into w || echo "exit $?"
ls -A | grep -e '^w' -e gather
exit 0
