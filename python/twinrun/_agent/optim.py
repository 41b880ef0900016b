# SPDX-License-Identifier: Apache-2.0
"""Optimizers: gradients and hyperparameters as step() finds them, weights and moments as it leaves them.

By torch's global step hooks; where they do not exist (before 2.0), by the per-class wrapper that Optimizer sets up itself.

Every record of the optimizer is independent of the step's number, so that a resumed run, which counts from 0 again, can be
compared with the one it continues. A large moment is therefore not recorded in turns but by its first elements, in every step:
a lost, stale or swapped state shows there, and whatever a single element does to the weights shows in the weights.
"""
import functools
import sys
import weakref
from array import array

from . import amp, core, naming, rng, steps, tensors
from .core import S, T, hook
from .native import (BACKWARD, F64, GRADIENT, HYPER, MOMENT, OPTIMIZER, SKETCH, STATS, TENSORS, WEIGHT)

HEAD = 16384        # elements of a moment that are recorded
STATS_EVERY = 8     # statistics of weights and moments: every so many steps (they do not enter the value hash)

_known = {}         # id(optimizer) -> Followed


class Followed:
    """What we keep about an optimizer that steps."""

    def __init__(self, optimizer):
        self.reference = weakref.ref(optimizer)
        self.op = type(optimizer).__name__
        self.label = naming.optimizer_labels.of(optimizer)
        self.weights = tensors.Table(OPTIMIZER, WEIGHT)
        self.gradients = tensors.Table(BACKWARD, GRADIENT)
        self.moments = tensors.Table(OPTIMIZER, MOMENT)
        self.numbers = Numbers(self.label, self.op)
        self.ids = None
        self.parameters = []
        self.names = []
        self.present = None
        self.present_names = []
        self.moment_ids = None
        self.moment_names = []
        self.heads = {}
        self.closure = False
        self.steps = 0


class Numbers:
    """Hyperparameters: one value of every group each."""

    def __init__(self, label, op):
        self.label, self.op = label, op
        self.keys = None
        self.values = None
        self.items = None

    def record(self, groups):
        scale = amp.current_scale()
        keys, values, odd = [], [], []
        for g, group in enumerate(groups):
            for key in group:
                if key != "params":
                    _number(keys, values, odd, "%s[%d]" % (key, g), group[key])
        pending = tensors.pending()
        if keys != self.keys:
            self.keys, self.values = keys, None
        if self.values is None or len(self.values) != len(values):
            self.values = array("d", values)
        for i, value in enumerate(values):
            self.values[i] = value
        address = self.values.buffer_info()[0]
        for i, key in enumerate(keys):
            number = core.series(OPTIMIZER, HYPER, key, self.label, self.op, "", "")
            pending.put(number, address + 8 * i, F64, 1, (), None, 0)
        for name, tensor in odd:
            pending.add(OPTIMIZER, HYPER, name, tensor, self.label, self.op, flags=0)
        if scale is not None:
            pending.add(OPTIMIZER, HYPER, "loss scale", scale, self.label, self.op, flags=0)
        pending.flush()


def _number(keys, values, odd, name, value):
    if isinstance(value, bool):
        return  # a switch of the implementation, or of the program's text
    if isinstance(value, (int, float)):
        keys.append(name)
        values.append(float(max(-1e300, min(1e300, value))) if value == value else value)
    elif isinstance(value, (tuple, list)) and len(value) <= 8:
        for i, inner in enumerate(value):
            _number(keys, values, odd, "%s[%d]" % (name, i), inner)
    elif tensors.is_tensor(value):
        odd.append((name, value))


def follow(optimizer):
    found = _known.get(id(optimizer))
    if found is None or found.reference() is not optimizer:
        found = Followed(optimizer)
        key = id(optimizer)
        _known[key] = found
        weakref.finalize(optimizer, _known.pop, key, None).atexit = False
    return found


def _refresh(followed, optimizer):
    """The list of parameters, named again when groups or parameters have changed."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    ids = [id(p) for p in parameters]
    if ids == followed.ids and followed.complete:
        return
    followed.ids, followed.parameters = ids, [weakref.ref(p) for p in parameters]
    followed.names, followed.complete = [], True
    fresh = []
    position = 0
    for g, group in enumerate(optimizer.param_groups):
        for i, p in enumerate(group["params"]):
            known = naming.parameter(p)
            if known is None:
                known = ("param[%d][%d]" % (g, i), followed.label)
                naming.give(p, *known)
                fresh.append((known, p))
            followed.names.append((known[0], known[1], followed.op))
            position += 1
    followed.present = followed.moment_ids = None
    if fresh and not followed.steps:
        _announce(fresh, followed)


def _announce(fresh, followed):
    """First weights of parameters that no root has shown."""
    pending = tensors.pending()
    for (name, label), p in fresh:
        pending.add(core.native.INIT, WEIGHT, name, p, label, followed.op)
    pending.flush()
    core.saw("init", len(fresh))


Followed.complete = False


# ---------------------------------------------------------------- records

def record_gradients(followed, parameters):
    """Gradients as they are now; parameters without one are left out."""
    present, gradients = [], []
    for i, p in enumerate(parameters):
        gradient = p.grad
        if gradient is not None:
            present.append(i)
            gradients.append(gradient)
    if present != followed.present:
        followed.present = present
        followed.present_names = [(followed.names[i][0], followed.names[i][1], "") for i in present]
    if gradients:
        followed.gradients.record(followed.present_names, gradients)
        core.saw("gradient", len(gradients))


def _flatten(name, value, found, numbers, depth=0):
    if tensors.is_tensor(value):
        found.append((name, value))
    elif isinstance(value, (bool, int, float)):
        numbers.append((name, float(value)))
    elif isinstance(value, dict) and depth < 3:
        for key in dict.keys(value):
            _flatten("%s[%r]" % (name, key), value[key], found, numbers, depth + 1)
    elif isinstance(value, (list, tuple)) and depth < 3:
        for i, inner in enumerate(value):
            _flatten("%s[%d]" % (name, i), inner, found, numbers, depth + 1)


def _head(followed, name, t):
    """The first elements of a large contiguous moment, as a view that is made once."""
    if t.numel() <= HEAD or not t.is_contiguous():
        return name, t
    name += "[:%d]" % HEAD
    made = followed.heads.get(name)
    if made is None or made[0] != t.data_ptr():
        with tensors._torch.no_grad():
            made = followed.heads[name] = (t.data_ptr(), t.detach().view(-1)[:HEAD])
    return name, made[1]


def _record_moments(followed, optimizer, parameters, flags):
    state = optimizer.state
    found, numbers, counted = [], [], False
    for i, p in enumerate(parameters):
        entries = state.get(p)
        if not entries:
            continue
        base = followed.names[i][0]
        if isinstance(entries, dict):
            for key in entries:
                if key == "step":
                    if counted:
                        continue  # one parameter's count stands for all
                    counted = True
                _flatten("%s.%s" % (base, key), entries[key], found, numbers)
        scope = followed.names[i][1]
        for j in range(len(found)):
            if len(found[j]) == 2:
                name, t = _head(followed, *found[j]) if type(found[j][1]) in tensors._plain else found[j]
                found[j] = (name, t, scope)
    if found:
        ids = [name for name, _t, _s in found]
        if ids != followed.moment_ids:
            followed.moment_ids = ids
            followed.moment_names = [(name, scope, followed.op) for name, _t, scope in found]
        followed.moments.record(followed.moment_names, [t for _n, t, _s in found], flags)
        core.saw("moment", len(found))
    if numbers:
        _record_numbers(followed, numbers)


def _record_numbers(followed, numbers):
    """Plain numbers in the optimizer's state, such as LBFGS's counters."""
    values = array("d", [value for _name, value in numbers])
    pending = tensors.pending()
    for i, (name, _value) in enumerate(numbers):
        pending.put(core.series(OPTIMIZER, MOMENT, name, followed.label, followed.op, "", ""),
                    values.buffer_info()[0] + 8 * i, F64, 1, (), None, 0)
    pending.flush()


# ---------------------------------------------------------------- the step

@hook
def before_step(optimizer, args, kwargs):
    if not core.begin():
        return
    rng.check("user code")
    followed = follow(optimizer)
    followed.closure = bool(args and callable(args[-1])) or kwargs.get("closure") is not None
    T.optimizers = tuple(f for f in T.optimizers if f is not followed) + (followed,)
    _refresh(followed, optimizer)
    if S.level < TENSORS:
        return
    if not followed.closure:
        record_gradients(followed, [p for group in optimizer.param_groups for p in group["params"]])
    followed.numbers.record(optimizer.param_groups)


@hook
def after_step(optimizer, args, kwargs):
    if not S.begun:
        return
    followed = follow(optimizer)
    T.optimizers = tuple(f for f in T.optimizers if f is not followed)
    _refresh(followed, optimizer)
    rng.check(followed.op)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    flags = STATS | SKETCH if S.step % STATS_EVERY == 0 else SKETCH
    followed.weights.record(followed.names, parameters, flags)
    core.saw("weight", len(parameters))
    if S.level >= TENSORS:
        _record_moments(followed, optimizer, parameters, flags)
    followed.steps += 1
    steps.turn(optimizer)


def skipped(optimizer):
    """A gradient scaler found infinities and left step() out: what it saw, and that it did."""
    followed = follow(optimizer)
    _refresh(followed, optimizer)
    if S.level >= TENSORS:
        record_gradients(followed, [p for group in optimizer.param_groups for p in group["params"]])
        followed.numbers.record(optimizer.param_groups)
        _record_numbers(followed, [("step skipped", 1.0)])
    followed.steps += 1
    steps.turn(optimizer)


def backward_in_step():
    """A backward ended inside step(): a closure. Each one's gradients are an occurrence."""
    if not T.optimizers or S.level < TENSORS:
        return
    followed = T.optimizers[-1]
    optimizer = followed.reference()
    if optimizer is not None and followed.closure:
        record_gradients(followed, [p for group in optimizer.param_groups for p in group["params"]])


# ---------------------------------------------------------------- setting up

def _forget_interrupted(*_):
    T.optimizers = ()


def arm(torch):
    optimizer = torch.optim.Optimizer
    module = sys.modules[optimizer.__module__]
    replaced = _follow_construction(optimizer)
    if hasattr(module, "register_optimizer_step_pre_hook"):
        module.register_optimizer_step_pre_hook(before_step)
        module.register_optimizer_step_post_hook(after_step)
        S.armed.append("optimizer hooks")
    elif hasattr(optimizer, "_hook_for_profile"):
        S.armed.append("optimizer steps")
    else:
        S.unarmed.append("optimizers (this torch has no step hooks)")
    S.on_fork.append(_forget_interrupted)
    return replaced


def _follow_construction(optimizer):
    """Optimizer.__init__ and __setstate__ call one method for every instance: there we learn of it."""
    name = "_patch_step_function" if hasattr(optimizer, "_patch_step_function") else "_hook_for_profile"
    original = getattr(optimizer, name, None)
    if original is None:
        return []
    old = not hasattr(optimizer, "_patch_step_function")

    def replaced(self):
        _made(self)
        result = original(self)
        if old:
            _wrap_step(type(self))
        return result

    setattr(optimizer, name, functools.update_wrapper(replaced, original))
    del replaced.__wrapped__
    return [replaced]


@hook
def _made(optimizer):
    steps.made(optimizer)


def _wrap_step(cls):
    """Before torch 2.0: the step method of each class, once."""
    step = cls.__dict__.get("step")
    if step is None or getattr(step, "_twinrun", False):
        return

    def wrapped(self, *args, **kwargs):
        before_step(self, args, kwargs)
        try:
            result = step(self, *args, **kwargs)
        except BaseException as error:
            core.trim(error)
            _forget_interrupted()
            raise
        after_step(self, args, kwargs)
        return result

    functools.update_wrapper(wrapped, step)
    wrapped._twinrun = True
    cls.step = wrapped
