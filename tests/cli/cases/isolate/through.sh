# Two commands that differ in something that the user has set: which factor does it act through? Both run under the same pins until they agree.
D=$(mktemp -d /dev/shm/through.XXXXXX) || exit 77 # in tmpfs entries come in the order in which they were made
mkdir "$D/one" "$D/two"
for f in a b c d e; do echo "$f" >"$D/one/$f"; done
for f in e d c b a; do echo "$f" >"$D/two/$f"; done
cat >read.py <<'EOF'
import os, sys
total = 0
for name in os.listdir(sys.argv[1]):
    total = total * 5 + ord(open(os.path.join(sys.argv[1], name)).read()[0])
print("result", total)
EOF
ends() { echo "exit $?"; grep -E '^(outcome|cause|fix|through|where|next)' said | sed -E 's#, [0-9]+ runs.*##; s#/dev/shm/through[.A-Za-z0-9]*#DIR#g' | sed "s#$PYTHON#python#g"; }
twinrun isolate -q --a "'$PYTHON' read.py $D/one" --b "'$PYTHON' read.py $D/two" >said
ends
twinrun isolate -q --through --a "'$PYTHON' read.py $D/one" --b "'$PYTHON' read.py $D/two" >said
ends
twinrun isolate --json -q --through --pin dir-order,entropy --a "'$PYTHON' read.py $D/one" --b "'$PYTHON' read.py $D/two" |
    "$PYTHON" -c "import json, sys; r = json.load(sys.stdin); print(r['outcome'], [c['factor'] for c in r['causes']], r['sufficient'], r['through'])"
rm -r "$D"
twinrun isolate --through -- true
echo "exit $?"
