# What becomes of A when it is run again, and of a run that nobody watches: each answer has its sentence.
twice() { twinrun check -q --no-zoom --json "$@" | tr -d '\n' | sed 's/.*"notes": *\[\([^]]*\)\].*/\1/; s/", *"/\n/g; s/"//g' | sed 's/ ([^()]* watched, [^()]* not)//' |
    grep -E 'A does|A diverges|A repeats|control:' | sed 's/^ *//; s/ *$//'; }
twice --a "$JOB --steps 20 --noise-at 3" --b "$JOB --steps 20 --noise-at 4"
twice --a "$JOB --steps 20 --noise-at 9" --b "$JOB --steps 20 --noise-at 4"
twice --a "$JOB --steps 20" --b "$JOB --steps 20 --noise-at 4"
twice --runs 2 --control -- "$JOB" --steps 20 --noise-at 4
twice --runs 2 --control -- sh -c "$JOB --steps 20; echo pid \$\$"
twice --runs 2 --control -- sh -c "$JOB --steps 20; echo pid \$\$ >log.txt"
twice --runs 2 --control -- sh -c "$JOB --steps 20; [ -n \"\$LD_PRELOAD\" ] || exit 3"
