"""A job of a JAX that is not known."""

import jax

print(jax.__version__)
