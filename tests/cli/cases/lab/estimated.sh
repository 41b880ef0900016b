# No file of weights: the distance is estimated, and said to be; nothing recorded at all: nothing is claimed.
n=4
twinrun lab --quiet --runs 4 --step noise -- "$BUILD/tests/cli/wanderer" --runs-file runs --wander 0.01
echo "exit $?"
twinrun lab --quiet --runs 4 --step noise -- /bin/true
echo "exit $?"
