# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs. While one is captured tensors have no values, and what its replays compute is one
call that shows nothing: both are counted, and the verdict says so (note `cuda.graph`: replays, and
the line that captured first).
"""

import functools

from . import core, sites
from .core import S, hook, trim

_line = None  # that captured first
_replays = 0


@hook
def _captured():
    global _line
    if _line is None:
        _line = sites.user().split("\n")[0]


@hook
def _replayed():
    global _replays
    _replays += 1


def _wrap(cls, name, seen):
    original = getattr(cls, name)

    def wrapped(self, *args, **kwargs):
        if S.on:
            seen()
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            trim(error)
            raise

    functools.update_wrapper(wrapped, original)
    del wrapped.__wrapped__
    setattr(cls, name, wrapped)
    return wrapped


def _say():
    if _line is not None:
        core.note("cuda.graph", "%d %s" % (_replays, _line or "?"))


def _in_child():
    global _line, _replays
    _line, _replays = None, 0


def arm(torch):
    cls = getattr(getattr(torch, "cuda", None), "CUDAGraph", None)
    if not hasattr(cls, "capture_begin") or not hasattr(cls, "replay"):
        return []
    S.on_exit.append(_say)
    S.on_fork.append(_in_child)
    return [_wrap(cls, "capture_begin", _captured), _wrap(cls, "replay", _replayed)]
