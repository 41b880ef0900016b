# Two checks in one folder do not disturb each other.
twinrun check -q --runs 2 -- "$JOB" --steps 50 --sleep-ms 5 >one &
twinrun check -q --runs 2 -- "$JOB" --steps 50 --sleep-ms 5 >two
echo "exit $?"
wait $!
echo "exit $?"
head -1 one two
twinrun ls --json | "$PYTHON" -c 'import json, sys; print(len(json.load(sys.stdin)["runs"]))'
