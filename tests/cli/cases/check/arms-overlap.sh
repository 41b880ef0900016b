# Too little of the arms overlaps: nothing is called the same, and what was not compared is named.
say() { grep '^INCONCLUSIVE\|^SAME\|^unseen' out; echo "exit $1"; }
twinrun check -q --a "$JOB --steps 20" --b "$JOB --steps 5" >out
say $?
twinrun check -q --steps 5 --a "$JOB --steps 20" --b "$JOB --steps 5" >out
say $?
twinrun check -q --b-starts-at 50 --a "$JOB --steps 20" --b "$JOB --steps 20" >out
say $?
