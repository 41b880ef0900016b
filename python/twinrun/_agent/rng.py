# SPDX-License-Identifier: Apache-2.0
"""Generator states, and who consumed them.

At every boundary that hooks see, the states are compared with what they were at the last one: a
state that moved is recorded with the code in between as its consumer. Where a generator keeps its
state is found out once, and verified; then a boundary costs one call that digests the states where
they lie. The states of `random` and NumPy are seeded from entropy and differ from run to run
without meaning anything until somebody seeds or draws: they are recorded from their first movement
on.
"""

import ctypes
import random
import sys

from . import core, facts, faults, sites, swift
from .core import S
from .native import INIT, RNG, STATE, TENSORS

_sources = []  # in the order in which they became known
_asked = []  # those of them whose memory is not known
_private = {}  # id(generator) -> source, for generators handed to loaders; the latest ones
_names = set()  # libraries whose generators are known
_cuda = None
_adopted = 0
PRIVATE = 8
_torch = None
_armed = False


class Source:
    """One generator. `read()` gives (address, bytes, keep-alive) of its state. `memory`: the ctypes
    array in which it keeps it, or None when that is not known; then every look asks the generator.
    """

    def __init__(self, name, read, always, memory=None):
        self.name, self.read, self.memory = name, read, memory
        self.used = always
        self.shown = None  # digest of the state recorded last
        # once it is known: whether somebody had set a seed before the first draw
        self.seeded = None
        # what read() gave and its digest, until the state moves; only where its memory is watched
        self.kept = None
        self.known = None if memory is not None else self.look()

    def look(self):
        address, size, _keep = self.read()
        return S.lib.quick_digest(address, size)

    def moved(self):
        """Whether the state is another one than at the last call; for sources whose memory is not
        known.
        """
        try:
            now = self.look()
        except RuntimeError as error:
            faults.pass_on(error)
            return False  # a device generator inside a graph capture
        if now == self.known:
            return False
        self.known = now
        return True

    def record(self, phase, consumer, site, again=True):
        """again: also when it is the state recorded last. Returns whether it was recorded."""
        kept = self.kept
        if kept is None:
            address, size, keep = self.read()
            kept = address, size, keep, S.lib.quick_digest(address, size)
            if self.memory is not None:
                self.kept = kept
        address, size, _keep, digest = kept
        if digest == self.shown and not again:
            return False
        self.shown = digest
        core.series_bytes(phase, STATE, self.name, consumer, site, address, size)
        return True


class Watched:
    """The sources whose memory is known, all looked at by one call."""

    def __init__(self):
        self.sources, self.regions, self.digests, self.known = [], None, None, b""
        self.swift = None  # a copy of what the states were when they were looked at last

    def add(self, source):
        sources = [*self.sources, source]
        regions = (ctypes.c_uint64 * (2 * len(sources)))()
        for i, each in enumerate(sources):
            regions[2 * i : 2 * i + 2] = ctypes.addressof(each.memory), ctypes.sizeof(each.memory)
        digests = ctypes.create_string_buffer(8 * len(sources))
        S.lib.quick_digests(regions, len(sources), digests)
        known = self.known + digests.raw[-8:]  # a movement of the others is still to be told
        self.sources, self.regions, self.digests, self.known = sources, regions, digests, known
        self.swift = None

    def moved(self):
        """The sources whose state is another one than at the last call."""
        if self.swift is not None and swift.same(self.swift):
            return ()
        self._copy()
        S.lib.quick_digests(self.regions, len(self.sources), self.digests)
        now, before = self.digests.raw, self.known
        if now == before:
            return ()
        self.known = now
        moved = [
            source
            for i, source in enumerate(self.sources)
            if now[8 * i : 8 * i + 8] != before[8 * i : 8 * i + 8]
        ]
        for source in moved:
            source.kept = None
        return moved

    def _copy(self):
        """Before the digests: what another thread draws in between is then told the next time."""
        if self.swift is not None:
            swift.take(self.swift)
        elif swift.ON:
            regions = self.regions
            self.swift = swift.new_memory(
                [(regions[2 * i], regions[2 * i + 1]) for i in range(len(self.sources))]
            )


_watched = Watched()


def add(source):
    _sources.append(source)
    if source.memory is not None:
        _watched.add(source)
    else:
        _asked.append(source)


def remove(source):
    """Of one whose memory is not known: its generator is gone."""
    if source in _asked:
        _sources.remove(source)
        _asked.remove(source)


def _moved():
    found = _watched.moved() if _watched.sources else ()
    if _asked:
        found = [*found, *(source for source in _asked if source.moved())]
    return found


def _read_torch(generator):
    def read():
        state = generator.get_state()
        return state.data_ptr(), state.numel(), state

    return read


def _torch_memory(generator):
    """The memory of a CPU generator's engine inside its C++ object, as words; None when it is not
    where it is expected.

    get_state() gives the words of the Mersenne twister as 64-bit numbers from byte 24 on; the
    object has them as 32-bit ones, with the position in front and the second half of a pair of
    normal samples behind.
    """
    if sys.byteorder != "little":
        return None
    state = generator.get_state()
    if state.numel() != 5056:
        return None
    wanted = bytes(
        (ctypes.c_uint32 * 624)(*(ctypes.c_uint64 * 624).from_address(state.data_ptr() + 24))
    )
    implementation = ctypes.c_uint64.from_address(id(generator) + object.__basicsize__).value
    if not implementation:
        return None
    start = ctypes.string_at(implementation, 256).find(wanted[:64])
    if start < 12 or ctypes.string_at(implementation + start, len(wanted)) != wanted:
        return None
    return (ctypes.c_uint32 * 633).from_address(implementation + start - 12)


def _python_memory():
    """The state of the module-level generator of `random`: position, then words; None when it is
    kept elsewhere.
    """
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
        return Source("python.random", lambda: (address, 2500, None), False, words)

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
    return Source("numpy", lambda: (address, 2500, bits), False, words)


def _discover():
    """Generators appear as libraries are imported and devices initialised."""
    if "numpy" not in _names:
        numpy = sys.modules.get("numpy")
        if numpy is not None and hasattr(numpy, "random"):
            _names.add("numpy")
            source = _numpy_source(numpy)
            if source is not None:
                add(source)
    if "torch.cuda" not in _names and _cuda is not None and _cuda.is_initialized():
        _names.add("torch.cuda")
        for i, generator in enumerate(_cuda.default_generators):
            add(Source("torch.cuda:%d" % i, _read_torch(generator), True))


def arm(torch):
    """Takes the states as they are now, before the user's code has seeded anything."""
    global _torch, _cuda
    _torch = torch
    _cuda = getattr(torch, "cuda", None)
    add(
        Source(
            "torch.cpu",
            _read_torch(torch.default_generator),
            True,
            _torch_memory(torch.default_generator),
        )
    )
    facts.arm(torch)
    arm_without_torch()


def arm_without_torch():
    """The generators of Python and NumPy: all that a library needs that trains without torch."""
    global _armed
    if _armed:
        return
    _armed = True
    add(_python_source())
    _discover()
    S.on_begin.append(_begin)
    S.armed.append("generator states")


def _wanted():
    return S.level >= TENSORS


def _begin():
    """First states of the process: in phase init, so that they do not shift the occurrences of a
    step's states.
    """
    if not _wanted():
        return
    _discover()
    moved = _moved()
    for source in _sources:
        if source in moved:
            facts.first_draw(source, "the program before its first record", "")
        if source in moved or S.worker is not None:
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
        remove(_private.pop(next(iter(_private))))
    _adopted += 1
    source = Source("generator#%d" % _adopted, _read_torch(generator), True)
    source.generator = generator
    # its reader keeps the generator alive, so the id stays its own
    _private[id(generator)] = source
    add(source)
    source.record(RNG, "", "")


def check(consumer):
    """A boundary: what moved since the last one was consumed by `consumer`."""
    if S.level < TENSORS:
        return
    if _watched.swift is not None and not _asked and swift.same(_watched.swift):
        return
    moved = _moved()
    if moved:
        where = sites.user()
        for source in moved:
            if source.seeded is None:
                facts.first_draw(source, consumer, where)
            # a state set back to itself only lies otherwise in memory
            if source.record(RNG, consumer, where, False):
                source.used = True
                core.saw("state")


def resync():
    """Takes the states as they are for known: it was us who set them."""
    _moved()


def confirm():
    """The end of a step: the state of every generator in use."""
    if not _wanted() or not _sources:
        return
    _discover()
    check("user code")
    for source in _sources:
        if source.used:
            source.record(RNG, "", "")
