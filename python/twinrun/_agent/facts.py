# SPDX-License-Identifier: Apache-2.0
"""Facts about the job that explain a divergence in one line: weights that processes share, numbers
drawn before any seed was set.

Each is a note of the trace. Nothing is asked of the job that it could notice, and nothing is
replaced.
"""

import sys

from . import core, faults, fresh, tensors

_torch_seed = None  # of the default generator, when torch had just been imported
_torch_state = None  # digest of its state then


# ---------------------------------------------------------------- weights that processes share


def _mapping(address):
    """`dev:inode` of the shared file that an address lies in; None when no file does."""
    try:
        with open("/proc/self/maps") as f:
            for line in f:
                fields = line.split(None, 5)
                first, _dash, end = fields[0].partition("-")
                if int(first, 16) <= address < int(end, 16):
                    return (
                        "%s:%s" % (fields[3], fields[4])
                        if fields[1].endswith("s") and fields[4] != "0"
                        else None
                    )
    except (OSError, ValueError, IndexError) as error:
        faults.pass_on(error)
    return None


def shared_weights(label, parameters):
    """Before an optimizer's first step in this process: which of its weights lie in memory that
    other processes have, too.
    """
    shared = [
        p for p in parameters if type(p) in tensors._plain and tensors._simple(p) and p.is_shared()
    ]
    if not shared:
        return
    places = []
    for p in shared:
        place = _mapping(p.data_ptr())
        if place is not None and place not in places:
            places.append(place)
    core.note(
        "weights.shared",
        "%s: %d of %d in %s" % (label, len(shared), len(parameters), " ".join(places[:64]) or "?"),
    )


# ---------------------------------------------------------------- seeds


def _digest(generator):
    state = generator.get_state()
    return core.S.lib.quick_digest(state.data_ptr(), state.numel())


def arm(torch):
    """Right after the import: the seed that torch has drawn for itself from the system's entropy,
    and the state that it makes.
    """
    global _torch_seed, _torch_state
    _torch_seed, _torch_state = (
        torch.default_generator.initial_seed(),
        _digest(torch.default_generator),
    )


def drawn_unseeded():
    """Has torch's generator been drawn from, with the seed that torch drew for itself?"""
    generator = sys.modules["torch"].default_generator
    return generator.initial_seed() == _torch_seed and _digest(generator) != _torch_state


def first_draw(source, consumer, where):
    """A generator seems to have moved for the first time: had it been given a seed? Told of the
    three that everybody uses.
    """
    if source.seeded is not None:
        return
    if source.name in ("python.random", "numpy"):
        source.seeded = not fresh.only_drawn_from(source.name)
        if not source.seeded:
            _note_unseeded("unseeded." + source.name, consumer, where)
        return
    generator = sys.modules["torch"].default_generator
    if source.name == "torch.cpu" and _digest(generator) == _torch_state:
        return  # a library has set it to what it was: it only lies otherwise in memory
    source.seeded = source.name != "torch.cpu" or generator.initial_seed() != _torch_seed
    if not source.seeded:
        _note_unseeded("unseeded", consumer, where)


def _note_unseeded(key, consumer, where):
    place = where.partition("\n")[0]
    core.note(key, "%s%s" % (consumer, " at " + place if place else ""))
