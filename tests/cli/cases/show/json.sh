twinrun record -q -- "$JOB" --steps 3
twinrun show last --json --verify --step 1 | "$PYTHON" -c '
import json, sys
text = sys.stdin.read()
r = json.loads(text)
print(r["schema"], r["state"], r["exit_code"], len(text.splitlines()))
print([(x["phase"], x["kind"], x["name"], x["dtype"], x["shape"]) for x in r["records"]])
print([t["fault"] for t in r["traces"]])'
