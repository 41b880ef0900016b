"""State of 90,000 numbers that a jitted function hands to its own next call, in a function whose
variables are gone before the end.

`late`: from call 40 of 44 on its last element is another one. `undone`: from call 20 on, and as it
was from call 21 on. `donated`: the state is donated. `replaced`: after 30 calls the function is
given other state; with `late` the first one's last element is another one from call 28 on.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

HOW = sys.argv[1:]
LATE = 28 if "replaced" in HOW else 40


def added(call):
    """What no argument of the function shows."""
    more = "late" in HOW and call == LATE or "undone" in HOW and call == 20
    less = "undone" in HOW and call == 21
    return np.float32(more) - np.float32(less)


def step(state):
    call = state["call"]
    more = jax.pure_callback(added, jax.ShapeDtypeStruct((), jnp.float32), call)
    return {"call": call + 1, "x": state["x"].at[299, 299].add(more)}


def train():
    function = jax.jit(step, donate_argnums=0 if "donated" in HOW else ())
    for calls in (30, 14) if "replaced" in HOW else (44,):
        state = {"call": jnp.int32(0 if calls > 14 else 100), "x": jnp.ones((300, 300))}
        for _ in range(calls):
            given = state
            state = function(state)
        assert given["x"].is_deleted() == ("donated" in HOW)
        assert sum(a.shape == (300, 300) for a in jax.live_arrays()) == 2 - ("donated" in HOW)


train()
print("done")
