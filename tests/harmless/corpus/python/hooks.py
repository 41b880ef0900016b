# SPDX-License-Identifier: Apache-2.0
"""The interpreter's hooks: traces, profiles, audit, imports, warnings, exceptions that
nobody sees.
"""

import builtins
import gc
import importlib.abc
import os
import sys
import tracemalloc
import warnings
import weakref

sys.path.append(os.environ["CORPUS"])
import seen

seen.look("begin")
calls = []


def trace(frame, event, arg):
    calls.append((os.path.basename(frame.f_code.co_filename), frame.f_code.co_name, event))
    return trace


def traced():
    return sorted([3, 1, 2])


sys.settrace(trace)
traced()
sys.settrace(None)
sys.setprofile(lambda frame, event, arg: calls.append((event, frame.f_code.co_name)))
traced()
sys.setprofile(None)
print(calls)


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        print("asked for", name)


sys.meta_path.insert(0, Finder())
import colorsys
import wave

try:
    import no_such_module
except ImportError as e:
    print(e)
original = builtins.__import__
names = []
builtins.__import__ = lambda name, *rest: names.append(name) or original(name, *rest)
import string

builtins.__import__ = original
print(names)


class Thing:
    pass


things = [Thing() for _ in range(10)]
references = [weakref.ref(t) for t in things]
del things[5:]
gc.collect()
print(
    sum(r() is not None for r in references), len([o for o in gc.get_objects() if type(o) is Thing])
)
print(gc.collect(), gc.garbage, len(gc.callbacks))
tracemalloc.start()
kept = [bytes(1000) for _ in range(100)]
print(tracemalloc.get_traced_memory()[0] > 100000)
tracemalloc.stop()
warnings.warn("of the job")
warnings.warn_explicit("explicit", UserWarning, "file.py", 3)
warnings.simplefilter("error")
try:
    warnings.warn("an error", DeprecationWarning)
except DeprecationWarning as e:
    print("raised", e)
sys.excepthook = lambda kind, value, trace: print("hook", kind.__name__, value, trace.tb_lineno)
sys.addaudithook(lambda event, args: event == "os.listdir" and print("audit", event))
os.listdir(".")
seen.look("end")
raise LookupError("for the hook")
