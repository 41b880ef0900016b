# What ends without a cause, and what cannot work and is said before the first run.
job="$TRAINER --ordered --quiet --steps 5"
ends() { echo "== $1"; shift; twinrun isolate -q "$@" >said; echo "exit $?"; grep -E '^(outcome|evidence|bound|note|next)' said | sed 's/[0-9.]* s$/T s/'; }
ends "agree" --a "A=1 $job" --b "A=2 $job"
ends "A does not repeat itself" --a "$job --seed \$(od -An -N2 -tu2 /dev/urandom)" --b "$job --seed 1"
ends "nor does its output, for its hash seed" --a "$PYTHON -c 'print(hash(\"x\"))'" --b "X=1 $PYTHON -c 'print(hash(\"x\"))'"
ends "held still it does" --pin hash-seed --a "$PYTHON -c 'print(hash(\"x\"))'" --b "X=1 $PYTHON -c 'print(hash(\"x\"))'"
ends "A fails" --a false --b "$job"
ends "B fails" --a "exit 0" --b "exit 3"
ends "one command" --a "$job" --b " $job "
ends "two shapes" --a "$job" --b "cd . && $job"
ends "one arm" --a "$job"
ends "both" --a "$job" --b "A=1 $job" -- true
ends "too few runs" --max-runs 8 --a "$job" --b "A=1 $job"
