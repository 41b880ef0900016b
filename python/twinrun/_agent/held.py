# SPDX-License-Identifier: Apache-2.0
"""Stands in front of what every message that Python sends or receives over torch.distributed goes
through, where an order is replayed (match_order.py). In other runs nothing is replaced.
"""

import atexit
import functools
import os
import time
from datetime import timedelta

from . import core, faults, order_file
from .core import T, trim
from .match_order import Replay, span_of

_here = None  # the Replay of this process


def _held_class(work, waited):
    """A work that stands for a receive which is not posted yet."""

    class Held(work):
        def __init__(self, replay, request):
            super().__init__()
            self._replay, self._request = replay, request

        def _posted(self, seconds=None):
            request = self._request
            self._replay.wait(request, seconds)
            if request.error is not None:
                raise request.error
            return request.inner

        def wait(self, timeout=timedelta(0)):
            request, began = self._request, time.monotonic()
            held = not request.posted.is_set()
            span = timeout.total_seconds() or span_of(request.group, request.tensors)
            inner = self._posted(span)
            if held and span is not None:
                left = max(0.001, span - (time.monotonic() - began))
                result = inner.wait(timedelta(seconds=left))
            else:
                result = inner.wait(timeout)
            waited(self)
            return result

        def is_completed(self):
            return self._request.posted.is_set() and self._posted().is_completed()

    def through(name):
        def method(self, *args, **kwargs):
            return getattr(self._posted(), name)(*args, **kwargs)

        return method

    for name in dir(work):
        if name not in ("wait", "is_completed") and not name.startswith(("__", "_pybind11")):
            setattr(Held, name, through(name))
    return Held


def _replace(group_class, held):
    """Stands in front of what every message that Python sends or receives goes through."""
    receive, receive_any, send = group_class.recv, group_class.recv_anysource, group_class.send

    def hand(request):
        if T.collective < 2:  # not dist.recv, which calls dist.irecv and waits for it
            _here.watch()
        return held(_here, request)

    def ask(method, args, named, *more):
        """What the replay makes of a call; None, or no work: it is made as it is."""
        replay = _here
        if replay is None:
            return None
        try:
            if named:
                raise TypeError("a message that is asked for in another way")
            return getattr(replay, method)(*args, *more)
        except Exception as error:
            faults.pass_on(error)
            replay.release("rank %s: %s" % (replay.rank, error))
            return None

    def recv(*args, **named):
        ask("receives", args, named)
        return receive(*args, **named)

    def recv_anysource(*args, **named):
        numbered, T.open_receive = T.open_receive, False
        request = ask("receives_any", args, named, numbered)
        return receive_any(*args, **named) if request is None else hand(request)

    def posted(*args, **named):
        work = send(*args, **named)
        if _here is not None:
            ask("sends", args, named)
        return work

    for name, original, ours in (
        ("recv", receive, recv),
        ("recv_anysource", receive_any, recv_anysource),
        ("send", send, posted),
    ):
        ours._torchdynamo_disable = True  # its compiler does not look into them
        setattr(group_class, name, functools.update_wrapper(ours, original))


def joined():
    if _here is not None:
        _here.joins()


def before_parting(original):
    def destroy_process_group(group=None, *args, **kwargs):
        if _here is not None:
            _here.parts(group)
        try:
            return original(group, *args, **kwargs)
        except BaseException as error:
            trim(error)
            raise

    destroy_process_group._torchdynamo_disable = True
    return functools.update_wrapper(destroy_process_group, original)


def _ends():
    if _here is not None:
        _here.ends()


def arm(native, waited):
    """Where the run's folder has orders. native: torch._C._distributed_c10d; waited: told of a
    receive that the program has waited for.
    """
    folder = os.environ.get("TWINRUN_RUN_DIR", "")
    receivers = order_file.receivers(folder)
    if not receivers:
        return
    plain = native.ProcessGroup.recv, native.ProcessGroup.recv_anysource

    def begin():  # also in a child that was forked, which is a rank of its own
        global _here
        _here = Replay(folder, receivers, *plain)

    begin()
    _replace(native.ProcessGroup, _held_class(native.Work, waited))
    atexit.register(_ends)
    core.S.on_fork.append(begin)
