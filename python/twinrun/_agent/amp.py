# SPDX-License-Identifier: Apache-2.0
"""Mixed precision: autocast regions, the scale that each loss is multiplied by, before that loss is
recorded, and steps that the scaler leaves out.

Which regions a step was in is a note, `autocast` = `step N: cpu bfloat16`, or `off`, written where
it changes: it holds until the next one.
"""

import functools

from . import core, refs, tensors
from .core import S, hook, trim
from .native import HYPER, OPTIMIZER, STATS

# notes; a job that changes more often than that is said to be unknown from there on
CHANGES = 1000

_scaler = None  # weak reference to the scaler in use
_open = {}  # autocast region -> how often it is entered and not left
_entered = set()  # regions that this step has been in
_told = None  # what the last note said
_changes = 0
_ever = set()


@hook
def _scaled(scaler):
    global _scaler
    if _scaler is None or _scaler() is not scaler:
        _scaler = refs.to(scaler)
    scale = getattr(scaler, "_scale", None)  # None: the scaler is switched off
    if scale is not None and core.begin():
        pending = tensors.pending()
        pending.add(OPTIMIZER, HYPER, "loss scale", scale, "", type(scaler).__name__, flags=STATS)
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


def _region(autocast):
    return "%s %s" % (
        getattr(autocast, "device", "?"),
        str(getattr(autocast, "fast_dtype", "?")).replace("torch.", ""),
    )


@hook
def _enters(autocast):
    if getattr(autocast, "_enabled", False):
        region = _region(autocast)
        _open[region] = _open.get(region, 0) + 1
        _entered.add(region)
        _ever.add(region)


@hook
def _leaves(autocast):
    if getattr(autocast, "_enabled", False):
        region = _region(autocast)
        _open[region] = max(0, _open.get(region, 0) - 1)


def _step_over():
    """Behind each step. A region that was entered once around the whole loop counts for every step
    in it.
    """
    global _told, _changes
    state = ", ".join(sorted(_entered)) or "off"
    if state != _told and _changes <= CHANGES:
        _changes += 1
        core.note(
            "autocast", "step %d: %s" % (S.step - 1, state if _changes <= CHANGES else "unknown")
        )
    _told = state
    _entered.clear()
    _entered.update(region for region, count in _open.items() if count)


def regions():
    """For the record of the process: all that was entered; None when nobody looked."""
    return (", ".join(sorted(_ever)) or "off") if _told is not None else None


def _arm_autocast(torch):
    autocast = getattr(torch, "autocast", None)
    if not isinstance(autocast, type):
        S.unarmed.append("autocast (this torch has another one)")
        return []
    enter, leave = autocast.__enter__, autocast.__exit__

    def __enter__(self):
        result = enter(self)
        if S.on:
            _enters(self)
        return result

    def __exit__(self, *exception):
        if S.on:
            _leaves(self)
        return leave(self, *exception)

    autocast.__enter__ = functools.update_wrapper(__enter__, enter)
    autocast.__exit__ = functools.update_wrapper(__exit__, leave)
    S.on_step.append(_step_over)
    S.armed.append("autocast")
    return [__enter__, __exit__]


def arm(torch):
    return _arm_autocast(torch) + _arm_scaler(torch)


def _arm_scaler(torch):
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
