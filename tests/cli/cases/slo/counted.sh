# Two checks: one whose repeats agree, one whose repeat does not. Few of them keep nothing, and a
# strict target is broken.
export TWINRUN_PROJECT=vision
twinrun slo --json
twinrun check -q --runs 3 -- "$JOB" --steps 3 >/dev/null
twinrun check -q --runs 2 -- "$JOB" --steps 3 --noise-at 1 >/dev/null
twinrun slo --csv | cut -d, -f1-5,12-15 | grep '^M1,'
printf '[[slo]]\nindicator = "M1"\ntarget = 1\n' >slo.toml
twinrun slo --targets slo.toml | head -1
twinrun slo --targets slo.toml >/dev/null
echo "exit $?"
twinrun slo --json --csv
