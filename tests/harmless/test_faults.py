# SPDX-License-Identifier: Apache-2.0
"""Whose an exception is that arises while a hook of the agent works (python/twinrun/_agent/faults.py):
one that another thread has put into this one is the job's wherever it arises.

Here it is put while code runs that claims to be of the agent or of a library; that it reaches a
PyTorch job is in test_torch_job.py.
"""

import _warnings
import ctypes
import json
import struct
import sys
import threading
import warnings
import zlib

import pytest
from corpus_run import ROOT

sys.path.insert(0, str(ROOT / "python"))
from twinrun._agent import faults  # noqa: E402


class Stop(Exception):
    pass


class Telling(Exception):
    """Of a job: it has words of its own where it is made without any."""

    def __init__(self):
        super().__init__("the time is up")


class Careful(UserWarning):
    pass


OURS, LIBRARY = faults.FOLDER + "tensors.py", "/usr/lib/python3/random.py"

LOOPS = """
def work(begun):
    begun.set()
    while True:
        pass
"""
CALLS = """
def work(begun):
    begun.set()
    while True:
        len("")
"""
RAISES = """
def work(begun):
    begun.set()
    raise Stop
"""
FAILS = """
def work(begun):
    begun.set()
    return {}["nothing"]
"""
THROWS = """
def work(begun):
    begun.set()
    (n for n in "12").throw(Stop("no"))
"""
WARNS = """
def work(begun):
    begun.set()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn("no", Careful)
"""
CALLS_ANOTHER = """
def work(begun):
    inner(begun)
"""


def function(text, file, **names):
    there = dict(names, __name__="random")
    exec(compile(text, file, "exec"), there)
    return there["work"]


def error_of(work, put=None):
    """What work() ends with when another thread puts an exception into this one, or none does."""
    begun, me = threading.Event(), threading.get_ident()

    def puts():
        begun.wait()
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(me), ctypes.py_object(put))

    other = threading.Thread(target=puts)
    try:
        if put:
            other.start()
        work(begun)
    except Exception as error:
        return error
    finally:
        if put:
            other.join()


WHERE = pytest.mark.parametrize("file", [OURS, LIBRARY], ids=["ours", "library"])


@pytest.mark.parametrize("text", [LOOPS, CALLS], ids=["loop", "call"])
@WHERE
def test_what_another_thread_puts_is_the_jobs(text, file):
    inner = function(text, file)
    error = error_of(function(CALLS_ANOTHER, OURS, inner=inner), Stop)
    assert type(error) is Stop and faults.of_job(error)
    with pytest.raises(Stop):
        faults.pass_on(error)


def test_also_where_its_class_has_words_of_its_own():
    error = error_of(function(LOOPS, OURS), Telling)
    assert type(error) is Telling and error.args and faults.of_job(error)


@pytest.mark.parametrize(
    "text", [RAISES, FAILS, THROWS, WARNS], ids=["raise", "fault", "throw", "warn"]
)
@WHERE
def test_what_our_calls_raise_is_not(text, file):
    """Also where C raises it, of a class that is none of a library's that we know."""
    names = {"Stop": Stop, "Careful": Careful, "warn": _warnings.warn, "warnings": warnings}
    inner = function(text, file, **names)
    error = error_of(function(CALLS_ANOTHER, OURS, inner=inner))
    assert type(error) in (Stop, KeyError, Careful) and not faults.of_job(error)


@pytest.mark.parametrize("listed", [True, False], ids=["listed", "by its place"])
def test_what_belongs_to_python(monkeypatch, listed):
    """Before 3.10 Python does not list its modules."""
    if not listed:
        monkeypatch.delattr(sys, "stdlib_module_names", raising=False)
    elif not hasattr(sys, "stdlib_module_names"):
        pytest.skip("this Python lists none")
    for error in (struct.error, ctypes.ArgumentError, zlib.error, json.JSONDecodeError, OSError):
        assert faults._of_python(error.__module__.partition(".")[0]), error
    for home in ("pytest", Stop.__module__, "__main__", "nothing_of_this_name"):
        assert not faults._of_python(home), home


def test_a_class_of_pythons_is_none_of_the_jobs(monkeypatch):
    monkeypatch.delattr(sys, "stdlib_module_names", raising=False)
    text = THROWS.replace('Stop("no")', "Stop")
    error = error_of(function(text, OURS, Stop=struct.error))
    assert type(error) is struct.error and not faults.of_job(error)
