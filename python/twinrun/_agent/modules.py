# SPDX-License-Identifier: Apache-2.0
"""Module calls: first weights, inputs and outputs of roots, outputs of all modules at level
`modules`, losses.

`Module.__call__` gets our calls into its own code (inplace.py), no hooks: global forward hooks
change the path of every call, show in tracebacks, and make torch.compile warn. Where that is not
possible it is replaced by a function of the same name, which leaves no frame of ours in a traceback
(Python 3.11 and newer). Backward hooks on modules are never set: they break code with in-place
operations.
"""

import functools
import sys

from . import (
    core,
    distributed,
    faults,
    fp8,
    gradients,
    handed,
    inplace,
    naming,
    nested,
    optim,
    refs,
    replicas,
    rng,
    sites,
    steps,
    tensors,
    written,
)
from .core import S, T, hook, trim
from .native import ACTIVATION, BATCH, DATA, FORWARD, IN, LOSS, RECOMPUTED, SKETCH, STATS, TENSORS

# These draw by themselves: their name is worth two looks at the generators at every level.
_DRAWING = {
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "AlphaDropout",
    "FeatureAlphaDropout",
    "RReLU",
    "DropPath",
    "StochasticDepth",
}

_torch = None
# torch.compiler.is_compiling, torch.jit's tracing state, the innermost transform of torch.func
_is_compiling = _tracing_state = _transform = None
# (weak) the output of the last loss module: `backward` usually starts from it
last_loss = None
_paths = {}  # id(module) -> path inside its root, for the root being called


def _observable():
    """False while the call is traced, compiled or transformed: there are no values to see."""
    return (
        (_is_compiling is None or not _is_compiling())
        and _tracing_state() is None
        and (_transform is None or _transform() is None)
    )


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


def _is_computed(tensor):
    """Whether autograd knows an operation that made it: then it is no data. Of others
    nobody knows.
    """
    try:
        return bool(tensor.requires_grad) and not tensor.is_leaf
    except (AttributeError, RuntimeError) as error:  # a view whose graph autograd refuses to make
        faults.pass_on(error)
        return False


def _inputs(root, args, kwargs):
    """What a model is given, but for what the loader delivered in this step: it was recorded
    then.
    """
    one = not kwargs and len(args) == 1 and type(args[0]) in tensors._plain
    if (
        one
        and core.on_main_thread()
        and not (handed.in_this_step() and handed.is_of_batch(args[0]))
        and not _is_computed(args[0])
    ):
        root.show(0, DATA, BATCH, "input[0]", args[0], T.site)
        core.saw("batch")
        return
    found, values, hidden = [], [], []
    if len(args) == 1:
        nested.walk(args[0], "input[0]", found, values, hidden=hidden)
    else:
        nested.walk(args, "input", found, values, hidden=hidden)
    if kwargs:
        nested.walk(kwargs, "input", found, values, hidden=hidden)
    if hidden:
        handed.unseen(root.label, "was given a %s, which is not looked into" % hidden[0])
    pending = tensors.pending()
    for name, tensor in found:
        as_delivered = handed.of_batch(tensor)
        if as_delivered is None or not handed.in_this_step():
            nested.add_any(
                pending,
                DATA,
                IN if _is_computed(tensor) else BATCH,
                name,
                tensor,
                root.label,
                root.op,
                T.site,
            )
        elif not as_delivered:
            nested.add_any(pending, DATA, IN, name, tensor, root.label, "written", T.site)
    if any(value is not None for value in values):
        number = core.series(DATA, IN, "input, plain values", root.label, root.op, T.site)
        pending.add_bytes(number, nested.plain_bytes(values))
    if pending.count:
        pending.flush()
        core.saw("batch")


class Again:
    """A module that activation checkpointing runs once more, during the backward."""

    def __init__(self, root, path):
        self.root, self.path = root, path


class Shapes:
    """A call that is asked for shapes, not for numbers. Where it gives back no numbers either, it
    has computed nothing: there is nothing to record, and it is no step of an evaluation.
    """

    def __init__(self, root, args, kwargs):
        self.root, self.label, self.op = root, root.label, root.op
        self.args, self.kwargs = args, kwargs


@hook
def _root_enter(module, args, kwargs):
    if not _observable() or not core.begin():
        return None
    if gradients.in_backward():
        found = _paths.get(id(module))
        if not S.deep or found is None or found[2]() is not module:
            return None
        T.path, T.recomputing = [found[1]], 1
        return Again(found[0], found[1])
    T.site = sites.near(sys._getframe(3))  # this, the guard, the replaced __call__, its caller
    root = naming.root_of(module)
    if nested.shapes_alone(args, kwargs):
        T.path = None
        return Shapes(root, args, kwargs)
    _enter(root, module, args, kwargs)
    return root


def _enter(root, module, args, kwargs):
    steps.before_forward(root)
    rng.check("user code")
    if not root.stateless:
        written.entering(root)
    first = not root.announced and not root.stateless
    if first:
        announce(root)
    fp8.before_forward(root)
    if not root.stateless:
        replicas.entering(module, root, first)
    if root.stateless:
        handed.given(root.label, args, kwargs)
    else:
        _inputs(root, args, kwargs)
    if S.deep:
        T.path = []


@hook
def _root_leave(root, module, output):
    if isinstance(root, Again):
        _outputs(root.path, root.root.label, type(module).__name__, output)
        _abandon(root, None)
        return
    if isinstance(root, Shapes):
        if nested.shapes_alone((output,), {}):
            return
        _enter(root.root, module, root.args, root.kwargs)
        root = root.root
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
    handed.gave_out(output)
    steps.after_forward(root, output)


def _loss(root, output):
    global last_loss
    found, pending = [], tensors.pending()
    nested.walk(output, "loss", found)
    for name, tensor in found:
        pending.add(
            FORWARD,
            LOSS,
            name,
            tensor,
            root.label,
            root.op,
            T.site,
            flags=STATS | SKETCH | _recomputed(),
        )
    if found:
        pending.flush()
        core.saw("loss")
    last_loss = refs.to(output) if tensors.is_tensor(output) else None


def _recomputed():
    return RECOMPUTED if T.recomputing else 0


def _outputs(name, scope, op, output, site=None):
    found, pending = [], tensors.pending()
    nested.walk(output, name, found)
    flags = STATS | SKETCH | _recomputed()
    for path, tensor in found:
        nested.add_any(pending, FORWARD, ACTIVATION, path, tensor, scope, op, site, flags=flags)
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
        _paths[id(inner)] = (root, path, refs.to(inner))
    found = _paths.get(id(module))
    return (
        found[1]
        if found is not None and found[2]() is module and found[0] is root
        else type(module).__name__
    )


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
    return root.root if isinstance(root, (Again, Shapes)) else root


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


AROUND = """
switch_ = SWITCH
if switch_:
    root_ = entered_ = None
    if STATE.on and not LOCAL.busy:
        if not LOCAL.depth:
            %s
        elif STATE.deep or TYPE(self).__name__ in DRAWING:
            %s
    inside_ = True
    LOCAL.depth += 1
    try:
        BODY
    except:
        if inside_:
            LOCAL.depth -= 1
        if root_ is not None or entered_:
            %s
        raise
else:
    PLAIN
""" % (
    inplace.quietly("root_ = LOCAL.root = ENTER(self, args, kwargs)", 12),
    inplace.quietly("entered_ = INNER(self)", 12),
    inplace.quietly("ABANDON(root_, entered_)", 12),
)
LEAVING = """
inside_ = False
LOCAL.depth -= 1
if root_ is not None:
    %s
    LOCAL.root = None
elif entered_:
    %s
""" % (
    inplace.quietly("LEAVE(root_, self, result_)", 4),
    inplace.quietly("INNER_LEAVE(self, result_)", 4),
)


def arm(torch):
    global _torch, _is_compiling, _tracing_state, _transform
    _torch = torch
    _is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    _tracing_state = torch._C._get_tracing_state
    functorch = getattr(torch._C, "_functorch", None)
    _transform = getattr(functorch, "peek_interpreter_stack", None)
    module = torch.nn.Module
    call = getattr(module, "_wrapped_call_impl", None)
    objects = {
        "STATE": S,
        "LOCAL": T,
        "TYPE": type,
        "DRAWING": _DRAWING,
        "ENTER": _root_enter,
        "LEAVE": _root_leave,
        "INNER": _inner_enter,
        "INNER_LEAVE": _inner_leave,
        "ABANDON": _abandon,
    }
    if call is module.__call__ and inplace.put_into(call, AROUND, LEAVING, objects):
        S.armed.append("module calls")
        return [_abandon]
    if module.__call__ is not getattr(
        module, "_wrapped_call_impl", module.__call__
    ) and not hasattr(module, "_call_impl"):
        S.unarmed.append("module calls (this torch has none that can be replaced)")
        return []
    replaced = _replace(module.__call__)
    del replaced.__wrapped__
    module.__call__ = replaced
    S.armed.append("module calls")
    return [replaced]
