# SPDX-License-Identifier: Apache-2.0
"""Collectives called from Python (what goes in, what comes out), and gradients before DDP reduces
them.

DDP's reducer calls its collectives from C++: there the local gradients and the ones that the
optimizer finds tell the same. The outputs of an asynchronous collective exist when the job waits
for them, or is told that they are there: `wait()` of the work or of its future, `is_completed()`,
`done()` or `value()`. They are recorded there, on the job's own thread. A callback
(`get_future().then(f)`) may change them on a thread of the backend's. What is there when the job
waits for the last one of a chain is recorded under a name of its own, "all_reduce, behind
callbacks", which no exchange is counted by; where nobody waits for it a note says so.

A message is named by its peer, as MPI's agent does it ("recv from rank 2, tag 0"), in ranks of the
job and never of the group. Of a call with a root the operation is "root 2", and what went in is
recorded where the root gives, what came out where somebody gets: the other buffers hold no result.
That is what the comparison counts exchanges by (src/compare/exchange.c).

A receive from anybody says also how many such receives that were posted before it are still open:
"any source, behind 2 open". From that their order is made where a run is replayed (match_order.py).
"""

import functools
import os
import sys
import time
from collections import OrderedDict

from . import core, faults, held, naming, nested, open_receives, tensors
from .core import S, T, hook, trim
from .native import BACKWARD, COLLECTIVE, GRADIENT_LOCAL, IN, OUT, SKETCH, STATS, TENSORS, UNORDERED

WAITING = 1024  # asynchronous collectives whose outputs are remembered
FUTURES = 64  # of them that are: each holds what it brought
LETTING_GO = 0.02  # seconds

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
    "isend": (("tensor",), ()),
    "recv": ((), ("tensor",)),
    "irecv": ((), ("tensor",)),
}
# of messages: who gets or gives it; of calls with a root: who that is, and does the root give
_PEER = {"send": "dst", "isend": "dst", "recv": "src", "irecv": "src"}
_ROOT = {"broadcast": "src", "scatter": "src", "reduce": "dst", "gather": "dst"}
TAGS_NAMED = 1024  # of MPI's agent, too (agents/mpi/records.c)

_waiting = OrderedDict()  # id(work) -> (work, call)
_futures = OrderedDict()  # id(future) -> (future, work, call)
_with_root = {}  # (function, group) -> numbers of calls that are under way
_numbers = {}  # (function, group) -> how many calls with a root were begun
_groups = set()  # notes of groups that were made
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
        held.joined()
        if S.on:
            _joined()
        return result

    return functools.update_wrapper(init_process_group, original)


# ---------------------------------------------------------------- collectives


def _argument(name, order, args, kwargs):
    value = kwargs.get(name)
    if value is None and name in order and order.index(name) < len(args):
        value = args[order.index(name)]
    return value


def _named(names, order, args, kwargs):
    found = []
    for name in names:
        nested.walk(_argument(name, order, args, kwargs), "", found)
    return [t for _path, t in found]


class _Call:
    """One call, and what is known of who gives and who gets."""

    def __init__(self, name, scope, op):
        self.function = self.name = name
        self.scope, self.op = scope, op
        self.group = None  # of a message from anybody: its group
        self.open = None  # and its number among those
        self.tag = None  # of a message: how its tag is named
        self.number = 0  # of a call with a root, among those of its function and group
        self.outputs = ()
        self.chained = False  # callbacks may change what came out
        self.leaf = None  # the future behind the last callback; None: nobody knows which is last
        self.grows = None  # the future to which a callback is being added

    def with_peer(self, rank):
        way = "to" if _PEER[self.function] == "dst" else "from"
        self.name = "%s %s rank %d, tag %s" % (self.function, way, rank, self.tag)

    def record(self, kind, values):
        pending = tensors.pending()
        op = self.op
        if self.number and _with_root[self.function, self.scope] != {self.number}:
            op += ", beside others"  # then which of them it is cannot be counted
        for i, t in enumerate(values):
            name = self.name if len(values) == 1 else "%s[%d]" % (self.name, i)
            pending.add(COLLECTIVE, kind, name, t, self.scope, op)
        pending.flush()
        core.saw("collective")

    def comes_out(self, work=None, source=None):
        """All that the call was to bring is there. source: who sent it, where the call said so."""
        if self.group is not None:
            self.op += open_receives.closes(self.open)
            try:
                if source is None:
                    source = _c10d().get_global_rank(self.group, work._source_rank())
                self.with_peer(source)
            except (AttributeError, RuntimeError, ValueError) as error:  # a backend without that
                faults.pass_on(error)
                core.note("exchange.unseen", "who sent a message is not known")
                core.note(open_receives.LOST_NOTE, "who sent a message is not known")
        self.record(OUT, self.outputs)
        if self.number:
            _with_root[self.function, self.scope].discard(self.number)


def _c10d():
    return sys.modules["torch.distributed"].distributed_c10d


def _note_group(group):
    """Which ranks a group has, in its order. Its name is counted by each rank for itself."""
    ranks = ",".join(map(str, _c10d().get_process_group_ranks(group)))
    text = "%s %s" % (group.group_name, ranks)
    if text not in _groups:
        _groups.add(text)
        core.note("group", text)


def _rank_of(place, group, order, args, kwargs):
    """The rank of the job that `src`, or `dst`, or their forms in ranks of a group mean."""
    rank = _argument(place, order, args, kwargs)
    if isinstance(rank, int):
        return rank
    rank = _argument("group_" + place, order, args, kwargs)
    try:
        return None if rank is None else _c10d().get_global_rank(group, rank)
    except (TypeError, ValueError):  # the call itself is going to say so
        return None


def _described(name, order, args, kwargs):
    """The call, what goes in and what comes out, as far as it is this rank's; None: the rank has no
    part in it.
    """
    c10d, given = _c10d(), _argument("group", order, args, kwargs)
    if c10d._rank_not_in_group(given):
        return None
    group = c10d.group.WORLD if given is None else given
    call = _Call(name, "" if given is None else str(getattr(given, "group_name", "")), name)
    if given is not None:
        _note_group(given)
    if c10d.get_rank() != S.rank:
        core.note("exchange.unseen", "its rank of torch.distributed is %d" % c10d.get_rank())
    ins, outs = (_named(names, order, args, kwargs) for names in _COLLECTIVES[name])
    if name in _PEER:
        peer = _rank_of(_PEER[name], group, order, args, kwargs)
        tag = _argument("tag", order, args, kwargs)
        tag = tag if isinstance(tag, int) else 0
        call.tag = str(tag) if tag < TAGS_NAMED else "of %d or more" % TAGS_NAMED
        if peer is None:
            call.group, call.op = group, "any source"
            call.open = open_receives.opens((group.group_name, tag))
        else:
            call.with_peer(peer)
            if _PEER[name] == "src":
                open_receives.names_its_source((group.group_name, tag))
    elif name in _ROOT:
        root = _rank_of(_ROOT[name], group, order, args, kwargs) or 0
        call.op = "root %d" % root
        key = name, call.scope
        call.number = _numbers[key] = _numbers.get(key, 0) + 1
        _with_root.setdefault(key, set()).add(call.number)
        mine, gives = root == c10d.get_rank(), _ROOT[name] == "src"
        ins = ins if mine or not gives else []
        outs = outs if (name == "broadcast") != mine or name == "scatter" else []
    call.outputs = outs
    return call, ins


@hook
def _before(name, order, args, kwargs):
    if T.collective or S.level < TENSORS or not core.begin():
        return None
    _note_stores()
    described = _described(name, order, args, kwargs)
    if described is None:
        return None
    call, ins = described
    call.record(IN, ins)
    T.open_receive = call.group is not None
    return call


@hook
def _after(call, result):
    if result is not None and hasattr(result, "wait"):
        _waiting[id(result)] = (result, call)
        while len(_waiting) > WAITING:
            _waiting.popitem(last=False)
            _note_unwaited()
    elif call.group is None:
        call.comes_out()
    elif isinstance(result, int) and result >= 0:
        call.comes_out(source=result)


def _note_unwaited():
    core.note("exchange.unseen", "it did not wait for what a message or a collective brought")


@hook
def _waited(work):
    found = _waiting.get(id(work))
    # what a callback may be changing meanwhile cannot be digested
    if found is not None and found[0] is work and not found[1].chained:
        del _waiting[id(work)]
        _forget_futures(found[1])
        found[1].comes_out(work)


def _forget_futures(call):
    """They hold results that the job may have dropped."""
    for key in [key for key, kept in list(_futures.items()) if kept[2] is call]:
        _futures.pop(key, None)


def _keep(future, work, call):
    _futures[id(future)] = (future, work, call)
    while len(_futures) > FUTURES:
        _futures.popitem(last=False)


@hook
def _has_future(work, future):
    found = _waiting.get(id(work))
    if found is not None and found[0] is work:
        _keep(future, work, found[1])


def _of(future):
    """(work, call) of a future that is followed, or None."""
    found = _futures.get(id(future))
    return found[1:] if found is not None and found[0] is future else None


@hook
def _done(future):
    """The job knows that this future is complete. A callback that asks for the value of the future
    that it stands behind learns nothing of itself: it is not the last one.
    """
    work, call = _of(future) or (None, None)
    if call is None or _waiting.get(id(work), (None, None))[1] is not call:
        return
    if call.chained and call.leaf is not future:
        return
    del _waiting[id(work)]
    _forget_futures(call)
    if call.chained:
        if call.number:
            _with_root[call.function, call.scope].discard(call.number)
        call.name, call.number, call.group = call.function + ", behind callbacks", 0, None
    call.comes_out(work)


@hook
def _chains(future):
    """A callback is about to be added, and may run at once. Until it was added nobody knows which
    future is the last; where it branches, not then, either.
    """
    call = (_of(future) or (None, None))[1]
    if call is not None:
        call.grows = future if not call.chained or call.leaf is future else None
        call.chained, call.leaf = True, None


@hook
def _is_behind(future, child):
    """The callback was added: `child` is complete when it has run; None: no future says so."""
    work, call = _of(future) or (None, None)
    if call is not None and call.grows is future and child is not None:
        call.leaf = child
        _keep(child, work, call)


def _at_the_end():
    if any(call.outputs for _work, call in _waiting.values()):
        _note_unwaited()
    if sys.modules["torch.distributed"].is_initialized():
        # A thread of gloo lets go of a collective's tensors after it has said that they are there,
        # and needs Python for that. PyTorch aborts where Python has ended by then, more often where
        # we are in the way (measurements/harmless.md). It gets a moment in which Python is free.
        time.sleep(LETTING_GO)


def _order_of(function):
    import inspect

    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def _replace(name, original):
    order = _order_of(original)
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
            if not local.collective:
                local.open_receive = False
        if token is not None:
            _after(token, work)
        return work

    return functools.update_wrapper(collective, original)


def _replaced(cls, name, then):
    """The method of a class of PyTorch's, with then(self, result) behind it."""
    original = getattr(cls, name)

    def method(self, *args, **kwargs):
        try:
            result = original(self, *args, **kwargs)
        except BaseException as error:
            trim(error)
            raise
        if _waiting:
            then(self, result)
        return result

    method.__name__, method.__doc__ = name, original.__doc__
    method.__qualname__ = "%s.%s" % (cls.__name__, name)
    setattr(cls, name, method)
    return method


def _follow_waits(work, future):
    """What tells the job that a collective's outputs are there."""
    replaced = [
        _replaced(work, "wait", lambda w, _: _waited(w)),
        _replaced(work, "is_completed", lambda w, done: _waited(w) if done else None),
        _replaced(work, "get_future", _has_future),
    ]
    for name in ("wait", "value"):
        replaced.append(_replaced(future, name, lambda f, _: _done(f)))
    replaced.append(_replaced(future, "done", lambda f, done: _done(f) if done else None))
    for name in ("then", "add_done_callback"):
        replaced.append(_before_callback(future, name))
    return replaced


def _before_callback(cls, name):
    """A callback may run at once: what it may change counts as changed before it is added."""
    original = getattr(cls, name)

    def method(self, *args, **kwargs):
        if _futures:
            _chains(self)
        try:
            result = original(self, *args, **kwargs)
        except BaseException as error:
            trim(error)
            raise
        if _futures:
            _is_behind(self, result)
        return result

    method.__name__, method.__doc__ = name, original.__doc__
    method.__qualname__ = "%s.%s" % (cls.__name__, name)
    setattr(cls, name, method)
    return method


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


def stand_in(torch, names, ways, otherwise):
    """Puts ours in place of functions of torch.distributed, those of these names that there are.
    ways: name -> what makes ours of the original; otherwise(name, original) makes the others.
    """
    package = torch.distributed
    c10d = package.distributed_c10d
    replaced = []
    for name in (*ways, *names):
        original = getattr(c10d, name, None)
        if original is None:
            continue
        ours = ways[name](original) if name in ways else otherwise(name, original)
        for module in (c10d, package):
            if getattr(module, name, None) is original:
                setattr(module, name, ours)
        replaced.append(ours)
    return replaced


def arm(torch):
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available():
        return []
    groups = {"init_process_group": _follow_group, "destroy_process_group": held.before_parting}
    replaced = stand_in(torch, _COLLECTIVES, groups, _replace)
    work = getattr(torch._C._distributed_c10d, "Work", None)
    if work is not None:
        try:
            replaced += _follow_waits(work, torch._C.Future)
        except (AttributeError, TypeError):
            S.unarmed.append("asynchronous collectives (their outputs)")
        held.arm(torch._C._distributed_c10d, _waited)
    S.on_exit.append(_at_the_end)
    S.armed.append("collectives called from Python")
    return replaced
