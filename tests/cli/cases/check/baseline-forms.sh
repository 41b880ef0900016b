# JSON, GitHub's annotation and job summary, the world that is another one.
twinrun check -q --save-baseline expected.json -- "$JOB" --steps 5 >/dev/null
sed -i 's/"processor": "[^"]*"/"processor": "Abacus 3000"/' expected.json
GITHUB_STEP_SUMMARY=summary.md twinrun check -q --against expected.json --github -- "$JOB" --steps 5 | sed 's/-> .*/-> HERE/'
sed 's/-> .* `/-> HERE `/; s/-> [^`]*$/-> HERE/' summary.md
twinrun check --against expected.json --json -- "$JOB" --steps 5 --part-at 3 --runs-file "$PWD/one" >/dev/null 2>&1
twinrun check --against expected.json --json -- "$JOB" --steps 5 --part-at 3 --runs-file "$PWD/one" 2>/dev/null | "$PYTHON" -c '
import json, sys
v = json.load(sys.stdin)
print(v["outcome"], v["first"]["step"], v["first"]["name"], v["first"]["role"], v["first"]["detail"].get("a"))
a = v["against"]
print(a["baseline"], a["runs"], a["signer"], a["world_known"], [(w["name"], w["then"]) for w in a["world"]])'
