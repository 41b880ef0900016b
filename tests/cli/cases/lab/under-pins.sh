# The job fails under one pin: it is found and left out. Pins do not help: the step fails. A job without a cause of its own is equal.
wanderer() { echo "== $*"; rm -f runs; twinrun lab --quiet --runs 3 --step determinism -- "$BUILD/tests/cli/wanderer" --runs-file runs --weights w.npy "$@"; echo "exit $?"; }
wanderer --fail-pinned
wanderer --wander 0.01
wanderer
# A loss that is no number has no gap, equal or not.
twinrun lab --quiet --runs 3 --step determinism -- "$BUILD/tests/cli/wanderer" --runs-file runs --weights w.npy --nan 3 | grep -A1 OPEN
