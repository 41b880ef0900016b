# SPDX-License-Identifier: Apache-2.0
"""Prints what a job can notice of who watches its functions: how deep a recursion goes, who refers
to an array, what `locals()` gave, which code of its own is called, what a debugger's function sees.
"""

import gc, signal, sys, threading, traceback
import numpy as np


def reached(n=0):
    try:
        return reached(n + 1)
    except RecursionError as error:
        return n, str(error)


def deep(n):
    """Deeper than Python's own limit on the stack of C would be."""
    return deep(n - 1) + 1 if n else 0


def given(a):
    a.resize(7)  # refused where somebody else refers to it
    return a.size


def snapshot():
    mine = locals()
    later = 5
    mine["extra"] = later
    return sorted(mine)


def counted(n):
    for i in range(n):
        try:
            yield i
        finally:
            print("closed", i)


def nested(value):
    held = []
    held.append(held)
    return {"me": held, "nan": float("nan"), "zero": -0.0, "wide": 1 << 200000, "value": value}


class Hostile:
    def __getattr__(self, name):
        print("getattr", name)
        raise AttributeError(name)

    def __eq__(self, other):
        print("eq")
        return True

    def __hash__(self):
        print("hash")
        return 1

    def __repr__(self):
        print("repr")
        return "Hostile"

    def __len__(self):
        print("len")
        return 1

    def __iter__(self):
        print("iter")
        return iter(())

    def __array__(self, *a, **k):
        print("array")
        return np.zeros(1)

    def __reduce_ex__(self, n):
        print("reduce")
        return (int, ())

    @property
    def __class__(self):
        print("class")
        return int

    @property
    def x(self):
        print("property")
        return 1


class Words(dict):
    def items(self):
        print("items")
        return ()

    def __iter__(self):
        print("dict iter")
        return iter(())


class Rows(list):
    def __iter__(self):
        print("list iter")
        return iter(())

    def __len__(self):
        print("list len")
        return 0


def hostile(argument):
    trap, words, rows = Hostile(), Words(a=np.ones(1)), Rows([np.ones(1)])
    rows.more = trap
    return trap, words


class Stop(Exception):
    pass


def handler(number, frame):
    raise Stop("%s in %s" % (number, frame.f_code.co_name))


def waits():
    try:
        signal.raise_signal(signal.SIGUSR1)
    except Stop as stop:
        return str(stop)


def raises(n):
    if n:
        return raises(n - 1)
    raise KeyError("inner")


def tracer(frame, event, arg):
    events.append((event, frame.f_code.co_name))
    return tracer


def small(x):
    return x + 1


events = []
print(reached(), reached())
sys.setrecursionlimit(30000)
print(deep(20000))
sys.setrecursionlimit(200)
print(reached())
sys.setrecursionlimit(1000)
print(given(np.zeros(3)), snapshot())
for i in counted(3):
    if i:
        break
counted(2).close()
waiting = counted(2)
next(waiting)
del waiting
gc.collect()
print(sorted(nested(3)))
hostile(Hostile())
signal.signal(signal.SIGUSR1, handler)
print(waits())
try:
    raises(3)
except KeyError:
    print(traceback.format_exc())
threading.stack_size(64 << 10)
thread = threading.Thread(target=lambda: print("thread", deep(200)))
thread.start()
thread.join()
sys.settrace(tracer)
small(1)
sys.settrace(None)
sys.setprofile(tracer)
small(1)
sys.setprofile(None)
print(events)
print(sys._getframe().f_code.co_name, sys.getrefcount(small) > 0, threading.active_count())
