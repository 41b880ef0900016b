# Who asked: in the order in which the lines first asked, so the one that made the runs part is not lost behind those that ask often; what is not shown is counted.
cat >asks.py <<'EOF'
import os
seed = int.from_bytes(os.urandom(4), "little")
names = []
for i in range(9):
    names.append(os.urandom(1))
a = os.urandom(2)
b = os.urandom(2)
c = os.urandom(2)
d = os.urandom(2)
e = os.urandom(2)
f = os.urandom(2)
print("result", seed)
EOF
twinrun isolate -qv --pin entropy,hash-seed -- "$PYTHON" asks.py >said
echo "exit $?"
sed -n '/^where/,/^pin/p' said | grep -v '^pin'
# Two causes: neither fix was shown to help by itself, and that stands beside each.
cat >two.py <<'EOF'
import os
print("result", int.from_bytes(os.urandom(4), "little"))
print("order", hash("word"))
EOF
twinrun isolate -qv --pin entropy,hash-seed -- "$PYTHON" two.py >said
echo "exit $?"
grep -E '^(cause|fix|left)' said | sed -E 's/alone: ([0-9]+) of \1 runs/alone: N of N runs/'
grep -oE '^arranged  [12P ]+' said | tr -d '12P' 
# The divergence stops by itself: no cause is named, whatever was pinned meanwhile.
cat >stops.py <<'EOF'
import os, time
n = int(open("count").read()) if os.path.exists("count") else 0
open("count", "w").write(str(n + 1))
print("result", time.perf_counter_ns() % 99991 if n < 5 else 1)
EOF
twinrun isolate -qv --ignore file:count --pin entropy,hash-seed,aslr -- "$PYTHON" stops.py >said
echo "exit $?"
grep -E '^(outcome|cause|evidence)' said | sed 's/, [0-9]* runs,.*//'
rm count
twinrun isolate --json -q --ignore file:count --pin entropy,hash-seed,aslr -- "$PYTHON" stops.py | "$PYTHON" -c "
import json, sys
r = json.load(sys.stdin)
print(r['outcome'], r['reason'], r['causes'], r['last_diverged'])"
