# One object on stdout, whatever the job prints, also when its output is passed on.
for options in '' '--show-output'; do
    rm -f runs
    twinrun check --json $options -- "$JOB" --runs-file runs --part-at 5 >verdict.json 2>said
    echo "exit $?"
    "$PYTHON" -c '
import json, os, re
v = json.load(open("verdict.json"))
f = v["first"]
print(v["schema"], v["outcome"], v["runs"], v["differing"], len(v["runs_dir"]))
lines = open(os.environ["CASES"] + "/../job.c").read().splitlines()
print("gradient:w" in lines[int(re.search(r"job\.c:(\d+)", f["source"][0]).group(1)) - 1])
print(f["step"], f["rank"], f["phase"], f["kind"], f["name"], f["layer"], f["role"])'
    grep -c 'final loss' said
done
