# What is suggested next makes the same situation again, with the options that shaped it: typed as it stands, it goes on with this very search.
cat >draw.py <<'EOF2'
import os, sys
print("result", os.urandom(4).hex(), sys.stdin.readline().strip())
EOF2
echo hello >input
twinrun isolate -q --pin entropy,hash-seed --fresh-dir --steps 5 --ignore 'file:*.tmp' -- "$PYTHON" draw.py <input >said
echo "exit $?"
sed -n 's/^next *//p' said | sed "s#$PYTHON#PYTHON#; s#$PWD#DIR#g"
eval "$(sed -n 's/^next *//p' said) >more 2>/dev/null"
echo "exit $?"
grep -E -A1 '^(outcome|next)' more | grep -E '^outcome|twinrun' | sed -E "s#, [0-9]+ runs.*##; s#$PYTHON#PYTHON#; s#$PWD#DIR#g"
ls .twinrun/searches | grep -vc last
# What it prints is all that there is to see of it, so that the proof says what is missing.
eval "$(sed -n 's/^next *//p' more) >proof 2>/dev/null"
echo "exit $?"
head -1 proof
eval "$(sed -n '/^next/{n;s/^ *//p}' more) >held 2>pins"
echo "exit $?"
sed -E 's/[0-9a-f]{8}/HEX/' held
# Too few runs: the budget that is needed, and the same candidates.
twinrun isolate -q --max-runs 12 --pin all -- sh -c '"$0" --ordered --quiet --steps 10 --seed "$(od -An -N4 -tu4 /dev/urandom | tr -d " ")"' "$TRAINER" >said
echo "exit $?"
grep '^next' said | grep -oE 'isolate --resume --max-runs|--pin [a-z,-]*'
# A by itself is not steady: what it is looked at with next has the comparison's options, but not what was held still.
twinrun isolate -q --pin clock --steps 4 --a "$TRAINER --quiet --steps 5 --seed \$(od -An -N4 -tu4 /dev/urandom)" --b "X=1 $TRAINER --quiet --steps 5 --seed 1" >said
echo "exit $?"
grep '^next' said | grep -oE 'isolate --steps 4 -- sh -c'
