# SPDX-License-Identifier: Apache-2.0
"""Finds the calls of the job's own functions in a script of NumPy, from the import of NumPy on.

By `sys.monitoring` (Python 3.12 and later), whose events are set on the code of the job's functions
alone; agents/python/frames.c has its callbacks, and says which calls are looked at. In an older
Python functions are not watched, and a script that has some is told so.

Looked at is only what comes in an order that the program gives: calls on the main thread, up to the
first coroutine. The rest is told as unseen. Where something that sees more arrives (PyTorch, JAX,
`import twinrun`), we leave.
"""

import ctypes
import os
import re
import sys

from . import at_end, calls, consumers, core, faults, native
from .core import S, T

TOOL = 4  # of the six that sys.monitoring has; it names 0, 1, 2 and 5
_RESUMES, _COROUTINE = 0x20, 0x80 | 0x200  # flags of code
CALLS, ELSEWHERE, DEEP, FULL = range(4)  # as in agents/python/frames.h
# A script that imports one of these is watched otherwise, or shows what counts.
_OTHERS = (
    "torch|jax|tensorflow|keras|twinrun|mpi4py|lightning|pytorch_lightning|transformers|accelerate"
)
_IMPORTS = re.compile(r"^[ \t]*(?:import|from)[ \t]+(?:%s)\b" % _OTHERS, re.M)

NEVER = "not watched"
_state = {"on": False, "lost": "", "armed": False, "count": None}


# ---------------------------------------------------------------- what frames.c calls


def _learn(code):
    """An Entry for a function of the job, whose events are set; else NOTHING."""
    if not code.co_flags & 1 or not consumers.own(code.co_filename):
        return calls.NOTHING
    busy, T.busy = T.busy, True
    try:
        entry = calls.learn(code)
        if entry is calls.NOTHING:
            return entry
        if code.co_flags & _COROUTINE:
            _leave("from the coroutine %s on, whose order is its own" % entry.label)
        if not _state["on"]:
            return calls.NOTHING
        e = sys.monitoring.events
        wanted = e.PY_START | e.PY_RETURN | (e.PY_YIELD if code.co_flags & _RESUMES else 0)
        sys.monitoring.set_local_events(TOOL, code, wanted)
        return entry
    except Exception as error:
        faults.pass_on(error)
        core.fail("learn", error)
        return calls.NOTHING
    finally:
        T.busy = busy


def _begins(entry, number, variables):
    if T.busy or not S.on:
        return calls.NOTHING
    return calls.begins(entry, number, variables, sys._getframe(1).f_back)


def _ends(entry, token, variables, result, error):
    if not T.busy and S.on:
        frame = sys._getframe(1)
        calls.ends(entry, token, variables, result, frame.f_lineno, frame.f_back, error)


def _count(entry, which):
    return _state["count"](entry.code, which)


# ---------------------------------------------------------------- start and end


def _start():
    """Why functions cannot be watched; empty: they are."""
    tool = getattr(sys, "monitoring", None)
    if tool is None or sys.implementation.name != "cpython":
        return NEVER
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "this Python runs without its lock"
    if tool.get_tool(TOOL) is not None:
        return "another tool has the place"
    library = ctypes.PyDLL(native.library().path)
    start, count = library.tw_agent_frames_start, library.tw_agent_frames_count
    start.argtypes, start.restype = [ctypes.py_object], ctypes.py_object
    count.argtypes, count.restype = [ctypes.py_object, ctypes.c_int], ctypes.c_uint64
    callbacks = start((_learn, _begins, _ends, calls.NOTHING, tool.DISABLE, None))
    if not callbacks:
        return NEVER
    e = tool.events
    tool.use_tool_id(TOOL, "twinrun")
    for event, callback in zip((e.PY_START, e.PY_RETURN, e.PY_YIELD, e.PY_UNWIND), callbacks):
        tool.register_callback(TOOL, event, callback)
    _state["count"], _state["on"] = count, True
    tool.set_events(TOOL, e.PY_START | e.PY_UNWIND)
    return ""


def _is_child():
    words = [*getattr(sys, "orig_argv", ()), *sys.argv]
    return "--multiprocessing-fork" in words or S.forked or bool(core.child_number())


def _shows_otherwise(file):
    try:
        with open(file, encoding="utf-8", errors="replace") as f:
            return _IMPORTS.search(f.read()) is not None
    except OSError:
        return True


def arm():
    """NumPy has been imported."""
    if _state["armed"] or sys.version_info < (3, 12) or os.environ.get("TWINRUN_MPI_LIB"):
        return
    _state["armed"] = True
    file = at_end.script()
    if file is None or _shows_otherwise(file) or _is_child() or not core.start():
        return
    if not core.on_main_thread():
        _state["lost"] = "NumPy was imported by another thread"
        return
    _state["lost"] = _start()
    if not _state["on"]:
        return
    S.armed.append("functions of the script")
    S.on_exit.append(_at_exit)
    at_end.arm()
    S.on_fork.append(_after_fork)
    _tell_running(sys._getframe(1))


def _tell_running(frame):
    """Functions that had begun before: their ends are not seen."""
    while frame is not None:
        code = frame.f_code
        if code.co_flags & 1 and consumers.own(code.co_filename):
            _state["lost"] = "%s ran before NumPy was imported" % code.co_name
        frame = frame.f_back


def _leave(why):
    """Nothing is looked at any longer, and that is told."""
    if _state["on"]:
        stop()
        _state["lost"] = "not watched " + why


def disarm(name):
    """Something that sees more of the job is here."""
    _leave("from the import of %s on" % name)


def lost():
    """Why not all of the script's functions were seen; empty: they were."""
    return "" if _state["count"] and not _state["lost"] else _state["lost"] or NEVER


def _unfinished():
    """Functions of the job that still run: what they hold has not been seen."""
    found = []
    for frame in sys._current_frames().values():
        while frame is not None:
            code = frame.f_code
            if code.co_flags & 1 and consumers.own(code.co_filename):
                found.append(code.co_name)
            frame = frame.f_back
    return found


def stop():
    """The script has ended."""
    if not _state["on"]:
        return
    _state["on"] = False
    tool = sys.monitoring
    if tool.get_tool(TOOL) != "twinrun":
        _state["lost"] = _state["lost"] or "another tool took the place"
        return
    tool.set_events(TOOL, 0)
    for entry in calls.functions:
        tool.set_local_events(TOOL, entry.code, 0)
    tool.free_tool_id(TOOL)


def _at_exit():
    if not _state["count"] or S.forked:
        return
    stop()
    for name in _unfinished():
        core.unseen("what %s holds, which still ran when the script ended" % name)
    for entry in calls.functions:
        if _count(entry, ELSEWHERE):
            core.unseen("calls of %s on other threads, whose order is their own" % entry.label)
    calls.tell(lambda entry: (_count(entry, CALLS), bool(_count(entry, FULL))))


def _after_fork():
    """A child's place among the others is not the script's: what it computes is told as unseen, as
    any process that the script starts.
    """
    stop()
    calls.after_fork()
