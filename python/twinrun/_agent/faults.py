# SPDX-License-Identifier: Apache-2.0
"""Whose an exception is that arises while a hook works: ours, or the job's.

Python runs the job's signal handlers between any two instructions, also of ours. What a handler
raises there belongs to the job and goes on to it; everything else is a mistake of ours, or of code
that only we have called, and the job never sees it. Where a file lies says nothing about that: a
job may live in a folder `torch`, and handlers are part of torch, too.
"""

import functools
import os
import signal
import sys
import types

FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
_PYTHON = os.path.dirname(os.__file__) + os.sep  # where its own library lies

# Who raises exceptions of these modules in our code is our code, or what it calls.
_LIBRARIES = {
    "builtins",
    "torch",
    "numpy",
    "jax",
    "jaxlib",
    "tensorflow",
    "keras",
    "_twinrun_agent",
}


def _code_of(handler):
    """The code that runs when a signal handler is called; None for what is not Python."""
    for _ in range(8):
        if isinstance(handler, functools.partial):
            handler = handler.func
        elif isinstance(handler, types.MethodType):
            handler = handler.__func__
        elif isinstance(handler, types.FunctionType):
            return handler.__code__
        else:
            handler = getattr(type(handler), "__call__", None)
    return None


def _handlers():
    found = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()}
    return found - {None}


def _is_given(frame, interrupted):
    """Whether a call was given the interrupted frame as an argument, as signal handlers are."""
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4)
    local = frame.f_locals
    for name in code.co_varnames[:count]:
        value = local.get(name)
        if (
            value is interrupted
            or type(value) is tuple
            and any(part is interrupted for part in value)
        ):
            return True
    return False


def _handler_at(traceback):
    """Where, in a traceback that begins in our code, a signal handler of the job begins; None when
    there is none.
    """
    known = None
    while traceback is not None:
        frame = traceback.tb_frame
        if not frame.f_code.co_filename.startswith(FOLDER):
            known = _handlers() if known is None else known
            if frame.f_code in known or _is_given(frame, frame.f_back):
                return traceback
        traceback = traceback.tb_next
    return None


def _raised_by(frame, at):
    """Whether the instruction at this place of a frame is a `raise`."""
    import opcode  # seldom, and not to be among the modules of every job

    code = frame.f_code.co_code
    return 0 <= at < len(code) and code[at] == opcode.opmap["RAISE_VARARGS"]


def _of_python(home):
    """Whether a module belongs to Python itself, which lists their names from 3.10 on."""
    names = getattr(sys, "stdlib_module_names", None)
    if names is not None or home in sys.builtin_module_names:
        return names is None or home in names
    file = getattr(sys.modules.get(home), "__file__", None) or ""
    if home == "__main__" or not file.startswith(_PYTHON):
        return False
    return file[len(_PYTHON) :].partition(os.sep)[0] not in ("site-packages", "dist-packages")


def _made_with_words(error):
    """Whether who made an exception gave it arguments, as C code does that raises one. Python makes
    what another thread puts in by calling the class without any; only a class that is written in
    Python may then fill them in itself.
    """
    made = type(error)
    own = isinstance(made.__new__, types.FunctionType) or not isinstance(
        made.__init__, types.WrapperDescriptorType
    )
    return bool(error.args) and not own


def _put_from_outside(error):
    """An exception that another thread has put into this one (PyThreadState_SetAsyncExc): of a
    class that nothing of what we call knows, and no line has raised it. It arises wherever this
    thread got the interpreter's lock again: in our code, but as well in what that calls.
    """
    home = type(error).__module__.partition(".")[0]
    if home in _LIBRARIES or _of_python(home) or _made_with_words(error):
        return False
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback is not None and not _raised_by(traceback.tb_frame, traceback.tb_lasti)


def of_job(error):
    """Whether an exception that was caught in our code is the job's. Then it must be raised on."""
    return _handler_at(error.__traceback__) is not None or _put_from_outside(error)


def pass_on(error):
    """First thing in each `except` of a hook that goes on afterwards: the job's exceptions are not
    for us.
    """
    if of_job(error):
        raise error


def shortened(error):
    """The exception without the frames of ours that it has passed, for who raises it on."""
    found = _handler_at(error.__traceback__)
    return error.with_traceback(found) if found is not None else error


def place(error):
    """(file, line) where an exception arose."""
    traceback = error.__traceback__
    if traceback is None:
        return "?", 0
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
