# SPDX-License-Identifier: Apache-2.0
"""`TWINRUN_OTHER_LINES`: chosen lines of the job get other values from a pinned factor, and all
other lines the pin's.

After a search that has named entropy, the clock or the order of directories, `twinrun isolate` asks
by such runs which of the lines that ask for it matters: under the pin runs agree, so when one
diverges in which this line alone got other values, its value reaches what diverged.

A trace function switches the libc agent for the calling thread while one of the lines is running. A
line that calls a function of the job's own hands over to the lines of that function; what a library
does on behalf of a line belongs to the line.
"""

import dis
import os
import sys
import threading

from . import consumers, native, pins

_here = threading.local()
_state = {"factor": 0, "wanted": {}, "answered": 0, "numbers": {}}


def _lines(code):
    """The wanted lines that this code object has."""
    found = _state["numbers"].get(code)
    if found is None:
        wanted = _state["wanted"].get(consumers.shown(code.co_filename), ())
        found = frozenset(line for _, line in dis.findlinestarts(code) if line in wanted)
        _state["numbers"][code] = found
    return found


def _switch(on):
    if getattr(_here, "on", False) == on:
        return
    library = native.library()
    calls = library.factor_calls(_state["factor"], 1)  # another thread may ask meanwhile
    if on:
        _here.since = calls
    else:
        _state["answered"] += max(0, calls - _here.since)
    _here.on = on
    library.factor_other(on)


def _enter(frame, event, _argument):
    code = frame.f_code
    if not consumers.own(code.co_filename):
        return None
    before, lines = getattr(_here, "on", False), _lines(code)
    _switch(False)
    frame.f_trace_lines = bool(lines)

    def local(frame, event, _argument):
        if event == "line":
            _switch(frame.f_lineno in lines)
        elif event == "return":
            _switch(before)
        return local

    return local


def report():
    try:
        sys.settrace(None)
        _switch(False)
        pins.write([("answered", str(_state["answered"]))], "other.")
    except Exception:
        pass


def arm():
    factor, *lines = os.environ["TWINRUN_OTHER_LINES"].split("\t")
    if factor not in consumers.NUMBERS:
        return
    _state["factor"] = consumers.NUMBERS[factor]
    for line in lines:
        file, _colon, number = line.rpartition(":")
        _state["wanted"].setdefault(file, set()).add(int(number))
    pins.when_process_ends(report)
    threading.settrace(_enter)
    sys.settrace(_enter)
