# Each suggestion says what it is good for.
cp "$JOB" j
next() { sed -n '/^next/,$p' | sed "s#$PYTHON#PYTHON#g"; }
echo "== what is not recorded, in Python"
echo 'print("x")' >plain.py
twinrun check -q --runs 2 -- "$PYTHON" plain.py | next
echo "== what is not recorded, in C"
printf 'int main(void)\n{\n    return 0;\n}\n' >nothing.c
cc -o nothing nothing.c
twinrun check -q --runs 2 -- ./nothing | next
echo "== what it is fed"
cat >fed.py <<'EOF'
import array, twinrun
for step in range(3):
    twinrun.record("weight:w", array.array("d", [step]))
    twinrun.step()
EOF
twinrun check -q --runs 2 -- "$PYTHON" fed.py | next
echo "== another result than the baseline's"
echo './j --runs-file n --steps 6' >r
twinrun check -q --no-cases --save-baseline b.json --ignore file:n -- sh r >/dev/null 2>&1
echo './j --runs-file n --part-at 3 --steps 6' >r
twinrun check -q --no-cases --against b.json -- sh r | next
echo "== runs that write one file"
rm n
twinrun check -q --no-cases -- sh r | next
