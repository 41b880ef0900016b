# SPDX-License-Identifier: Apache-2.0
"""The file in which a process keeps the order in which executors and loaders told of results
(src/trace/results.h), written and read. Nothing in a file is trusted.
"""

import binascii
import os
import stat
import struct
import threading
import time
from collections import deque

MAGIC, ORDER_MAGIC, VERSION = b"twinres\0", b"twinrso\0", 1
HEAD = struct.Struct("=8sIiI104sI")  # magic, version, rank, pid, role, check
BODY = struct.Struct("=BBHIIII")  # what, kind, bytes of text, thread, call, value, rest
CHECK = struct.Struct("=I")
ORDER_HEAD = struct.Struct("=8sII")  # in front of a recording that is to be replayed
ENTRY = BODY.size + CHECK.size
ROLE, TEXT_MOST, BYTES_MOST, WAIT_MOST_MS = 104, 400, 32 << 20, 3600000
CALL, RESULT, GIVEN_UP, FULL, END = 1, 2, 3, 4, 5
AS_COMPLETED, WAIT, POOL, LOADER, OTHER = 1, 2, 3, 4, 5
EVERY = 0.001  # seconds between two writes of what comes fast
WAITING_MOST = 1 << 16  # entries
NONE = 0xFFFFFFFF  # of a call: it is not known how many there will be
FILE, ORDER_FILE = "results.%d.%d", "order.results.%08x"
TOLD_FILE = "order.results-released"  # no order file: its end is no number

crc = binascii.crc32


def order_path(folder, role):
    return os.path.join(folder, ORDER_FILE % crc(role))


class Writer:
    """Opens its file for each write: a number of a file that is kept could be closed by the job, and
    be that of a file of the job's then. So what comes fast is put together: what is told of within
    EVERY of the last write waits for the next one, or for the end of its call. What cannot be
    written is given up for good.
    """

    def __init__(self, folder, role, rank):
        self.left, self.path, self.seed = BYTES_MOST, None, 0
        self.waiting, self.written, self.writing = deque(), 0.0, threading.Lock()
        self.every = EVERY
        if not folder:
            return  # the file would lie where the job works
        head = HEAD.pack(MAGIC, VERSION, rank, os.getpid(), role, 0)[: -CHECK.size]
        self.seed = crc(head)
        for number in range(100):  # a number of a process may come again
            path = os.path.join(folder, FILE % (os.getpid(), number))
            try:
                self._write(path, head + CHECK.pack(self.seed), os.O_CREAT | os.O_EXCL)
            except FileExistsError:
                continue
            except OSError:
                return
            self.path = path
            return

    def _write(self, path, data, more=0):
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | more
        # opened and kept, and closed, in one call of C each: an exception of the job's signal
        # handlers, which may come behind any call, leaves none open
        fds = []
        opening, closing = map(os.open, (path,), (flags,), (0o600,)), map(os.close, fds)
        try:
            fds.extend(opening)
            if os.write(fds[0], data) != len(data):
                raise OSError("written in part")
        finally:
            list(closing)

    def entry(self, what, kind=0, thread=0, call=0, value=0, rest=0, text=""):
        if not text:
            body = BODY.pack(what, kind, 0, thread, call, value, rest)
            return body + CHECK.pack(crc(body, self.seed))
        text = text.encode("utf-8", "replace")[:TEXT_MOST]
        text += b"\0" * (-len(text) % 4)
        body = BODY.pack(what, kind, len(text), thread, call, value, rest)
        return body + CHECK.pack(crc(text, crc(body, self.seed))) + text

    def put(self, data, at_once=False):
        """at_once: nothing may be waiting afterwards."""
        if self.path is None:
            return
        self.waiting.append(data)
        if len(self.waiting) > WAITING_MOST:  # an exception of the job's has ended a write for good
            self.path = None
            self.waiting.clear()
            return
        now = time.monotonic()
        if at_once or now - self.written >= self.every:
            self.written = now
            self.flush()

    def flush(self):
        # who finds another thread, or the code that a signal handler has interrupted, at it leaves
        # it to the next
        if not self.waiting or not self.writing.acquire(False):
            return
        try:
            data = b"".join([self.waiting.popleft() for _ in range(len(self.waiting))])
            if self.path is None:
                return
            self.left -= len(data)
            if self.left < 0:
                data = self.entry(FULL)
            self._write(self.path, data)
            if self.left < 0:
                self.path = None
        except OSError:
            self.path = None
        finally:
            self.writing.release()


def load(data):
    """(seconds to wait, {(kind, site): calls}) of an order file; None where it is not sound. A call:
    (how many results it was for, their places). Calls of a site at which several threads asked have
    no order: None.
    """
    if len(data) < ORDER_HEAD.size + HEAD.size or len(data) > BYTES_MOST + 65536:
        return None
    magic, version, wait_ms = ORDER_HEAD.unpack_from(data)
    if magic != ORDER_MAGIC or version != VERSION or wait_ms > WAIT_MOST_MS:
        return None
    at = ORDER_HEAD.size
    magic, version, _rank, _pid, _role, seed = HEAD.unpack_from(data, at)
    if magic != MAGIC or version != VERSION or crc(data[at : at + HEAD.size - 4]) != seed:
        return None
    calls, keys, threads, at = {}, {}, {}, at + HEAD.size
    while at + ENTRY <= len(data):
        what, kind, size, thread, call, value, _rest = BODY.unpack_from(data, at)
        end = at + ENTRY + size
        if end > len(data):
            break  # the process was killed amid this one
        body, text = data[at : at + BODY.size], data[at + ENTRY : end]
        if CHECK.unpack_from(data, at + BODY.size)[0] != crc(text, crc(body, seed)):
            return None
        at = end
        if what == CALL and kind != OTHER:
            key = kind, text.rstrip(b"\0").decode("utf-8", "replace")
            calls[call] = (value, [])
            keys.setdefault(key, deque()).append(calls[call])
            threads[call] = threads.setdefault(key, thread), key
            if threads[key] != thread:
                threads[key] = None
        elif what == RESULT:
            if call not in calls:
                return None
            calls[call][1].append(value)
            first, key = threads[call]
            if first != thread:
                threads[key] = None
    # a wait() that told of nothing was cut off
    for key in keys:
        if key[0] == WAIT:
            keys[key] = deque(call for call in keys[key] if call[1])
        if threads[key] is None:
            keys[key] = None
    return wait_ms / 1000, keys


def read(folder, role):
    """What load() makes of a process' order file; None: it is not sound. FileNotFoundError: there is
    none.
    """
    fd = os.open(
        order_path(folder, role), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    )
    with open(fd, "rb") as file:
        # a pipe has no end, or nobody who writes
        sound = stat.S_ISREG(os.fstat(fd).st_mode)
        return load(file.read(BYTES_MOST + 65537)) if sound else None
