# The race of the embedded trainer is found; with the order fixed it is gone.
twinrun check -q --steps 60 -- "$TRAINER" >verdict
echo "exit $?"
grep -o '^DIFFER' verdict
grep -o 'ORIGIN' verdict | head -1
twinrun check -q --steps 60 -- "$TRAINER" --ordered >verdict
echo "exit $?"
grep -o '^SAME' verdict
