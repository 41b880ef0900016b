# What is not one job, or not each rank once, is not put together; and nothing is left behind.
node() { # NODE RANK [NAME=VALUE...]
    node=$1 rank=$2
    shift 2
    env TWINRUN_HOME="$node" RANK="$rank" WORLD_SIZE=3 "$@" twinrun record -q -- "$JOB" --steps 3 \
        >"$node.out"
    mv "$node"/runs/* "$node.run"
}
node a 0 MASTER_ADDR=node0 MASTER_PORT=4000
node b 1 MASTER_ADDR=node0 MASTER_PORT=4001
node c 1 MASTER_ADDR=node0 MASTER_PORT=4000
node d 1 MASTER_ADDR=node0 MASTER_PORT=4000
node e 2
twinrun gather a.run b.run --into x || echo "exit $?"
twinrun gather a.run e.run --into x || echo "exit $?"
twinrun gather a.run c.run d.run --into x || echo "exit $?" | sed 's/[0-9]*\.twt/N.twt/g'
twinrun gather a.run nothing --into x || echo "exit $?"
twinrun gather a.out --into x || echo "exit $?"
mkdir empty
twinrun gather a.run empty --into x || echo "exit $?"
twinrun gather a.run c.run --into b.run || echo "exit $?"
twinrun gather a.run - - --into x || echo "exit $?"
twinrun gather || echo "exit $?"
# The same folder twice is no conflict. A rank that is missing is named, and so is one that was
# never looked for.
twinrun gather a.run c.run c.run --into x || echo "exit $?"
ls x/ranks | wc -l
twinrun gather a.run e.run --one-job --into y || echo "exit $?"
# With other bytes under one name.
cp -r c.run f.run
printf x >>"$(echo f.run/ranks/*)"
twinrun gather a.run c.run f.run --into z || echo "exit $?"
ls -A
