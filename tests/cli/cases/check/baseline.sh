# A baseline is written of runs that agree; the gate says same, and names what parts. The job that does not repeat itself is told apart.
twinrun check -q --save-baseline expected.json --ignore file:count -- "$JOB" --steps 12
[ "$(wc -c <expected.json)" -lt 20000 ] || echo "too large"
twinrun check -q --against expected.json -- "$JOB" --steps 12
echo "exit $?"
echo 5 >count
twinrun check -q --against expected.json --junit j.xml -- "$JOB" --steps 12 --runs-file count --part-at 7
echo "exit $?"
grep -o '<failure message="[^"]*"' j.xml
twinrun check -q --against expected.json -- "$JOB" --steps 12 --noise-at 3
echo "exit $?"
twinrun check -q --against expected.json -- "$JOB" --steps 9
echo "exit $?"
twinrun check -q --against expected.json -- "$JOB" --steps 12 --die-at 4
echo "exit $?"
