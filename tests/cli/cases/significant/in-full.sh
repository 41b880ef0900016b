# Answers in full: each test by its name, what was assumed and did not hold, what is left out and why.
"$PYTHON" -c "
for name, add in (('many-a', 0), ('many-b', 3)):
    print(*((i * 37) % 101 / 10 + add for i in range(120)), file=open(name, 'w'))
print(*(100 + (i % 7) / 10 for i in range(20)), file=open('calm', 'w'))
print(*(100 + 5 * (i % 7 - 3) for i in range(20)), file=open('wild', 'w'))
print(*(100 + (i % 7) / 10 for i in range(19)), 250, file=open('outlier', 'w'))
print(1, 2, 2, 3, 3, 3, file=open('ties-a', 'w'))
print(3, 3, 4, 4, 5, 5, file=open('ties-b', 'w'))"
for arguments in "many-a many-b" "ties-a ties-b" "calm wild" "calm wild --question variance" "calm outlier --floor 500" "calm calm --question bitwise"; do
    echo "== $arguments"; twinrun significant $arguments; echo "exit $?"
done
mkdir folder
twinrun significant calm wild --floor folder; echo "exit $?"
echo "== runs, one set after the other"
for i in 1 2 3; do twinrun record -q --label first -- sh -c "echo x=0.8$i" >/dev/null; done
for words in "x=0.91" "x=0.92" "x=0.93" "y=1" "x=1e999"; do twinrun record -q --label then -- sh -c "echo $words" >/dev/null; done
twinrun significant -m 'printed:x=([0-9.e]+)' label:first label:then | grep 'left out' | sed 's/[0-9TZ-]*-then-[0-9a-f]*/RUN/'
# What is asked of these runs is their speed: whether one is an outlier, and how they spread, is the machine's matter.
twinrun significant label:first label:then | sed -n '/^assumed/,/^for a paper/p' | grep -vE '^for|outlier|spread differently'
echo "== a speed is a value where it is asked for, though check calls it noise; of a line that is overwritten the last one counts"
for i in 1 2 3 4; do
    twinrun record -q --label slow -- printf "step 1 took 9.9 s\\rstep 2 took 0.3$i s\\nloss 0.5\\n" >/dev/null
    twinrun record -q --label fast -- printf "step 1 took 0.1$i s\\nloss 0.5\\n" >/dev/null
done
twinrun significant -m 'printed:took ([0-9.]+) s' label:slow label:fast | grep -E '^(REAL|A|B) '
twinrun check -q --runs 2 -- sh -c 'echo "step 1 took 0.$(od -An -N1 -tu1 /dev/urandom | tr -d " ") s"' | grep -cE '^DIFFER'
echo "== arms"
# Each run of B but the first fails.
echo '[ ! -e made ] || exit 3; : >made; exec "$@"' >once
twinrun significant -q -n 2 --a "$JOB --steps 5" --b "sh once $JOB --steps 5" >said; echo "exit $?"
grep '^bits' said
grep '^== speed' said
grep '^order' said | sed 's/seed .*/seed N/'
twinrun significant -q -n 2 --a true --b true >said; echo "exit $?"
grep '^== speed' said
grep '^NOT ASKED   ' said | sed 's/[0-9TZ-]*-[ab]-[0-9a-f]*/RUN/'
