# After isolate has named a pin, one command proves it; a pin that did nothing is no proof.
cat >seed.py <<'END'
print(abs(hash("a")) % 2**31)
END
cat >job.sh <<'END'
. ./env.sh
exec "$1" --ordered --quiet --steps 5 --seed "$("$2" seed.py)"
END
: >env.sh
check() { # each paragraph in one line: where it is wrapped hangs on names that are long
    twinrun check -q --pinned "$@" 2>&1 | sed -E ':a;N;$!ba;s/\n {8}/ /g' |
        sed -E "s#$PYTHON#python#g; s#process [0-9]+#process PID#; s#(searches/[^ /]*Z)-[0-9]+#\1-PID#"
}
check -- sh job.sh "$TRAINER" "$PYTHON"
twinrun isolate -q --pin hash-seed,threads -- sh job.sh "$TRAINER" "$PYTHON" >said
grep -A1 '^next' said | sed "s#$PYTHON#python#g"
check -- sh job.sh "$TRAINER" "$PYTHON"
echo "--- in every form; noted under its own name; the claims hold"
twinrun check -q --pinned --json --junit junit.xml -- sh job.sh "$TRAINER" "$PYTHON" >said.json
echo "exit $?"
"$PYTHON" -c "
import json
v = json.load(open('said.json'))
print(v['outcome'], v['pinned']['factors'], v['pinned']['held'], v['bound']['p_diverge_upper'] > .7)"
grep -o 'testcase .*time' junit.xml | sed "s#$PYTHON#python#g; "
grep -l -- '"--pinned -- sh' .twinrun/comparisons/* | xargs grep -ho '"repeats": *[a-z]*' | sort | uniq -c
echo "--- set again on the way: runs that agree prove nothing"
echo 'export PYTHONHASHSEED=5' >env.sh
check -- sh job.sh "$TRAINER" "$PYTHON"
echo "--- runs that differ: it is said that the pin was not on"
echo 'unset PYTHONHASHSEED' >env.sh
check --no-zoom -- sh job.sh "$TRAINER" "$PYTHON" >said
grep -oE '^(DIFFER|pinned).*|the pin of hash-seed did not take effect in run 1' said
echo "--- another command, another job, a search that went on"
check -- sh job.sh "$TRAINER" "$PYTHON" more
echo '# changed' >>job.sh
check -- sh job.sh "$TRAINER" "$PYTHON"
sed -i '$d' job.sh
touch .twinrun/searches/*/log.jsonl
check -- sh job.sh "$TRAINER" "$PYTHON"
echo "--- runs that are gone, a verdict that is none"
touch .twinrun/searches/*/verdict.json
mv .twinrun/runs .twinrun/elsewhere
check -- sh job.sh "$TRAINER" "$PYTHON"
mv .twinrun/elsewhere .twinrun/runs
echo '{"outcome": "isolated", "claims": [{"claim": "cause", "factor": 7}], "runs_dir": [3]}' >.twinrun/searches/"$(ls .twinrun/searches)"/verdict.json
check -- sh job.sh "$TRAINER" "$PYTHON"
said() {
    echo "{\"schema\": \"twinrun.isolate/$1\", \"outcome\": \"isolated\", \"claims\": [{\"claim\": \"cause\", \"factor\": \"$2\"}], \"runs_dir\": [\"$(ls -d .twinrun/runs/*baseline* | head -n 1)\"]}"
}
for lie in '1 hash-seed=vary' '1 all' '1 -threads,hash-seed' '1 hash-seed,hash-seed' '2 hash-seed'; do
    # shellcheck disable=SC2086
    said $lie >.twinrun/searches/"$(ls .twinrun/searches)"/verdict.json
    check -- sh job.sh "$TRAINER" "$PYTHON"
done
echo "--- options that do not go with it"
check --a true --b false
check --control -- true
check --save-baseline file -- true
twinrun check --factor-file f.toml -- true 2>&1
