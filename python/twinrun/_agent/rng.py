# SPDX-License-Identifier: Apache-2.0
"""Generator states, and who consumed them.

At every boundary that hooks see, the states are compared with what they were at the last one: a state that moved is recorded
with the code in between as its consumer. Where a generator keeps its state is found out once, and verified; then a boundary costs a look
at a few words of each, and the whole states are only read when these have changed and at the end of a step.
The states of `random` and NumPy are seeded from entropy and differ from run to run without meaning anything until somebody
seeds or draws: they are recorded from their first movement on.
"""
import ctypes
import random
import sys

from . import core, sites
from .core import S
from .native import INIT, RNG, STATE, TENSORS

_sources = []       # in the order in which they became known
_private = {}       # id(generator) -> source, for generators handed to loaders; the latest ones
_names = set()      # libraries whose generators are known
_cuda = None
_adopted = 0
PRIVATE = 8
_torch = None


class Source:
    """One generator. `read()` gives (address, bytes, keep-alive) of its state. `words`, when not None, is the memory in which
    it keeps it; those at `telling` (its position, the first of its state, what it has put aside) change with every draw and
    every seeding."""

    def __init__(self, name, read, always, words=None, telling=()):
        self.name, self.read = name, read
        self.used = always
        self.words, self.telling = words, telling
        self.glimpse = [words[i] for i in telling]
        self.known = self.look()

    def look(self):
        address, size, _keep = self.read()
        return S.lib.quick_digest(address, size)

    def moved(self, thorough=False):
        """Whether the state is another one than at the last call."""
        if self.words is not None:
            words = self.words
            glimpse = [words[i] for i in self.telling]
            if glimpse == self.glimpse and not thorough:
                return False
            self.glimpse = glimpse
        try:
            now = self.look()
        except RuntimeError:
            return False  # a device generator inside a graph capture
        if now == self.known:
            return False
        self.known = now
        return True

    def record(self, phase, consumer, site):
        address, size, _keep = self.read()
        core.series_bytes(phase, STATE, self.name, consumer, site, address, size)


def _read_torch(generator):
    def read():
        state = generator.get_state()
        return state.data_ptr(), state.numel(), state

    return read


def _torch_memory(generator):
    """The memory of a CPU generator's engine inside its C++ object, as words; None when it is not where it is expected.

    get_state() gives the words of the Mersenne twister as 64-bit numbers from byte 24 on; the object has them as 32-bit ones,
    with the position in front and the second half of a pair of normal samples behind.
    """
    if sys.byteorder != "little":
        return None
    state = generator.get_state()
    if state.numel() != 5056:
        return None
    wanted = bytes((ctypes.c_uint32 * 624)(*(ctypes.c_uint64 * 624).from_address(state.data_ptr() + 24)))
    implementation = ctypes.c_uint64.from_address(id(generator) + object.__basicsize__).value
    if not implementation:
        return None
    start = ctypes.string_at(implementation, 256).find(wanted[:64])
    if start < 12 or ctypes.string_at(implementation + start, len(wanted)) != wanted:
        return None
    return (ctypes.c_uint32 * 633).from_address(implementation + start - 12)


def _python_memory():
    """The state of the module-level generator of `random`: position, then words; None when it is kept elsewhere."""
    instance = getattr(random, "_inst", None)
    if type(instance) is not random.Random:
        return None
    words = (ctypes.c_uint32 * 625).from_address(id(instance) + object.__basicsize__)
    state = instance.getstate()[1]
    return words if tuple(words[1:]) == state[:-1] and words[0] == state[-1] else None


def _python_source():
    words = _python_memory()
    if words is not None:
        address = ctypes.addressof(words)
        return Source("python.random", lambda: (address, 2500, None), False, words, (0, 1))

    def read():
        data = repr(random.getstate()).encode()
        held = ctypes.create_string_buffer(data, len(data))
        return ctypes.addressof(held), len(data), held

    return Source("python.random", read, False)


def _numpy_source(numpy):
    generator = getattr(getattr(numpy, "random", None), "mtrand", None)
    bits = getattr(getattr(generator, "_rand", None), "_bit_generator", None)
    if type(bits).__name__ != "MT19937":
        return None
    address = bits.ctypes.state_address  # mt19937_state: uint32 key[624]; int pos
    state = bits.state["state"]
    words = (ctypes.c_uint32 * 625).from_address(address)
    if words[624] != state["pos"] or tuple(words[:624]) != tuple(int(k) for k in state["key"]):
        return None
    return Source("numpy", lambda: (address, 2500, bits), False, words, (624, 0))


def _discover():
    """Generators appear as libraries are imported and devices initialised."""
    if "numpy" not in _names:
        numpy = sys.modules.get("numpy")
        if numpy is not None and hasattr(numpy, "random"):
            _names.add("numpy")
            source = _numpy_source(numpy)
            if source is not None:
                _sources.append(source)
    if "torch.cuda" not in _names and _cuda is not None and _cuda.is_initialized():
        _names.add("torch.cuda")
        for i, generator in enumerate(_cuda.default_generators):
            _sources.append(Source("torch.cuda:%d" % i, _read_torch(generator), True))


def arm(torch):
    """Takes the states as they are now, before the user's code has seeded anything."""
    global _torch, _cuda
    _torch = torch
    _cuda = getattr(torch, "cuda", None)
    words = _torch_memory(torch.default_generator)
    telling = () if words is None else (2, 3, 628, 629, 630, 632)
    _sources.append(Source("torch.cpu", _read_torch(torch.default_generator), True, words, telling))
    _sources.append(_python_source())
    _discover()
    S.on_begin.append(_begin)
    S.armed.append("generator states")


def _wanted():
    return S.level >= TENSORS


def _begin():
    """First states of the process: in phase init, so that they do not shift the occurrences of a step's states."""
    if not _wanted():
        return
    _discover()
    for source in _sources:
        if source.moved(True) or S.worker is not None:
            source.used = True
        if source.used:
            source.record(INIT, "", "")
            core.saw("state")


def adopt(generator):
    """A torch.Generator that a loader or sampler draws from."""
    global _adopted
    if generator is None or generator is _torch.default_generator or id(generator) in _private:
        return
    if not _wanted() or not isinstance(generator, _torch.Generator):
        return
    if len(_private) >= PRIVATE:
        oldest = next(iter(_private))
        _sources.remove(_private.pop(oldest))
    _adopted += 1
    source = Source("generator#%d" % _adopted, _read_torch(generator), True)
    _private[id(generator)] = source  # its reader keeps the generator alive, so the id stays its own
    _sources.append(source)
    source.record(RNG, "", "")


def check(consumer, thorough=False):
    """A boundary: what moved since the last one was consumed by `consumer`."""
    if S.level < TENSORS:
        return
    where = None
    for source in _sources:
        if source.moved(thorough):
            source.used = True
            where = where or sites.user()
            source.record(RNG, consumer, where)
            core.saw("state")


def confirm():
    """The end of a step: the state of every generator in use."""
    if not _wanted():
        return
    _discover()
    check("user code", True)
    for source in _sources:
        if source.used:
            source.record(RNG, "", "")
