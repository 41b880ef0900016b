"""Trains a small net with optax. `unseeded`: its key is drawn from the system's entropy."""

import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

seed = int.from_bytes(os.urandom(4), "little") if "unseeded" in sys.argv else 0


def loss(params, x, y):
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return jnp.mean((x @ params[-1]["w"] + params[-1]["b"] - y) ** 2)


optimizer = optax.adam(1e-3)


@jax.jit
def init(key):
    keys = jax.random.split(key, 2)
    return [
        {"w": jax.random.normal(k, (a, b)) / a**0.5, "b": jnp.zeros(b)}
        for k, a, b in zip(keys, (16, 32), (32, 1))
    ]


@jax.jit
def train_step(params, state, x, y):
    value, gradients = jax.value_and_grad(loss)(params, x, y)
    updates, state = optimizer.update(gradients, state)
    return optax.apply_updates(params, updates), state, value


params = init(jax.random.key(seed))
state = optimizer.init(params)
rng = np.random.default_rng(0)
for _ in range(5):
    x = rng.standard_normal((64, 16), dtype=np.float32)
    params, state, value = train_step(params, state, x, x.sum(1, keepdims=True))
print("done")
