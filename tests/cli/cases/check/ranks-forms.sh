# --ranks: JSON, where engines make the runs, and what is refused.
cat >launch <<'END'
#!/bin/sh
n=$1 r=0 pids=
shift
while [ $r -lt $n ]; do
    RANK=$r WORLD_SIZE=$n "$@" >/dev/null &
    pids="$pids $!" r=$((r + 1))
done
for p in $pids; do wait $p || exit 1; done
END
chmod +x launch
twinrun check -q --json --ranks 4,2 --runs 2 -- "$PWD/launch" {ranks} $JOB --steps 3 |
    $PYTHON -c 'import json, sys; v = json.load(sys.stdin); print(v["outcome"], v["ranks"])'
twinrun check --ranks 1,3 --runs 2 --on 'cmd:sh -c {quoted}' -- "$PWD/launch" {ranks} $JOB --steps 3 2>&1 |
    grep -E '^(run|SAME)' | sed 's/  .*//'
try() { twinrun check "$@"; echo "exit $?"; }
try --ranks 2,4 -- train {rank}
try --ranks 2 -- train {ranks}
try --ranks 2,4,2 -- train {ranks}
try --ranks 2,0 -- train {ranks}
try --ranks 2,9999999999999999999999 -- train {ranks}
try --ranks 2, -- train {ranks}
try --ranks 2-4 -- train {ranks}
try --ranks 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17 -- train {ranks}
try --ranks 2,4 --a 'train {ranks}' --b train
try --ranks 2,4 --resume-with train -- train {ranks}
try --ranks 2,4 --against file -- train {ranks}
try --ranks 2,4 --save-baseline file -- train {ranks}
try --ranks 2,4 --transplant step -- train {ranks}
try --ranks 2,4
