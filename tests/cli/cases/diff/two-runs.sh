twinrun record -q -- "$JOB" --runs-file runs --part-at 5
twinrun record -q -- "$JOB" --runs-file runs --part-at 5
twinrun diff last~1 last
echo "exit $?"
twinrun diff last last
