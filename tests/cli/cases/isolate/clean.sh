# Nothing parts: no factor is blamed, and what that excludes is said.
twinrun isolate -q -- "$TRAINER" --ordered --quiet --steps 10 >said
echo "exit $?"
grep -cE '^cause' said
grep -E '^(outcome|bound)' said | sed 's/[0-9.]* s$/T s/'
