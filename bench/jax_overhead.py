#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What watching costs a training step of JAX: in one process, a step that is watched and one that
is not in turns.

Usage: jax_overhead.py [ROUNDS]     with a Python that has jax and optax; default 400
Environment: TWINRUN_BUILD, the build folder that holds agents/libtwinrun.so (default: build beside
bench); BENCH_BATCH, rows of a batch (default 128); BENCH_DONATE=1: weights are donated.

Prints rows `name value unit`. The two are one function, jitted twice. The one is called first while
nothing is recorded, so that JAX calls it in C++ alone from then on; the other is recorded at the
default level. Each trains weights of its own. `overhead`: time of all watched steps over time of
all others, rounds with a step of more than three times the median left out (somebody else had the
CPU); `median`: over rounds; `cpu`: the same of processor time, all threads.
"""

import os
import shutil
import sys
import time

from in_turns import in_turns, report
from torch_overhead import arm

HERE = os.path.dirname(os.path.abspath(__file__))
SIZES = (784, 1024, 256, 10)


def make_step(jax, optax):
    def loss(params, x, y):
        for layer in params[:-1]:
            x = jax.nn.relu(x @ layer["w"] + layer["b"])
        logits = x @ params[-1]["w"] + params[-1]["b"]
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    optimizer = optax.adam(1e-3)

    def train_step(params, state, x, y):
        value, gradients = jax.value_and_grad(loss)(params, x, y)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(params, updates), state, value

    return optimizer, train_step


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    build = os.environ.get("TWINRUN_BUILD") or os.path.join(HERE, "..", "build")
    folder = arm(os.path.join(build, "agents", "libtwinrun.so"))
    import jax
    import numpy as np
    import optax

    state = sys.modules["_twinrun_agent.core"].S
    optimizer, train_step = make_step(jax, optax)
    rng = np.random.default_rng(0)
    params = [
        {"w": rng.standard_normal((a, b), np.float32) / a**0.5, "b": np.zeros(b, np.float32)}
        for a, b in zip(SIZES, SIZES[1:])
    ]
    rows = int(os.environ.get("BENCH_BATCH", 128))
    x, y = rng.standard_normal((rows, SIZES[0]), np.float32), rng.integers(0, 10, rows)
    donated = (0, 1) if os.environ.get("BENCH_DONATE") == "1" else ()
    arms = {}
    for mode in ("off", "on"):
        held = jax.tree.map(jax.numpy.array, (params, optimizer.init(params)))
        arms[mode] = [jax.jit(lambda *args: train_step(*args), donate_argnums=donated), held]

    def run(mode):
        state.on = mode == "on"
        began, used = time.perf_counter(), time.process_time()
        weights, moments, value = arms[mode][0](*arms[mode][1], x, y)
        arms[mode][1] = weights, moments
        float(value)
        return time.perf_counter() - began, time.process_time() - used

    taken = in_turns(run, rounds)
    same = jax.tree.map(lambda a, b: bool((a == b).all()), arms["off"][1], arms["on"][1])
    state.on = True
    count = sum(v.size for v in jax.tree.leaves(params))
    report("jax", jax.__version__, count, taken, all(jax.tree.leaves(same)))
    sys.stdout.flush()
    sys.modules["_twinrun_agent.native"].library().close()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
