# SPDX-License-Identifier: Apache-2.0
"""The order in which executors and loaders tell of results: recorded in every run, and that of a
recorded run replayed (docs/internals/replay-order.md).

A call is one iterator, or one wait(). It is known by its line in the job, and by how many there were
before it at that line. A result is known by its place among those of its call, by submission.
"""

import itertools
import os
import sys
import threading
import time

from . import faults, pins, results, results_file
from .results_file import CALL, END, GIVEN_UP, NONE, OTHER, RESULT

TOLD_EVERY = 0.1  # seconds between looks for other processes' word
TICK = 0.05  # seconds between looks whether a result is late

_forked = ()  # (number of the child of multiprocessing, forks since then) of a forked process
_forks = 0


class Thread(threading.local):
    number, fork = None, 0


_thread = Thread()
_threads = itertools.count()


def thread_number():
    if _thread.number is None:
        _thread.number = next(_threads)
    return _thread.number


def _child():
    """The number that multiprocessing gave to this process, equal in every run; or nothing."""
    module = sys.modules.get("multiprocessing.process")
    return getattr(module.current_process(), "_identity", ()) if module else ()


def role():
    """Which of the job's processes this is: equal in every run, where numbers of processes are not."""
    text = "rank %d, %s" % (pins.rank(), os.path.basename((getattr(sys, "argv", 0) or ["?"])[0]))
    child = _child()
    if child:
        text += ", child " + ".".join(map(str, child))
    # those of multiprocessing are forked as well
    if _forked and _forked[0] == child:
        text += ", fork " + ".".join(map(str, _forked[1]))
    return text.encode("utf-8", "replace")[: results_file.ROLE - 1]


class Process:
    def __init__(self):
        self.folder = results.folder
        self.calls = itertools.count(1)
        self.writer = None
        self.order, self.wait = {}, 0  # (kind, site) -> calls of the recorded run
        self.on = False  # the order is replayed
        self.owners = {}  # (kind, site) -> thread
        self.told_at = 0.0
        self.other = False  # it is noted that something was told of in an order not recorded
        self.lock = threading.RLock()  # a signal handler of the job may come in between

    def begin(self):
        """At the first call. In two threads at once it is that of the first one."""
        with self.lock:
            if self.writer is not None:
                return
            name = role()
            writer = results_file.Writer(self.folder, name, pins.rank())
            if results.replayed():
                try:
                    found = results_file.read(self.folder, name)
                    why = "the file of the recorded order cannot be read"
                except FileNotFoundError:
                    found, why = None, "the recording has no order of results of this process"
                except OSError as error:
                    found, why = None, "the file of the recorded order: %s" % error.strerror
                if found is None:
                    writer.put(writer.entry(GIVEN_UP, text=why), at_once=True)
                else:
                    self.wait, self.order = found
                    self.on = True
            self.writer = writer

    def release(self, why, told=False):
        """From here on results are told of as they come."""
        if not self.on:
            return
        self.on = False
        self.writer.put(self.writer.entry(GIVEN_UP, text=why), at_once=True)
        if told:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            os.close(os.open(os.path.join(self.folder, results_file.TOLD_FILE), flags, 0o600))
        except OSError:
            pass  # each process then waits for itself

    def was_told(self, now):
        if now - self.told_at < TOLD_EVERY:
            return False
        self.told_at = now
        return os.path.exists(os.path.join(self.folder, results_file.TOLD_FILE))


_process = Process()


def process():
    if _process.writer is None:
        _process.begin()
    return _process


class Call:
    """One iterator, or one wait(). Of a process that was forked while it was under way, the child
    has it as if nobody looked.
    """

    def __init__(self, kind, count, frame, known):
        self.process = process()
        self.kind, self.count, self.at, self.late_since = kind, count, 0, None
        self.site = pins.where(frame)
        self.thread, self.known = thread_number(), known
        self.number = next(self.process.calls)
        self.places = None  # that it is to tell of, in this order
        if self.process.on and kind != OTHER:
            self._find()

    def _find(self):
        process, key = self.process, (self.kind, self.site)
        line = process.order.get(key, ())
        if line is None:
            return  # several threads asked or submitted there: there is no order
        if not self.known:
            return self.release("its tasks were not submitted by one thread")
        if process.owners.setdefault(key, self.thread) != self.thread:
            return self.release("found a call in another thread, so that its order is not known")
        try:
            count, places = line.popleft()
        except (AttributeError, IndexError):
            return self.release("expected no call of this kind there, found one")
        if count != self.count:
            how = ["an unknown number of" if n == NONE else "%d" % n for n in (count, self.count)]
            return self.release("expected a call for %s results, found one for %s" % tuple(how))
        self.places = places

    def begins(self, rest=0):
        """Its entry in the file. Where places are not known, results are of another thread."""
        writer, thread = self.process.writer, self.thread if self.known else NONE
        return writer.entry(CALL, self.kind, thread, self.number, self.count, rest, self.site)

    def result(self, place):
        return self.process.writer.entry(RESULT, self.kind, thread_number(), self.number, place)

    def put(self, data, at_once=False):
        if self.process is _process:
            self.process.writer.put(data, at_once)

    def ends(self):
        """No more is told of: what waits to be written is."""
        if self.process is _process:
            self.process.writer.flush()

    def told(self, place):
        """The program is told of this one, whatever happens here."""
        try:
            if self.replayed() and self.at >= len(self.places):
                self.release("expected no more results there, found one")
            self.at += 1
            self.late_since = None
            self.put(self.result(place))
        except Exception as error:
            faults.pass_on(error)

    def replayed(self):
        return self.places is not None and self.process.on and self.process is _process

    def wanted(self):
        """The place that is to be told of next; None: as they come."""
        if not self.replayed():
            return None
        if thread_number() != self.thread:
            return self.release("results are asked for in another thread")
        return self.places[self.at] if self.at < len(self.places) else None

    def late(self, another):
        """The wanted one is not there. another: the program could be told of others. Is it waited for
        no longer?
        """
        process, now = self.process, time.monotonic()
        if process.was_told(now):
            self.release("another process was released", told=True)
        elif not another:
            self.late_since = None
        elif self.late_since is None:
            self.late_since = now
        elif now - self.late_since >= process.wait:
            self.release("it did not come within %.0f s" % (now - self.late_since))
        return not process.on

    def release(self, why, told=False):
        if self.process is not _process:
            return None
        want = ""
        if self.places is not None and self.at < len(self.places):
            want = ": expected number %d by submission" % (self.places[self.at] + 1)
        text = "result %d at %s%s; %s" % (self.at + 1, self.site, want, why)
        self.process.release(text, told)
        return None


def not_recorded(frame):
    """Something was told of in an order that is not recorded: said once."""
    try:
        if process().other:
            return
        _process.other = True
        started(OTHER, NONE, frame)
    except Exception as error:
        faults.pass_on(error)


def begin(kind, count, frame, known=True):
    """A Call; None where we fail: then all is as if nobody looked. known: are the places of its
    results equal in every run?
    """
    try:
        return Call(kind, count, frame, known)
    except Exception as error:
        faults.pass_on(error)
        return None


def started(kind, count, frame, known=True):
    """The same, with its entry in the file."""
    call = begin(kind, count, frame, known)
    try:
        if call is not None:
            call.put(call.begins())
        return call
    except Exception as error:
        faults.pass_on(error)
        return None


# ---------------------------------------------------------------- processes


def before_fork():
    """Which of several threads is first in forking is another thing in each run: what they fork has
    no number, so that nothing tells apart two of them.
    """
    global _forks
    main = threading.get_ident() == threading.main_thread().ident
    if main:
        _forks += 1
    _thread.fork = _forks if main else "of a thread"


def after_fork():
    """Nothing of the parent's is the child's, least of all a lock that another thread holds."""
    global _process, _forks, _forked
    child = _child()
    before = _forked[1] if _forked and _forked[0] == child else ()
    _forked, _forks, _process = (child, before + (_thread.fork,)), 0, Process()


def ends():
    writer = _process.writer
    if writer is not None:
        writer.put(writer.entry(END), at_once=True)
        writer.every = 0  # of what a later hook of the job's end is told, nothing waits
