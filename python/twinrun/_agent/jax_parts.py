# SPDX-License-Identifier: Apache-2.0
"""Large arrays that jitted functions give back: digested once, and those that a function hands to
its own next call in parts that take turns (parts.py).

What the last call of a function gave back and its next call is given is state: weights, moments. It
is as large as the model, and to read all of it in each step would cost more than watching may. So a
call records one part of it, the next call the next one. All parts are recorded in a function's
first TURNS calls, in the last step that `--steps` lets pass, where the state ends because another
one takes its place, and at the end of the process. All other results are recorded whole.

An array of JAX does not change, so its digest is kept as long as it lives, for the argument that it
becomes. That goes for results alone: their memory is JAX's own. What was made of an array of NumPy,
or came by DLPack, may lie in memory that somebody else writes to.

To read the state when the job has let go of it, a second object of JAX over the same memory is
held. It keeps JAX from nothing: with the one the other is donated. It is let go of when the next
call is over, or at once when the first one dies, and then its digests are taken.
"""

import ctypes
import functools
import os

from . import core, faults, jax_arrays, native, parts, refs, shards, tensors
from .core import S
from .native import (
    DIGESTED,
    ITEM_BYTES,
    PART,
    SKETCH,
    STATS,
    TENSORS,
    UNOBSERVED,
    Items,
    pack_item,
)

OPEN = 64  # functions whose last results are held

_known = refs.AtOnce()  # large arrays that a call gave back -> Known
_twins = refs.AtOnce()
_open = {}  # jax_calls.Names -> {place: End}


class Known:
    """A large array that call number `call` of `names` gave back at `place`, and the digests that
    were taken of it: pieces is [(first, end, address)], held the memory of the digests.
    """

    __slots__ = ("names", "call", "place", "code", "count", "pieces", "held", "end")

    def __init__(self, names, place, code, count):
        self.names, self.call, self.place = names, names.calls, place
        self.code, self.count = code, count
        self.pieces, self.held, self.end = [], None, None


class End:
    """State as a call has left it, until its next call is over. step: in which all parts of it were
    recorded.
    """

    __slots__ = ("names", "place", "code", "count", "twin", "reference", "digests", "step")

    def __init__(self, known):
        self.names, self.place = known.names, known.place
        self.code, self.count = known.code, known.count
        self.twin = self.reference = self.digests = self.step = None

    def hold(self, value):
        self.twin = value.addressable_data(0)  # which JAX keeps, too, as long as the value lives
        _twins.put(self.twin, True)
        self.reference = refs.Ref(value, functools.partial(_dies, self))

    def drop(self):
        self.twin = self.reference = None

    def take(self):
        """Takes the digests of all parts, as long as they can be read."""
        twin = self.twin
        self.drop()
        if twin is None or not S.on:
            return
        try:
            if not twin.is_deleted():
                at = twin.unsafe_buffer_pointer()
                rows = [(at, self.code, *bounds) for bounds in parts.bounds(self.count)]
                self.digests = _digest(rows)
        except Exception as error:
            faults.pass_on(error)

    def record(self, pending):
        self.take()
        for i, (first, end) in enumerate(parts.bounds(self.count)):
            number = self.names.result(self.place, parts.part_name("", first, end))
            at, flags = 0, UNOBSERVED
            if self.digests is not None:
                at, flags = ctypes.addressof(self.digests) + 16 * i, DIGESTED
            _put(pending, number, at, self.code, first, end, self.count, flags)
        pending.keep.append(self.digests)


@core.while_freed
def _dies(end, _reference):
    if end.reference is not None and not S.finished:
        end.take()


def _digest(rows):
    """Digests, two words each, of rows (address of the whole, code, first, end)."""
    items, size = Items(len(rows)), 0
    for i, (pointer, code, first, end) in enumerate(rows):
        width = native.WIDTH[code]
        size += width * (end - first)
        at = pointer + width * first
        pack_item(items.buffer, i * ITEM_BYTES, at, 0, 0, end - first, first, 0, 0, 0, code, 1, 0)
    found = (ctypes.c_uint64 * (2 * len(rows)))()
    digests = S.lib.digests_long if size >= tensors.LONG_BYTES else S.lib.digests
    digests(items.address, len(rows), found)
    return found


def _put(pending, number, at, code, first, end, count, flags):
    pending.put(number, at, code, end - first, (end - first,), None, flags | PART, first, count)


# ---------------------------------------------------------------- what a call is given


def came_back(names, values, donated):
    """The places of results of the last call that this one is given. What another function is given
    for good is looked at before it is gone.
    """
    found, known = set(), _known.several(values)
    for i, one in enumerate(known):
        if one is None:
            continue
        if one.names is names:
            if one.call + 1 == names.calls:
                found.add(one.place)
        elif one.end is not None and i < len(donated) and donated[i]:
            one.end.take()
    return found


def end_of_the_others(names, back):
    """Records the state that has not come back: another one takes its place."""
    ends = _open.get(names)
    if not ends or ends.keys() <= back:
        return
    pending = tensors.pending()
    for place in [place for place in ends if place not in back]:
        ends.pop(place).record(pending)
    pending.flush()


def record_arguments(names, values, places):
    """Records the large ones of what a call is given."""
    pending = tensors.pending()
    for place in places:
        value = values[place]
        known = _known.get(value)
        if known is None:
            series = functools.partial(names.argument, place)
            jax_arrays.add(pending, series, value, STATS | SKETCH)
            continue
        pending.keep.append(known.held)
        for first, end, at in known.pieces:
            if end - first == known.count:
                number = names.argument(place)
                pending.put(number, at, known.code, end, value.shape, None, DIGESTED)
            else:
                number = names.argument(place, parts.part_name("", first, end))
                _put(pending, number, at, known.code, first, end, known.count, DIGESTED)
    pending.flush()


# ---------------------------------------------------------------- what a call gives back


def _everything(names):
    last = S.last_step is not None and S.step >= S.last_step
    return last or names.calls < parts.TURNS or os.environ.get("TWINRUN_PARTS") == "all"


def record_results(names, values, places, back):
    """Records the large ones of what a call gave back; back: places of state."""
    if not places:
        names.calls += 1
        return
    everything, turn = _everything(names), names.calls % parts.TURNS
    state = back if S.level == TENSORS else ()
    known, rows, first_row = [], [], []
    for place in places:
        value = values[place]
        one = Known(names, place, jax_arrays.code_of(value.dtype), value.size)
        pieces = [(0, one.count)]
        if place in state:
            pieces = parts.bounds(one.count)
            pieces = pieces if everything else [pieces[turn]]
        at = value.unsafe_buffer_pointer()
        known.append((one, value, at))
        first_row.append(len(rows))
        rows += [(at, one.code, *bounds) for bounds in pieces]
    found = _digest(rows)
    pending = tensors.pending()
    pending.keep.append(found)
    for (one, value, pointer), row in zip(known, first_row):
        one.held = found
        if one.place in state:
            _add_parts(pending, one, pointer, row, everything, turn)
        else:
            one.pieces = [(0, one.count, ctypes.addressof(found) + 16 * row)]
            _add_whole(pending, one, value, pointer)
        _known.put(value, one)
        _follow(one, value, found, row, one.place in state, everything)
    pending.flush()
    names.calls += 1


def _sketched():
    every = S.lib.sketch_every()
    return every and S.step % every == 0


def _add_whole(pending, one, value, pointer):
    """In some steps it is read again, for statistics and sketches."""
    number, (_first, _end, digest) = one.names.result(one.place), one.pieces[0]
    at, flags = (pointer, STATS | SKETCH) if _sketched() else (digest, DIGESTED)
    pending.put(number, at, one.code, one.count, value.shape, None, flags)


def _add_parts(pending, one, pointer, row, everything, turn):
    if "parts" not in S.seen:
        parts.tell()
    one.names.parted.add(one.place)
    bounds, digests = parts.bounds(one.count), ctypes.addressof(one.held) + 16 * row
    for i, each in enumerate(range(len(bounds)) if everything else (turn,)):
        first, end = bounds[each]
        number = one.names.result(one.place, parts.part_name("", first, end))
        flags = SKETCH if _sketched() else 0
        if each == turn and parts.counted(S.step):
            flags |= STATS
        at = pointer + native.WIDTH[one.code] * first
        if not flags:
            at, flags = digests + 16 * i, DIGESTED
        _put(pending, number, at, one.code, first, end, one.count, flags)
        if not everything:
            one.pieces = [(first, end, digests)]
    if everything:
        words = one.held[2 * row : 2 * (row + len(bounds))]
        one.held = shards.sum_of(zip(words[::2], words[1::2]))
        one.pieces = [(0, one.count, ctypes.addressof(one.held))]


def _follow(one, value, found, row, is_state, everything):
    """Keeps what is needed to record all parts of it when no next call comes."""
    names = one.names
    if one.place not in names.parted:
        return
    ends = _open.get(names)
    if ends is None:
        if len(_open) >= OPEN:
            _record_ends(next(iter(_open)))
        ends = _open[names] = {}
    before = ends.get(one.place)
    if before is not None:
        before.drop()
    end = one.end = ends[one.place] = End(one)
    if is_state and everything:
        count = len(parts.bounds(one.count))
        end.digests = (ctypes.c_uint64 * (2 * count))(*found[2 * row : 2 * (row + count)])
        end.step = S.step
    else:
        end.hold(value)


# ---------------------------------------------------------------- the end


def _record_ends(names):
    pending = tensors.pending()
    for end in _open.pop(names).values():
        if end.step != S.step:
            end.record(pending)
        end.drop()
    pending.flush()


def record_all_ends():
    for names in list(_open):
        _record_ends(names)


def _step_ends():
    if S.last_step is not None and S.step >= S.last_step:
        record_all_ends()


def _without_twins(original):
    """The job is not to find what we hold among all arrays that there are."""

    def live_arrays(platform=None):
        return [array for array in original(platform) if _twins.get(array) is None]

    functools.update_wrapper(live_arrays, original)
    del live_arrays.__wrapped__
    return live_arrays


def arm(jax, api):
    S.on_step_ends.append(_step_ends)
    S.on_fork.append(_open.clear)
    jax.live_arrays = api.live_arrays = _without_twins(jax.live_arrays)
