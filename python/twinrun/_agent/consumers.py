# SPDX-License-Identifier: Apache-2.0
"""`TWINRUN_CONSUMERS`: which lines of the job ask for what varies (`entropy`, `clock`, `dir-order`,
`tensor-hash`, `torch-draws`, `tensorflow-draws` or `numpy-seeds`), whatever library does it for
them, or (`unpinned`) for what no pin reaches.

The libc agent counts the calls (`TWINRUN_FACTORS=entropy=audit`); a trace function, set in frames
of the job's own files only, looks after each line whether the count has grown. Lines
`consumer.FACTOR` in the run folder's `factors` when the process ends. For one run of its own after
a search: tracing is slow. Each thread has a count of its own, so a line is not taken for what
another thread asks, and a thread that is not the main one is named. Hashes of tensors and modules
and generators of NumPy that get no seed need no tracing: the line that asks is the caller. Modules
seed themselves when they are imported, also in the middle of a line that does something else; what
they draw then is told apart (`, importing`) and written only when nothing else asked. What no pin
reaches is named only where the job's own line asks: libraries read the monotonic clock and the
process id for reasons of their own.
"""

import functools
import os
import sys
import threading
from time import monotonic_ns

from . import finder, native, pins

NUMBERS = {"entropy": 0, "clock": 1, "dir-order": 2}  # enum tw_factor
UNPINNED = {  # module -> what its functions tell
    "os": {"the process id": ("getpid", "getppid", "getpgid", "getsid")},
    "threading": {"the id of a thread": ("get_ident", "get_native_id")},
    "time": {
        "the monotonic clock": ("monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"),
        "processor time": ("process_time", "process_time_ns", "thread_time", "thread_time_ns"),
    },
    "uuid": {"the time and this machine's address": ("uuid1", "getnode")},
}
MOST = 40  # lines written
# what TensorFlow makes of a function while it traces it, in a file that it removes
AUTOGRAPH = os.sep + "__autograph_generated_file"

COMMAND = "python -c"  # in place of a file: the text that the interpreter was given

_here = threading.local()
_calls = {}  # (file, line, what it asks for if that is not the factor) -> calls
_imports = {}  # the same for modules that were being imported
_first = {}  # when a line first asked
_threads = {}  # the names of the threads in which it did, the main one's ""
_codes = set()  # all code of the command behind `python -c`
_seeded = []  # by calls of torch.manual_seed and the like
# of torch's CPU generator
_draws = {"ready": False, "count": 0, "seed": None, "state": None, "own_seed": None}
_state = {
    "seen": 0,
    "count": None,
    "by_thread": False,
    "factor": "",
    "placed": 0,
    "alone": True,
    "command": None,
}
# twinrun's own, the agent's start included
_package = os.path.dirname(os.path.dirname(pins.FOLDER)) + os.sep
# where the job was started: names of files are told from there
_begin = os.path.join(os.getcwd(), "")


def own(file):
    """A file of the job itself: neither of the standard library nor of an installed package."""
    return not (
        file.startswith(("<", _package))
        or AUTOGRAPH in file
        or "-packages" + os.sep in file
        or file.startswith(os.path.dirname(os.__file__) + os.sep)
    )


def _given():
    """The text behind -c, where it is the job's own; None: this interpreter was given none."""
    words = iter(getattr(sys, "orig_argv", ())[1:])
    for word in words:
        letters, c, text = word[1:].partition("c")
        if word in ("-W", "-X", "--check-hash-based-pycs"):
            next(words, None)
        elif not word.startswith("-") or "m" in letters and not word.startswith(("--", "-W", "-X")):
            return None
        elif c and not word.startswith(("--", "-W", "-X")):
            text = text or next(words, "")
            # its workers' start is Python's
            return None if text.startswith("from multiprocessing.") else text
    return None


def _of_job(frame):
    """Does this frame run a line of the job's own, in a file or in the command?"""
    if frame.f_code.co_filename != "<string>":
        return own(frame.f_code.co_filename)
    # its code has no file; the outermost frame is the one that nobody has called
    if not _codes and _state["command"]:
        outermost = frame
        while outermost.f_back is not None:
            outermost = outermost.f_back
        _learn(outermost.f_code)
    return frame.f_code in _codes


def _learn(main):
    waiting = [main] if main.co_filename == "<string>" and main.co_name == "<module>" else []
    while waiting:
        code = waiting.pop()
        _codes.add(code)
        waiting.extend(c for c in code.co_consts if hasattr(c, "co_code"))


def shown(file):
    """The name of a file of the job as it is told: from where the job was started."""
    return file[len(_begin) :] if file.startswith(_begin) else file


def _line(frame, what=""):
    file = frame.f_code.co_filename
    return COMMAND if file == "<string>" else file, frame.f_lineno, what


def _grown():
    """Calls since the last look, by this thread. While it is the only one of Python those of
    threads below belong to its line, too.
    """
    count, factor = _state["count"], NUMBERS.get(_state["factor"])
    if not _state["by_thread"]:
        now = count(factor)
        grown, _state["seen"] = now - _state["seen"], now
        return grown
    here, every = count(factor, 1), count(factor, 0)
    grown = here - getattr(_here, "seen", 0)
    _here.seen = here
    _state["placed"] += grown
    # without their lock, which this thread may hold
    alone = len(threading._active) <= 1 and not threading._limbo
    elsewhere = every - _state["seen"] - _state["placed"]
    if elsewhere > 0 and alone and _state["alone"]:
        grown += elsewhere
    _state["alone"] = alone
    if alone:
        _state["seen"], _state["placed"] = every, 0
    return grown


def _note(calls, line, grown):
    _first.setdefault(line, monotonic_ns())
    calls[line] = calls.get(line, 0) + grown
    # threading.current_thread() would make one for a thread of C
    thread = threading._active.get(threading.get_ident())
    name = "" if thread is None or thread is threading.main_thread() else thread.name
    if name not in _threads.setdefault(line, []):
        _threads[line].append(name)


def _look(calls=_calls):
    """Puts the calls since the last look down to the line that this thread was in."""
    grown = _grown()
    line = getattr(_here, "line", None)
    if grown > 0 and line:
        _note(calls, line, grown)


def _asked(frame, what=""):
    """One call, by the function of `frame` itself."""
    if _of_job(frame):
        _note(_calls, _line(frame, what), 1)


def _asked_through(frame):
    """One call, by the innermost line of the job that stands behind it."""
    while frame is not None and not _of_job(frame):
        frame = frame.f_back
    if frame is not None:
        _asked(frame)


def _local(frame, event, _argument):
    _look()
    _here.line = _line(frame)
    if event == "return":
        back = frame.f_back
        while back is not None and not _of_job(back):
            back = back.f_back
        _here.line = _line(back) if back else None
    return _local


def _importing(frame, event, _argument):
    if event == "return":
        _look(_imports)
    return _importing


def _enter(frame, event, argument):
    if _of_job(frame):
        return _local(frame, event, argument)
    if frame.f_code.co_name != "_find_and_load":  # importlib's, of a module that is not there yet
        return None
    _look()  # what the line asked for before
    frame.f_trace_lines = False
    return _importing


def _text(file, line):
    import linecache

    if file == COMMAND:
        return "".join(_state["command"].split("\n")[line - 1 : line]).strip()
    return linecache.getline(os.path.join(_begin, file), line).strip()


def _hashes():
    from . import pin_hash

    def noted(thing, frame):
        _asked(frame)
        return id(thing)

    pin_hash.by(sys.modules["torch"], noted)


def _numpy_seeds():
    """Generators of NumPy that are made without a seed, whatever library makes them:
    `default_rng()`, `RandomState()`, `PCG64()`.
    """
    module = sys.modules["numpy.random.bit_generator"]
    original = module.randbits

    def randbits(bits):
        _asked_through(sys._getframe(1))
        return original(bits)

    module.randbits = randbits


def _tensorflow_draws():
    """Operations of TensorFlow that draw, with a seed neither of their own nor of the job's. One
    within a traced function asks once, while it is traced.
    """
    room = sys.modules["tensorflow.python.framework.random_seed"]
    original = room.get_seed

    def get_seed(op_seed):
        found = original(op_seed)
        if found == (None, None):
            _asked_through(sys._getframe(1))
        return found

    room.get_seed = functools.update_wrapper(get_seed, original)


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
    """How often the state of torch's CPU generator has been seen to change by drawing, not by
    seeding.
    """
    if not _draws["ready"]:  # a torch that is only half imported crashes when it is asked
        return _draws["count"]
    generator = sys.modules["torch"].default_generator
    now = generator.initial_seed(), generator.get_state().numpy().tobytes()
    if now[0] == _draws["seed"] and now[1] != _draws["state"]:
        _draws["count"] += 1
    _draws["seed"], _draws["state"] = now
    return _draws["count"]


def _note_seeding():
    """Whoever calls one of these has seeded torch; so has whoever gives its generator another seed
    than that which torch drew for itself (`torch.default_generator.manual_seed`, `set_state`),
    which nobody need call for by name.
    """
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


def _in_threads(line):
    """ " in thread loader"; nothing where the main thread alone asked."""
    names = [native.masked(name).replace("|", "/") for name in _threads.get(line, ()) if name]
    if not names:
        return ""
    more = " and %d more" % (len(names) - 2) if len(names) > 2 else ""
    several = "" in _threads[line] or len(names) > 1
    return " in thread%s %s%s%s" % (
        "s" if several else "",
        ", ".join(names[:2]),
        ", the main one" if "" in _threads[line] else "",
        more,
    )


def _in_child():
    """A forked child begins to count anew, and what its parent has seen its parent tells."""
    for found in (_calls, _imports, _first, _threads):
        found.clear()
    _state.update(seen=0, placed=0, alone=True)
    _here.seen = 0


def report():
    try:
        if _state["count"]:
            sys.settrace(None)
            _look()
        lines = []
        for line in [line for line in _calls if _text(*line[:2]).startswith(("import ", "from "))]:
            # what a module asks for while it is imported
            _imports[line] = _imports.get(line, 0) + _calls.pop(line)
        for found, note in ((_calls, ""), (_imports, ", importing")):
            for where, calls in (
                sorted(found.items(), key=lambda item: _first[item[0]]) if not lines else ()
            ):
                file, line, what = where
                place = "%s%s:%d%s" % (what and what + " at ", shown(file), line, note)
                lines.append(
                    (
                        _state["factor"],
                        "%s\t%d@%d%s\t%s"
                        % (
                            place,
                            calls,
                            _first[where],
                            _in_threads(where),
                            native.masked(_text(file, line)),
                        ),
                    )
                )
        if _state["count"] and _never_seeded():
            pins.write([("torch-seeded", "no")], "consumer.")
        pins.write(
            [(name, value.replace("\t", " | ")) for name, value in lines[:MOST]], "consumer."
        )
    except Exception:
        pass


def arm():
    factor = _state["factor"] = os.environ["TWINRUN_CONSUMERS"]
    patched = {
        "tensor-hash": {"torch": _hashes},
        "numpy-seeds": {"numpy.random": _numpy_seeds},
        "tensorflow-draws": {"tensorflow": _tensorflow_draws},
        "unpinned": {name: functools.partial(_unpinned, name) for name in UNPINNED},
    }
    counters = {"torch-draws": _torch_draws}
    if factor not in NUMBERS and factor not in patched and factor not in counters:
        return
    _state["command"] = _given()
    pins.when_process_ends(report)
    if factor in patched:
        for name, patch in patched[factor].items():
            finder.when_imported(name, patch)
        return
    finder.when_imported("torch", _note_seeding)
    _state["count"] = counters.get(factor) or native.library().factor_calls
    _state["by_thread"] = factor not in counters
    if _state["by_thread"]:
        os.register_at_fork(after_in_child=_in_child)
    _look()
    threading.settrace(_enter)
    sys.settrace(_enter)
