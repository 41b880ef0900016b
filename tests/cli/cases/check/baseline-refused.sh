# What cannot be a baseline, and what does not go together.
c() { twinrun check -q "$@"; echo "exit $?"; }
c --save-baseline b.json -- "$JOB" --steps 4 --noise-at 2 | tail -1
ls b.json 2>&1
c --against none.json -- "$JOB"
echo '{"schema": "twinrun.baseline/9"}' >b.json
c --against b.json -- "$JOB"
echo '{"schema": "twinrun.baseline/1", "schema": "twinrun.baseline/1"}' >b.json
c --against b.json -- "$JOB"
echo 'hello' >b.json
c --against b.json --json -- "$JOB"
c --against b.json --save-baseline b.json -- "$JOB"
c --against b.json --a 'true' --b 'true'
c --against b.json --ignore 'x' -- "$JOB"
c --against b.json --transplant step -- "$JOB"
c --save-baseline b.json --runs 1 -- "$JOB"
c --runs 1 -- "$JOB"
# A secret on the command line gets into no file of ours.
twinrun check -q --save-baseline secret.json -- "$JOB" --steps 2 --token not-to-be-seen >/dev/null 2>&1
grep -rl not-to-be-seen .twinrun secret.json || echo "not kept"
