# SPDX-License-Identifier: Apache-2.0
"""Gradient scaling: the scale that each loss is multiplied by, before that loss is recorded, and steps that the scaler leaves out."""
import functools
import weakref

from . import core, tensors
from .core import S, hook, trim
from .native import HYPER, OPTIMIZER

_scaler = None    # weak reference to the scaler in use


@hook
def _scaled(scaler):
    global _scaler
    if _scaler is None or _scaler() is not scaler:
        _scaler = weakref.ref(scaler)
    scale = getattr(scaler, "_scale", None)    # None: the scaler is switched off
    if scale is not None and core.begin():
        pending = tensors.pending()
        pending.add(OPTIMIZER, HYPER, "loss scale", scale, "", type(scaler).__name__, flags=0)
        pending.flush()


@hook
def _skipped(optimizer):
    from . import optim

    if core.begin():
        optim.skipped(optimizer)


def _followed_steps(optimizer):
    from . import optim

    found = optim._known.get(id(optimizer))
    return found.steps if found is not None and found.reference() is optimizer else 0


def arm(torch):
    scaler = None
    for path in ("amp.grad_scaler", "cuda.amp.grad_scaler"):
        module = torch
        for part in path.split("."):
            module = getattr(module, part, None)
        scaler = getattr(module, "GradScaler", None)
        if scaler is not None:
            break
    if scaler is None or not hasattr(scaler, "_maybe_opt_step"):
        S.unarmed.append("gradient scaler (this torch has another one)")
        return []
    original, maybe = scaler.scale, scaler._maybe_opt_step

    def scale(self, *args, **kwargs):
        try:
            result = original(self, *args, **kwargs)
        except BaseException as error:
            trim(error)
            raise
        if S.on:
            _scaled(self)
        return result

    def _maybe_opt_step(self, optimizer, *args, **kwargs):
        before = _followed_steps(optimizer)
        try:
            result = maybe(self, optimizer, *args, **kwargs)
        except BaseException as error:
            trim(error)
            raise
        if S.on and _followed_steps(optimizer) == before:
            _skipped(optimizer)
        return result

    scaler.scale = functools.update_wrapper(scale, original)
    scaler._maybe_opt_step = functools.update_wrapper(_maybe_opt_step, maybe)
    S.armed.append("gradient scaler")
    return [scale, _maybe_opt_step]
