# SPDX-License-Identifier: Apache-2.0
"""Collectives called from Python (what goes in, what comes out), and gradients before DDP reduces
them.

DDP's reducer calls its collectives from C++: there the local gradients and the ones that the
optimizer finds tell the same. The outputs of an asynchronous collective exist when the job waits
for them: they are recorded there.
"""

import functools
import os
import sys
from collections import OrderedDict

from . import core, naming, tensors
from .core import S, T, hook, trim
from .native import BACKWARD, COLLECTIVE, GRADIENT_LOCAL, IN, OUT, SKETCH, STATS, TENSORS, UNORDERED

WAITING = 1024  # asynchronous collectives whose outputs are remembered

# name -> (arguments that go in, arguments that come out), by name
_COLLECTIVES = {
    "all_reduce": (("tensor",), ("tensor",)),
    "broadcast": (("tensor",), ("tensor",)),
    "reduce": (("tensor",), ("tensor",)),
    "all_gather": (("tensor",), ("tensor_list",)),
    "all_gather_into_tensor": (("input_tensor",), ("output_tensor",)),
    "gather": (("tensor",), ("gather_list",)),
    "scatter": (("scatter_list",), ("tensor",)),
    "reduce_scatter": (("input_list",), ("output",)),
    "reduce_scatter_tensor": (("input",), ("output",)),
    "all_to_all": (("input_tensor_list",), ("output_tensor_list",)),
    "all_to_all_single": (("input",), ("output",)),
    "send": (("tensor",), ()),
    "recv": ((), ("tensor",)),
}

_waiting = OrderedDict()  # id(work) -> (work, name, scope, outputs)
_stores = set()  # paths that were noted
_hooked = {}  # id(parameter) -> weak reference: has a hook for its local gradient


# ---------------------------------------------------------------- where the ranks meet


def _note_stores():
    """The files over which the ranks meet (`init_method="file://..."`): addresses stand in them,
    and no result. The last rank deletes its file; about one time in a hundred PyTorch leaves it
    behind, where two ranks end at the same moment.
    """
    world = getattr(sys.modules["torch.distributed"].distributed_c10d, "_world", None)
    for _backend, store in list(getattr(world, "pg_map", {}).values()):
        while hasattr(store, "underlying_store"):
            store = store.underlying_store
        path = getattr(store, "path", None)
        if isinstance(path, str) and path not in _stores:
            _stores.add(path)
            core.note("store.file", os.path.realpath(path))


@hook
def _joined():
    core.joins()


def _follow_group(original):
    def init_process_group(*args, **kwargs):
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            trim(error)
            raise
        if S.on:
            _joined()
        return result

    return functools.update_wrapper(init_process_group, original)


# ---------------------------------------------------------------- collectives


def _named(names, order, args, kwargs):
    found = []
    for name in names:
        value = kwargs.get(name)
        if value is None and name in order and order.index(name) < len(args):
            value = args[order.index(name)]
        tensors.walk(value, "", found)
    return [t for _path, t in found]


def _record(kind, name, scope, values):
    pending = tensors.pending()
    for i, t in enumerate(values):
        pending.add(
            COLLECTIVE, kind, name if len(values) == 1 else "%s[%d]" % (name, i), t, scope, name
        )
    pending.flush()
    core.saw("collective")


def _scope(order, args, kwargs):
    group = kwargs.get("group")
    if group is None and "group" in order and order.index("group") < len(args):
        group = args[order.index("group")]
    return "" if group is None else str(getattr(group, "group_name", ""))


@hook
def _before(name, order, args, kwargs):
    if T.collective or S.level < TENSORS or not core.begin():
        return None
    _note_stores()
    ins, outs = _COLLECTIVES[name]
    scope = _scope(order, args, kwargs)
    _record(IN, name, scope, _named(ins, order, args, kwargs))
    return scope, _named(outs, order, args, kwargs)


@hook
def _after(name, token, work):
    scope, outputs = token
    if work is not None and hasattr(work, "wait"):
        _waiting[id(work)] = (work, name, scope, outputs)
        while len(_waiting) > WAITING:
            _waiting.popitem(last=False)
    else:
        _record(OUT, name, scope, outputs)


@hook
def _waited(work):
    found = _waiting.pop(id(work), None)
    if found is not None and found[0] is work:
        _record(OUT, found[1], found[2], found[3])


def _replace(name, original):
    import inspect

    try:
        order = list(inspect.signature(original).parameters)
    except (TypeError, ValueError):
        order = []
    local = T

    def collective(*args, **kwargs):
        token = _before(name, order, args, kwargs) if S.on else None
        local.collective += 1
        try:
            work = original(*args, **kwargs)
        except BaseException as error:
            trim(error)
            raise
        finally:
            local.collective -= 1
        if token is not None:
            _after(name, token, work)
        return work

    return functools.update_wrapper(collective, original)


def _follow_waits(work):
    original = work.wait

    def wait(self, *args, **kwargs):
        result = original(self, *args, **kwargs)
        if _waiting:
            _waited(self)
        return result

    wait.__name__, wait.__qualname__, wait.__doc__ = "wait", "Work.wait", original.__doc__
    work.wait = wait
    return [wait]


# ---------------------------------------------------------------- local gradients


@hook
def _accumulated(parameter):
    if S.level < TENSORS or not S.begun or parameter.grad is None:
        return
    known = naming.parameter(parameter)
    if known is not None:
        pending = tensors.pending()
        pending.add(
            BACKWARD,
            GRADIENT_LOCAL,
            known[0],
            parameter.grad,
            known[1],
            flags=STATS | SKETCH | UNORDERED,
            role="",
        )
        pending.flush()
        core.saw("gradient (local)")


def watch_parameters(root):
    """With several ranks: each parameter's gradient as the backward leaves it, before any
    reduction.
    """
    if core._group()[1] < 2:
        return
    _note_stores()
    for _name, reference, _owner in root.parameters:
        p = reference()
        if (
            p is None
            or not p.requires_grad
            or not p.is_leaf
            or not hasattr(p, "register_post_accumulate_grad_hook")
        ):
            continue
        known = _hooked.get(id(p))
        if known is None or known() is not p:
            p.register_post_accumulate_grad_hook(_accumulated)
            _hooked[id(p)] = reference


def arm(torch):
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available():
        return []
    c10d = distributed.distributed_c10d
    replaced = []
    for name in ("init_process_group", *_COLLECTIVES):
        original = getattr(c10d, name, None)
        if original is None:
            continue
        follows = name == "init_process_group"
        ours = _follow_group(original) if follows else _replace(name, original)
        for module in (c10d, distributed):
            if getattr(module, name, None) is original:
                setattr(module, name, ours)
        replaced.append(ours)
    work = getattr(torch._C._distributed_c10d, "Work", None)
    if work is not None:
        try:
            replaced += _follow_waits(work)
        except (AttributeError, TypeError):
            S.unarmed.append("asynchronous collectives (their outputs)")
    S.armed.append("collectives called from Python")
    return replaced
