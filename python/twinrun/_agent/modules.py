# SPDX-License-Identifier: Apache-2.0
"""Module calls: first weights, inputs and outputs of roots, outputs of all modules at level `modules`, losses.

`Module.__call__` is replaced, not hooked: global forward hooks change the path of every call, show in tracebacks, and make
torch.compile warn. The replacement has the same name and leaves no frame of ours in a traceback (Python 3.11 and newer).
Backward hooks on modules are never set: they break code with in-place operations.
"""
import functools
import sys
import weakref

from . import core, distributed, naming, optim, rng, sites, steps, tensors, written
from .core import S, T, hook, trim
from .native import ACTIVATION, BATCH, DATA, FORWARD, LOSS, RECOMPUTED, SKETCH, STATS, TENSORS

# These draw by themselves: their name is worth two looks at the generators at every level.
_DRAWING = {"Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout", "RReLU", "DropPath",
            "StochasticDepth"}

_torch = None
last_loss = None       # (weak) the output of the last loss module: `backward` usually starts from it
_paths = {}            # id(module) -> path inside its root, for the root being called


def _observable():
    """False while the call is traced, compiled or transformed: there are no values to see."""
    compiler = getattr(_torch, "compiler", None)
    if compiler is not None and hasattr(compiler, "is_compiling") and compiler.is_compiling():
        return False
    if _torch._C._get_tracing_state() is not None:
        return False
    functorch = getattr(_torch._C, "_functorch", None)
    if functorch is not None and hasattr(functorch, "peek_interpreter_stack"):
        return functorch.peek_interpreter_stack() is None
    return True


# ---------------------------------------------------------------- roots

def announce(root):
    """Weights and buffers that have not been seen yet, as they are now."""
    fresh = naming.learn(root)
    if fresh is None:
        return
    root.announced = True
    distributed.watch_parameters(root)
    for name, tensor, owner in fresh:
        optim.announce(name, tensor, root.label, owner)
    if fresh:
        tensors.pending().flush()
        core.saw("init")
    written.announced(root)


def _inputs(root, args, kwargs):
    if not kwargs and len(args) == 1 and type(args[0]) in tensors._plain and core.on_main_thread():
        if not steps.in_last_batch(args[0]):
            root.show(0, DATA, BATCH, "input[0]", args[0], T.site)
            core.saw("batch")
        return
    found = []
    if len(args) == 1:
        tensors.walk(args[0], "input[0]", found)
    else:
        tensors.walk(args, "input", found)
    if kwargs:
        tensors.walk(kwargs, "input", found)
    found = [(name, tensor) for name, tensor in found if not steps.in_last_batch(tensor)]
    pending = tensors.pending()
    for name, tensor in found:
        tensors.add_any(pending, DATA, BATCH, name, tensor, root.label, root.op, T.site)
    if found:
        pending.flush()
        core.saw("batch")


class Again:
    """A module that activation checkpointing runs once more, during the backward."""

    def __init__(self, root, path):
        self.root, self.path = root, path


def _in_backward():
    task = getattr(_torch._C, "_current_graph_task_id", None)
    return task() != -1 if task is not None else T.backward > 0


@hook
def _root_enter(module, args, kwargs):
    if not _observable() or not core.begin():
        return None
    if _in_backward():
        found = _paths.get(id(module))
        if not S.deep or found is None or found[2]() is not module:
            return None
        T.path, T.recomputing = [found[1]], 1
        return Again(found[0], found[1])
    T.site = sites.near(sys._getframe(3))  # this, the guard, the replaced __call__, its caller
    root = naming.root_of(module)
    steps.before_forward(root)
    rng.check("user code")
    if not root.stateless:
        written.entering(root)
    if not root.announced and not root.stateless:
        announce(root)
    if not root.stateless:
        _inputs(root, args, kwargs)
    if S.deep:
        T.path = []
    return root


@hook
def _root_leave(root, module, output):
    if isinstance(root, Again):
        _outputs(root.path, root.root.label, type(module).__name__, output)
        _abandon(root, None)
        return
    if not root.announced and not root.stateless:
        announce(root)  # a lazy module
    rng.check(root.op)
    written.left(root)
    T.path = None
    if root.loss:
        _loss(root, output)
    elif S.level < TENSORS:
        pass
    elif type(output) in tensors._plain and core.on_main_thread():
        root.show(1, FORWARD, ACTIVATION, "output", output, T.site)
        core.saw("output")
    else:
        _outputs("output", root.label, root.op, output, T.site)
    steps.after_forward(root, output)


def _loss(root, output):
    global last_loss
    found, pending = [], tensors.pending()
    tensors.walk(output, "loss", found)
    for name, tensor in found:
        pending.add(FORWARD, LOSS, name, tensor, root.label, root.op, T.site, flags=STATS | SKETCH | _recomputed())
    if found:
        pending.flush()
        core.saw("loss")
    last_loss = weakref.ref(output) if tensors.is_tensor(output) else None


def _recomputed():
    return RECOMPUTED if T.recomputing else 0


def _outputs(name, scope, op, output, site=None):
    found, pending = [], tensors.pending()
    tensors.walk(output, name, found)
    flags = STATS | SKETCH | _recomputed()
    for path, tensor in found:
        tensors.add_any(pending, FORWARD, ACTIVATION, path, tensor, scope, op, site, flags=flags)
    if found:
        pending.flush()
        core.saw("output")


# ---------------------------------------------------------------- modules below the root

def path_of(root, module):
    """The module's path inside the root; its class name when it is not registered there."""
    found = _paths.get(id(module))
    if found is not None and found[0] is root and found[2]() is module:
        return found[1]
    whole = root.reference()
    if whole is None:
        return type(module).__name__
    for path, inner in naming._tree(whole, "", set()):
        _paths[id(inner)] = (root, path, weakref.ref(inner))
    found = _paths.get(id(module))
    return found[1] if found is not None and found[2]() is module and found[0] is root else type(module).__name__


@hook
def _inner_enter(module):
    if not S.begun or not _observable():
        return None
    if not T.recomputing:
        rng.check(T.root.op if T.root is not None else "user code")
    if S.deep and T.path is not None and T.root is not None:
        T.path.append(path_of(_real(T.root), module))
    return True


@hook
def _inner_leave(module, output):
    name = naming.class_name(module)
    if not T.recomputing:
        rng.check(name)
    if S.deep and T.path and T.root is not None:
        _outputs(T.path.pop(), _real(T.root).label, name, output)


def _real(root):
    return root.root if isinstance(root, Again) else root


def _abandon(root, entered):
    """A forward that raised, or that was a recomputation."""
    if root is not None:
        T.path, T.recomputing, T.root = None, 0, None
    elif entered and S.deep and T.path:
        T.path.pop()


# ---------------------------------------------------------------- the call

def _replace(original):
    drawing, state, local = _DRAWING, S, T

    def _wrapped_call_impl(self, *args, **kwargs):
        root = entered = None
        if state.on and not local.busy:
            if not local.depth:
                root = local.root = _root_enter(self, args, kwargs)
            elif state.deep or type(self).__name__ in drawing:
                entered = _inner_enter(self)
        local.depth += 1
        try:
            output = original(self, *args, **kwargs)
        except BaseException as error:
            trim(error)
            _abandon(root, entered)
            raise
        finally:
            local.depth -= 1
        if root is not None:
            _root_leave(root, self, output)
            local.root = None
        elif entered:
            _inner_leave(self, output)
        return output

    return functools.update_wrapper(_wrapped_call_impl, original)


def arm(torch):
    global _torch
    _torch = torch
    module = torch.nn.Module
    if module.__call__ is not getattr(module, "_wrapped_call_impl", module.__call__) and not hasattr(module, "_call_impl"):
        S.unarmed.append("module calls (this torch has none that can be replaced)")
        return []
    replaced = _replace(module.__call__)
    del replaced.__wrapped__
    module.__call__ = replaced
    S.armed.append("module calls")
    return [replaced]
