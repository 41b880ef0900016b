# SPDX-License-Identifier: Apache-2.0
"""The states of `random` and of NumPy's generator as their import left them, before a line of the
job could set a seed.

Both seed themselves from the system's entropy. Whether somebody has set a seed since cannot be
asked; but a generator that was only drawn from is in a state that its first one leads to, and a
seeded one is not.
"""

import sys

BLOCKS = 64  # of 624 words: how far a state is followed

_states = {}  # name of the generator -> words, as its import left them


def take_random():
    _states["python.random"] = sys.modules["random"].getstate()


def _numpy_bits():
    """NumPy's own generator, where it is the usual one."""
    generator = getattr(getattr(sys.modules.get("numpy.random"), "mtrand", None), "_rand", None)
    bits = getattr(generator, "_bit_generator", None)
    return bits if type(bits).__name__ == "MT19937" else None


def take_numpy():
    bits = _numpy_bits()
    if bits is not None:
        _states["numpy"] = bits.state


def _blocks_of_random():
    random = sys.modules["random"]
    follower = random.Random(0)
    follower.setstate(_states["python.random"])
    for _ in range(BLOCKS):
        yield follower.getstate()[1][:-1]
        follower.getrandbits(32 * 624)


def _blocks_of_numpy():
    follower = sys.modules["numpy.random"].MT19937(0)
    follower.state = _states["numpy"]
    for _ in range(BLOCKS):
        yield follower.state["state"]["key"].tobytes()
        follower.random_raw(624)


def only_drawn_from(name):
    """Whether the generator is in a state that the one after its import leads to, which is another
    one: nobody has seeded it.
    """
    if name not in _states:
        return False
    if name == "numpy":
        bits = _numpy_bits()
        return bits is not None and bits.state["state"]["key"].tobytes() in _blocks_of_numpy()
    return sys.modules["random"].getstate()[1][:-1] in _blocks_of_random()


def moved(name):
    """The generator's state, where it is not the one that its import left; else None."""
    if name not in _states:
        return None
    if name == "numpy":
        bits = _numpy_bits()
        state = bits.state if bits is not None else _states[name]
        words, began = state["state"], _states[name]["state"]
        same = words["pos"] == began["pos"] and (words["key"] == began["key"]).all()
        return None if same else state
    state = sys.modules["random"].getstate()
    return None if state == _states[name] else state


ASKED = (("random", take_random), ("numpy.random", take_numpy))
