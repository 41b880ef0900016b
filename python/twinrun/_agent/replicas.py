# SPDX-License-Identifier: Apache-2.0
"""Which parameters must be equal on which ranks: those that DistributedDataParallel averages the
gradients of. What a rank knows of that is noted, so that the recorded weights of one run can be held
against each other (src/compare/replicas.c). Nothing is communicated.

Buffers are left out (each rank may write to its own until DDP sends them again), and so are
parameters without a gradient, those that the job told DDP to ignore, and models whose gradients a
communication hook of the job's own reduces. A rank that steps on what DDP has not averaged
(`no_sync`) says so: from then on nothing is known.
"""

import sys

from . import core, faults, naming, refs
from .core import S, hook
from .native import TENSORS

KEEPER = "DistributedDataParallel"
NOTE_BYTES = 60000  # of the names in one note, which the format cuts at 65,536
# hooks of PyTorch whose result is equal on all ranks
_EQUAL_HOOKS = {"allreduce_hook", "fp16_compress_hook", "bf16_compress_hook"}

_looked = {}  # id(module that was called from outside) -> weak reference
_kept = []  # Kept


class Kept:
    """A module whose parameters DDP keeps equal on some ranks."""

    def __init__(self, ddp, ids, ranks, scopes):
        self.reference = refs.to(ddp, self.gone)
        self.ids, self.ranks, self.scopes = ids, ranks, scopes
        self.local = False

    def gone(self, _reference):
        """What its model does from now on, on this rank or on that, is not DDP's."""
        if self in _kept:
            _kept.remove(self)
            self.note("replica.end")

    def note(self, key):
        for scope in self.scopes:
            core.note(key, "%d %s %s" % (S.step, self.ranks, scope))


def _own(module, name):
    return object.__getattribute__(module, "__dict__").get(name)


def _wrappers(module, kind, seen):
    """All DDP modules of a tree, without running code of the job."""
    if id(module) in seen:
        return
    seen.add(id(module))
    if isinstance(module, kind):
        yield module
    for child in (_own(module, "_modules") or {}).values():
        if child is not None:
            for found in _wrappers(child, kind, seen):
                yield found


def _reduces_equally(ddp):
    hooks = _own(ddp, "_comm_hooks")
    if hooks is None or _own(ddp, "require_forward_param_sync") is None:
        return False  # a version that does not say
    return all(
        getattr(given[0], "__name__", "") in _EQUAL_HOOKS
        and str(getattr(given[0], "__module__", "")).startswith("torch.distributed.")
        for given in hooks
    )


def _ranks_of(ddp):
    """The ranks of its process group, in ranks of the job; None where that is not known."""
    c10d = sys.modules["torch.distributed"].distributed_c10d
    try:
        ranks = sorted(c10d.get_process_group_ranks(_own(ddp, "process_group")))
        known = c10d.get_rank() == S.rank and S.rank in ranks
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        faults.pass_on(error)
        return None
    return ranks if known and len(ranks) > 1 else None


def _parameters_of(ddp):
    """(name, root label) -> parameter, of those that DDP averages the gradients of."""
    ignored = _own(ddp, "parameters_to_ignore") or set()
    inner = (_own(ddp, "_modules") or {}).get("module")
    found, seen = {}, set()

    def walk(module, prefix):
        if id(module) in seen:
            return
        seen.add(id(module))
        for name, p in (_own(module, "_parameters") or {}).items():
            if p is not None and p.requires_grad and prefix + name not in ignored:
                known = naming.parameter(p)
                if known is not None:
                    found[known] = p
        for name, child in (_own(module, "_modules") or {}).items():
            if child is not None:
                walk(child, prefix + name + ".")

    if inner is not None:
        walk(inner, "")
    return found


def _parts(names):
    """The names, as many together as one note has room for."""
    part, room = [], NOTE_BYTES
    for name in names:
        if part and len(name.encode("utf-8", "replace")) >= room:
            yield part
            part, room = [], NOTE_BYTES
        part.append(name)
        room -= len(name.encode("utf-8", "replace")) + 1
    yield part


def _keep(ddp, root, first):
    ranks = _ranks_of(ddp)
    if ranks is None or not _reduces_equally(ddp):
        return
    found = _parameters_of(ddp)
    scopes = {}
    for name, scope in found:
        scopes.setdefault(scope, []).append(name)
    listed = ",".join(map(str, ranks))
    for scope, names in scopes.items():
        at_start = int(first and scope == root.label)
        head = KEEPER, listed, S.step, at_start, len(names), scope
        for part in _parts(sorted(names)):
            core.note("replica", "\n".join(["%s %s %d %d %d %s" % head, *part]))
    if scopes:
        _kept.append(Kept(ddp, {id(p) for p in found.values()}, listed, list(scopes)))


def entering(module, root, first):
    """A root is called, through `module`. first: its first weights were recorded just now."""
    known = _looked.get(id(module))
    if known is not None and known() is module:
        return
    if len(_looked) > 1 << 12:
        _looked.clear()
    _looked[id(module)] = refs.to(module)
    parallel = sys.modules.get("torch.nn.parallel.distributed")
    kind = getattr(parallel, KEEPER, None)
    if kind is None or S.level < TENSORS or core._group()[1] < 2:
        return
    for ddp in list(_wrappers(module, kind, set())):
        if not any(kept.reference() is ddp for kept in _kept):
            _keep(ddp, root, first)


def stepping(ids):
    """An optimizer is about to step, on these parameters. After each of its forwards DDP says whether
    the backward behind it is to average.
    """
    for kept in _kept:
        ddp = kept.reference()
        if ddp is None or kept.local or _own(ddp, "require_forward_param_sync"):
            continue
        if not kept.ids.isdisjoint(ids):
            kept.local = True
            kept.note("replica.local")


@hook
def _in_child():
    """After fork: a process of its own, which holds nothing together with other ranks."""
    del _kept[:]
    _looked.clear()


def arm(_torch):
    S.on_fork.append(_in_child)
