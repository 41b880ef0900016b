# Compilers are asked beside the job, which goes first, and once in a series of runs.
mkdir bin
printf '#!/bin/sh\nnice >>"%s/asked"\necho clang of ours\n' "$PWD" >bin/clang
chmod +x bin/clang
export PATH=$PWD/bin:$PATH
twinrun check -q --runs 3 --ignore file:asked -- sh -c 'until [ -e asked ]; do sleep 0.05; done; "$0" --steps 2' "$JOB" | head -1
cat asked
for run in .twinrun/runs/*/provenance.json; do grep 'clang of ours' "$run"; done
touch -d '2020-01-01' bin/clang
twinrun record -q -- "$JOB" --steps 2 >/dev/null
wc -l <asked
