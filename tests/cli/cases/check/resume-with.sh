# "Train half, then resume" in one option: the interruption is made here, each run in a scratch copy.
# A job of our own: the step and the weight are in `state`, the momentum too unless it is told to forget it.
cat >job.py <<'P'
import array, os, sys
import twinrun

steps, words = int(sys.argv[1]), sys.argv[2:]
step, weight, momentum = 0, 1.0, 0.0
if "--resume" in words and os.path.exists("state"):
    text = open("state").read().split()
    step, weight = int(text[0]), float(text[1])
    momentum = 0.0 if "--forget" in words else float(text[2])
noise = int.from_bytes(os.urandom(4), "big") if "--noise" in words else 0
twinrun.record("init:w", array.array("d", [weight]))
while step < steps:
    twinrun.record("batch:x", array.array("d", [step]))
    momentum = 0.9 * momentum + 0.01 * weight * (step + 1) + noise
    twinrun.record("moment:w.momentum", array.array("d", [momentum]))
    weight -= momentum
    twinrun.record("weight:w", array.array("d", [weight]))
    step += 1
    twinrun.step()
    with open("state", "w") as f:
        f.write("%d %r %r" % (step, weight, momentum))
P
try() { # the sizes of what differs by chance are left out
    echo "== $*"
    twinrun check "$@" 2>said >out
    echo "exit $?"
    sed 's|different worlds: .*|different worlds|; /^ *size/d; s/ *drift .*//; s/^then .*weights.*/then weights/' out
    sed 's/^run/  run/; s/^half/  half/' said | cut -d ' ' -f 1-8
}
J="$PYTHON job.py"
try --runs 2 --resume-with "$J 10 --resume" -- $J 10
try --runs 2 --resume-with "$J 10 --resume --forget" -- $J 10
# It finds nothing to go on from, and says so: never "same".
try --runs 2 --resume-with "$J 10" -- $J 10
# The part that is trained may be a command of the user's.
try --runs 2 --half "$J 3" --resume-with "$J 10 --resume" -- $J 10
try --runs 2 --half "$J 3 --noise" --resume-with "$J 10 --resume" -- $J 10
try --runs 2 --half "exit 3" --resume-with "$J 10 --resume" -- $J 10
# The job does not repeat itself: nothing is to be learned about resuming.
try --runs 2 --resume-with "$J 10 --resume" -- $J 10 --noise
try --runs 2 --resume-with "$J 10 --resume" -- $J 1
ls
# Interrupted while the half is made: one run is there, and it is said that this is too few.
cat >slow.py <<'P'
import sys, time, twinrun, array
for step in range(4):
    if sys.argv[1:]:
        open(sys.argv[1], "w").close()
        time.sleep(300)
    twinrun.record("weight:w", array.array("d", [step]))
    twinrun.step()
P
"$PYTHON" "$CASES/../interrupt.py" "$PWD/there" twinrun check -q --half "$PYTHON slow.py $PWD/there" --resume-with true -- "$PYTHON" slow.py
# It is stopped before its first save: the resumed job fails, and it is said that nothing was there.
cat >late.py <<'P'
import array, sys, twinrun
if "--resume" in sys.argv:
    open("late.state")
for step in range(4):
    twinrun.record("weight:w", array.array("d", [step]))
    twinrun.step()
open("late.state", "w").close()
P
try --runs 2 --resume-with "$PYTHON late.py --resume" -- "$PYTHON" late.py
# What is to be resumed is torn: the resumed job fails, and that is a difference.
try --runs 2 --half "$J 3; : >state; echo 3 >state" --resume-with "$J 10 --resume" -- $J 10 | grep -v 'next\|show\|check'
try --resume-with "$J 10 --resume"
try --half x -- $J 10
try --resume-with x --against y -- $J 10
try --resume-with x --a y --b z
