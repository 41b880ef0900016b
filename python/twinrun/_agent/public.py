# SPDX-License-Identifier: Apache-2.0
"""What `twinrun.record`, `twinrun.step` and `twinrun.scope` do under twinrun."""

import sys

from . import buffers, core, native, sites, steps, tensors
from .core import S, T, hook

# As in agents/common/native.c: what a prefix of the name says, and the least level at which it is
# kept.
_PREFIXES = {
    "batch": (native.DATA, native.BATCH, native.STEPS),
    "weight": (native.OPTIMIZER, native.WEIGHT, native.STEPS),
    "init": (native.INIT, native.WEIGHT, native.STEPS),
    "loss": (native.FORWARD, native.LOSS, native.STEPS),
    "gradient": (native.BACKWARD, native.GRADIENT, native.TENSORS),
    "local gradient": (native.BACKWARD, native.GRADIENT_LOCAL, native.TENSORS),
    "activation": (native.FORWARD, native.ACTIVATION, native.TENSORS),
    "state": (native.RNG, native.STATE, native.TENSORS),
    "moment": (native.OPTIMIZER, native.MOMENT, native.TENSORS),
    "indices": (native.DATA, native.INDICES, native.TENSORS),
    "hyper": (native.OPTIMIZER, native.HYPER, native.TENSORS),
}
_PLAIN = (native.OUTPUT, native.VALUE, native.STEPS)
_SEEN = {
    native.BATCH: "batch",
    native.WEIGHT: "weight",
    native.GRADIENT: "gradient",
    native.ACTIVATION: "output",
    native.LOSS: "loss",
}
DEPTH = 64


def _on():
    """Starts the agent in a process that has not imported torch."""
    if S.lib is None and not S.on:
        try:
            core.start()
        except OSError:
            S.lib = False
    return S.on


def _site():
    """The job's lines, whatever phase the record is said to be of; twinrun itself may be installed
    elsewhere than the agent.
    """
    package = sys.modules.get("twinrun")
    if getattr(package, "__file__", None):
        sites.skip(package)
    return sites.user()


@hook
def _record(name, array):
    if not core.begin():
        return
    prefix, colon, rest = name.partition(":")
    phase, kind, level = _PREFIXES.get(prefix, _PLAIN) if colon else _PLAIN
    if S.level < level:
        return
    if phase is not native.OUTPUT:
        name = rest
    scope = "/".join(T.scopes)
    flags = native.STATS | native.SKETCH
    pending = tensors.pending()
    torch = sys.modules.get("torch")
    site = _site()
    if torch is not None and isinstance(array, getattr(torch, "Tensor", ())):
        pending.add(phase, kind, name, array, scope, "", site, flags)
    else:
        buffers.add(pending, phase, kind, name, array, scope, "", site, flags)
    pending.flush()
    core.saw(_SEEN.get(kind, "value"))


def record(name, array):
    if _on():
        _record(str(name), array)


@hook
def _step():
    if core.begin():
        steps.close_by_user()


def step():
    if _on():
        _step()


def push(name):
    if len(T.scopes) < DEPTH:
        T.scopes = T.scopes + (str(name),)
    else:
        T.too_deep += 1


def pop():
    if T.too_deep:
        T.too_deep -= 1
    else:
        T.scopes = T.scopes[:-1]
