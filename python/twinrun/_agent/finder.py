# SPDX-License-Identifier: Apache-2.0
"""Waits for the job to import torch, then sets the hooks; offers `import twinrun` where it is not
installed.

A finder in front of sys.meta_path sees the import of torch begin. It lets the real finders answer
and borrows the loader's `exec_module` for that one call: when torch has finished importing, the
hooks are set and nothing of ours stays in its spec. Pins wait for their libraries in the same way
(`when_imported`).
"""

import os
import sys

from . import fresh

# process: the one that was armed; a child that was forked later has another number
_state = {"finder": None, "armed": False, "process": 0, "arrived": set()}
_waiting = {}  # name of a module -> functions to call once it has been imported


class ImportFinder:
    """First in sys.meta_path while a module is waited for. Answers for no module itself."""

    def __init__(self):
        self.busy = set()

    def find_spec(self, name, path=None, target=None):
        if name not in _waiting:
            for waited in list(_waiting):
                if _ready(waited):
                    _arrived(waited)
            return None
        if name in self.busy:
            return None
        self.busy.add(name)
        try:
            spec = _real_spec(self, name, path, target)
        finally:
            self.busy.discard(name)
        if spec is not None and spec.loader is not None and not isinstance(spec.loader, type):
            try:
                _borrow(spec.loader, name)
            except Exception:
                pass
        return spec


class OwnFinder:
    """Last in sys.meta_path: the public package, for jobs that `import twinrun` in a Python that
    does not have it.
    """

    def find_spec(self, name, path=None, target=None):
        if name != "twinrun":
            return None
        import os

        folder = os.environ.get("TWINRUN_PYTHON_DIR")
        if not folder:
            return None
        external = sys.modules["_frozen_importlib_external"]
        return external.PathFinder.find_spec(name, [folder])


def _real_spec(asking, name, path, target):
    for finder in list(sys.meta_path):
        find = getattr(finder, "find_spec", None)
        if finder is asking or find is None:
            continue
        spec = find(name, path, target)
        if spec is not None:
            return spec
    return None


def _borrow(loader, name):
    """Replaces loader.exec_module by one that runs the real one, leaves no trace of itself, and
    then tells those who wait.
    """
    original = loader.exec_module

    def exec_module(module):
        del loader.exec_module
        try:
            original(module)
        except BaseException as error:
            # Our frame is not part of the job's traceback.
            error.__traceback__ = error.__traceback__.tb_next
            raise
        _arrived(name)

    loader.exec_module = exec_module


def _ready(name):
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return spec is not None and not getattr(spec, "_initializing", False)


def _arrived(name):
    """The module has been imported: calls those who waited for it, once, and looks for it no
    longer.
    """
    functions = _waiting.pop(name, ())
    if not _waiting:
        finder, _state["finder"] = _state["finder"], None
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
    for function in functions:
        try:
            function()
        except Exception as error:
            _pass_on(error)
            _say("after the import of %s: %s: %s" % (name, type(error).__name__, error))


def when_imported(name, function):
    """Calls `function()` right after the module of that name has been imported, before those who
    asked earlier; now when it is there already. What the function raises switches the agent off,
    not the job.
    """
    _waiting.setdefault(name, []).insert(0, function)
    if _ready(name):
        _arrived(name)
    elif _state["finder"] is None:
        _state["finder"] = ImportFinder()
        sys.meta_path.insert(0, _state["finder"])


def _arm_torch():
    """Sets the hooks in a torch that has been imported. Whatever goes wrong stays here."""
    if _state["armed"]:
        return
    _state["armed"] = True
    try:
        from . import torch_hooks

        torch_hooks.arm(sys.modules["torch"])
    except Exception as error:
        _pass_on(error)
        _say("torch hooks could not be set: %s: %s" % (type(error).__name__, error))


def _arm_fits(name):
    from . import at_end, fits_hooks

    fits_hooks.arm(name, _state["process"])
    at_end.arm()


def _arm_frames():
    from . import frames

    frames.arm()


def _leave_frames(name):
    if "numpy" in sys.modules:
        from . import frames

        frames.disarm(name)


def _arm_jax():
    """Sets the hooks of jax; an error is told by _arrived()."""
    from . import jax_hooks

    jax_hooks.arm()


def _arm_tensorflow(name):
    """TensorFlow or Keras has been imported; either may import the other one."""
    _state["arrived"].add(name)
    if name == "keras":  # whatever it computes with
        from . import sites

        sites.skip(sys.modules[name])
    if "tensorflow" in _state["arrived"]:
        from . import tf_hooks

        tf_hooks.arm("keras" in _state["arrived"])


def _pass_on(error):
    from . import faults

    faults.pass_on(error)


def _say(text):
    try:
        from . import core

        core.fail_with(text)
    except Exception:
        pass


def _at_exit():
    """Without torch nothing of ours has run so far; what the job did with NumPy alone must not pass
    for nothing: what it holds now is recorded, or it is said to be unseen.
    """
    try:
        if "numpy" in sys.modules and not _state["armed"]:
            from . import core

            # a program of MPI is seen at its messages, as one in C is
            messages = "mpi4py.MPI" in sys.modules and os.environ.get("TWINRUN_MPI_LIB")
            if not core.S.begun and not messages and not _seen_at_end():
                what = "numpy arrays (no torch operation was seen)"
                if "jax" in sys.modules:
                    what = "arrays of jax and numpy (no jitted function of the job was called)"
                core.note_alone("unseen", what)
    except Exception:
        pass


def _seen_at_end():
    try:
        from . import at_end

        return at_end.at_exit()
    except Exception:
        return False


def install():
    """Idempotent. Sets the hooks at once when torch is already there."""
    if _state["finder"] is not None or _state["armed"]:
        return
    import atexit

    _state["process"] = os.getpid()
    atexit.register(_at_exit)
    sys.meta_path.append(OwnFinder())
    for name, function in fresh.ASKED:
        when_imported(name, function)
    when_imported("torch", _arm_torch)
    fits = ("sklearn.base", "joblib.parallel", "xgboost.training", "lightgbm.engine")
    for name in (*fits, "catboost.core"):
        when_imported(name, lambda name=name: _arm_fits(name))
    when_imported("jax", _arm_jax)
    for name in ("keras", "tensorflow"):
        when_imported(name, lambda name=name: _arm_tensorflow(name))
    when_imported("numpy", _arm_frames)
    for name in ("torch", "jax", "tensorflow", "twinrun"):
        when_imported(name, lambda name=name: _leave_frames(name))
