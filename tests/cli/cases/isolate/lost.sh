# A resumed arm that lost a part of its state: "do not resume" is no fix, what was lost is said.
cat >train.py <<'EOF'
import array, json, os, sys, twinrun
resume = "--resume" in sys.argv
weight, momentum, first = 1.0, 0.0, 0
if resume:
    weight, first = json.load(open("saved.json"))
twinrun.record("init:w", array.array("d", [weight]))
for step in range(first, 12):
    twinrun.record("batch:x", array.array("d", [step]))
    momentum = 0.9 * momentum + weight - step
    weight -= 0.01 * momentum
    twinrun.record("gradient:w", array.array("d", [momentum]))
    twinrun.record("weight:w", array.array("d", [weight]))
    twinrun.step()
    if step == 5 and not resume:
        json.dump([weight, step + 1], open("saved.json", "w"))
EOF
twinrun record -q -- "$PYTHON" train.py >/dev/null 2>&1
twinrun isolate -q --a "'$PYTHON' train.py" --b "'$PYTHON' train.py --resume" >said
echo "exit $?"
grep -E '^(outcome|cause|differs|lost|fix|through)' said | sed -E 's#, [0-9]+ runs.*##' | sed "s#$PYTHON#python#g"

# What differs first names the part of the checkpoint.
for lost in moment hyper; do
    sed -e "s#twinrun.record(\"gradient:w\"#twinrun.record(\"$lost:LOST\", lost(step)); twinrun.record(\"gradient:w\"#" \
        -e "s#^weight, momentum#lost = lambda s: array.array('d', [momentum if '$lost' == 'moment' else resume and s < 9])\\nweight, momentum#" \
        train.py >lost.py
    twinrun isolate -q --a "'$PYTHON' lost.py" --b "'$PYTHON' lost.py --resume" | grep '^lost'
done
