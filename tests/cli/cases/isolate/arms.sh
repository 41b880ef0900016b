# Two commands that part: the difference to blame is named among others, with a command for B that agrees and one for A that parts.
# A search that is over is taken up again without a run.
a="A=1 $TRAINER --ordered --quiet --steps 5 --seed 1 >a.log" b="A=2 B=3 C=4 $TRAINER --ordered --quiet --steps 5 --seed 2 >b.log"
twinrun isolate -q --a "$a" --b "$b" >said
echo "exit $?"
grep -E '^(outcome|cause|applied|differs|fix|next)' said | sed -E 's#, [0-9]+ runs,#, N runs,#; s/[0-9.]* s$/T s/'
twinrun isolate -q --resume --json --a "$a" --b "$b" >said.json
echo "exit $?"
[ "$(cat .twinrun/searches/*/log.jsonl | wc -l)" -eq "$(ls .twinrun/runs | wc -l)" ] && echo "no run more"
"$PYTHON" - <<'END'
import json, subprocess
r = json.load(open("said.json"))
c, = r["causes"]
print(r["outcome"], c["factor"], c["alternatives"], r["runs_used"] <= 22, [d["factor"] for d in r["arms"]["differences"]])
for b in "agrees", "parts":
    print(b, subprocess.run(["twinrun", "check", "-q", "--json", "--a", r["arms"]["a"], "--b", r["arms"][b]], stdout=subprocess.DEVNULL).returncode)
END
