# SPDX-License-Identifier: Apache-2.0
"""Optimizers: gradients and hyperparameters as step() finds them, weights and moments as it leaves them.

By torch's global step hooks; where they do not exist (before 2.0), by the per-class wrapper that Optimizer sets up itself.

Every record of the optimizer is independent of the step's number, so that a resumed run, which counts from 0 again, can be
compared with the one it continues. Nothing large is therefore recorded in turns, but by the same part in every step: a moment by
its first elements, a weight by a block of every 65,536 elements. Gradients are whole: with equal gradients, weights and state an optimizer makes
equal weights. At the start and at the end of the process, and at all levels but `tensors`, weights are whole, too.
"""
import functools
import sys
import weakref
from array import array
from time import perf_counter_ns

from . import core, naming, rng, steps, tensors
from .core import S, T, hook
from .native import (BACKWARD, F64, GRADIENT, HYPER, INIT, ITEM_BYTES, MOMENT, OPTIMIZER, SKETCH, STATS, TENSORS, WEIGHT, Items,
                     pack_item)

HEAD = 16384        # elements of a moment that are recorded
GRADIENT_STATS_EVERY, WEIGHT_STATS_EVERY = 4, 8   # steps; statistics do not enter the value hash

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
        self.names = []
        self.weight_names = []
        self.views = []        # [parameter's address, what is recorded of it] of each
        self.present = None
        self.present_names = []
        self.found = None
        self.closure = False
        self.steps = 0


class Numbers:
    """Hyperparameters: the numbers of every group, in an array that stays in place from step to step."""

    def __init__(self, label, op):
        self.label, self.op = label, op
        self.shape = None      # keys of each group when the plan was made
        self.plan = []         # (group, key, index in a tuple or None) of each number
        self.odd = []          # (name, group, key) of tensors
        self.values = array("d")
        self.items = Items(16)

    def _look(self, groups):
        self.shape = [len(group) for group in groups]
        self.plan, self.odd, names = [], [], []
        for g, group in enumerate(groups):
            for key in group:
                if key != "params":
                    self._add(names, "%s[%d]" % (key, g), g, key, group[key])
        self.values = array("d", bytes(8 * len(names)))
        address = self.values.buffer_info()[0]
        while self.items.capacity < len(names):
            self.items.grow()
        for i, name in enumerate(names):
            pack_item(self.items.buffer, i * ITEM_BYTES, address + 8 * i, 0, 0, 1, 0,
                      core.series(OPTIMIZER, HYPER, name, self.label, self.op, "", ""), core.layout(F64, ()), 0, F64, 0, 0)

    def _add(self, names, name, g, key, value):
        if isinstance(value, bool):
            return  # a switch of the implementation, or of the program's text
        if isinstance(value, (int, float)):
            names.append(name)
            self.plan.append((g, key, None))
        elif isinstance(value, (tuple, list)) and 0 < len(value) <= 8 and all(type(v) in (int, float) for v in value):
            for i in range(len(value)):
                names.append("%s[%d]" % (name, i))
                self.plan.append((g, key, i))
        elif tensors.is_tensor(value):
            self.odd.append((name, g, key))

    def record(self, groups):
        if self.shape != [len(group) for group in groups]:
            self._look(groups)
        try:
            self._read(groups)
        except (KeyError, TypeError, IndexError, OverflowError):
            self._look(groups)  # a number has become something else
            self._read(groups)
        if self.plan:
            began = perf_counter_ns()
            S.lib.records(self.items.address, len(self.plan), None, 0)
            S.native_ns += perf_counter_ns() - began
        if not self.odd:
            return
        pending = tensors.pending()
        for name, g, key in self.odd:
            pending.add(OPTIMIZER, HYPER, name, groups[g][key], self.label, self.op, flags=0)
        pending.flush()

    def _read(self, groups):
        values = self.values
        for i, (g, key, index) in enumerate(self.plan):
            value = groups[g][key]
            values[i] = value if index is None else value[index]


def follow(optimizer):
    found = _known.get(id(optimizer))
    if found is None or found.reference() is not optimizer:
        found = Followed(optimizer)
        key = id(optimizer)
        _known[key] = found
        weakref.finalize(optimizer, _known.pop, key, None).atexit = False
    return found


def _refresh(followed, optimizer):
    """The list of parameters; named again when groups or parameters have changed."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    ids = [id(p) for p in parameters]
    if ids == followed.ids:
        return parameters
    followed.ids, followed.names = ids, []
    fresh = []
    for g, group in enumerate(optimizer.param_groups):
        for i, p in enumerate(group["params"]):
            known = naming.parameter(p)
            if known is None:
                known = ("param[%d][%d]" % (g, i), followed.label)
                naming.give(p, *known)
                fresh.append((known, p))
            followed.names.append((known[0], known[1], followed.op, ""))
    followed.present = followed.found = None
    followed.views = [[p.data_ptr(), _part(p)] for p in parameters]
    followed.weight_names = [(name if view is p else name + tensors.SAMPLED, scope, op, site) for (name, scope, op, site), p, (_at, view)
                             in zip(followed.names, parameters, followed.views)]
    if fresh and not followed.steps:
        _announce(fresh, followed)
    return parameters


def _part(p):
    return tensors.sampled(p) if S.level == TENSORS else p


def _weights(followed, parameters):
    """What is recorded of each parameter; views are made anew where a parameter got other memory."""
    found = []
    for row, p in zip(followed.views, parameters):
        if row[1] is not p and row[0] != p.data_ptr():
            row[0], row[1] = p.data_ptr(), _part(p)
        found.append(row[1])
    return found


def announce(name, tensor, label, op):
    """A first weight: whole, and the part that will be recorded after every step, so that a resumed run's place is found."""
    pending = tensors.pending()
    pending.add(INIT, WEIGHT, name, tensor, label, op)
    part = _part(tensor) if tensor.requires_grad else tensor
    if part is not tensor:
        pending.add(INIT, WEIGHT, name + tensors.SAMPLED, part, label, op)


def _announce(fresh, followed):
    """First weights of parameters that no root has shown."""
    for (name, label), p in fresh:
        announce(name, p, label, followed.op)
    tensors.pending().flush()
    core.saw("init")


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
        followed.present_names = [(followed.names[i][0], followed.names[i][1], "", "") for i in present]
    if gradients:
        flags = STATS | SKETCH if S.step % GRADIENT_STATS_EVERY == 0 else SKETCH
        followed.gradients.record(followed.present_names, gradients, flags)
        core.saw("gradient")


class Moments:
    """The tensors and numbers in an optimizer's state, found again in every step without looking for them anew."""

    def __init__(self):
        self.dicts = []      # (position of the parameter, its state, number of entries)
        self.tensors = []    # [state, key, tensor, what is recorded of it, address], in order
        self.names = []      # (name, scope, op, site) of each
        self.numbers = []    # (name, state, path) of plain numbers
        self.size = 0        # parameters with a state
        self.nested = False  # something deeper than one level: looked for anew in every step

    def current(self, state, parameters):
        """Whether the state still has the shape that was found."""
        if self.nested or len(state) != self.size:
            return False
        for position, entries, count in self.dicts:
            if state.get(parameters[position]) is not entries or len(entries) != count:
                return False
        return True

    def look(self, followed, state, parameters):
        counted, self.size = False, len(state)
        for position, p in enumerate(parameters):
            entries = state.get(p)
            if not isinstance(entries, dict) or not entries:
                continue
            self.dicts.append((position, entries, len(entries)))
            base, scope = followed.names[position][:2]
            for key in entries:
                if key == "step":
                    if counted:
                        continue  # one parameter's count stands for all
                    counted = True
                self._add(base + "." + str(key), scope, followed.op, entries, key, 0)

    def _add(self, name, scope, op, holder, key, depth):
        value = holder[key]
        if tensors.is_tensor(value):
            if value.numel() > HEAD and type(value) in tensors._plain and value.is_contiguous():
                name += "[:%d]" % HEAD
            self.tensors.append([holder, key, None, None, 0])
            self.names.append((name, scope, op, ""))
        elif isinstance(value, (bool, int, float)):
            self.numbers.append((name, holder, key))
        elif isinstance(value, dict) and depth < 3:
            self.nested = True
            for inner in dict.keys(value):
                self._add("%s[%r]" % (name, inner), scope, op, value, inner, depth + 1)
        elif isinstance(value, (list, tuple)) and depth < 3:
            self.nested = True
            for i in range(len(value)):
                self._add("%s[%d]" % (name, i), scope, op, value, i, depth + 1)

    def values(self):
        """What to record, in the order of the names; empty when all of it is where it was; None when something has changed its
        kind."""
        if not all(isinstance(_entry(holder, key), (int, float)) for _name, holder, key in self.numbers):
            return None
        self.steady = True
        for row in self.tensors:
            holder, key, known, _part, at = row
            value = holder.get(key) if isinstance(holder, dict) else holder[key]
            if value is not known:
                if not tensors.is_tensor(value):
                    return None
            elif type(value) in tensors._plain and value.data_ptr() == at:
                continue
            self.steady = False
            row[2], row[3], row[4] = value, _head(value), value.data_ptr() if type(value) in tensors._plain else 0
        return [row[3] for row in self.tensors] if not self.steady else ()


def _entry(holder, key):
    return holder.get(key) if isinstance(holder, dict) else holder[key]


def _head(t):
    """The first elements of a large moment, as a view."""
    if t.numel() <= HEAD or type(t) not in tensors._plain or not t.is_contiguous():
        return t
    with tensors._torch.no_grad():
        return t.detach().view(-1)[:HEAD]


def _record_moments(followed, optimizer, parameters, flags):
    state = optimizer.state
    moments = followed.found
    values = moments.values() if moments is not None and moments.current(state, parameters) else None
    if values is None:
        moments = followed.found = Moments()
        moments.look(followed, state, parameters)
        values = moments.values()
    if values:
        followed.moments.record(moments.names, values, flags)
        core.saw("moment")
    elif moments.tensors:
        followed.moments.again(flags)
    if moments.numbers:
        _record_numbers(followed, [(name, float(holder[key])) for name, holder, key in moments.numbers])


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
    parameters = _refresh(followed, optimizer)
    if S.level < TENSORS:
        return
    if not followed.closure:
        record_gradients(followed, parameters)
    followed.numbers.record(optimizer.param_groups)


@hook
def after_step(optimizer, args, kwargs):
    if not S.begun:
        return
    followed = follow(optimizer)
    T.optimizers = tuple(f for f in T.optimizers if f is not followed)
    parameters = _refresh(followed, optimizer)
    rng.check(followed.op)
    flags = STATS | SKETCH if S.step % WEIGHT_STATS_EVERY == 0 else SKETCH
    followed.weights.record(followed.weight_names, _weights(followed, parameters), flags)
    core.saw("weight")
    if S.level >= TENSORS:
        _record_moments(followed, optimizer, parameters, flags)
    followed.steps += 1
    steps.turn(optimizer)


def skipped(optimizer):
    """A gradient scaler found infinities and left step() out: what it saw, and that it did."""
    followed = follow(optimizer)
    parameters = _refresh(followed, optimizer)
    if S.level >= TENSORS:
        record_gradients(followed, parameters)
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


def _last_weights():
    """At the end of the process: whole, where the steps had a part."""
    pending = tensors.pending()
    for followed in list(_known.values()):
        optimizer = followed.reference()
        if optimizer is None or not followed.steps:
            continue
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        if [id(p) for p in parameters] != followed.ids:
            continue
        for (name, scope, op, _site), (_at, view), p in zip(followed.names, followed.views, parameters):
            if view is not p:
                pending.add(OPTIMIZER, WEIGHT, name, p, scope, op)
    pending.flush()


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
    S.on_exit.append(_last_weights)
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
