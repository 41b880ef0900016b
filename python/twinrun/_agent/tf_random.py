# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's generators, as sources of rng.py: the one that `tf.random.set_seed` seeds, from which
each operation without a seed of its own gets one, and those of `tf.random.Generator`.

Without `tf.random.set_seed` the first has no state: each kernel then takes its seed from the
system. That state is the same number in all runs, so it is recorded from its first movement on.
"""

import ctypes
import random
import sys

from . import refs, rng, tf_variables
from .core import hook
from .native import RNG

_context = None
_made = 0


def arm():
    global _context
    _context = sys.modules["tensorflow.python.eager.context"].context
    _add("tensorflow", _read_global, False)


def _add(name, read, always):
    source = rng.Source(name, read, always)
    source.seeded = True  # whether nobody seeded it is seen by what is drawn
    rng.add(source)
    return source


def _kept(data):
    held = ctypes.create_string_buffer(data, len(data))
    return ctypes.addressof(held), len(data), held


def _read_global():
    context = _context()
    generator = getattr(context, "_rng", None)
    if context._seed is None or generator is None:
        return _kept(b"no seed")
    if type(generator) is not random.Random:
        return _kept(repr(generator.getstate()).encode())
    return id(generator) + object.__basicsize__, 2500, generator  # position, then words


@hook
def made(generator):
    """A tf.random.Generator has been made by the job."""
    global _made
    known = tf_variables.of(getattr(generator, "_state_var", None))
    if known is None:
        return
    _made += 1
    known.generator = True

    def read():
        with tf_variables.unrecorded():
            array = known.read()
        return _kept(b"gone" if array is None else array.tobytes())

    source = _add("tf.random.Generator#%d" % _made, read, True)
    source.record(RNG, "", "")
    known.gone = refs.to(generator, lambda _reference: rng.remove(source))
