# SPDX-License-Identifier: Apache-2.0
"""The pin `exact-allreduce`: sums over ranks are made of integers (twin/reduce.h), so that neither
the backend's algorithm nor the order of arrival nor the number of ranks that share the same
contributions decides about their bits.

Reached: `all_reduce` with SUM of floating-point tensors in the host's memory, and what
DistributedDataParallel averages. Left as they are, and named in the effect when they occur: tensors
on a device, other sums (`reduce`, `reduce_scatter`), a job that brings its own communication hook.
"""

import functools
import importlib
import os
import sys

from . import pins

PACKAGE = "_twinrun_exact"  # our own twinrun.torch: the job may have another one, or none


def _exact():
    if PACKAGE not in sys.modules:
        package = sys.modules[PACKAGE] = type(sys)(PACKAGE)
        package.__path__ = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    room = importlib.import_module(PACKAGE + ".torch")
    room._library._load()
    return room.exact_allreduce


def _fits(torch, tensor):
    return (
        isinstance(tensor, torch.Tensor)
        and tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and tensor.dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16)
        and not tensor.is_conj()
        and not tensor.is_neg()
    )


def exact(pin, torch):
    if pin.vary:
        raise RuntimeError("can only be pinned")
    if not torch.distributed.is_available():
        pin.effect("", unused="no torch.distributed in this build of torch")
        return
    _collectives(pin, torch, torch.distributed.distributed_c10d)
    pins.finder.when_imported(
        "torch.nn.parallel.distributed",
        lambda: _ddp(pin, torch, sys.modules["torch.nn.parallel.distributed"]),
    )
    pin.effect("all_reduce and DistributedDataParallel add integers")


def _collectives(pin, torch, c10d):
    add, original, sum_of = _exact(), c10d.all_reduce, c10d.ReduceOp.SUM
    finished = _finished(torch, c10d)

    def all_reduce(tensor, op=sum_of, group=None, async_op=False):
        ours = op == sum_of and isinstance(tensor, torch.Tensor) and tensor.is_floating_point()
        if ours and not _fits(torch, tensor):
            pin.say(
                "left as it is: all_reduce of %s on %s, at %s"
                % (tensor.dtype, tensor.device.type, pins.where(sys._getframe(1)))
            )
        elif (
            ours
            and not c10d._rank_not_in_group(group)
            and c10d.get_world_size(group) > 1
            and not _coalescing(c10d)
        ):
            add(tensor, group=group, out=tensor)
            return finished(tensor) if async_op else None
        return original(tensor, op, group, async_op)

    functools.update_wrapper(all_reduce, original)
    for place in (c10d, torch.distributed):
        if place.all_reduce is original:
            place.all_reduce = all_reduce
    pins.hide_from_compiler([all_reduce])


def _coalescing(c10d):
    return getattr(getattr(c10d, "_world", None), "pg_coalesce_state", None)


def _finished(torch, c10d):
    class Finished(c10d.Work):
        """The handle of a sum that has been made already."""

        def __init__(self, tensor):
            super().__init__()
            self._result = [tensor]

        def wait(self, timeout=None):
            recorder = sys.modules.get(__package__ + ".distributed")
            if recorder:
                recorder._waited(self)  # as it follows the waits for torch's own
            return True

        def is_completed(self):
            return True

        def is_success(self):
            return True

        def exception(self):
            return None

        def synchronize(self):
            pass

        def result(self):
            return self._result

        def get_future(self):
            future = torch.futures.Future()
            future.set_result(self._result)
            return future

    return Finished


# ---------------------------------------------------------------- DistributedDataParallel


def _ddp(pin, torch, module):
    """DDP takes one communication hook, for good: ours, which hands over to the job's own when it
    brings one.
    """
    add, wrapper = _exact(), module.DistributedDataParallel
    register, builtin = wrapper.register_comm_hook, wrapper._register_builtin_comm_hook

    class Hook:
        theirs = None

        def __init__(self, group):
            self.group = group

        def __call__(self, _state, bucket):
            if self.theirs:
                state, hook = self.theirs
                return hook(state, bucket)
            gradients = bucket.buffer()
            if _fits(torch, gradients):
                add(gradients, group=self.group, mean=True, out=gradients)
                future = torch.futures.Future()
                future.set_result(gradients)
                return future
            pin.say(
                "left as it is: gradients of %s on %s" % (gradients.dtype, gradients.device.type)
            )
            gradients.div_(torch.distributed.get_world_size(self.group))
            work = torch.distributed.all_reduce(gradients, group=self.group, async_op=True)
            return work.get_future().then(lambda future: future.value()[0])

    def made(ddp, _caller):
        if (
            getattr(ddp, "mixed_precision", None) is None
            and torch.distributed.get_world_size(ddp.process_group) > 1
        ):
            hook = ddp.__dict__["_twinrun_hook"] = Hook(ddp.process_group)

            def exact_average(state, bucket):
                return hook(state, bucket)

            register(ddp, None, exact_average)

    def register_comm_hook(self, state, hook):
        ours = self.__dict__.get("_twinrun_hook")
        if ours is None or ours.theirs:
            return register(self, state, hook)  # refuses a second one, as torch does
        self._check_comm_hook(hook)
        ours.theirs = (state, hook)
        pin.overridden(sys._getframe(1))

    def _register_builtin_comm_hook(self, *args, **named):
        if self.__dict__.get("_twinrun_hook") is None:
            return builtin(self, *args, **named)
        pin.kept("a built-in communication hook", sys._getframe(1))

    pins.after_init(wrapper, made)
    wrapper.register_comm_hook = functools.update_wrapper(register_comm_hook, register)
    wrapper._register_builtin_comm_hook = functools.update_wrapper(
        _register_builtin_comm_hook, builtin
    )
