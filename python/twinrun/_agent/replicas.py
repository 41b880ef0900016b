# SPDX-License-Identifier: Apache-2.0
"""Which parameters must be equal on which ranks: those that DistributedDataParallel averages the
gradients of, and those that DTensor says to be replicated over a dimension of the mesh (the same
shard of fully_shard with two dimensions, what tensor parallelism does not cut). What a rank knows of
that is noted, so that the recorded weights of one run can be held against each other
(src/compare/replicas.c). Nothing is communicated.

Buffers are left out (each rank may write to its own until DDP sends them again), and so are
parameters without a gradient, those that the job told DDP to ignore, and models whose gradients a
communication hook of the job's own reduces. A rank that steps on what DDP has not averaged
(`no_sync`) says so: from then on nothing is known.
"""

import sys
from itertools import product

from . import core, faults, naming, refs, shards, tensors, written
from .core import S, hook
from .native import TENSORS

KEEPER = "DistributedDataParallel"
NOTE_BYTES = 60000  # of the names in one note, which the format cuts at 65,536
# hooks of PyTorch whose result is equal on all ranks
_EQUAL_HOOKS = {"allreduce_hook", "fp16_compress_hook", "bf16_compress_hook"}

# where DTensor lies: before PyTorch 2.5 in the second only
_DTENSOR = ("torch.distributed.tensor", "torch.distributed._tensor")
# what a version raises whose meshes are made otherwise, and FakeTensorMode for tensors of others
_OTHERWISE_MADE = (
    AssertionError,
    AttributeError,
    IndexError,
    RuntimeError,
    TypeError,
    ValueError,
)

_looked = {}  # id(module that was called from outside) -> weak reference
_kept = []  # Kept
_replicated = {}  # root that is trained -> [Replicated]
_looked_in = None  # the step in which the placements of all of them were looked at last


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


def _has_its_rank():
    """Whether torch's ranks are those of the job."""
    return sys.modules["torch.distributed"].distributed_c10d.get_rank() == S.rank


def _ranks_of(ddp):
    """The ranks of its process group, in ranks of the job; None where that is not known."""
    c10d = sys.modules["torch.distributed"].distributed_c10d
    try:
        ranks = sorted(c10d.get_process_group_ranks(_own(ddp, "process_group")))
        known = _has_its_rank() and S.rank in ranks
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


def _note(keeper, ranks, start, names, scope):
    head = "%s %s %d %d %d %s" % (keeper, ranks, S.step, start, len(names), scope)
    for part in _parts(sorted(names)):
        core.note("replica", "\n".join([head, *part]))


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
        _note(KEEPER, listed, int(first and scope == root.label), names, scope)
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


# ---- what DTensor says of itself


class Replicated:
    """Parameters of one root that some ranks hold alike, as their placements say."""

    def __init__(self, ranks, scope, held):
        self.ranks, self.scope = ranks, scope
        self.held = held  # [(name, weak reference, how it lies on the mesh)]

    def is_so(self):
        now = [(reference(), how) for _name, reference, how in self.held]
        return all(p is not None and _layout(p) == how for p, how in now)

    def note_end(self):
        core.note("replica.end", "%d %s %s" % (S.step, self.ranks, self.scope))


def _layout(p):
    """No mesh is kept alive: it may hold groups of processes that the job wants to end."""
    return id(p._spec.mesh), tuple(p._spec.placements)


def _word(text):
    """The name of a dimension as one word of a note."""
    return "".join(c if c.isalnum() or c in "_-." else "_" for c in str(text)) or "_"


def _over(mesh, placements):
    """(the names of the replicated dimensions, the ranks that hold what this one holds); None where
    none does, or where a placement is not one of a parameter (Partial: a term of a sum).
    """
    kinds = [type(p).__name__ for p in placements]
    at = mesh.get_coordinate()
    if at is None or not set(kinds) <= {"Shard", "_StridedShard", "Replicate"}:
        return None
    over = [i for i, kind in enumerate(kinds) if kind == "Replicate" and mesh.shape[i] > 1]
    if not over or len(kinds) != len(mesh.shape):
        return None
    names = mesh.mesh_dim_names or range(len(kinds))
    with tensors.unseen():  # newer versions compute it
        every = mesh.mesh.tolist()
    ranks = []
    for places in product(*(range(mesh.shape[i]) for i in over)):
        rank, where = every, list(at)
        for i, place in zip(over, places):
            where[i] = place
        for i in where:
            rank = rank[i]
        ranks.append(rank)
    if S.rank not in ranks:
        return None
    return "DTensor/" + "+".join(_word(names[i]) for i in over), sorted(ranks)


def _look_at(root):
    """Notes which parameters of a root that is trained other ranks hold alike. Nothing is said of how
    they begin: each rank may make its own before it loads those that count.
    """
    if not _has_its_rank():
        return
    found, over = {}, {}
    for name, reference, _owner in root.parameters:
        p = reference()
        if p is None or not p.requires_grad or not shards.is_distributed(p):
            continue
        how = _layout(p)
        if how not in over:
            over[how] = _over(p._spec.mesh, how[1])
        if over[how] is not None:
            keeper, ranks = over[how]
            at = keeper, ",".join(map(str, ranks))
            found.setdefault(at, []).append((name, reference, how))
    for (keeper, ranks), held in found.items():
        _note(keeper, ranks, 0, [name for name, _reference, _how in held], root.label)
        yield Replicated(ranks, root.label, held)


def _look_for_new(followed):
    """Roots that an optimizer steps for the first time; those that it does not step are not looked at
    again until it steps on others, or another root is known.
    """
    known = written.generation()
    if followed.placed_at == known:
        return
    followed.placed_at = known
    ids = set(followed.ids)
    for root in list(naming.roots.values()):
        if root in _replicated:
            continue
        if any(id(reference()) in ids for _name, reference, _owner in root.parameters):
            _replicated[root] = []
            try:
                _replicated[root].extend(_look_at(root))
            except _OTHERWISE_MADE as error:
                faults.pass_on(error)


def _look_at_placements(followed):
    """Also, once in a step, whether all is still as it was."""
    global _looked_in
    if not any(name in sys.modules for name in _DTENSOR) or core._group()[1] < 2:
        return
    _look_for_new(followed)
    if _looked_in == S.step:
        return
    _looked_in = S.step
    for root in [root for root in _replicated if root.reference() is None]:
        for group in _replicated.pop(root):
            group.note_end()
    for groups in _replicated.values():
        for group in [g for g in groups if not g.is_so()]:
            groups.remove(group)
            group.note_end()


def stepping(followed):
    """An optimizer is about to step. After each of its forwards DDP says whether the backward behind
    it is to average.
    """
    _look_at_placements(followed)
    for kept in _kept:
        ddp = kept.reference()
        if ddp is None or kept.local or _own(ddp, "require_forward_param_sync"):
            continue
        if not kept.ids.isdisjoint(followed.ids):
            kept.local = True
            kept.note("replica.local")


@hook
def _in_child():
    """After fork: a process of its own, which holds nothing together with other ranks."""
    global _looked_in
    del _kept[:]
    _looked.clear()
    _replicated.clear()
    _looked_in = None


def arm(_torch):
    S.on_fork.append(_in_child)
