# Outside the pins: what no pin reaches is named with the line of the job that asks for it; what a library asks for is not.
cat >seeded.py <<'END'
import os, random, time
begin = time.perf_counter()
random.seed(os.getpid())
print(random.random())
END
twinrun isolate -q --pin entropy -- "$PYTHON" seeded.py >said
echo "exit $?"
grep -E '^(outcome|note)' said | sed 's/, [0-9]* runs.*//'
