# One object; pin, vary and unavailable are text or null.
twinrun factors --json | "$PYTHON" -c '
import json, sys
o = json.load(sys.stdin)
f = {x["id"]: x for x in o["factors"]}
print(o["schema"], len(f) == len(o["factors"]), "job" in o)
print(f["hash-seed"])
print(f["noise"]["pin"], f["aslr"]["vary"], f["match-order"]["unavailable"])'
