# SPDX-License-Identifier: Apache-2.0
"""Backward: the loss that it starts from, gradients where no optimizer will show them."""

import functools
import sys

from . import core, gradients, inplace, modules, naming, optim, rng, sites, steps, tensors, trainers
from .core import S, T, hook, trim
from .native import BACKWARD, FORWARD, GRADIENT, LOSS, SKETCH, STATS, TENSORS

GRAPH_NODES = 100000  # how far a graph is searched for leaves
PLACES = 64  # lines that call backward, whose losses have a table

_losses = {}  # site -> (table, its names)


def _starts(args, kwargs):
    first = args[0] if args else kwargs.get("tensors")
    if tensors.is_tensor(first):
        return [first]
    return [t for t in first if tensors.is_tensor(t)] if isinstance(first, (list, tuple)) else []


def _show_loss(pending, t, site):
    """With a table for each place that calls backward."""
    if type(t) not in tensors._plain or not core.on_main_thread():
        pending.add(FORWARD, LOSS, "loss", t, "", "backward", site, flags=STATS | SKETCH)
        return
    pending.flush()
    found = _losses.get(site)
    if found is None:
        if len(_losses) >= PLACES:
            _losses.clear()
        found = _losses[site] = (tensors.Table(FORWARD, LOSS), [("loss", "", "backward", site)])
    found[0].record(found[1], (t,))


@hook
def _before(args, kwargs):
    if not core.begin() or gradients.in_backward():
        return None
    trainers.begins()
    if not T.optimizers:
        steps.backward_begins()
    rng.check("user code")
    optim.backward_begins()
    starts = _starts(args, kwargs)
    pending = tensors.pending()
    seen = modules.last_loss() if modules.last_loss is not None else None
    for t in starts:
        if t is not seen:
            _show_loss(pending, t, sites.near(sys._getframe(3)))
            core.saw("loss")
    pending.flush()
    return (_leaves(starts),) if not steps.has_optimizers() else ((),)


@hook
def _after(leaves):
    rng.check("backward")
    if T.optimizers:
        optim.backward_in_step()
    else:
        optim.backward_ended()
        steps.backward_ended(leaves)


def _leaves(starts):
    """(name, tensor) of every leaf of the graph behind `starts` that belongs to no root, in the
    order of the graph.
    """
    found, seen = [], set()
    stack = [t.grad_fn for t in reversed(starts) if t.grad_fn is not None]
    while stack and len(seen) < GRAPH_NODES:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        tensor = getattr(node, "variable", None)
        if tensor is not None and tensors.is_tensor(tensor):
            known = naming.parameter(tensor)
            if known is None or not known[1]:
                name = "leaf#%d" % (len(found) + 1)
                naming.give(tensor, name, "")
                found.append((name, tensor))
            continue
        stack.extend(
            following for following, _ in reversed(node.next_functions) if following is not None
        )
    return found


@hook
def _grad_before(args, kwargs):
    if not core.begin() or gradients.in_backward():
        return None
    starts = args[0] if args else kwargs.get("outputs")
    inputs = args[1] if len(args) > 1 else kwargs.get("inputs")
    starts = [starts] if tensors.is_tensor(starts) else list(starts)
    inputs = (
        [inputs]
        if tensors.is_tensor(inputs)
        else list(inputs)
        if isinstance(inputs, (list, tuple))
        else []
    )
    if any(map(tensors.traced, starts)) or any(map(tensors.traced, inputs)):
        # torch.compile derives the backward graph, unless its cache has it from an earlier run
        return None
    if not T.optimizers:
        steps.backward_begins()
    pending = tensors.pending()
    for t in starts:
        if tensors.is_tensor(t) and t.numel() == 1:
            pending.add(
                FORWARD, LOSS, "loss", t, "", "autograd.grad", sites.user(), flags=STATS | SKETCH
            )
    pending.flush()
    return (inputs,)


@hook
def _grad_after(inputs, result):
    if not steps.has_optimizers():
        leaves = [t for t in inputs if tensors.is_tensor(t) and t.is_leaf]
        for i, t in enumerate(leaves):
            if naming.parameter(t) is None:
                naming.give(t, "leaf#%d" % (i + 1), "")
        steps.gradients_taken(leaves)
    if S.level < TENSORS:
        return
    pending = tensors.pending()
    results = result if isinstance(result, (list, tuple)) else (result,)
    gradients.taken(inputs, results)
    for i, t in enumerate(results):
        known = (
            naming.parameter(inputs[i])
            if i < len(inputs) and tensors.is_tensor(inputs[i])
            else None
        )
        if tensors.is_tensor(t):
            name, scope = known or ("autograd.grad[%d]" % i, "")
            pending.add(BACKWARD, GRADIENT, name, t, scope, "autograd.grad")
            core.saw("gradient")
    pending.flush()


def _replace(original, before, after, with_result):
    local = T

    def backward(*args, **kwargs):
        token = before(args, kwargs)
        local.backward += 1
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            trim(error)
            raise
        finally:
            local.backward -= 1
        if token is not None:
            if with_result:
                after(token[0], result)
            else:
                after(token[0])
        return result

    return functools.update_wrapper(backward, original)


AROUND = """
switch_ = SWITCH
token_ = None
if switch_:
    %s
BODY
"""
LEAVING = """
if token_ is not None:
    %s
"""


def _put_into(function, before, after, given, result):
    """The hooks inside the function itself. Whether that was possible."""
    if not hasattr(sys.modules["torch"]._C, "_current_graph_task_id"):
        return False  # then T.backward must count
    around = AROUND % inplace.quietly("token_ = BEFORE(%s, KEYWORDS)" % given, 4)
    leaving = LEAVING % inplace.quietly("AFTER(token_[0]%s)" % result, 4)
    return inplace.put_into(
        function, around, leaving, {"BEFORE": before, "AFTER": after, "KEYWORDS": {}}
    )


def arm(torch):
    """Tensor.backward goes through torch.autograd.backward, so there is one place to watch."""
    replaced = []
    for name, before, after, given, result in (
        ("backward", _before, _after, "(tensors,)", ""),
        ("grad", _grad_before, _grad_after, "(outputs, inputs)", ", result_"),
    ):
        function = getattr(torch.autograd, name)
        if _put_into(function, before, after, given, result):
            continue
        ours = _replace(function, before, after, bool(result))
        setattr(torch.autograd, name, ours)
        _tell_script(torch, ours, name)
        replaced.append(ours)
    S.armed.append("backward")
    return replaced


def _tell_script(torch, function, name):
    """TorchScript knows functions by their identity."""
    builtins = getattr(torch.jit, "_builtins", None)
    if builtins is not None and hasattr(builtins, "_register_builtin"):
        builtins._register_builtin(function, "aten::" + name)
