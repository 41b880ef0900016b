# Which of the lines that ask matter: three that ask often and harmlessly stand before the one that asks once and is to blame. Each gets other values in a run of its own, under the pin.
cat >noisy.py <<'EOF2'
import os, random
def session():
    return os.urandom(16).hex()
for i in range(40):
    session()
for i in range(30):
    name = os.urandom(8)
for i in range(20):
    salt = os.urandom(4)
class Setup:
    def seed(self):
        return self.fixed(int.from_bytes(os.urandom(4), "little"))
    def fixed(self, number):
        os.urandom(1)
        return number % 999999937 + 1
print("result", random.Random(Setup().seed()).random())
EOF2
twinrun isolate -q --pin entropy,hash-seed -- "$PYTHON" noisy.py >said
echo "exit $?"
sed -n '/^where/,/^pin/p' said | grep -v '^pin'
# The clock, in a module of its own, in another folder than the job ends in; two lines matter, one does not.
mkdir inner elsewhere
cat >inner/draw.py <<'EOF2'
import time
def stamp():
    return time.time_ns()
EOF2
cat >clock.py <<'EOF2'
import os, sys, time
sys.path.insert(0, "inner")
import draw
started = time.time_ns()
first = draw.stamp() // 3 % 999999937
second = time.time_ns() // 3 % 999999929
os.chdir("elsewhere")
print("result", first, second)
EOF2
twinrun isolate -q --pin clock,hash-seed -- "$PYTHON" clock.py >said
echo "exit $?"
sed -n '/^where/,/^pin/p' said | grep -v '^pin'
# In a thread, and in a process that is forked: the lines are those of the job wherever they run.
cat >threads.py <<'EOF2'
import os, threading
kept = []
def work():
    noise = os.urandom(4)
    kept.append(int.from_bytes(os.urandom(4), "little"))
thread = threading.Thread(target=work)
thread.start()
thread.join()
print("result", kept[0], flush=True)
if os.fork() == 0:
    noise = os.urandom(4)
    os._exit(0)
os.wait()
EOF2
twinrun isolate -q --pin entropy,hash-seed -- "$PYTHON" threads.py >said
echo "exit $?"
sed -n '/^where/,/^pin/p' said | grep -v '^pin'
# One line that asks is not tried: it is the one. As JSON, the lines are the same texts.
cat >one.py <<'EOF2'
import os
print("result", os.urandom(4).hex())
EOF2
twinrun isolate --json -q --pin entropy,hash-seed -- "$PYTHON" one.py | "$PYTHON" -c "
import json, sys
print(json.load(sys.stdin)['causes'][0]['where'])"
