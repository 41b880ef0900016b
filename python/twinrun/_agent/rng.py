# SPDX-License-Identifier: Apache-2.0
"""Generator states, and who consumed them.

At every boundary that hooks see, the states are compared with what they were at the last one: a state that moved is recorded
with the code in between as its consumer. Only a state that moves is looked at closely, so that a boundary costs about 4 us.
The states of `random` and NumPy are seeded from entropy and differ from run to run without meaning anything until somebody
seeds or draws: they are recorded from their first movement on.
"""
import ctypes
import random
import sys

from . import core, sites
from .core import S, hook
from .native import INIT, RNG, STATE, TENSORS

_sources = []       # in the order in which they became known
_private = {}       # id(generator) -> source, for generators handed to loaders; the latest ones
_names = set()      # libraries whose generators are known
_cuda = None
_adopted = 0
PRIVATE = 8
_torch = None


class Source:
    """One generator. `read()` gives (address, bytes, keep-alive)."""

    def __init__(self, name, read, always):
        self.name, self.read = name, read
        self.used = always
        self.known = self.look()

    def look(self):
        address, size, _keep = self.read()
        return S.lib.quick_digest(address, size)

    def record(self, phase, consumer, site):
        address, size, _keep = self.read()
        core.series_bytes(phase, STATE, self.name, consumer, site, address, size)


def _read_torch(generator):
    def read():
        state = generator.get_state()
        return state.data_ptr(), state.numel(), state

    return read


def _python_memory():
    """Address of the state of the module-level generator of `random`; 0 when this interpreter keeps it elsewhere."""
    instance = getattr(random, "_inst", None)
    if type(instance) is not random.Random:
        return 0
    address = id(instance) + object.__basicsize__
    words = (ctypes.c_uint32 * 625).from_address(address)
    state = instance.getstate()[1]
    return address if tuple(words[1:]) == state[:-1] and words[0] == state[-1] else 0


def _python_source():
    address = _python_memory()
    if address:
        return Source("python.random", lambda: (address, 2500, None), False)

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
    return Source("numpy", lambda: (address, 2500, bits), False)


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
    _sources.append(Source("torch.cpu", _read_torch(torch.default_generator), True))
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
        now = source.look()
        if now != source.known or S.worker is not None:
            source.used, source.known = True, now
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


def check(consumer, where=None):
    """A boundary: what moved since the last one was consumed by `consumer`. `where`: source lines, looked up if needed."""
    if S.level < TENSORS:
        return
    digest = S.lib.quick_digest
    for source in _sources:
        try:
            address, size, _keep = source.read()
        except RuntimeError:
            continue  # a device generator inside a graph capture
        now = digest(address, size)
        if now != source.known:
            source.known, source.used = now, True
            if where is None:
                where = sites.user()
            source.record(RNG, consumer, where)
            core.saw("state")


def confirm():
    """The end of a step: the state of every generator in use."""
    if not _wanted():
        return
    _discover()
    check("user code")
    for source in _sources:
        if source.used:
            source.record(RNG, "", "")


@hook
def enter():
    """Before a hooked region: what moved was drawn by the code before it."""
    if core.begin():
        check("user code")


@hook
def leave(consumer):
    """After a hooked region."""
    if S.begun:
        check(consumer)


def forget():
    """In a DataLoader worker: all states count from the beginning."""
    for source in _sources:
        source.used = True
        source.known = source.look()
