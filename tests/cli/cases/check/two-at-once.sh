# Two checks in one folder do not disturb each other.
said=$(mktemp -d) # not in the working folder: there it would be a file that one run wrote and the other did not
twinrun check -q --runs 2 -- "$JOB" --steps 50 --sleep-ms 5 >"$said/one" &
twinrun check -q --runs 2 -- "$JOB" --steps 50 --sleep-ms 5 >"$said/two"
echo "exit $?"
wait $!
echo "exit $?"
(cd "$said" && head -1 one two)
rm -r "$said"
twinrun ls --json | "$PYTHON" -c 'import json, sys; print(len(json.load(sys.stdin)["runs"]))'
