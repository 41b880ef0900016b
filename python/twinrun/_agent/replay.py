# SPDX-License-Identifier: Apache-2.0
"""The suspect operation of a zoom: its inputs and outputs are kept as raw bytes, and it is run
again on the same inputs.

TWINRUN_ZOOM_OP = <step>:<occurrence>:<operation>, with @<scope> behind it where the same operation
runs in several modules.
"""

import ctypes
import functools
import os
import random
import sys
import time

from . import core, faults, tensors, vote
from .core import S

REPLAYS = 20
SECONDS = 5.0
KEEP_BYTES = 256 << 20

_suspect = None
_room = None


def _parse(text):
    step, occurrence, operation = text.split(":", 2)
    operation, at, scope = operation.partition("@")
    return int(step), int(occurrence), operation, scope if at else None


def set_room(size):
    """Bytes of values that this process may write."""
    global _room
    _room = size


def wanted(operation, scope, occurrence):
    """Whether this is the operation to keep. Each is kept once."""
    global _suspect, _room
    if _suspect is None:
        try:
            _suspect = _parse(os.environ["TWINRUN_ZOOM_OP"])
            _room = int(os.environ.get("TWINRUN_ZOOM_KEEP") or KEEP_BYTES)
        except (KeyError, ValueError):
            _suspect = ()
    if (
        not _suspect
        or S.step != _suspect[0]
        or occurrence != _suspect[1]
        or operation != _suspect[2]
    ):
        return False
    if _suspect[3] is not None and scope != _suspect[3]:
        return False
    _suspect = ()
    return True


def _write(kind, number, occurrence, tensor):
    """Raw logical bytes; what exceeds the room is left out."""
    global _room
    for _suffix, part in tensors.parts(tensor)[:1]:
        if part is None:
            return
        part = part.detach().contiguous()
        size = part.numel() * part.element_size()
        if size > _room:
            core.note("zoom.left_out", "%s%d: %d bytes, %d left" % (kind, number, size, _room))
            return
        _room -= size
        folder = os.path.join(os.environ["TWINRUN_RUN_DIR"], "values")
        try:
            os.makedirs(folder, exist_ok=True)
            path = os.path.join(
                folder, "%d.s%d.o%d.%s%d.raw" % (S.rank, S.step, occurrence, kind, number)
            )
            with open(path, "wb") as file:
                if size:
                    file.write(ctypes.string_at(part.data_ptr(), size))
        except OSError as error:
            faults.pass_on(error)
            core.note("zoom.left_out", "%s%d: %s" % (kind, number, error))


def digests(values):
    found = []
    for t in values:
        for _suffix, part in tensors.parts(t):
            if part is not None:
                part = part.detach().contiguous()
                size = part.numel() * part.element_size()
                found.append(S.lib.quick_digest(part.data_ptr(), size) if size else 0)
    return found


_arrays = {}  # number of values -> (addresses and sizes, digests), for digests_at_once


def digests_at_once(values):
    """digests(), in one call where all values are plain and contiguous."""
    count = len(values)
    arrays = _arrays.get(count)
    if arrays is None:
        arrays = (ctypes.c_uint64 * (2 * count or 1))(), (ctypes.c_uint64 * (count or 1))()
        _arrays[count] = arrays
    regions, found = arrays
    at = 0
    for t in values:
        memory = tensors.contiguous_bytes(t)
        if memory is None:
            return digests(values)
        regions[at], regions[at + 1] = memory
        at += 2
    S.lib.quick_digests(regions, count, found)
    return found[:count]


class Kept:
    """The suspect between its start and its end: copies of its inputs and of the
    generator states.
    """

    def __init__(self, operation, args, kwargs, values, occurrence, described):
        self._take(operation, args, kwargs, values, occurrence, described)
        self._keep(args, kwargs)
        for i, t in enumerate(values):
            _write("in", i, occurrence, t)

    @tensors.without_gradients
    def _keep(self, args, kwargs):
        self.args, self.kwargs = self._copy(args), self._copy(kwargs)

    def _take(self, operation, args, kwargs, values, occurrence, described):
        self.operation, self.described, self.occurrence = operation, described, occurrence
        self.torch = torch = tensors._torch
        self.devices = sorted({t.device.index for t in values if t.is_cuda})
        self.own = [
            value for value in (*args, *kwargs.values()) if isinstance(value, torch.Generator)
        ]
        self.random = self._generators()

    def _generators(self):
        """(function that sets it, state) of each generator that the operation may draw from: one
        written in Python may use any.
        """
        torch, numpy = self.torch, sys.modules.get("numpy.random")
        found = [(torch.set_rng_state, torch.get_rng_state()), (random.setstate, random.getstate())]
        found += [
            (functools.partial(torch.cuda.set_rng_state, device=i), torch.cuda.get_rng_state(i))
            for i in self.devices
        ]
        found += [(generator.set_state, generator.get_state()) for generator in self.own]
        if numpy is not None:
            found.append((numpy.set_state, numpy.get_state()))
        return found

    def _set_generators(self, states):
        for put, state in states:
            put(state)

    def _copy(self, value):
        if isinstance(value, self.torch.Tensor):
            return value.detach().clone()
        if isinstance(value, (list, tuple)):
            return type(value)(self._copy(v) for v in value)
        if isinstance(value, dict):
            return {k: self._copy(v) for k, v in value.items()}
        return value

    def finish(self, outputs):
        for i, t in enumerate(outputs):
            _write("out", i, self.occurrence, t)
        if self.described.among_ranks:
            return
        now = self._generators()
        replays, disagreeing, results = 0, 0, set()
        expected = tuple(digests(outputs))
        end = time.monotonic() + SECONDS
        try:
            while replays < REPLAYS and (replays < 2 or time.monotonic() < end):
                results.add(self._again())
                replays += 1
                disagreeing += self.last != expected
            if all(t.device.type == "cpu" for t in outputs):
                self._vote(results)
        finally:
            self._set_generators(now)
        core.note("zoom.replay", "%s %d %d" % (self.described.name, replays, disagreeing))

    @tensors.without_gradients
    def _again(self):
        """The digests of what it gives on its recorded inputs."""
        self._set_generators(self.random)
        args, kwargs = self._copy(self.args), self._copy(self.kwargs)
        result = self.operation(*args, **kwargs)
        self.last = tuple(digests(self._outputs(args, kwargs, result)))
        return self.last

    def _vote(self, results):
        held = vote.hold(self.torch, self._again)
        if held is None:
            return
        cores, rounds, ballots = held
        here, there = (max(len(pair[i]) for pair in ballots.values()) for i in (0, 1))
        core.note(
            "zoom.vote",
            "%s %s %d %d %d %d %d"
            % (self.described.name, vote.verdict(ballots, results), *cores, rounds, here, there),
        )

    def _outputs(self, args, kwargs, result):
        from . import ops

        return ops.outputs(self.described, args, kwargs, result)


class Held(Kept):
    """A call that may turn out to be the suspect, as each one of a zoom may: what it was given is
    held where it is, and copied only where the call says that it writes there. `compares`: it may
    be run again; else only the copies are made, so that memory is asked for alike.
    """

    def __init__(self, operation, args, kwargs, values, occurrence, described, compares):
        self.operation, self.described, self.occurrence = operation, described, occurrence
        self.args, self.kwargs, self.values = args, kwargs, values
        self.torch = tensors._torch
        if described.writes:
            self._copy_what_is_written(args, kwargs, values)
        if not compares:
            return
        # most operations of torch's own draw from no generator: finish() makes sure of that
        self.draws = described.may_draw
        self.devices, self.own, self.random = (), (), ()
        if self.draws:
            self._take(operation, args, kwargs, values, occurrence, described)
        self.before = digests_at_once(self.values)

    @tensors.without_gradients
    def _copy_what_is_written(self, args, kwargs, values):
        self.args, self.kwargs, copies = list(args), dict(kwargs), {}
        for i, name in self.described.writes:
            if i < len(args):
                self.args[i] = self._copy_of_written(args[i], copies)
            elif name in kwargs:
                self.kwargs[name] = self._copy_of_written(kwargs[name], copies)
        self.values = [copies.get(id(t), t) for t in values]

    def _copy_of_written(self, value, copies):
        if isinstance(value, self.torch.Tensor):
            copies[id(value)] = copy = value.detach().clone()
            return copy
        if isinstance(value, (list, tuple)):
            return type(value)(self._copy_of_written(v, copies) for v in value)
        return value

    def finish(self, outputs):
        """Runs it again, when what it was given is still what it was: an operation may write to
        more than it says, and draw although it says that it does not.
        """
        if digests_at_once(self.values) != self.before:
            core.note("zoom.left_out", "%s wrote to what it was given" % self.described.name)
            return
        if not self.draws and self._draws_in_secret():
            core.note("zoom.left_out", "%s drew from a generator" % self.described.name)
            return
        for i, t in enumerate(self.values):
            _write("in", i, self.occurrence, t)
        super().finish(outputs)

    def _draws_in_secret(self):
        before = self._generators()
        try:
            self._again()
            after = self._generators()
        finally:
            self._set_generators(before)
        return any(_plain(x) != _plain(y) for (_f, x), (_g, y) in zip(before, after))


def _plain(state):
    """A generator's state as something that can be compared."""
    if isinstance(state, tuple):
        return tuple(_plain(part) for part in state)
    return state.tolist() if hasattr(state, "tolist") else state
