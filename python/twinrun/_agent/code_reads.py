# SPDX-License-Identifier: Apache-2.0
"""Which variables the job's functions read beside their arguments: globals of its own files, also
through functions that they call. What those hold is no part of what a fit was seen to be given.
"""

import dis
import functools
import sys
import types

from . import consumers

MOST = 4096  # functions and classes that are gone through for one fit


def of_job(thing):
    """Whether a class or function is the job's own: neither Python's nor an installed package's."""
    name = getattr(thing, "__module__", None)
    module = sys.modules.get(name) if isinstance(name, str) else None
    if name == "__main__" or module is None:
        return True
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and consumers.own(file)


@functools.lru_cache(MOST)
def _names(code):
    """(globals that a code reads, attributes that it asks for), with the codes inside of it."""
    found, asked = [], set(code.co_names)
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            found.append(instruction.argval)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            more, names = _names(inner)
            found += more
            asked |= names
    return list(dict.fromkeys(found)), asked


def variables(things):
    """Names of the variables that these functions and classes read, in the order of finding."""
    found, waiting, seen = [], list(things), set()

    def look(value, name, asked):
        if isinstance(value, types.ModuleType):
            if of_job(types.SimpleNamespace(__module__=value.__name__)):
                for key in sorted(asked & vars(value).keys()):
                    if not isinstance(vars(value)[key], types.ModuleType):
                        look(vars(value)[key], name + "." + key, asked)
        elif isinstance(value, (types.FunctionType, type)):
            waiting.append(value)
        elif not _is_harmless(value) and name not in found:
            found.append(name)

    for thing in waiting:
        if id(thing) in seen or len(seen) > MOST or not of_job(thing):
            continue
        seen.add(id(thing))
        if isinstance(thing, type):
            waiting += [getattr(part, "__func__", part) for part in vars(thing).values()]
            waiting += thing.__bases__
        elif isinstance(thing, types.FunctionType):
            names, asked = _names(thing.__code__)
            for name in names:
                if name in thing.__globals__:
                    look(thing.__globals__[name], name, asked)
            waiting.append(thing.__dict__.get("__wrapped__"))
    return found


def _is_harmless(value):
    """Of a library: a function written in C, a logger."""
    if isinstance(value, types.BuiltinFunctionType):
        return value.__self__ is None or isinstance(value.__self__, types.ModuleType)
    module = type(value).__module__ or ""
    return module.partition(".")[0] == "logging" or module == "numpy" and callable(value)
