# SPDX-License-Identifier: Apache-2.0
"""What a script of NumPy, SciPy and pandas holds when it ends: the arrays, tables and numbers in
variables of its own files, and the generators. Looked at once, behind the script's last line.

What its functions held is recorded where they end (frames.py, calls.py). Where they were not
watched, what they computed and did not hand back to a variable is not seen, and that is told.
"""

import ast
import os
import resource
import sys
import threading
import warnings

from . import buffers, calls, clock_names, consumers, core, faults, frames, fresh, look, native
from . import steps, tensors
from .core import S, T

_state = {"armed": False, "done": False}

_HANDING_BACK = {
    "bottleneck",
    "cloudpickle",
    "contourpy",
    "imblearn",  # this and its like: what they fit is seen by their fits
    "joblib",
    "lightgbm",
    "matplotlib",
    "mpl_toolkits",
    "narwhals",
    "networkx",
    "numexpr",
    "numpy",
    "pandas",
    "PIL",
    "pyarrow",
    "scipy",
    "seaborn",
    "skimage",
    "sklearn",
    "statsmodels",
    "sympy",
    "threadpoolctl",
    "tqdm",
    "xarray",
    "xgboost",
}


# ---------------------------------------------------------------- the script


def script():
    """The file that the process was started with; None when it is not one of the job's own.

    `__main__.__file__` is gone by now. Before Python 3.9 the loader's path is relative: a script
    that has changed its folder is not found, and unseen.
    """
    main = sys.modules.get("__main__")
    file = getattr(getattr(main, "__loader__", None), "path", None)
    if not isinstance(file, str) or not file.endswith(".py") or not os.path.isfile(file):
        return None
    file = os.path.abspath(file)
    return file if consumers.own(file) else None


def _own_modules(file):
    """name -> module: `__main__`, and whatever was imported that is neither Python's own nor
    installed.
    """
    found = {"__main__": sys.modules["__main__"]}
    for name, module in list(sys.modules.items()):
        there = getattr(module, "__file__", None)
        if isinstance(there, str) and os.path.abspath(there) != file:
            if consumers.own(os.path.abspath(there)):
                found[name] = module
    return found


def _computing_packages():
    """Installed packages that have NumPy at hand and are none of those whose functions are known to
    hand back what they compute: one may be the job itself (`from mine.cli import main; main()`).
    """
    found = set()
    for module in list(sys.modules.values()):
        there = getattr(module, "__file__", None)
        if not isinstance(there, str) or "-packages" + os.sep not in there:
            continue
        # by its place: compiled modules go by names of their own
        package = there.split("-packages" + os.sep, 1)[1].partition(os.sep)[0].partition(".")[0]
        if package not in _HANDING_BACK and any(
            value.__name__.partition(".")[0] == "numpy"
            for value in list(vars(module).values())
            if type(value) is type(sys)
        ):
            found.add(package)
    return sorted(found)


def _has_functions(file, watched):
    """Does a file define functions or classes, whose work its variables do not show, or execute
    text that may? watched: each call of its functions was.
    """
    try:
        with open(file, "rb") as f:
            tree = ast.parse(f.read())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return True
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return any(
        isinstance(node, kinds) and not watched or isinstance(node, ast.Name) and node.id == "exec"
        for node in ast.walk(tree)
    )


def _find(file):
    own, unwatched = _own_modules(file), frames.lost()
    held = look.Look(sys.modules["numpy"], own.__contains__)
    held.left_out = clock_names.program.fields
    # Who has only started others, and holds no array, is their launcher and no script of its own.
    launches = not S.begun and (_is_seen_otherwise() or _has_started_programs())
    for name, module in own.items():
        there = file if name == "__main__" else os.path.abspath(module.__file__)
        held.scope = os.path.basename(file) if name == "__main__" else name
        _variables(held, there, module, held.walk if launches else held.variable)
        if not there.endswith(".py") or _has_functions(there, not unwatched):
            why = "" if unwatched in ("", frames.NEVER) else " (%s)" % unwatched
            held.missed(
                "what functions of %s computed and did not leave in its variables%s"
                % (os.path.basename(there), why)
            )
    held.look_into_holders()
    _find_others(held)
    return held


def _has_started_programs():
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt > 0


def _variables(held, file, module, look_at):
    """What the variables of one module hold. look_at: with their plain values, or without."""
    clock_names.program.read(file)
    clock = clock_names.program.of_module(file)
    for variable, value in list(vars(module).items()):
        if look.is_pythons_name(variable):
            continue
        if variable in clock:
            held.walk(variable, value)
            if look_at != held.walk:
                calls.leave_out(variable, held.scope, value)
        else:
            look_at(variable, value)


def _find_others(held):
    """The generators that all share, and who may have computed beside the script."""
    packages = _computing_packages()
    for package in packages:
        held.missed("what the package %s computed" % package)
    if "fits" in S.seen:  # their threads, processes and generators are told of there
        return
    if "runpy" in sys.modules:
        held.missed("what other files ran by runpy computed")
    if threading.active_count() > 1:
        held.missed("threads of the script that still ran when it ended")
    if _has_started_programs():
        held.missed("what programs that the script started computed")
    # a package may draw from the generators that all share, for purposes of its own (JAX does)
    for name in ("numpy", "python.random") if not packages else ():
        state = fresh.moved(name)
        if state is not None:
            held.scope = ""
            held.state(name, state)


def _record(held):
    pending = tensors.pending()
    flags = native.STATS | native.SKETCH
    for rows, phase, kind, op in (
        (held.states, native.RNG, native.STATE, "the script"),
        (held.arrays, native.OUTPUT, native.VALUE, "at the end"),
    ):
        for scope, name, array in rows:
            if isinstance(array, bytes):
                array = bytearray(array or b"\0")
            buffers.add(pending, phase, kind, name, array, scope, op, "", flags)
    pending.flush()


def _look(file):
    """Records what the script holds. False when there is nothing to tell."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        held = _find(file)
    if not held.arrays and not held.states and not S.begun or not core.begin():
        return False
    _state["done"] = True
    _record(held)
    core.note("held", "%d %s" % (len(held.arrays), os.path.basename(file)))
    for name in ("numpy", "python.random"):
        told = any(scope == "" and name == of for scope, of, _state in held.states)
        if told and fresh.only_drawn_from(name):
            core.note("unseeded." + name, "the script")
    for text in held.unseen:
        core.unseen(text)
    if not look.computed:
        core.unseen("arrays and numbers with a point: the script and its functions held none")
    calls.tell_clock()
    return True


def _is_seen_otherwise():
    """A job that shows what counts, or of which more is seen than its variables."""
    return any(name in sys.modules for name in ("torch", "jax", "tensorflow", "twinrun"))


def _at_exit():
    """The end of a process that has recorded on its way: its functions, or its fits."""
    file = script()
    if file is None or _state["done"] or _is_seen_otherwise() or S.forked or core.child_number():
        return
    if S.lib.step() > 0 and "fits" not in S.seen:
        return  # a library in C has shown steps of its own
    if "fits" in S.seen and frames.lost() == frames.NEVER:
        return  # what is computed beside fits is told there as not compared
    if _look(file) and "fits" in S.seen:
        steps.close()  # so that this is compared as a step, too


def arm():
    """For a process that records before its end."""
    if not _state["armed"]:
        _state["armed"] = True
        S.on_exit.append(_at_exit)


def at_exit():
    """For a process of which nothing was recorded. False when there is nothing to tell: then it is
    said to be unseen.
    """
    file = script()
    if not hasattr(sys.modules["numpy"], "ndarray"):
        return False  # a module of the job that has this name
    if file is None or S.begun or not core.start() or S.lib.step() > 0:
        return False  # the last: a library in C has shown steps of its own
    T.busy = True
    try:
        frames.stop()
        return _look(file)
    except Exception as error:
        faults.pass_on(error)
        core.fail("at the end", error)
        return False
    finally:
        T.busy = False
        if S.begun:
            core._finish()
