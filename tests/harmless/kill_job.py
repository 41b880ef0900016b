# SPDX-License-Identifier: Apache-2.0
"""kill_job.c for Python: kill_job.py PUBLISHED SEED END records, and ends in one of
Python's ways.
"""

import array
import ctypes
import mmap
import os
import random
import signal
import struct
import sys
import threading

import twinrun

published, seed, end = sys.argv[1:]
with open(published, "r+b") as f:
    line = mmap.mmap(f.fileno(), 64)
flush = ctypes.CDLL(None).tw_agent_flush
rng = random.Random(seed)
values = array.array("d", range(64))
made = 0


def publish(at, value):
    struct.pack_into("<Q", line, 8 * at, value)


def steps(count):
    global made
    for step in range(count):
        for _ in range(rng.randrange(1, 20)):
            values[0] += 1
            twinrun.record("weight:w", values)
            made += 1
        twinrun.step()
        if rng.randrange(8) == 0:
            flush()
            publish(2, made)
            publish(1, step + 1)


publish(0, os.getpid())
steps(rng.randrange(10, 200))
if end == "abort":
    os.abort()
if end == "segv":
    ctypes.string_at(0)
if end == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
publish(3, made)  # from here on the ends are orderly: all of it is to be found
if end == "os._exit":
    os._exit(0)
if end == "execv":
    os.execv("/bin/true", ["true"])
if end == "interrupt":
    os.kill(os.getpid(), signal.SIGINT)
if end == "raise":
    raise RuntimeError("the job's own")
if end == "thread":
    threading.Thread(target=os._exit, args=(0,)).start()
    signal.pause()
