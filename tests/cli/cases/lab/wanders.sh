# Run r of this job ends r x 0.01 away, in its loss and in one weight: pairs of neighbours are 0.01 apart. Then a factor holds it still.
cat >still.toml <<'F'
[[factor]]
id = "user:still"
layer = "backward"
title = "what the wanderer adds"
env = {WANDERER_STILL = "1"}
F
twinrun lab --quiet --runs 6 --factor-file still.toml --step noise,determinism -- "$BUILD/tests/cli/wanderer" --runs-file runs --wander 0.01 --weights w.npy
