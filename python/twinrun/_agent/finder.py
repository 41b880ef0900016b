# SPDX-License-Identifier: Apache-2.0
"""Waits for the job to import torch, then sets the hooks; offers `import twinrun` where it is not installed.

A finder in front of sys.meta_path sees the import of torch begin. It lets the real finders answer and borrows the loader's
`exec_module` for that one call: when torch has finished importing, the hooks are set and nothing of ours stays in its spec.
"""
import sys

_state = {"finder": None, "armed": False}


class TorchFinder:
    """First in sys.meta_path until torch is imported. Answers for no module itself."""

    busy = False

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            if not _state["armed"] and _torch_ready():
                _arm_torch()
            return None
        if self.busy:
            return None
        self.busy = True
        try:
            spec = _real_spec(self, name, path, target)
        finally:
            self.busy = False
        if spec is not None and spec.loader is not None:
            try:
                _borrow(spec.loader)
            except Exception:
                pass
        return spec


class OwnFinder:
    """Last in sys.meta_path: the public package, for jobs that `import twinrun` in a Python that does not have it."""

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


def _borrow(loader):
    """Replaces loader.exec_module by one that runs the real one, leaves no trace of itself, and then sets the hooks."""
    original = loader.exec_module

    def exec_module(module):
        del loader.exec_module
        try:
            original(module)
        except BaseException as error:
            # Our frame is not part of the job's traceback.
            error.__traceback__ = error.__traceback__.tb_next
            raise
        _arm_torch()

    loader.exec_module = exec_module


def _torch_ready():
    torch = sys.modules.get("torch")
    spec = getattr(torch, "__spec__", None)
    return spec is not None and not getattr(spec, "_initializing", False)


def _arm_torch():
    """Sets the hooks in a torch that has been imported. Whatever goes wrong stays here."""
    if _state["armed"]:
        return
    _state["armed"] = True
    finder, _state["finder"] = _state["finder"], None
    try:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
        from . import torch_hooks

        torch_hooks.arm(sys.modules["torch"])
    except Exception as error:
        _say("torch hooks could not be set: %s: %s" % (type(error).__name__, error))


def _say(text):
    try:
        from . import core

        core.fail_with(text)
    except Exception:
        pass


def _at_exit():
    """Without torch nothing of ours has run so far; what the job did with NumPy alone must not pass for nothing."""
    try:
        if "numpy" in sys.modules and not _state["armed"]:
            from . import core

            if not core.S.begun:
                core.note_alone("unseen", "numpy arrays (no torch operation was seen)")
    except Exception:
        pass


def install():
    """Idempotent. Sets the hooks at once when torch is already there."""
    if _state["finder"] is not None or _state["armed"]:
        return
    import atexit

    atexit.register(_at_exit)
    sys.meta_path.append(OwnFinder())
    if _torch_ready():
        _arm_torch()
        return
    _state["finder"] = TorchFinder()
    sys.meta_path.insert(0, _state["finder"])
