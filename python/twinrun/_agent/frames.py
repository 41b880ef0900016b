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
import types

from . import at_end, calls, consumers, core, faults, native
from .core import S, T

TOOLS = (4, 3)  # of the six places that sys.monitoring has; it names 0, 1, 2 and 5
_RESUMES, _COROUTINE = 0x20, 0x80 | 0x200  # flags of code
CALLS, ELSEWHERE, DEEP, FULL, HANDLER, APART = range(6)  # as in agents/python/frames.h
# A script that imports one of these is watched otherwise, or shows what counts.
_OTHERS = (
    "torch|jax|tensorflow|keras|twinrun|mpi4py|lightning|pytorch_lightning|transformers|accelerate"
)
_IMPORTS = re.compile(r"^[ \t]*(?:import|from)[ \t]+(?:%s)\b" % _OTHERS, re.M)

NEVER = "not watched"
_state = {"on": False, "lost": "", "armed": False, "count": None, "tool": None, "use_tool_id": None}


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
        sys.monitoring.set_local_events(_state["tool"], code, wanted)
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


def _gives_way(tool):
    """The job takes a place among the tools of sys.monitoring: it gets it also where it is ours.
    The events that we have switched off would stay off for who has the place then.
    """
    if _state["on"] and tool == _state["tool"]:
        _leave("from where another tool took its place in sys.monitoring on")
        sys.monitoring.restart_events()


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
    free = [place for place in TOOLS if tool.get_tool(place) is None]
    if not free:
        return "other tools have its places in sys.monitoring"
    library = ctypes.PyDLL(native.library().path)
    start, count = library.tw_agent_frames_start, library.tw_agent_frames_count
    start.argtypes, start.restype = [ctypes.py_object], ctypes.py_object
    count.argtypes, count.restype = [ctypes.py_object, ctypes.c_int], ctypes.c_uint64
    given = (_learn, _begins, _ends, calls.NOTHING, tool.DISABLE, None, _gives_way)
    made = start((*given, tool.use_tool_id, types.FrameType))
    if not made:
        return NEVER
    e = tool.events
    place = _state["tool"] = free[0]
    tool.use_tool_id(place, "twinrun")
    for event, callback in zip((e.PY_START, e.PY_RETURN, e.PY_YIELD, e.PY_UNWIND), made):
        tool.register_callback(place, event, callback)
    _state["use_tool_id"], tool.use_tool_id = (tool.use_tool_id, made[-1]), made[-1]
    _state["count"], _state["on"] = count, True
    tool.set_events(place, e.PY_START | e.PY_UNWIND)
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
    tool, place = sys.monitoring, _state["tool"]
    pythons, ours = _state["use_tool_id"]
    if tool.use_tool_id is ours:
        tool.use_tool_id = pythons
    if tool.get_tool(place) != "twinrun":
        _state["lost"] = _state["lost"] or "another tool took its place in sys.monitoring"
        return
    tool.set_events(place, 0)
    for entry in calls.functions:
        tool.set_local_events(place, entry.code, 0)
    tool.free_tool_id(place)


def _at_exit():
    if not _state["count"] or S.forked:
        return
    stop()
    for name in _unfinished():
        core.unseen("what %s holds, which still ran when the script ended" % name)
    for entry in calls.functions:
        if _count(entry, ELSEWHERE):
            core.unseen("calls of %s on other threads, whose order is their own" % entry.label)
        if _count(entry, HANDLER):
            core.unseen("what %s computed, which is called with a frame" % entry.label)
        if _count(entry, APART):
            core.unseen("calls of %s by what is called with a frame" % entry.label)
    calls.tell(lambda entry: (_count(entry, CALLS), bool(_count(entry, FULL))))


def _after_fork():
    """A child's place among the others is not the script's: what it computes is told as unseen, as
    any process that the script starts.
    """
    stop()
    calls.after_fork()
