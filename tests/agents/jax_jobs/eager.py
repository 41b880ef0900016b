"""Computes with JAX, and jits nothing."""

import jax
import jax.numpy as jnp

print(float(jnp.sum(jax.random.normal(jax.random.key(0), (3,)) ** 2)) > 0)
