# A run's provenance, what it wrote, and that two runs agree.
K=$ROOT/tests/golden/keys
export TWINRUN_HOME=$PWD/home
for seed in 1 1 2; do twinrun record -- "$TRAINER" --ordered --steps 4 --seed $seed >printed 2>said; done
twinrun sign last~2 --key "$K/ana.key" -o a.json
twinrun verify a.json --key "$K/ana.key.pub" last~2 | sed 's/[0-9]* files/N files/'
twinrun verify a.json --key "$K/ana.key.pub" last~1
echo "exit $?"
twinrun verify a.json --key "$K/ana.key.pub" a.json
echo "exit $?"
twinrun sign --reproduced last~2 last~1 --key "$K/ana.key" -o same.json
twinrun verify same.json --key "$K/ana.key.pub" last~2 last~1 | sed 's/[0-9]* files/N files/'
twinrun verify same.json --key "$K/ana.key.pub" last~2
echo "exit $?"
twinrun sign --reproduced last~2 last --key "$K/ana.key" -o other.json
echo "exit $?"
twinrun sign --reproduced last~2 last~2 --key "$K/ana.key" -o other.json
echo "exit $?"
twinrun sign --reproduced last~2 last~1 --key "$K/ana.key"
