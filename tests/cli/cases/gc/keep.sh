for i in 1 2 3; do twinrun record -q -- sh -c 'exit 0'; done
twinrun gc --keep 1 --dry-run
ls .twinrun/runs | wc -l
twinrun gc --keep 1
ls .twinrun/runs | wc -l
twinrun gc --older-than 1
twinrun gc --keep 0 --json | "$PYTHON" -c 'import json, sys; r = json.load(sys.stdin); print(r["schema"], len(r["deleted"]), r["kept"], r["dry_run"])'
