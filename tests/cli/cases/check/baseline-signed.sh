# A baseline that was signed: by whom, and what is refused before any run is made.
twinrun check -q --save-baseline expected.json -- "$JOB" --steps 4 >/dev/null 2>&1
twinrun sign --new-key team.key >/dev/null
twinrun sign --new-key other.key >/dev/null
gate() { twinrun check -q --against expected.json "$@" -- "$JOB" --steps 4 2>&1 | sed 's/[0-9a-f]\{8,\}[^ ]*/ID/'; }
gate --key team.key.pub
twinrun sign expected.json --key team.key >/dev/null
gate --key team.key.pub
gate --key other.key.pub
printf '[[trust]]\nneed = 1\nteam = {file = "team.key.pub"}\n' >trust.toml
gate --trust trust.toml | grep against
printf '[[trust]]\nneed = 1\nteam = {file = "team.key.pub", revoked = "stolen"}\n' >trust.toml
gate --trust trust.toml
sed -i 's/"runs": 3/"runs": 9/' expected.json
gate --key team.key.pub
gate | grep against
twinrun check --key team.key.pub -- "$JOB"
ls .twinrun/runs | wc -l
