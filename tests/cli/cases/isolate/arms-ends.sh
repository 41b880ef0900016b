# What ends without a cause, and what cannot work and is said before the first run.
job="$TRAINER --ordered --quiet --steps 5"
ends() { echo "== $1"; shift; twinrun isolate -q "$@" >said; echo "exit $?"; grep -E '^(outcome|evidence|bound|note|next)' said | sed -E 's#(isolated.*), [0-9]+ runs,#\1, N runs,#; s/[0-9.]* s$/T s/'; }
ends "agree" --a "A=1 $job" --b "A=2 $job"
ends "A does not repeat itself" --a "$job --seed \$(od -An -N4 -tu4 /dev/urandom)" --b "$job --seed 1"
ends "held still it does" --pin entropy --a "$job --seed \$(od -An -N4 -tu4 /dev/urandom)" --b "X=1 $job --seed \$(od -An -N4 -tu4 /dev/urandom)"
ends "its output does not, where nothing is recorded" --a "$PYTHON -c 'print(hash(\"x\") / 2**64)'" --b "X=1 $PYTHON -c 'print(hash(\"x\") / 2**64)'"
ends "A fails" --a false --b "$job"
ends "B fails" --a "exit 0" --b "exit 3"
echo '[ "$1" = b ] || [ -z "$2" ] || exit 3; exec "$TRAINER" --ordered --quiet --steps 5 --seed "$([ "$1" = a ]; echo $?)"' >j
ends "a mix fails" --a "sh j a" --b "sh j b x"
grep 'is not known' said
ends "one command" --a "$job" --b " $job "
ends "two shapes" --a "$job" --b "cd . && $job"
ends "one arm" --a "$job"
ends "both" --a "$job" --b "A=1 $job" -- true
ends "too few runs" --max-runs 8 --a "$job" --b "A=1 $job"
