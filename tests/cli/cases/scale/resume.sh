# An interrupted study goes on where it was: no run is made twice; more rounds can be added.
"$PYTHON" "$CASES/../interrupt.py" '.twinrun/studies/*/log.jsonl+' twinrun scale -q -c 1,2 -- "$JOB" --sleep-ms 20 --steps {n}5 > said
grep -E '^exit|interrupted' said | sed 's/^ *note *//; s/^ *//'
before=$(cat .twinrun/studies/*/log.jsonl | wc -l)
twinrun scale -q -c 1,2 --resume -- "$JOB" --sleep-ms 20 --steps {n}5 | head -1 | cut -c1-19
twinrun scale -q -c 1,2 --resume -r 4 -- "$JOB" --sleep-ms 20 --steps {n}5 | grep -c '^order.*:\( [12] [12]\( |\|$\)\)\{4\}'
[ "$before" -ge 1 ] && [ "$before" -lt 8 ] && echo "went on"
"$PYTHON" -c "
import glob, json
made = [(j['round'], j['workers']) for j in map(json.loads, open(glob.glob('.twinrun/studies/*/log.jsonl')[0]))]
print(len(made), len(set(made)))"
twinrun scale -q -c 1,2,3 --resume -- "$JOB" --sleep-ms 20 --steps {n}5; echo "exit $?"
twinrun scale -q -c 1,2 --max-time 1 -r 50 -- "$JOB" --sleep-ms 20 --steps {n}5 > said; echo "exit $?"
grep -o 'ended by --max-time; the same command with --resume goes on' said
