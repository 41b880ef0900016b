# Who asked, where it is no line of a file or not the main thread: lines of `python -c TEXT` are named, without the secrets in them; a
# thread is named where it is another one; and no line of twinrun's own.
cat >children.py <<'EOF'
import subprocess, sys
def child(*options):
    return subprocess.run([sys.executable, *options], capture_output=True, text=True).stdout
one = child("-c", "import os\npassword = 'Abcd1234efgh'; print(os.urandom(4).hex())")
two = child("-W", "ignore", "-Ic", "import random\ndef draw():\n    return random.Random().random()\nprint(draw())")
print("result", one, two)
EOF
cat >threads.py <<'EOF'
import os, threading
values = []
def draw(count):
    for i in range(count):
        values.append(os.urandom(2))
thread = threading.Thread(target=draw, args=(3,), name="loader")
thread.start()
thread.join()
alone = os.urandom(2)
draw(1)
print("result", values, alone)
EOF
cat >several.py <<'EOF'
import os, subprocess, sys, threading
def draw():
    print("result", int.from_bytes(os.urandom(2), "little"), flush=True)
if len(sys.argv) == 1:
    draw()
    subprocess.run([sys.executable, "several.py", "again"])
else:
    thread = threading.Thread(target=draw)
    thread.start()
    thread.join()
EOF
for job in children threads several; do
    twinrun isolate -q --no-cases --pin entropy,hash-seed -- "$PYTHON" $job.py >said
    echo "exit $?"
    sed -n '/^where/,/^pin/p' said | grep -v '^pin'
done
grep -rl Abcd1234efgh .twinrun || echo "the secret stands nowhere"
cat >who.c <<'EOF'
#include <pthread.h>
#include <stdio.h>
#include <sys/random.h>
static unsigned value;
void *draw(void *p) { getrandom(&value, sizeof value, 0); return p; }
int main(void) { pthread_t t; pthread_create(&t, NULL, draw, NULL); pthread_join(t, NULL); printf("result %u\n", value); return 0; }
EOF
cc -g -O1 -rdynamic -pthread who.c -o who || exit 77
twinrun isolate -q --no-cases --pin entropy,clock -- "$PWD/who" | grep '^where' | sed -E 's/who\.c:[0-9]+|draw\(\) of who/PLACE/'
