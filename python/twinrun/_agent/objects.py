# SPDX-License-Identifier: Apache-2.0
"""Objects that ranks hand each other: broadcast_object_list, all_gather_object, gather_object and
scatter_object_list of torch.distributed. They send pickled bytes, in which the folder of a run may
stand (Lightning tells all ranks `lightning_logs/version_3`). So it is the object that is recorded:
its numbers, tensors and texts in a digest, and paths in the record's name, where what a run is
called is left out as it is in names of checkpoints (src/compare/view.c). An object that nobody can
look into whole counts by its bytes.
"""

import functools
import sys

from . import checkpoint, core, distributed, tensors
from .core import S, T, hook, trim
from .native import COLLECTIVE, IN, OUT
from .native import TENSORS as LEVEL

# function -> who its root is; None: it has none
_FUNCTIONS = {
    "broadcast_object_list": "src",
    "all_gather_object": None,
    "gather_object": "dst",
    "scatter_object_list": "src",
}
PATH_BYTES = 300  # of all paths of one object that stand in a name
NAMES = 1024  # such names in all

_names = set()


class _Handed(checkpoint.Contents):
    """An object, with its paths apart."""

    def __init__(self, torch):
        super().__init__(torch)
        self.paths = []

    def add(self, path, value, depth=0):
        if type(value) is str and value.startswith("/") and value.isprintable():
            self.paths.append(value)
            value = None
            path += " is a path"
        super().add(path, value, depth)

    def bytes(self):
        return "\n".join([*self.parts, *self.digested]).encode("utf-8", "surrogatepass")


class _Call:
    """One call on its way."""

    def __init__(self, function, scope, op):
        self.function, self.scope, self.op = function, scope, op
        self.counts = {IN: 0, OUT: 0}

    def record(self, kind, value, pickled):
        handed = _Handed(sys.modules["torch"])
        handed.add("", value)
        number = self.counts[kind]
        self.counts[kind] += 1
        name = self.function if not number else "%s[%d]" % (self.function, number)
        data = handed.bytes()
        if handed.paths:
            named = "%s: %s" % (name, ", ".join(handed.paths))
            if len(named) <= PATH_BYTES and (named in _names or len(_names) < NAMES):
                _names.add(named)
                name = named
            else:
                data += "\n".join(["", *handed.paths]).encode("utf-8", "surrogatepass")
        if handed.hidden:
            data = pickled
        pending = tensors.pending()
        pending.add_bytes(core.series(COLLECTIVE, kind, name, self.scope, self.op), data)
        pending.flush()
        core.saw("collective")


@hook
def _begins(function, order, args, kwargs):
    if T.collective or S.level < LEVEL or not core.begin():
        return None
    c10d = distributed._c10d()
    given = distributed._argument("group", order, args, kwargs)
    if c10d._rank_not_in_group(given):
        return None
    op, place = function, _FUNCTIONS[function]
    if place is not None:
        group = c10d.group.WORLD if given is None else given
        op = "root %d" % (distributed._rank_of(place, group, order, args, kwargs) or 0)
    if given is not None:
        distributed._note_group(given)
    return _Call(function, "" if given is None else str(getattr(given, "group_name", "")), op)


@hook
def _given(value, tensor):
    T.handing.record(IN, value, tensor.cpu().numpy().tobytes())


@hook
def _got(value, tensor, size):
    T.handing.record(OUT, value, tensor.cpu().numpy().tobytes()[: int(size)])


def _replace(name, original):
    order = distributed._order_of(original)
    local = T

    def collective(*args, **kwargs):
        call = _begins(name, order, args, kwargs) if S.on else None
        if call is None:
            return original(*args, **kwargs)
        local.handing = call
        local.collective += 1
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            trim(error)
            raise
        finally:
            local.collective -= 1
            local.handing = None

    return functools.update_wrapper(collective, original)


def _pickling(original):
    def _object_to_tensor(obj, *args, **kwargs):
        result = original(obj, *args, **kwargs)
        if S.on and T.handing is not None:
            _given(obj, result[0])
        return result

    return functools.update_wrapper(_object_to_tensor, original)


def _unpickling(original):
    def _tensor_to_object(tensor, tensor_size, *args, **kwargs):
        result = original(tensor, tensor_size, *args, **kwargs)
        if S.on and T.handing is not None:
            _got(result, tensor, tensor_size)
        return result

    return functools.update_wrapper(_tensor_to_object, original)


def arm(torch):
    package = getattr(torch, "distributed", None)
    if package is None or not package.is_available():
        return []
    ways = {"_object_to_tensor": _pickling, "_tensor_to_object": _unpickling}
    if not all(callable(getattr(package.distributed_c10d, name, None)) for name in ways):
        return []  # the calls inside of them are recorded
    return distributed.stand_in(torch, _FUNCTIONS, ways, _replace)
