"""Trains in a loop, and stops in the middle to restore its state.

`lost`: the optimizer state is not restored. `noisy`: from that step on a callback, which no record
shows, adds to the gradients. Where flax is the state is a TrainState.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

try:
    from flax.training.train_state import TrainState
except ImportError:
    TrainState = None

STEPS, RESTORED = 5, 3
adam = optax.adam(0.1)


def noise(call):
    return np.float32("noisy" in sys.argv and call >= RESTORED)


def loss(params, x):
    return jnp.mean((x @ params["w"] + params["b"] - 1) ** 2)


@jax.jit
def train_step(params, opt_state, x, call):
    value, gradients = jax.value_and_grad(loss)(params, x)
    more = jax.pure_callback(noise, jax.ShapeDtypeStruct((), jnp.float32), call)
    gradients["b"] = gradients["b"] + more
    updates, opt_state = adam.update(gradients, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, value


@jax.jit
def state_step(state, x, call):
    params, opt_state, value = train_step(state.params, state.opt_state, x, call)
    return state.replace(step=state.step + 1, params=params, opt_state=opt_state), value


params = {"w": jnp.arange(3.0), "b": jnp.ones(())}
opt_state = adam.init(params)
if TrainState:
    state = TrainState(0, None, params, adam, opt_state)
for call in range(STEPS):
    x = np.random.default_rng(call).standard_normal((4, 3), dtype=np.float32)
    fresh = call == RESTORED and "lost" in sys.argv
    if TrainState:
        if fresh:
            state = state.replace(opt_state=adam.init(params))
        state, value = state_step(state, x, jnp.int32(call))
    else:
        opt_state = adam.init(params) if fresh else opt_state
        params, opt_state, value = train_step(params, opt_state, x, jnp.int32(call))
print("done")
