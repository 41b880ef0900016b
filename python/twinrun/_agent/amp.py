# SPDX-License-Identifier: Apache-2.0
"""Gradient scaling: the loss scale of each step, and steps that the scaler leaves out."""
import functools
import weakref

from . import core
from .core import S, hook, trim

_scaler = None    # weak reference to the scaler in use


def current_scale():
    """The scale tensor of the scaler in use; None without one."""
    scaler = _scaler() if _scaler is not None else None
    return getattr(scaler, "_scale", None)


@hook
def _in_use(scaler):
    global _scaler
    if _scaler is None or _scaler() is not scaler:
        _scaler = weakref.ref(scaler)


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
    if scaler is None or not hasattr(scaler, "_maybe_opt_step") or not hasattr(scaler, "_check_scale_growth_tracker"):
        S.unarmed.append("gradient scaler (this torch has another one)")
        return []
    check, maybe = scaler._check_scale_growth_tracker, scaler._maybe_opt_step

    def _check_scale_growth_tracker(self, *args, **kwargs):
        _in_use(self)
        try:
            return check(self, *args, **kwargs)
        except BaseException as error:
            trim(error)
            raise

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

    scaler._check_scale_growth_tracker = functools.update_wrapper(_check_scale_growth_tracker, check)
    scaler._maybe_opt_step = functools.update_wrapper(_maybe_opt_step, maybe)
    S.armed.append("gradient scaler")
    return [_check_scale_growth_tracker, _maybe_opt_step]
