# Two processes of one job; one of them has another variable.
twinrun record -q -- sh -c 'NCCL_ALGO=Tree WORLD_SIZE=2 RANK=0 "$1" --steps 2 & NCCL_ALGO=Ring WORLD_SIZE=2 RANK=1 "$1" --steps 2 & wait' x "$JOB" >/dev/null
twinrun show last --provenance | grep -E '^(launch|parity|  )' | grep -v -e files -e 'begins with'
twinrun show last --provenance --json | "$PYTHON" -c '
import json, sys
r = json.load(sys.stdin)
print(r["schema"], [(d["power"], d["group"], d["what"], sorted((d["a"], d["b"]))) for d in r["parity"] if d["power"] != "noise"])
print(sorted(r["provenance"]))'
# A check says it, too.
twinrun check -q --runs 2 -- sh -c 'WORLD_SIZE=2 RANK=0 "$1" --steps 2 & OMP_NUM_THREADS=3 WORLD_SIZE=2 RANK=1 "$1" --steps 2 & wait' x "$JOB" 2>/dev/null | grep worlds
# A rank that said nothing is named, and not counted among the equal ones.
twinrun check -q --runs 2 -- sh -c 'WORLD_SIZE=3 RANK=0 "$1" --steps 2 & OMP_NUM_THREADS=3 WORLD_SIZE=3 RANK=1 "$1" --steps 2 & wait' x "$JOB" 2>/dev/null | tr -s ' \n' ' ' | grep -o 'the ranks had different worlds.* not seen'
twinrun record -q -- sh -c 'WORLD_SIZE=3 RANK=0 "$1" --steps 2 & WORLD_SIZE=3 RANK=1 "$1" --steps 2 & wait' x "$JOB" >/dev/null
twinrun show last --provenance | grep ^parity
# It can be required that they begin alike.
code=0
twinrun record -q --require-parity -- sh -c 'WORLD_SIZE=2 RANK=0 "$1" --steps 2 & OMP_NUM_THREADS=3 WORLD_SIZE=2 RANK=1 "$1" --steps 2 & wait' x "$JOB" 2>err >/dev/null || code=$?
echo $code
cat err
