# What is printed under "next" can be pasted into a shell, and makes the same situation again.
mkdir -p data "a home" && echo x >data/x && twinrun snapshot data >/dev/null
said() { sed -n '/^next/,$p' | sed 's/^next  */  /; s/   *[a-z][a-z ,?]*$//; s/^ *//; /^$/d'; }
again() { # the printed suggestion that holds $1, run by sh
    line=$(said <out | grep -- "$1" | head -n 1)
    [ -n "$line" ] || { echo "no line with $1"; cat out; return; }
    printf '%s\n' "$line"
    sh -c "$line" >next-out 2>&1
    echo "exit $?"
}

# Options: --fresh-dir (without it the job's counter would count on), --steps, --data, --ignore, --home.
OMP_NUM_THREADS=3 twinrun check -q --fresh-dir --no-zoom --steps 9 --data data --ignore 'x y' --home "a home" \
    -- "$JOB" --noise-at 5 --sleep-ms 0 >out
again 'twinrun show'
grep -c 'grad\|backward' next-out | sed 's/[1-9][0-9]*/some records/'
sh -c "$(said <out | grep isolate | sed 's,isolate,isolate --max-runs 6,')" >next-out 2>&1
said <out | grep isolate
grep -q 'the runs diverge\|isolated\|outside' next-out && echo "isolate began"

# Words with quotes, blanks, newlines.
twinrun check -q --no-zoom --runs 2 -- sh -c 'test "$2" = "$(printf "p\nq")" && exec "$0" --noise-at 5' \
    "$JOB" "it's" "$(printf 'p\nq')" >out
said <out | grep 'isolate'
line=$(said <out | grep isolate | sed 's/twinrun isolate/twinrun check -q --runs 2 --no-zoom/')
sh -c "$line" | head -n 1

# Standard input from a file, and two arms of which A repeats itself.
printf '12\n' >where
twinrun check -q --no-zoom --a "$JOB --steps 20" --b "$JOB --steps 20 --noise-at \$(cat)" <where >out
said <out
line=$(said <out | grep isolate | sed 's/twinrun isolate/twinrun check -q --no-zoom/')
sh -c "$line" | head -n 1

# A parts from itself: A alone comes next.
twinrun check -q --no-zoom --a "$JOB --steps 20 --noise-at 3" --b "$JOB --steps 20 --noise-at 4" >out
said <out
