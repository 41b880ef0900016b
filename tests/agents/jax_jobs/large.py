"""Weights that are large enough to be digested once, over more steps than lie between two that are
read whole. Two arrays differ in their last element.
"""

import jax
import jax.numpy as jnp


@jax.jit
def step(one, other):
    return jnp.copy(one), jnp.copy(other)


one = jnp.ones((300, 300))
other = one.at[299, 299].set(2)
for _ in range(12):
    one, other = step(one, other)
print("done")
