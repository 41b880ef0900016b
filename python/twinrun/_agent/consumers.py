# SPDX-License-Identifier: Apache-2.0
"""`TWINRUN_CONSUMERS`: which lines of the job ask for what varies (`entropy`, `clock`, `directory`, `tensor-hash` or `torch-draws`), whatever library
does it for them, or (`unpinned`) for what no pin reaches.

The libc agent counts the calls (`TWINRUN_FACTORS=entropy=audit`); a trace function, set in frames of the job's own files only, looks
after each line whether the count has grown. Lines `consumer.FACTOR` in the run folder's `factors` when the process ends. For one run of its own after
a search: tracing is slow. Calls of two threads at the same time may be put down to the wrong one of them. Hashes of tensors and modules need no
tracing: the line that asks is the caller. Modules seed themselves when they are imported, also in the middle of a line that does something else; what
they draw then is told apart (`, importing`) and written only when nothing else asked. What no pin reaches is named only where the job's own line
asks: libraries read the monotonic clock and the process id for reasons of their own.
"""
import functools
import os
import sys
import threading
from time import monotonic_ns

from . import finder, native, pins

NUMBERS = {"entropy": 0, "clock": 1, "directory": 2}    # enum tw_factor
UNPINNED = {    # module -> what its functions tell
    "os": {"the process id": ("getpid", "getppid", "getpgid", "getsid")},
    "threading": {"the id of a thread": ("get_ident", "get_native_id")},
    "time": {"the monotonic clock": ("monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"),
             "processor time": ("process_time", "process_time_ns", "thread_time", "thread_time_ns")},
    "uuid": {"the time and this machine's address": ("uuid1", "getnode")},
}
MOST = 40    # lines written

_here = threading.local()
_calls = {}    # (file, line, what it asks for if that is not the factor) -> calls
_imports = {}    # the same for modules that were being imported
_first = {}    # when a line first asked
_seeded = []    # by calls of torch.manual_seed and the like
_draws = {"ready": False, "count": 0, "seed": None, "state": None, "own_seed": None}    # of torch's CPU generator
_state = {"seen": 0, "count": None, "factor": ""}
_begin = os.path.join(os.getcwd(), "")    # where the job was started: names of files are told from there


def own(file):
    """A file of the job itself: neither of the standard library nor of an installed package."""
    return not (file.startswith("<") or file.startswith(pins.FOLDER) or "-packages" + os.sep in file
                or file.startswith(os.path.dirname(os.__file__) + os.sep))


def shown(file):
    """The name of a file of the job as it is told: from where the job was started."""
    return file[len(_begin):] if file.startswith(_begin) else file


def _line(frame, what=""):
    return frame.f_code.co_filename, frame.f_lineno, what


def _look(calls=_calls):
    """Puts the calls since the last look down to the line that this thread was in."""
    now = _state["count"](NUMBERS.get(_state["factor"]))
    grown = now - _state["seen"]
    _state["seen"] = now
    line = getattr(_here, "line", None)
    if grown > 0 and line:
        _first.setdefault(line, monotonic_ns())
        calls[line] = calls.get(line, 0) + grown


def _asked(frame, what=""):
    """One call, by the function of `frame` itself."""
    if own(frame.f_code.co_filename):
        line = _line(frame, what)
        _first.setdefault(line, monotonic_ns())
        _calls[line] = _calls.get(line, 0) + 1


def _local(frame, event, _argument):
    _look()
    _here.line = _line(frame)
    if event == "return":
        back = frame.f_back
        while back is not None and not own(back.f_code.co_filename):
            back = back.f_back
        _here.line = _line(back) if back else None
    return _local


def _importing(frame, event, _argument):
    if event == "return":
        _look(_imports)
    return _importing


def _enter(frame, event, argument):
    if own(frame.f_code.co_filename):
        return _local(frame, event, argument)
    if frame.f_code.co_name != "_find_and_load":    # importlib's, of a module that is not there yet
        return None
    _look()    # what the line asked for before
    frame.f_trace_lines = False
    return _importing


def _text(file, line):
    import linecache

    return linecache.getline(os.path.join(_begin, file), line).strip()


def _hashes():
    from . import pin_hash

    def noted(thing, frame):
        _asked(frame)
        return id(thing)

    pin_hash.by(sys.modules["torch"], noted)


def _unpinned(name):
    module = sys.modules[name]
    for what, functions in UNPINNED[name].items():
        for function in functions:
            if hasattr(module, function):
                setattr(module, function, _noted(getattr(module, function), what))


def _noted(original, what):
    @functools.wraps(original)
    def call(*args):
        _asked(sys._getframe(1), what)
        return original(*args)

    return call


def _torch_draws(_number):
    """How often the state of torch's CPU generator has been seen to change by drawing, not by seeding."""
    if not _draws["ready"]:    # a torch that is only half imported crashes when it is asked
        return _draws["count"]
    generator = sys.modules["torch"].default_generator
    now = generator.initial_seed(), generator.get_state().numpy().tobytes()
    if now[0] == _draws["seed"] and now[1] != _draws["state"]:
        _draws["count"] += 1
    _draws["seed"], _draws["state"] = now
    return _draws["count"]


def _note_seeding():
    """Whoever calls one of these has seeded torch; so has whoever gives its generator another seed than that which torch drew for itself
    (`torch.default_generator.manual_seed`, `set_state`), which nobody need call for by name."""
    torch = sys.modules["torch"]
    for name in ("manual_seed", "seed", "set_rng_state"):
        original = getattr(torch, name)

        def call(*args, _original=original, **named):
            _seeded.append(True)
            return _original(*args, **named)

        functools.update_wrapper(call, original)
        for module in (torch, torch.random):
            setattr(module, name, call)
    _draws["own_seed"] = torch.default_generator.initial_seed()
    _draws["ready"] = True


def _never_seeded():
    """Torch's CPU generator has drawn, and nobody has seeded it."""
    if not _draws["ready"] or _seeded:
        return False
    torch = sys.modules["torch"]
    generator = torch.default_generator
    if generator.initial_seed() != _draws["own_seed"]:
        return False
    fresh = torch.Generator()
    fresh.manual_seed(generator.initial_seed())
    return not torch.equal(fresh.get_state(), generator.get_state())


def report():
    try:
        if _state["count"]:
            sys.settrace(None)
            _look()
        lines = []
        for line in [line for line in _calls if _text(*line[:2]).startswith(("import ", "from "))]:
            _imports[line] = _imports.get(line, 0) + _calls.pop(line)    # what a module asks for while it is imported
        for found, note in ((_calls, ""), (_imports, ", importing")):
            for where, calls in sorted(found.items(), key=lambda item: _first[item[0]]) if not lines else ():
                file, line, what = where
                place = "%s%s:%d%s" % (what and what + " at ", shown(file), line, note)
                lines.append((_state["factor"], "%s\t%d@%d\t%s" % (place, calls, _first[where], _text(file, line))))
        if _state["count"] and _never_seeded():
            pins.write([("torch-seeded", "no")], "consumer.")
        pins.write([(name, value.replace("\t", " | ")) for name, value in lines[:MOST]], "consumer.")
    except Exception:
        pass


def arm():
    factor = _state["factor"] = os.environ["TWINRUN_CONSUMERS"]
    patched = {"tensor-hash": {"torch": _hashes}, "unpinned": {name: functools.partial(_unpinned, name) for name in UNPINNED}}
    counters = {"torch-draws": _torch_draws}
    if factor not in NUMBERS and factor not in patched and factor not in counters:
        return
    pins.when_process_ends(report)
    if factor in patched:
        for name, patch in patched[factor].items():
            finder.when_imported(name, patch)
        return
    finder.when_imported("torch", _note_seeding)
    _state["count"] = counters.get(factor) or native.library().factor_calls
    _look()
    threading.settrace(_enter)
    sys.settrace(_enter)
