# Ctrl-C in a run beside the search (A again, for --through): no further one is begun.
D=$(mktemp -d /dev/shm/beside.XXXXXX) || exit 77 # in tmpfs entries come in the order in which they were made
mkdir "$D/one" "$D/two"
for f in a b c d e; do echo "$f" >"$D/one/$f"; done
for f in e d c b a; do echo "$f" >"$D/two/$f"; done
cat >read.py <<'EOF'
import os, sys, time
if "a_again" in os.environ.get("TWINRUN_RUN_DIR", ""):
    time.sleep(60)
total = 0
for name in os.listdir(sys.argv[1]):
    total = total * 5 + ord(open(os.path.join(sys.argv[1], name)).read()[0])
print("result", total)
EOF
"$PYTHON" "$CASES/../interrupt.py" '.twinrun/runs/*-a_again-*' \
    twinrun isolate -q --through --pin dir-order,entropy --a "'$PYTHON' read.py $D/one" --b "'$PYTHON' read.py $D/two" | sed -nE 's#, [0-9]+ runs.*##; /^(exit|cause|outcome)/p'
ls .twinrun/runs | grep -c a_again
rm -r "$D"
