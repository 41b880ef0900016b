# What a check does not find out, because its time is up or somebody ends it, is said.
cat >arm <<'END'
# $1: which arm. The third run of all takes too long.
echo x >>count
[ "$(wc -l <count)" -lt "$3" ] || sleep 60
exec "$2" --steps 12 --noise-at "$1"
END
twinrun check -q --no-zoom --no-cases --max-time 2 --a "sh arm -1 '$JOB' 3" --b "sh arm 5 '$JOB' 3" | grep -E '^note'
rm count
# A baseline, and the gate.
twinrun check -q --max-time 1 --save-baseline expected.json -- sh arm -1 "$JOB" 1 2>&1 | grep baseline
rm count
twinrun check -q --save-baseline expected.json --ignore file:count -- sh arm -1 "$JOB" 9
sed -i 's/noise-at "$1"/noise-at 5/' arm
rm count
twinrun check -q --no-cases --max-time 2 --against expected.json -- sh arm -1 "$JOB" 2 | grep -E '^note'
rm count arm
"$PYTHON" "$CASES/../interrupt.py" 'count' twinrun check -q --runs 9 --save-baseline no.json -- sh -c 'sleep 0.2; echo x >>count; sleep 5' 2>&1 | grep -E 'baseline|^exit'
# Several runs against a baseline: which one differs.
twinrun check -q --save-baseline steady.json --ignore file:count -- "$JOB" --steps 12
twinrun check -q --no-zoom --no-cases --runs 3 --against steady.json -- "$JOB" --steps 12 --runs-file count --part-at 7 | grep -E '^(DIFFER|note)'
# A control run that nobody watches cannot be ended after some steps.
twinrun check -q --control --runs 2 --steps 4 -- "$JOB" | grep -E '^note'
