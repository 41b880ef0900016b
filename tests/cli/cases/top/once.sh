# Nothing, then runs that have ended, which are no runs in flight, and one that goes on.
twinrun top --once
twinrun record -q -- sh -c 'exit 3'
twinrun top --once
mkdir -p .twinrun/runs/2026-01-01T00-00-00Z-torn && echo '{' >.twinrun/runs/2026-01-01T00-00-00Z-torn/run.json
mkfifo go
twinrun record -q --label mine -- sh -c 'touch began; read -r line <go' &
until [ -e began ]; do sleep 0.05; done
twinrun top --once --json | "$PYTHON" -c '
import json, sys
(line,) = sys.stdin
x = json.loads(line)
print(x["schema"], x["in_flight"], x["unreadable"])
for r in x["runs"]:
    print(r["label"], r["state"], r["running"], r["argv"][0], r["step"], r["ranks"], r["reference"])'
twinrun top --once | sed -n 's/.*mine-.*\(no reference\|not watched\).*/mine: \1/p'
echo >go
wait
twinrun top --once --json | "$PYTHON" -c 'import json, sys; x = json.load(sys.stdin); print(x["in_flight"], x["runs"])'
