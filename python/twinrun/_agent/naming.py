# SPDX-License-Identifier: Apache-2.0
"""Names that are equal in every run: labels of roots, optimizers and loaders; parameters by their
path in their root.
"""

from . import fp8, refs, tensors
from .core import S

# A root that only wraps the job's model goes by the model's name.
_WRAPPERS = {
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "FullyShardedDataParallel": "module",
    "OptimizedModule": "_orig_mod",
    "ExactDDP": "module",
}


def class_name(thing):
    """The class as the job named it: fully_shard() puts a class FSDPNet before the job's Net."""
    cls = type(thing)
    if cls.__name__.startswith("FSDP") and any(
        base.__name__ == "FSDPModule" for base in cls.__bases__
    ):
        return cls.__name__[len("FSDP") :]
    return cls.__name__


class Labels:
    """`Name`, `Name#2`, ... for the objects of one sort that live at one time; a label is free
    again when its owner dies.
    """

    def __init__(self):
        self.taken = {}  # id(object) -> (weak reference, label)
        self.numbers = {}  # name -> numbers in use

    def of(self, thing):
        found = self.taken.get(id(thing))
        if found is not None and found[0]() is thing:
            return found[1]
        name = class_name(thing)
        used = self.numbers.setdefault(name, set())
        number = 1
        while number in used:
            number += 1
        used.add(number)
        label = name if number == 1 else "%s#%d" % (name, number)
        key, taken = id(thing), self.taken

        def gone(reference):
            used.discard(number)
            if key in taken and taken[key][0] is reference:
                del taken[key]

        taken[key] = (refs.to(thing, gone), label)
        return label


class Root:
    """A module that was called from outside of every other one."""

    __slots__ = (
        "reference",
        "label",
        "op",
        "stateless",
        "loss",
        "announced",
        "parameters",
        "buffers",
        "buffer_marks",
        "fp8",
        "watches",
        "_shown",
    )

    def __init__(self, module, label, stateless):
        key = id(module)
        self.reference = refs.to(module, lambda _reference: _forget(key, self))
        self.label = label
        self.op = class_name(module)
        self.stateless = stateless
        self.loss = self.op.endswith("Loss") or self.op == "Loss"
        self.announced = False
        self.parameters = []  # (name, weak reference, class of the owner)
        self.buffers = []
        self.buffer_marks = {}
        self.fp8 = ()  # (path, weak reference, class) of modules that keep such a state (fp8.py)
        self.watches = ()  # written.Watch of its weights and of its buffers
        self._shown = [{}, {}]

    def show(self, way, phase, kind, name, tensor, site):
        """Records its one input (way 0) or output (1), with a table for each place that
        calls it.
        """
        found = self._shown[way].get(site)
        if found is None:
            if len(self._shown[way]) >= 64:
                self._shown[way].clear()
            found = self._shown[way][site] = (
                tensors.Table(phase, kind),
                [(name, self.label, self.op, site)],
            )
        found[0].record(found[1], (tensor,))


roots = {}  # id(unwrapped module) -> Root
root_labels = Labels()
optimizer_labels = Labels()
loader_labels = Labels()
_parameters = {}  # id(parameter) -> (weak reference, name, root label, class of the owner)


def _of(module, name):
    """One of a module's tables, without the job's `__getattribute__` where there is one."""
    found = object.__getattribute__(module, "__dict__").get(name)
    return found if found is not None else getattr(module, name)


def unwrap(module):
    for _ in range(8):
        attribute = _WRAPPERS.get(type(module).__name__)
        inner = _of(module, "_modules").get(attribute) if attribute else None
        if inner is None:
            return module
        module = inner
    return module


def _tree(module, prefix, seen):
    """(path, module) of a module and all below it, each once, without running code of the job."""
    if id(module) in seen:
        return
    seen.add(id(module))
    yield prefix, module
    for name, child in _of(module, "_modules").items():
        if child is not None:
            child_prefix = prefix + "." + name if prefix else name
            for found in _tree(unwrap(child), child_prefix, seen):
                yield found


def _stateless(module):
    for _path, inner in _tree(module, "", set()):
        if any(
            t is not None
            for table in ("_parameters", "_buffers")
            for t in _of(inner, table).values()
        ):
            return False
    return True


def _lazy(tensor):
    return type(tensor).__name__.startswith("Uninitialized")


def root_of(module):
    """The Root of a module called from outside; known from its first call on."""
    module = unwrap(module)
    found = roots.get(id(module))
    if found is not None and found.reference() is module:
        return found
    stateless = _stateless(module)
    label = class_name(module) if stateless else root_labels.of(module)
    root = Root(module, label, stateless)
    roots[id(module)] = root
    return root


def _forget(key, root):
    if roots.get(key) is root:
        del roots[key]
    for _name, reference, _op in root.parameters:
        tensor = reference()
        if tensor is None or _parameters.get(id(tensor), (None, None, None))[2] == root.label:
            if tensor is not None:
                _parameters.pop(id(tensor), None)


def learn(root):
    """Lists the root's parameters and buffers; returns those not known before as (name, tensor,
    class of the owner).

    None while a lazy module has not made them yet.
    """
    module = root.reference()
    if module is None:
        return []
    fresh, parameters, buffers, kept, seen = [], [], [], [], set()
    for path, inner in _tree(module, "", set()):
        owner = class_name(inner)
        if fp8.has_state(inner):
            kept.append((path, refs.to(inner), owner))
        for kind, mapping in (
            (parameters, _of(inner, "_parameters")),
            (buffers, _of(inner, "_buffers")),
        ):
            for name, tensor in mapping.items():
                if tensor is None or id(tensor) in seen or not tensors.is_tensor(tensor):
                    continue
                if _lazy(tensor):
                    return None
                seen.add(id(tensor))
                full = path + "." + name if path else name
                kind.append((full, refs.to(tensor), owner))
                known = _parameters.get(id(tensor))
                if known is None or known[0]() is not tensor:
                    fresh.append((full, tensor, owner))
                    _parameters[id(tensor)] = (refs.to(tensor), full, root.label, owner)
    root.parameters, root.buffers, root.fp8 = parameters, buffers, kept
    return fresh


def parameter(tensor):
    """(name, root label) of a parameter seen in some root; None for others."""
    found = _parameters.get(id(tensor))
    if found is None or found[0]() is not tensor:
        return None
    return found[1], found[2]


def give(tensor, name, label):
    """Names a tensor that belongs to no root (a leaf of raw tensor code, a parameter given to an
    optimizer only).
    """
    if len(_parameters) > 1 << 18:
        for key in [k for k, v in _parameters.items() if v[0]() is None]:
            del _parameters[key]
    _parameters[id(tensor)] = (refs.to(tensor), name, label, "")


def reset():
    """After fork nothing needs to be learnt again, only told again."""
    for root in roots.values():
        root.announced = False


def arm():
    S.on_fork.append(reset)
