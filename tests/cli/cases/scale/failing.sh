# A number of workers at which the job fails is reported, and the others are measured; results that differ are told apart from speed.
twinrun scale -q -c 1,2,4 -- sh -c 'if [ {n} = 2 ]; then exit 7; fi; exec "$0" --steps 12 --noise-at 3' "$JOB" > said; echo "exit $?"
grep -o 'not measured\|2 workers: 2 runs did not end well, and are left out\|(exit 7)\|2 workers: 0 runs could be timed\|4 workers do' said
sed -n '/^results/,/^$/p' said | sed 's/[0-9.]*e[-+][0-9]*/N/g; s/loss [0-9.]*/loss N/'
# Without steps there is no speed of steps; whole runs have one.
twinrun scale -q -c 1,2 -- "$JOB" --no-steps --steps {n} > said; echo "exit $?"
head -1 said
twinrun scale -q -c 1,2 --work-per-run '10,widgets' -- sh -c 'sleep 0.0{n}' > said; echo "exit $?"
grep -o 'throughput in widgets/s\|speed is that of whole runs, start and end of the job included\|no weights were shown in timed runs' said | sort -u
# One run has no interval; a program that is not there is no study.
twinrun scale -q -c 1 -r 1 -- "$JOB" --steps {n}2 > said; echo "exit $?"
grep -o '1 worker only: nothing to hold that against\|1 worker: 1 run could be timed; an interval worth having needs 3' said
twinrun scale -q -- ./nothing {n}; echo "exit $?"
