# SPDX-License-Identifier: Apache-2.0
"""The two reruns of a zoom. The first keeps what the operations of its window made and writes that
down. The second holds what its own operations make against it, call by call: the first call that
made something else is most likely the one that the comparison will name, so it is run again there
and then, while what it was given is still in memory.

This is a guess and no verdict. The launcher compares the two traces as it always does, and where it
names another call it makes a second pair of reruns.

Where the runs differ in the state in which torch's generator began, both end their first step
behind the first operation that draws from it unseeded: that one is what is looked for, and the rest
of the step would cost more than all before it. TWINRUN_ZOOM_DRAW = <process id of the launcher>: a
process that the job starts is another one, with draws of its own.

TWINRUN_ZOOM_KEEP = <bytes of values>; TWINRUN_ZOOM_AGAINST = <folder of the first rerun>, in the
second one. Both do the same work and ask for the same memory until one call differs, so that
neither computes on other addresses because of us. What was kept is in two files
(docs/format/run-folder.md): `values/<rank>.<pid>.calls`, a row for each output, and
`values/<rank>.<pid>.kept`, the values.
"""

import ctypes
import mmap
import os
import struct

from . import core, facts, faults, replay, steps, tensors
from .core import S

ROWS = 1 << 17  # outputs that are remembered in a window
AHEAD = 256  # rows in which a call is looked for: one run may make a call that the other does not
NOT_KEPT = (1 << 64) - 1
# call (digest of its text), digest of the output, its place in the values, its bytes, its number,
# how many outputs the call has
ROW = struct.Struct("=QQQQII")

_asked = None  # (bytes, folder or None); False: this is no such rerun
_calls = None  # of this process; False: not, or no longer
_until_draw = None  # its first step ends behind the first draw; None: not asked yet


def _anonymous(size):
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class Calls:
    """What the calls of this process made, and what those of the other rerun did."""

    def __init__(self, room, folder):
        self.folder = folder
        self.values, self.rows = _anonymous(room), _anonymous(ROWS * ROW.size)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.values))
        # values of this step go to [used, room); those of earlier steps lie in [0, earlier)
        self.room, self.used, self.count = room, 0, 0
        self.earlier = self.earlier_rows = self.kept = 0  # kept: how far values reach
        self.theirs, self.their_count, self.at = self._of_the_other(), 0, 0
        if folder is not None:
            self.their_count = len(self.theirs) // ROW.size

    def _of_the_other(self):
        """Their rows, as memory. A name that does not tell the process: nothing to hold against."""
        if self.folder is None:
            return _anonymous(mmap.PAGESIZE)
        where = os.path.join(self.folder, "values")
        begin = "%d." % S.rank
        names = [n for n in os.listdir(where) if n.startswith(begin) and n.endswith(".calls")]
        if len(names) != 1:
            raise OSError("%d processes of rank %d kept their calls" % (len(names), S.rank))
        with open(os.path.join(where, names[0]), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0 or size % ROW.size or size > ROWS * ROW.size:
                raise OSError("%s has %d bytes" % (names[0], size))
            return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)

    def keep(self, call, made):
        """Remembers the outputs of one call: (digest, memory) of each."""
        if self.count + len(made) > ROWS:
            return
        for number, (digest, memory) in enumerate(made):
            place, size = NOT_KEPT, 0
            if memory is not None:
                size = memory.numel() * memory.element_size()
                if size > self.room - self.used and self.earlier:
                    self._forget_earlier()
                if size <= self.room - self.used:
                    place = self.used
                    if size:
                        ctypes.memmove(self.address + place, memory.data_ptr(), size)
                    self.used += size
            ROW.pack_into(
                self.rows, self.count * ROW.size, call, digest, place, size, number, len(made)
            )
            self.count += 1

    def differs(self, call, made):
        """Whether the same call made something else in the other rerun. None: no such call."""
        for i in range(self.at, min(self.at + AHEAD, self.their_count)):
            row = ROW.unpack_from(self.theirs, i * ROW.size)
            if row[0] != call or row[4] != 0:
                continue
            if row[5] != len(made) or i + len(made) > self.their_count:
                return None
            self.at = i + len(made)
            return any(
                ROW.unpack_from(self.theirs, (i + k) * ROW.size)[1] != digest
                for k, (digest, _memory) in enumerate(made)
            )
        return None

    def step_ends(self):
        """What is kept so far stays for as long as later steps do not need its room."""
        self.earlier, self.earlier_rows = self.used, self.count

    def _forget_earlier(self):
        for i in range(self.earlier_rows):
            row = list(ROW.unpack_from(self.rows, i * ROW.size))
            row[2] = NOT_KEPT
            ROW.pack_into(self.rows, i * ROW.size, *row)
        self.kept = max(self.kept, self.used)
        self.used, self.room, self.earlier = 0, self.earlier, 0

    def write(self):
        """Says what this process made, in the run folder."""
        base = os.path.join(os.environ["TWINRUN_RUN_DIR"], "values")
        os.makedirs(base, exist_ok=True)
        name = os.path.join(base, "%d.%d" % (S.rank, os.getpid()))
        for end, memory, size in (
            (".kept", self.values, max(self.kept, self.used)),
            (".calls", self.rows, self.count * ROW.size),
        ):
            with open(name + end, "wb") as file, memoryview(memory) as whole:
                file.write(whole[:size])


def _begin():
    """Reads what is asked of this process; False: nothing."""
    global _asked
    try:
        if "TWINRUN_ZOOM_OP" in os.environ:
            raise ValueError("a second pair")
        room = int(os.environ["TWINRUN_ZOOM_KEEP"])
        _asked = room, os.environ.get("TWINRUN_ZOOM_AGAINST")
        if room <= 0:
            raise ValueError("no room")
        replay.set_room(room)
        return Calls(*_asked)
    except (KeyError, ValueError):
        return False
    except Exception as error:
        give_up(error)
        return False


def give_up(error):
    """Something of ours went wrong: the job and its records go on, and there is no guess."""
    global _calls
    faults.pass_on(error)
    _calls = False
    core.note("zoom.left_out", "%s: %s" % (type(error).__name__, error))


def hold(operation, args, kwargs, values, occurrence, described):
    """Before an operation runs. What its end needs, or None when nothing is kept of it."""
    global _calls
    if _calls is None:
        _calls = _begin()
    if not _calls or not core.on_main_thread() or described.among_ranks:
        return None
    if not all(map(tensors.is_host, values)):
        _calls = False  # what comes behind it follows from values that nobody looks at here
        return None
    try:
        return replay.Held(
            operation, args, kwargs, values, occurrence, described, _calls.folder is not None
        )
    except Exception as error:
        give_up(error)
        return None


def _made(values):
    """(digest, memory or None) of each output; None when one cannot be looked at."""
    if all(tensors.contiguous_bytes(t) for t in values):
        return list(zip(replay.digests_at_once(values), values))
    found = []
    for t in values:
        parts = [part for _suffix, part in tensors.parts(t)] if t.device.type == "cpu" else []
        if not parts or any(part is None for part in parts):
            return None
        digests = replay.digests([t])
        digest = digests[0]
        if len(digests) > 1:
            packed = struct.pack("=%dQ" % len(digests), *digests)
            digest = S.lib.quick_digest(packed, len(packed))
        found.append((digest, parts[0].detach().contiguous()))
    return found


def ended(held, values, scope):
    """Behind an operation: keeps what it made, and runs it again when it is the first one that
    made something else.
    """
    global _calls
    if not _calls:
        return
    try:
        made = _made(values)
        if not made:
            return
        text = "%d:%d:%s@%s" % (S.step, held.occurrence, held.described.name, scope)
        name = text.encode("utf-8", "replace")
        call = S.lib.quick_digest(name, len(name))
        _calls.keep(call, made)
        if _calls.folder is None or not _calls.differs(call, made):
            return
        _calls = False
        core.note("zoom.call", text)
        held.finish(values)
    except Exception as error:
        give_up(error)


def drew():
    """Behind an operation that may have drawn from torch's generator."""
    global _until_draw
    if _until_draw is None:
        _until_draw = os.environ.get("TWINRUN_ZOOM_DRAW") == str(os.getppid())
    if not _until_draw or S.step or not core.on_main_thread() or not facts.drawn_unseeded():
        return
    _until_draw = False
    steps.close()


def step_ends():
    """Before the library closes the step: behind its last one the launcher may end the process."""
    if not _calls:
        return
    try:
        if S.step != S.last_step:
            _calls.step_ends()
        elif _calls.folder is None:
            _end()
    except Exception as error:
        give_up(error)


def _end():
    global _calls
    calls, _calls = _calls, False
    calls.write()


def at_exit():
    """The job ends within the window."""
    if not _calls or _calls.folder is not None:
        return
    try:
        _end()
    except Exception as error:
        give_up(error)


def after_fork():
    """What a child makes is not its parent's."""
    global _calls, _until_draw
    _calls = _until_draw = False
