# SPDX-License-Identifier: Apache-2.0
"""twinrun in a Python program: show arrays that no hook sees, name places, mark steps.

    import twinrun

    for batch in batches:
        with twinrun.scope("encoder"):
            hidden = encode(batch)
            twinrun.record("activation:hidden", hidden)
        twinrun.step()

PyTorch jobs need none of this: batches, weights, gradients and steps are seen by themselves. Every
call is a cheap no-op when the program does not run under `twinrun`, and none ever raises, prints,
or changes an array.
"""

import os
import threading

__all__ = ["record", "step", "scope", "save", "atomic_write"]

_public = None
_booting = False
_lock = threading.RLock()


def _off(*_args):
    return None


_nothing = (_off, _off, _off, _off)


def _calls():
    """The recording half, shared with the hooks of this process; a stand-in that does nothing
    without twinrun around.
    """
    return _public or _boot()


def _boot():
    """Threads that record for the first time at once wait for the one that loads it: or what they
    record would be dropped.
    """
    global _public, _booting
    with _lock:
        # booting: what is being loaded records something itself
        if _public is None and not _booting:
            _booting = True
            _public = _load()
            _booting = False
        return _public or _nothing


def _load():
    if "TWINRUN_RUN_DIR" not in os.environ:
        return _nothing
    try:
        from ._agent import boot

        boot.package()
        public = boot.own_import(boot.PACKAGE + ".public", "record")
        return public.record, public.step, public.push, public.pop
    except Exception:
        return _nothing


def _after_fork():
    """In a child, nobody is left to unlock what another thread of the parent held."""
    global _lock, _booting
    _lock, _booting = threading.RLock(), False


def record(name, array):
    """Records one array under its name, in the current scope and step.

    `array`: a torch tensor, or anything with `__array_interface__` (NumPy), the buffer protocol, or
    DLPack in host memory. It is read during the call and not kept. One that cannot be read is
    recorded as unobserved. `name`: a kind and a colon in front of it say what it is: "batch:",
    "weight:", "init:", "loss:", "gradient:", "activation:", "state:", "moment:", "indices:",
    "hyper:"; without one it is a value. The same name may come several times in a step.
    """
    _calls()[0](name, array)


def step():
    """Ends the current step. From the first call on steps end here only, no longer with the
    optimizer's.
    """
    _calls()[1]()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class scope:
    """`with twinrun.scope(name):` puts the records inside under `name`; scopes nest, per thread."""

    def __init__(self, name):
        self._name = name

    def __enter__(self):
        _calls()[2](self._name)
        return self

    def __exit__(self, *_exception):
        _calls()[3]()
        return False


def load_ipython_extension(shell):
    """`%load_ext twinrun` in a notebook: the magic %%twinrun."""
    from .notebook import TwinrunMagics

    shell.register_magics(TwinrunMagics)


def save(obj, path, digest=True, **options):
    """torch.save(obj, path, **options), whole or not at all: whatever happens meanwhile, path is
    what it was or what was saved.

    Beside it stands path + ".sha256" (`sha256sum -c` reads it) unless digest is False; where it
    stands it is right. Returns the SHA-256 of the file in hex. Works with and without twinrun
    around the program.
    """
    from ._checkpoint import save as torch_save

    return torch_save(obj, path, digest, **options)


def atomic_write(path, digest=True):
    """`with twinrun.atomic_write(path) as f:` the same for any writer: f.write(bytes), or a library
    that wants a path: os.fspath(f).

    The file is put in place at the end of the block; after an exception path is as it was. What a
    killed process left behind is taken away by the next write to the same path.
    """
    from ._checkpoint import atomic_write as place

    return place(path, digest)
