# SPDX-License-Identifier: Apache-2.0
"""The state that modules of Transformer Engine keep for 8-bit floats: scales, and the history of
the largest magnitudes (amax) from which the next scales are made.

It is neither a parameter nor a buffer. A module has a table `fp8_meta`, in which `scaling_fwd` and
`scaling_bwd` hold the tensors. They are made in the first forward, or when a checkpoint is loaded;
others may take their place at any time; and kernels write to them past PyTorch's version counter.
So they are looked for each time, and always read: before each forward of a model, which computes
with them, and at the end of each step (docs/internals/fp8.md).
"""

from . import core, tensors
from .core import S
from .native import HYPER, OPTIMIZER, STATS, TENSORS

_TABLES = ("scaling_fwd", "scaling_bwd")
_FIELDS = ("scale", "scale_inv", "amax_history")


def has_state(module):
    """Whether this module keeps such a table, without running code of the job."""
    return type(object.__getattribute__(module, "__dict__").get("fp8_meta")) is dict


def _state(root):
    """(name, tensor, class of the owner) of what the root's modules hold now."""
    for path, reference, owner in root.fp8:
        module = reference()
        table = None if module is None else module.__dict__.get("fp8_meta")
        if type(table) is not dict:
            continue
        for part in _TABLES:
            held = table.get(part)
            for field in _FIELDS:
                tensor = getattr(held, field, None)
                if tensors.is_tensor(tensor):
                    name = "fp8.%s.%s" % (part, field)
                    yield path + "." + name if path else name, tensor, owner


def add(pending, root):
    """To pending records; returns how many. As the scale of a loss (amp.py) they are no weights: a
    line of the job may have written them, which nothing shows, so none of them is ever an origin.
    """
    if not root.fp8 or S.level < TENSORS:
        return 0
    count = 0
    for name, tensor, owner in _state(root):
        pending.add(OPTIMIZER, HYPER, name, tensor, root.label, owner, flags=STATS)
        count += 1
    return count


def before_forward(root):
    """What the forward that begins computes with."""
    if add(tensors.pending(), root):
        tensors.pending().flush()
        core.saw("fp8 state")
