# A job without PyTorch is not started again at operation level, which would see nothing either, and is told how it can
# show what it computes. Started: once for each run, counted outside of twinrun's sight.
export TWINRUN_HOME="$PWD/home"
try() {
    rm -f started
    twinrun check -q --runs 2 -- "$@" | sed -n '1p; /operation level/p; /^next/p'
    echo "started $(wc -l <started) times"
}
try sh -c 'echo x >>started; exec "$0" -c "total = sum(i * i for i in range(1000))"' "$PYTHON"
"$PYTHON" -c 'import numpy' 2>/dev/null &&
    try sh -c 'echo x >>started; exec "$0" -c "import numpy; numpy.ones((4, 4)) @ numpy.ones(4)"' "$PYTHON" >numpy.said &&
    grep -v 'import twinrun; twinrun.record(.*\|started 2 times\|INCONCLUSIVE' numpy.said
printf 'int main(void) { double sum = 0; for (int i = 1; i < 1000; i++) sum += 1.0 / i; return sum < 1; }\n' >sum.c
cc sum.c -o sum && try sh -c 'echo x >>started; exec ./sum'
try sh -c 'echo x >>started; true'
