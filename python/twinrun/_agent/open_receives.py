# SPDX-License-Identifier: Apache-2.0
"""Receives that leave open from whom they take a message, by number: in the order in which the
program posts them. agents/mpi/open.c does the same for MPI.
"""

import bisect
import threading

from . import core
from .order_file import LOST_NOTE

MOST = 4096  # under way at the same time (src/trace/order.h)

_open = []  # numbers of those that have got nothing yet, ascending
_keys = {}  # number -> (group, tag) of those
_posted = 0
_thread = None  # that posts them


def opens(key):
    """One is about to be posted. Its number. key: (group, tag)."""
    global _posted, _thread
    _posted += 1
    _open.append(_posted)
    _keys[_posted] = key
    if len(_open) > MOST:
        _keys.pop(_open.pop(0))
        core.note(LOST_NOTE, "more open receives under way than are counted")
    here = threading.get_ident()
    _thread = _thread or here
    if here != _thread:
        core.note(LOST_NOTE, "receives were posted in more than one thread")
    return _posted


def names_its_source(key):
    """A receive from one rank is about to be posted. gloo gives it a message that an open one, posted
    before, could have taken as well; which of the two got which is not in the records.
    """
    if key in _keys.values():
        core.note(LOST_NOTE, "one rank was asked for a message while a receive was open for any")


def closes(number):
    """It has got its message. What its record says of those that were posted before it."""
    _keys.pop(number, None)
    behind = bisect.bisect_left(_open, number)
    if behind < len(_open) and _open[behind] == number:
        del _open[behind]
    return ", behind %d open" % behind if behind else ""
