# SPDX-License-Identifier: Apache-2.0
"""Records of one call of a function of the job: what it was given, what its variables hold when it
ends, and what it gave back. frames.py finds the calls.

Of each function all of its first calls are looked at, later fewer (frames.c says which); of one
whose arguments and variables are many or large earlier. What decides is counted, never timed: two
runs must look at the same calls. Calls that were not looked at are unseen: a verdict over such a
run is not "same".
"""

import dis
import os
import sys

from . import buffers, clock_names, consumers, core, look, native, sites, tensors
from .core import S, hook
from .native import SKETCH, STATS

WORK = 50000  # objects that are gone through for all calls of one function
BYTES = 1 << 28  # of arrays
AS_TEXT = 16  # times as long does a byte take where values of Python are written down
LINES = 3  # of the callers
SITES = 1024  # texts that are kept of a function
_COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")

NOTHING = type("Nothing", (), {"__slots__": ()})()

functions = []  # Entry, in the order of their first call
left_out = {}  # what followed the clock -> True
_own = {}  # name of a module -> is it the job's?


def is_own(module):
    found = _own.get(module)
    if found is None:
        there = sys.modules.get(module)
        file = getattr(there, "__file__", None)
        if module == "__main__":
            found = True
        elif not isinstance(module, str) or not isinstance(file, str):
            return False
        else:
            found = consumers.own(os.path.abspath(file))
        _own[module] = found
    return found


class Entry:
    """A function of the job."""

    def __init__(self, code):
        self.code = code
        cells = [name for name in code.co_cellvars if name not in code.co_varnames]
        self.names = (*code.co_varnames, *cells, *code.co_freevars)
        count = code.co_argcount + code.co_kwonlyargcount
        self.arguments = count + bool(code.co_flags & 4) + bool(code.co_flags & 8)
        self.given = frozenset(self.names[: self.arguments])
        self.sites = {}  # (variable, line of the end, callers) -> where it got its value
        clock_names.program.read(code.co_filename)
        self.known = clock_names.program.of(code)
        name = self.known.qualname if self.known is not None else code.co_name
        self.label = name
        main = getattr(sys.modules.get("__main__"), "__file__", None)
        if not main or os.path.abspath(main) != os.path.abspath(code.co_filename):
            self.label = os.path.basename(code.co_filename)[:-3] + "." + name
        self.calls = self.looked = self.work = self.bytes = 0
        self.running = 0
        self.lines = _lines_of_variables(code)

    def where(self, name, line, callers):
        """The line that gave a variable its value, and those of the callers."""
        key = name, line, callers
        found = self.sites.get(key)
        if found is None:
            base = name.partition(".")[0].partition("[")[0]
            place = sites.short(self.code.co_filename), self.lines.get(base, line) or 0
            found = "%s:%d in %s" % (*place, self.code.co_name)
            found += "\n" + callers if callers else ""
            if len(self.sites) < SITES:
                self.sites[key] = found
        return found


def _lines_of_variables(code):
    """name -> the line that gives it a value, the last one where there are several."""
    found, line = {}, code.co_firstlineno
    for instruction in dis.get_instructions(code):
        started = instruction.starts_line
        if started is not None and started is not False:
            line = getattr(instruction, "line_number", None) or (
                started if started is not True else line
            )
        if instruction.opname.startswith("STORE_") and isinstance(instruction.argval, str):
            found[instruction.argval] = line
        elif instruction.opname.startswith("STORE_") and type(instruction.argval) is tuple:
            found.update((name, line) for name in instruction.argval)
    return found


def learn(code):
    """An Entry for a function of the job; NOTHING for what needs no look: a comprehension leaves its
    result in its function's variables, `__del__` runs when the garbage collector likes.
    """
    if code.co_name in _COMPREHENSIONS or code.co_name == "__del__" or not code.co_flags & 1:
        return NOTHING
    found = Entry(code)
    functions.append(found)
    return found


# ---------------------------------------------------------------- one call


class Token:
    """A call that runs and is looked at."""

    __slots__ = ("site",)

    def __init__(self, site):
        self.site = site


def _pairs(entry, variables):
    """[(name, value)] of a frame; variables: in the order of the names."""
    held = zip(entry.names, variables)
    return [(n, v) for n, v in held if v is not NOTHING and n[:1] != "."]


def _new_look(entry):
    found = look.Look(sys.modules["numpy"], is_own)
    found.scope = entry.label
    found.left_out = clock_names.program.fields
    return found


def _variable(found, entry, name, value):
    """One variable, without its plain values where they follow the clock."""
    if entry.known is not None and name in entry.known.local:
        found.walk(name, value)
        leave_out(name, entry.label, value)
    else:
        found.variable(name, value)


def leave_out(name, scope, value):
    if type(value) not in (type(None), bool):
        left_out.setdefault("%s (%s)" % (name, scope))


def _result(found, entry, value):
    places = entry.known.result if entry.known is not None else ()
    if clock_names.ALL in places:
        found.walk("result", value)
    elif places and type(value) is tuple:
        for i, part in enumerate(value):
            if i in places:
                found.walk("result[%d]" % i, part)
            else:
                found.variable("result[%d]" % i, part)
    else:
        found.variable("result", value)


def _record(entry, found, phase, kind, site_of):
    """Puts what a look has found into the trace."""
    found.look_into_holders()
    for text in found.unseen:
        core.unseen("%s, in %s" % (text, entry.label))
    entry.work += len(found.visited) + len(found.arrays)
    if not found.arrays and not found.states or not core.begin():
        return
    pending = tensors.pending()
    for scope, name, state in found.states:
        number = core.series(native.RNG, native.STATE, name, scope, entry.label, site_of(name))
        pending.add_bytes(number, state)
    for scope, name, array in found.arrays:
        if isinstance(array, bytes):
            entry.bytes += AS_TEXT * len(array)
            array = buffers.Own("B", array or b"\0")
        else:
            entry.bytes += getattr(array, "nbytes", 0)
        site = site_of(name)
        buffers.add(pending, phase, kind, name, array, scope, entry.label, site, STATS | SKETCH)
    pending.flush()
    core.saw("value")


def wanted(entry, number):
    """Whether this call is to be looked at; frames.py asks for those that are due."""
    if entry.work < WORK and entry.bytes < BYTES:
        return True
    return number & (number - 1) == 0


@hook
def _begins(entry, variables, caller):
    entry.looked += 1
    token = Token(sites.above(caller, LINES))
    if S.level >= native.TENSORS:
        found = _new_look(entry)
        for name, value in _pairs(entry, variables):
            if name in entry.given:
                _variable(found, entry, name, value)
        _record(entry, found, native.DATA, native.IN, lambda name: token.site)
    return token


@hook
def _ends(entry, token, variables, result, line, caller, error):
    """error: the exception that has ended the call, or None."""
    site = token.site if type(token) is Token else sites.above(caller, LINES)
    found = _new_look(entry)
    for name, value in _pairs(entry, variables):
        _variable(found, entry, name, value)
    if error is not None:  # not its text, which may name a folder or an address
        found.add("exception", type(error).__name__.encode())
        found.walk("exception", BaseException.args.__get__(error))
    elif result is not NOTHING:
        _result(found, entry, result)

    _record(entry, found, native.OUTPUT, native.VALUE, lambda name: entry.where(name, line, site))


def begins(entry, number, variables, caller):
    """A Token; NOTHING where the call is not looked at."""
    if not wanted(entry, number):
        return NOTHING
    token = _begins(entry, variables, caller)
    return NOTHING if token is None else token


def ends(entry, token, variables, result, line, caller, error):
    if type(token) is not Token:
        if not wanted(entry, entry.looked + 1):  # a generator goes on
            return
        entry.looked += 1
    _ends(entry, token, variables, result, line, caller, error)


# ---------------------------------------------------------------- the end


def tell(calls_of):
    """Notes what was looked at; calls_of(entry): (how many calls were counted, were there more?)"""
    if not functions:
        return
    looked, every = sum(e.looked for e in functions), sum(calls_of(e)[0] for e in functions)
    core.note("functions", "%d %d %d" % (looked, every, len(functions)))
    for entry in functions:
        calls, more = calls_of(entry)
        if more or calls > entry.looked:
            left = "%s%d of %s" % ("more than " if more else "", calls - entry.looked, entry.label)
            core.unseen("calls of functions: %s (looked at: %d)" % (left, entry.looked))


def tell_clock():
    if left_out:
        core.note("functions.clock", "\n".join(left_out))


def after_fork():
    for entry in functions:
        entry.looked = 0
