# A resumed arm is compared where it begins. Two differences that part only together: one is the cause, the other needs it.
"$JOB" --steps 20 --save-at 8 >/dev/null
twinrun isolate -q --ignore file:runs --a "echo 1 >runs; $JOB --steps 20" --b "echo 1 >runs; X=1 $JOB --steps 20 --from 8 --runs-file runs --part-at 12" >said
echo "exit $?"
grep -E '^(cause|applied|differs|seen|fix)|needs' said
