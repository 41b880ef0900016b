twinrun record -q -- "$JOB" --runs-file runs --part-at 5
twinrun record -q -- "$JOB" --runs-file runs --part-at 5
twinrun diff --json last~1 last | "$PYTHON" -c 'import json, sys; v = json.load(sys.stdin); print(v["outcome"], v["first"]["step"], v["first"]["name"])'
