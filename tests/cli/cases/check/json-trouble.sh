# Also without a verdict --json gives one object, and every form of trouble exits with 2.
show() { "$PYTHON" -c 'import json, sys; v = json.load(sys.stdin); print(v["schema"], v["outcome"], v["message"])'; }
PATH=$(dirname "$(command -v twinrun)") twinrun check --json -- no-such-program >answer 2>said
echo "exit $?"
show <answer
: >file
twinrun check --json --home file/home -- true >answer 2>said
echo "exit $?"
show <answer
twinrun diff --json here there >answer 2>said
echo "exit $?"
show <answer
twinrun check -q --json -- "$JOB" --die-at 3 | "$PYTHON" -c 'import json, sys; v = json.load(sys.stdin); print(v["outcome"], v["runs"])'
