# SPDX-License-Identifier: Apache-2.0
"""Replay of the order of messages over gloo: a receive that leaves its source open takes the
message that it took in a recorded run (docs/internals/replay-order.md).

A receive that was posted cannot be taken back. So nothing is posted before the recorded message
is known to be under way (sent.py): until then the program holds a `Held`, a work of our own. What
waits there is posted in its order. So the rank can be given up at every moment: what waits is
posted as the program asked for it, and what follows is what gloo would have done. That comes about
before a receive from a named source, where an open one that could take its message waits: gloo
gives it to the named one, and MPI would give it to the other.

A blocking receive looks by itself; for others a thread looks, whatever the program does meanwhile.
"""

import os
import sys
import threading
import time

from . import core, faults, order_file, sent
from .core import T
from .order_file import NOBODY, TAGS

NOTE, TOLD_NOTE, TOLD_FILE = "match-order", "match-order-told", "order.released"

TOLD_EVERY = 0.1  # seconds between looks for other ranks' word
LOOK_EVERY = 0.001  # seconds between looks for messages, at the most
PAUSE = 0.00005  # and at first, of a receive that blocks
LATE_EVERY = 0.01  # seconds between looks whether it is late
STOP_WITHIN = 2.0


def _tag(tag):
    return "a tag of %d or more" % TAGS if tag < 0 or tag >= TAGS else "tag %d" % tag


def _on(group):
    return "group %s" % group if group else "the default group"


def _c10d():
    return sys.modules["torch.distributed"].distributed_c10d


def name_of(group):
    """As records name it: none for the default group."""
    return "" if group is _c10d().group.WORLD else str(group.group_name)


def span_of(group, tensors):
    """Seconds after which the group's waits end; None: not known."""
    try:
        return group._get_backend(tensors[0].device).options._timeout.total_seconds()
    except (AttributeError, RuntimeError, IndexError):
        return None


def _is_gloo(group, tensors):
    """Of a group with several backends each has messages of its own."""
    try:
        return "gloo" in group._get_backend(tensors[0].device).name()
    except (AttributeError, RuntimeError, IndexError):
        return False


class Request:
    """A receive that waits to be posted."""

    def __init__(self, group, tensors, tag, expected):
        self.group, self.tensors, self.tag = group, tensors, tag
        self.expected = expected  # (rank of the job, rank of the group) that it is to take
        self.number = 0
        self.key = None
        self.began = time.monotonic()
        self.late_next = self.began  # when it is looked whether it is late
        self.late_since = None  # another message could be taken since then
        self.most = None  # seconds that it may be held: half of its time; None: no bound
        self.inner = self.error = None
        self.posted = threading.Event()


class Replay:
    def __init__(self, folder, receivers, receive, receive_any):
        self._receive, self._receive_any = receive, receive_any  # PyTorch's own
        self.folder, self.receivers = folder, receivers
        self.lock = threading.RLock()
        self.line = []  # requests, in the order of the program's calls
        self.on = True
        self.rank = self.sender = self.receiver = self.order = None
        self.meetings = self.posted_open = 0
        self.told_at = 0.0
        self.thread, self.wake, self.stopping = None, threading.Event(), False

    # ---- ranks that meet, and those that part

    def joins(self):
        """The default group is made: the ranks agree on a word, and this one opens its files."""
        c10d = _c10d()
        with self.lock:
            self.part()
            self.meetings += 1
            self.rank = c10d.get_rank()
            try:
                word = sent.agree(c10d._get_default_store(), self.meetings)
                self.sender = sent.Sender(self.folder, word, self.rank, self.receivers)
                self.receiver = sent.Receiver(self.folder, word, self.rank, c10d.get_world_size())
            except Exception as error:
                faults.pass_on(error)
                self.release(
                    "rank %d: the ranks cannot tell what they send: %s" % (self.rank, error)
                )
                return
            if self.order is None and self.rank in self.receivers:
                self.order = order_file.read(self.folder, self.rank)
                if self.order is None:
                    self.release("rank %d: its order file cannot be read" % self.rank)

    def parts(self, group):
        """A group is about to be destroyed; None: the default one. Others may go on."""
        if group is None or group is _c10d().group.WORLD:
            self.part()

    def part(self):
        """The default group ends: what waits is posted, as the program asked for it."""
        with self.lock:
            if self.line:
                self.release("%s: the process group ends" % self._name(self.line[0]))
            for end in (self.sender, self.receiver):
                if end is not None:
                    end.close()
            self.sender = self.receiver = None

    def ends(self):
        self.stopping = True
        self.wake.set()
        if self.thread is not None:
            self.thread.join(STOP_WITHIN)
        with self.lock:
            self.line = []
            self.part()

    # ---- what the program calls

    def sends(self, group, tensors, to, tag):
        """A send was posted. Where that cannot be told, no rank may wait for it."""
        with self.lock:
            if self.sender is None or not _is_gloo(group, tensors):
                return
            try:
                to = _c10d().get_global_rank(group, to)
                self.sender.tell(to, sent.key(group.group_name, tag))
            except (OSError, RuntimeError, ValueError) as error:
                self.sender.close()
                self.sender = None
                self.release("rank %d: what it sends cannot be told: %s" % (self.rank, error))

    def receives(self, group, tensors, source, tag):
        """A receive from a named source is about to be posted, by a rank that replays."""
        with self.lock:
            if not self.on or self.order is None or not _is_gloo(group, tensors):
                return
            which = sent.key(group.group_name, tag)
            for request in self.line:
                if request.key == which:
                    self.release(
                        "%s: a message from rank %d was asked for while it was open"
                        % (self._name(request), source)
                    )
                    return
            try:
                self.receiver.asked(_c10d().get_global_rank(group, source), which)
            except (RuntimeError, ValueError):
                pass  # the call itself is going to say so

    def receives_any(self, group, tensors, tag, numbered):
        """A receive from any source. None: it is to be posted as it is."""
        with self.lock:
            if not self.on:
                return None
            self.posted_open += 1
            expected, why = self._expected(group, tensors, tag, numbered)
            if why is not None:
                self.release(
                    "match %d of rank %s: %s" % (self.posted_open, self.rank, why),
                    tell=expected != "the end",
                )
                return None
            request = Request(group, tensors, tag, expected)
            request.number = self.posted_open
            return self._hold(request, sent.key(group.group_name, tag))

    def _expected(self, group, tensors, tag, numbered):
        """((rank of the job, rank of the group), None), or what it is and why it cannot be had."""
        if not numbered:
            return None, "found a receive that no record tells of"
        if self.order is None or self.receiver is None:
            return None, "expected no message, found a receive"
        names, matches, _wait = self.order
        if self.posted_open > len(matches):
            return "the end", "expected no more messages, found a receive"
        comm, _open, source, expected_tag = matches[self.posted_open - 1]
        if source == NOBODY:
            return None, "the recorded run did not wait for it, so its message is not known"
        found = "found a receive on %s, %s" % (_on(name_of(group)), _tag(tag))
        expected = "expected a message from rank %d on %s, %s" % (
            source,
            _on(names[comm]),
            _tag(expected_tag),
        )
        # the default group may be given by its name, too
        if names[comm] not in (name_of(group), group.group_name) or _tag(expected_tag) != _tag(tag):
            return None, "%s; %s" % (expected, found)
        try:
            if not _is_gloo(group, tensors):
                return None, "expected a group over gloo, found another one"
            return (source, _c10d().get_group_rank(group, source)), None
        except (AttributeError, RuntimeError, ValueError, IndexError) as error:
            return None, "%s; it cannot be asked for: %s" % (expected, error)

    def _hold(self, request, which):
        request.key = which
        span = span_of(request.group, request.tensors)
        request.most = None if span is None else span / 2
        self.line.append(request)
        self.look()
        return request

    # ---- what waits

    def look(self):
        """Posts what may be posted; gives up where the time is over, or we fail."""
        with self.lock:
            try:
                self._look()
            except Exception as error:
                faults.pass_on(error)
                self.release("rank %s: %s: %s" % (self.rank, type(error).__name__, error))

    def _look(self):
        if self.line:
            behind = set()
            for request in list(self.line):
                if request.key in behind:
                    continue
                if self.receiver.has(request.expected[0], request.key):
                    self.line.remove(request)
                    self.receiver.asked(request.expected[0], request.key)
                    self._post(request, request.expected[1])
                    continue
                behind.add(request.key)
                if self._late(request):
                    return

    def _late(self, request):
        """Is the rank given up for this one?"""
        now = time.monotonic()
        if now < request.late_next:
            return False
        request.late_next = now + LATE_EVERY
        if now - self.told_at >= TOLD_EVERY:
            self.told_at = now
            if os.path.exists(os.path.join(self.folder, TOLD_FILE)):
                self.release("%s: another rank was released" % self._name(request), told=True)
                return True
        if not self._another(request):
            request.late_since = None
        elif request.late_since is None:
            request.late_since = now
        over = request.late_since is not None and now - request.late_since >= self.order[2]
        if over or (request.most is not None and now - request.began >= request.most):
            self.release(
                "%s: expected a message from rank %d on %s, %s; it did not come within %.0f s"
                % (
                    self._name(request),
                    request.expected[0],
                    _on(name_of(request.group)),
                    _tag(request.tag),
                    now - (request.late_since if over else request.began),
                )
            )
            return True
        return False

    def _another(self, request):
        """Could the program have taken another message by now? A rank that tells nothing may have
        sent one.
        """
        for rank in _c10d().get_process_group_ranks(request.group):
            if rank == self.rank:
                continue
            if self.receiver.has(rank, request.key) or not self.receiver.look(rank):
                return True
        return False

    def _name(self, request):
        number = request.number or self.posted_open
        return "match %d of rank %s" % (number, self.rank)

    def release(self, why, tell=True, told=False):
        """From here on all is as it comes."""
        with self.lock:
            if not self.on:
                return
            self.on = False
            if core.begin():
                core.note(TOLD_NOTE if told else NOTE, why)
            if tell and not told:
                self._tell_others()
            line, self.line = self.line, []
            for request in line:
                self._post(request, None)

    def _tell_others(self):
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            os.close(os.open(os.path.join(self.folder, TOLD_FILE), flags, 0o600))
        except OSError:
            pass  # each rank then waits for itself

    def _post(self, request, source):
        """What it raises is raised where the program waits for it."""
        try:
            if source is None:
                request.inner = self._receive_any(request.group, request.tensors, request.tag)
            else:
                request.inner = self._receive(request.group, request.tensors, source, request.tag)
        except Exception as error:
            request.error = error
        request.posted.set()

    # ---- who looks

    def watch(self):
        """Somebody looks while the program does something else."""
        if self.thread is None:
            self.thread = threading.Thread(target=self._watch, name="twinrun", daemon=True)
            self.thread.start()
        self.wake.set()

    def _watch(self):
        T.busy = True  # nothing that is done here is the job's
        while not self.stopping:
            self.wake.wait()
            self.wake.clear()
            while self.line and not self.stopping:
                self.look()
                time.sleep(LOOK_EVERY)

    def wait(self, request, seconds):
        """Until it is posted, which it is within half of the time at the latest."""
        end = None if not seconds else time.monotonic() + seconds / 2
        pause = PAUSE
        while not request.posted.is_set():
            with self.lock:
                self.look()
                if request.posted.is_set():
                    return
                if request not in self.line:
                    # a signal handler of the job has raised while it was being posted
                    request.error = RuntimeError("the receive was interrupted while it was posted")
                    request.posted.set()
                    return
            if end is not None and time.monotonic() >= end:
                self.release("%s: the program waits no longer" % self._name(request))
            time.sleep(pause)
            pause = min(2 * pause, LOOK_EVERY)
