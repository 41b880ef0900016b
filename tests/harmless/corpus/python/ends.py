# SPDX-License-Identifier: Apache-2.0
"""Ways to end. usage: ends
code|text|exit|os_exit|abort|error|chain|interrupt|recursion|atexit|thread|kill|handler|group|bigcode
"""

import atexit
import faulthandler
import os
import signal
import sys
import threading

how = sys.argv[1]
atexit.register(print, "registered first")
print("begin")


def deep(n):
    return deep(n + 1) + 1


class Failing:
    def __call__(self):
        return 1 / 0

    def __repr__(self):
        return "a callback without an address"


class Noisy:
    def __del__(self):
        print("collected")


if how == "code":
    sys.exit(300)
if how == "text":
    sys.exit("a reason")
if how == "os_exit":
    os._exit(9)
if how == "abort":
    faulthandler.enable(all_threads=False)
    sys.stdout.flush()
    os.abort()
if how == "error":
    raise OSError(5, "an error", "a file")
if how == "chain":
    try:
        {}["key"]
    except KeyError as e:
        e.add_note("a note") if hasattr(e, "add_note") else None
        raise RuntimeError("from another") from e
if how == "interrupt":
    os.kill(os.getpid(), signal.SIGINT)
    signal.pause()
if how == "recursion":
    try:
        deep(0)
    except RecursionError as e:
        print(e)
    deep(0)
if how == "atexit":
    atexit.register(Failing())
    kept = Noisy()
    kept.cycle = kept
if how == "thread":
    threading.Thread(target=lambda: (print("thread"), sys.exit(3))).start()
if how == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if how == "handler":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(21))
    os.kill(os.getpid(), signal.SIGTERM)
if how == "group":
    raise ExceptionGroup("several", [ValueError(1), TypeError(2)])
if how == "bigcode":
    sys.exit(1 << 70)
