"""Says that it is another JAX than the one that is known."""

__version__ = "0.4.38"
