#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What watching costs a training step of Keras on TensorFlow: in one process, a step that is
watched and one that is not in turns.

Usage: tf_overhead.py [ROUNDS] [mlp|cnn]     with a Python that has tensorflow and keras; default
200 mlp
Environment: TWINRUN_BUILD, the build folder that holds agents/libtwinrun.so (default: build beside
bench); BENCH_JIT=1: by XLA.

Prints rows `name value unit`. The two are equal models, each with a function of its own that `fit`
would call. The one was made and traced while nothing is recorded, so it has no operation of ours;
the other is recorded at the default level. `overhead`: time of all watched steps over time of all
others, rounds with a step of more than three times the median left out (somebody else had the CPU);
`median`: over rounds; `cpu`: the same of processor time, all threads.
"""

import os
import shutil
import sys
import time

from in_turns import in_turns, report
from torch_overhead import arm

HERE = os.path.dirname(os.path.abspath(__file__))


def make_model(keras, name):
    keras.utils.set_random_seed(0)
    layers = keras.layers
    if name == "mlp":
        shape = (784,)
        parts = [layers.Dense(1024, activation="relu"), layers.Dense(256, activation="relu")]
    else:
        shape = (28, 28, 1)
        parts = [
            layers.Conv2D(16, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
        ]
    model = keras.Sequential([keras.Input(shape), *parts, layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, jit_compile=os.environ.get("BENCH_JIT") == "1")
    model.make_train_function()
    return model, shape


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    name = sys.argv[2] if len(sys.argv) > 2 else "mlp"
    build = os.environ.get("TWINRUN_BUILD") or os.path.join(HERE, "..", "build")
    folder = arm(os.path.join(build, "agents", "libtwinrun.so"))
    import keras
    import numpy as np
    import tensorflow as tf

    state = sys.modules["_twinrun_agent.core"].S
    rng = np.random.default_rng(0)
    arms = {}
    for mode in ("off", "on"):
        state.on = mode == "on"
        model, shape = make_model(keras, name)
        if not arms:
            data = rng.standard_normal((128, *shape), np.float32), rng.integers(0, 10, 128)
        batches = iter(tf.data.Dataset.from_tensors(data).repeat())
        model.train_function(batches)
        arms[mode] = model, batches

    def run(mode):
        state.on = mode == "on"
        model, batches = arms[mode]
        began, used = time.perf_counter(), time.process_time()
        float(model.train_function(batches)["loss"])
        return time.perf_counter() - began, time.process_time() - used

    taken = in_turns(run, rounds)
    weights = [arms[mode][0].get_weights() for mode in ("off", "on")]
    state.on = True
    same = all((a == b).all() for a, b in zip(*weights))
    report("tensorflow", tf.__version__, sum(w.size for w in weights[0]), taken, same)
    sys.stdout.flush()
    sys.modules["_twinrun_agent.native"].library().close()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
