# SPDX-License-Identifier: Apache-2.0
"""Threads that train, and whose a gradient is.

While a backward runs, PyTorch's engine writes to the gradients of its parameters without the GIL.
Who reads `.grad` of such a parameter in another thread meets freed memory: the job crashes. So a
thread looks at the gradients of its own optimizers alone: those that it stepped last. One that has
never stepped belongs to the thread that made it, as long as no other thread trains.
"""

import sys
import threading

from .core import S

WAIT_S = 1.0  # nobody is kept longer

_threads = set()  # in which a backward or a step has begun
# held while gradients are read that another thread might begin to write to
_at_work = threading.RLock()


def begins():
    """A backward or a step begins in this thread."""
    me = threading.get_ident()
    if me not in _threads:
        with no_other_begins():
            _threads.add(me)


def alone():
    """Whether no other thread that is alive has begun to train."""
    if len(_threads) > 1:
        _threads.intersection_update(sys._current_frames())
    return _threads <= {threading.get_ident()}


class no_other_begins:
    """Inside `with`, no thread begins to train for the first time."""

    __slots__ = ("lock", "held")

    def __enter__(self):
        self.lock = _at_work
        self.held = self.lock.acquire(timeout=WAIT_S)

    def __exit__(self, *_raised):
        if self.held:
            self.lock.release()


def _after_fork():
    global _at_work
    _at_work = threading.RLock()
    _threads.clear()


def arm():
    S.on_fork.append(_after_fork)
