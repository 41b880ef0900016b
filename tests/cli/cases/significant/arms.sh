# Runs are made in turns; speed, metric and bits are answered apart. The times themselves are not shown here.
job="$JOB --steps 12"
twinrun significant -q --within 1% --a "$job --sleep-ms 1" --b "$job --sleep-ms 30" > said; echo "exit $?"
head -3 said | sed 's/B is [0-9.]*% higher.*/B is N higher/'
grep -c '^for a paper' said; grep 'one value in' said
twinrun significant -q -n 3 --json --a "$job" --b "$job --noise-at 2" > found; echo "exit $?"
"$PYTHON" -c "
import json
j = json.load(open('found'))
b = j['bits']
print(j['schema'], j['speed']['question'], j['speed']['metric'], len(j['speed']['a']['values']), j['speed']['took_turns'], j['metric']['metric'], b['a_classes'], b['b_classes'], b['equal'])"
# A metric that is printed; one that nobody has; steps that nobody sees.
twinrun significant -q -n 4 -m 'printed:x=([0-9]+)' --a 'echo x=10$(od -An -N1 -tu1 /dev/urandom | tr -d " ")' --b 'echo x=9' > said; echo "exit $?"
sed -n '2p' said | cut -c1-20; sed -n '3p' said; grep '^question' said | sed 's/,.*//'
twinrun significant -q -n 2 --a true --b true > said; echo "exit $?"
grep -o 'NOT ASKED *.*: no loss was recorded with its value' said | sed 's/2026[^:]*/RUN/'
twinrun significant --a true; echo "exit $?"
twinrun significant --a true --b true x; echo "exit $?"
twinrun significant --a true --b true -m wall; echo "exit $?"
twinrun significant -q --a false --b true 2>&1 | sed 's/2026[^:]*/RUN/'
# The floor from what spread measured.
printf '1 2 3 4 5' > a; printf '101 102 103 104 105' > b
echo '{"schema": "twinrun.spread/1", "sum": {"floor": 1, "floor_relative": 50.0}}' > large.json
echo '{"schema": "twinrun.spread/1", "floor_relative_l2": 1e-7}' > small.json
echo '{"schema": "twinrun.check/1"}' > other.json
for floor in large.json small.json other.json; do twinrun significant --floor $floor a b > said; echo "exit $?"; head -1 said; grep '^floor' said; done
twinrun significant --floor small.json --within 5% a b; echo "exit $?"
