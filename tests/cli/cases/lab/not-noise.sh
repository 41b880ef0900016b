# What is no noise, and what cannot be measured: each is said, and none of it passes.
wanderer() { echo "== $*"; rm -f runs; twinrun lab --quiet --runs "$n" --step noise -- "$BUILD/tests/cli/wanderer" --runs-file runs --weights w.npy "$@"; echo "exit $?"; }
n=4
wanderer
wanderer --unseeded --wander 0.01
wanderer --nan 3 --wander 0.01
wanderer --blind --wander 0.01
wanderer --wander 1e-7
wanderer --fail-run 3
wanderer --fail-run 1
n=2
wanderer --wander 0.01
