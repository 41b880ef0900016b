# SPDX-License-Identifier: Apache-2.0
"""Tensors and plain values inside of what a job hands around: lists, dictionaries, objects."""

import enum
import struct
import sys
import types

from . import buffers, core, tensors
from .native import SKETCH, STATS

NAMES = 4096  # tensors recorded of one nested structure
DEPTH = 8  # of containers in containers
VALUES = 65536  # plain values digested of one nested structure
MOST_BITS = 2000  # of an integer whose decimal digits any Python gives

OPAQUE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
# and torch's own: what they say stands in the program's text
_CONSTANT = (slice, range, enum.Enum)
_torch = None


def arm(torch):
    global _torch, _CONSTANT
    _torch = torch
    _CONSTANT += (torch.dtype, torch.device, torch.layout, torch.memory_format)


def walk(value, name, found, values=None, depth=0, hidden=None):
    """Lists the tensors (and NumPy arrays) inside `value` as (name, tensor), in order; plain values
    go to `values`.

    Runs no code of the job: only exact containers, dataclasses and attribute dictionaries are
    opened. The types of what may hold values and is not opened go to `hidden`.
    """
    if len(found) >= NAMES or depth > DEPTH:
        if _holds_tensor(value):
            more = (
                "more than %d tensors" % NAMES
                if len(found) >= NAMES
                else "a tensor more than %d containers deep" % DEPTH
            )
            core.unseen(
                "%s holds %s: not all were recorded"
                % (name.partition("[")[0].partition(".")[0], more)
            )
        return
    if isinstance(value, _torch.Tensor):
        found.append((name, value))
    elif value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        if values is not None and len(values) < VALUES:
            values.append(value)
        elif values is not None:
            core.unseen(
                "%s holds more than %d plain values: not all were recorded"
                % (name.partition("[")[0], VALUES)
            )
    elif isinstance(value, dict):
        for key in list(dict.keys(value)):
            walk(
                dict.__getitem__(value, key),
                "%s[%s]" % (name, key_text(key)),
                found,
                values,
                depth + 1,
                hidden,
            )
    elif isinstance(value, (list, tuple)):
        whole = list if isinstance(value, list) else tuple
        for i, inner in enumerate(whole.__iter__(value)):
            walk(inner, "%s[%d]" % (name, i), found, values, depth + 1, hidden)
    elif is_array(value):
        found.append((name, value))
    elif isinstance(value, OPAQUE) or isinstance(value, _torch.nn.Module):
        if hidden is not None and isinstance(value, (types.FunctionType, types.MethodType)):
            hidden.append(type(value).__name__)
    else:
        inside = getattr(value, "__dict__", None)
        if type(inside) is not dict:
            if hidden is not None and not isinstance(value, _CONSTANT):
                hidden.append(type(value).__name__)
        else:
            data = inside.get("data")
            if type(data) is dict:  # collections.UserDict and its kin
                walk(data, name, found, values, depth + 1, hidden)
                return
            for key in list(inside):
                walk(inside[key], "%s.%s" % (name, key), found, values, depth + 1, hidden)


def shapes_alone(args, kwargs):
    """Whether a call is asked for shapes, not for numbers: it is given tensors on `meta`, or
    Keras's KerasTensor, and no tensor that has values.
    """
    if args and type(args[0]) in tensors._plain and not args[0].is_meta:
        return False
    found = []
    _stand_ins((args, kwargs), found, 0)
    return bool(found) and all(found)


def _stand_ins(value, found, depth):
    """Of each tensor and each stand-in below value: whether it has no values."""
    if isinstance(value, (list, tuple, dict)) and depth <= DEPTH and len(found) < NAMES:
        kind = next(k for k in (dict, list, tuple) if isinstance(value, k))
        for inner in list(dict.values(value) if kind is dict else kind.__iter__(value)):
            _stand_ins(inner, found, depth + 1)
    elif isinstance(value, _torch.Tensor):
        found.append(value.is_meta)
    elif is_array(value) or type(value).__name__ == "KerasTensor":
        found.append(not is_array(value))


def _holds_tensor(value, levels=8):
    """Whether there is a tensor in a container that is too deep, as far as a short look tells."""
    if isinstance(value, _torch.Tensor) or levels == 0:
        return levels > 0
    if type(value) is dict:
        value = list(dict.values(value))
    return type(value) in (list, tuple) and any(
        _holds_tensor(inner, levels - 1) for inner in value[:8]
    )


def key_text(key):
    return (
        repr(key)
        if isinstance(key, (str, int, bool, float, bytes, type(None)))
        else type(key).__name__
    )


def is_array(value):
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is getattr(numpy, "ndarray", None)


def add_any(pending, phase, kind, name, value, scope="", op="", site=None, flags=STATS | SKETCH):
    """A tensor, or a NumPy array by way of the buffer protocol."""
    if isinstance(value, _torch.Tensor):
        return pending.add(phase, kind, name, value, scope, op, site, flags)
    return buffers.add(pending, phase, kind, name, value, scope, op, site, flags)


def plain_bytes(values):
    """A byte string that is equal for equal plain values, in every process."""
    return "\x1f".join(["%s:%s" % (type(v).__name__, plain_text(v)) for v in values]).encode(
        "utf-8", "backslashreplace"
    )


def plain_text(value):
    """`repr`, but for what it hides (the bits of a NaN) and refuses (an integer of many digits)."""
    if value.__class__ is float and value != value:
        return struct.pack("<d", value).hex()
    if value.__class__ is complex and value != value:
        return struct.pack("<dd", value.real, value.imag).hex()
    if value.__class__ is int and value.bit_length() > MOST_BITS:
        return hex(value)
    return repr(value)
