# git bisect run: 1 is bad, 0 is good, 125 cannot be tested.
twinrun check -q --bisect -- "$JOB" --runs-file runs --part-at 5 >out
echo "exit $?"
twinrun check -q --bisect -- "$JOB" >out
echo "exit $?"
twinrun check -q --bisect -- "$JOB" --die-at 3 >out 2>&1
echo "exit $?"
twinrun check -q --bisect -- true >out
echo "exit $?"
