# SPDX-License-Identifier: Apache-2.0
"""Optimizers: gradients and hyperparameters as step() finds them, weights and moments as it leaves them.

By torch's global step hooks; where they do not exist (before 2.0), by the per-class wrapper that Optimizer sets up itself.

Every record of the optimizer is independent of the step's number, so that a resumed run, which counts from 0 again, can be
compared with the one it continues. Gradients are whole. Large weights and moments are recorded in parts that take turns (parts.py);
whose turn it is, the optimizer's own count of steps says where it keeps one, which a resumed run restores. All parts are
recorded in the first steps of a process, in the last one that `--steps` lets pass, beside a checkpoint, and at the end.
"""
import functools
import os
import sys
import threading
import weakref
from array import array
from time import perf_counter_ns

from . import core, facts, naming, parts, rng, steps, tensors, written
from .core import S, T, hook
from .native import (BACKWARD, CHECKPOINT, F64, GRADIENT, HYPER, INIT, ITEM_BYTES, MOMENT, OPTIMIZER, ORDER, SKETCH, STATS, TENSORS,
                     WEIGHT, Items, pack_item)

GRADIENT_STATS_EVERY, WEIGHT_STATS_EVERY = 4, 8   # steps; statistics do not enter the value hash
GONE = 8            # optimizers whose last look is kept after they are gone
NAMES_SHOWN = 40    # names of parameters in the note about their order

_known = {}         # id(optimizer) -> Followed


class Followed:
    """What we keep about an optimizer that steps."""

    def __init__(self, optimizer):
        self.reference = weakref.ref(optimizer)
        self.op = type(optimizer).__name__
        self.label = naming.optimizer_labels.of(optimizer)
        self.weights = parts.Rotating(OPTIMIZER, WEIGHT)
        self.gradients = tensors.Table(BACKWARD, GRADIENT)
        self.moments = parts.Rotating(OPTIMIZER, MOMENT)
        self.numbers = Numbers(self.label, self.op)
        self.ids = None
        self.names = []
        self.parameters = []   # kept alive no longer than the optimizer keeps them
        self.present = None
        self.present_names = []
        self.found = None
        self.closure = False
        self.steps = 0         # since this process began
        self.counter = None    # a parameter's state that counts its steps, and the last count
        self.count = self.stood = 0
        self.watched_at = None # which models `watches` was made of (written.py)
        self.watches = self.raw = ()


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
                      core.series(OPTIMIZER, HYPER, name, self.label, self.op, "", ""), core.layout(F64, ()), STATS, F64, 0, 0)

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
            pending.add(OPTIMIZER, HYPER, name, groups[g][key], self.label, self.op, flags=STATS)
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
        weakref.finalize(optimizer, _gone_with, key).atexit = False
    return found


def _refresh(followed, optimizer):
    """The list of parameters; named again when groups or parameters have changed."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    ids = [id(p) for p in parameters]
    if ids == followed.ids:
        return parameters
    followed.ids, followed.names, followed.parameters = ids, [], parameters
    fresh = []
    for g, group in enumerate(optimizer.param_groups):
        for i, p in enumerate(group["params"]):
            known = naming.parameter(p)
            if known is None:
                known = ("param[%d][%d]" % (g, i), followed.label)
                naming.give(p, *known)
                fresh.append((known, p))
            followed.names.append((known[0], known[1], followed.op, ""))
    followed.present = followed.found = followed.counter = followed.watched_at = None
    if fresh and not followed.steps:
        _announce(fresh, followed)
    if S.level >= TENSORS:
        _record_order(followed, optimizer.param_groups)
    return parameters


def _record_order(followed, groups):
    """In which order each group holds its parameters: it decides in which order norms are added up."""
    pending = tensors.pending()
    at, shown = 0, []
    for g, group in enumerate(groups):
        names = ["%s.%s" % (scope, name) for name, scope, _op, _site in followed.names[at: at + len(group["params"])]]
        at += len(names)
        number = core.series(INIT, ORDER, "parameters of %s[%d]" % (followed.label, g), "", followed.op, "")
        pending.add_bytes(number, "\n".join(names).encode("utf-8", "replace"))
        more = ["and %d more" % (len(names) - NAMES_SHOWN)] if len(names) > NAMES_SHOWN else []
        shown.append("%s[%d]: %s" % (followed.label, g, ", ".join(names[:NAMES_SHOWN] + more)))
    pending.flush()
    core.note("order", "\n".join(shown))


def _turn(followed, optimizer):
    """Which part of large tensors is recorded in this step."""
    if followed.counter is None:
        followed.counter = _find_counter(optimizer, followed.parameters)
    count = _count_of(followed.counter)
    if count is None:
        return followed.steps % parts.TURNS
    if count == followed.count:    # this parameter had no gradient: go on all the same
        followed.stood += 1
        followed.counter = None
    followed.count = count
    return (count + followed.stood) % parts.TURNS


def _everything(followed):
    """Whether all parts are: in the first steps of a process, which many checks do not go beyond, and in the last one."""
    return followed.steps < parts.TURNS or (S.last_step is not None and S.step >= S.last_step)


def _find_counter(optimizer, parameters):
    """The state of the parameter that has made the most steps; empty where the optimizer keeps no count."""
    best, most = {}, -1
    for p in parameters:
        entries = optimizer.state.get(p)
        count = _count_of(entries) if isinstance(entries, dict) else None
        if count is not None and count > most:
            best, most = entries, count
    return best


def _count_of(entries):
    count = entries.get("step")
    if type(count) in tensors._plain and count.numel() == 1 and tensors._simple(count):
        count = count.item()
    return int(count) if isinstance(count, (int, float)) and count >= 0 else None


def announce(name, tensor, label, op):
    """A first weight: whole, and its parts, by which a resumed run's place is found."""
    pending = tensors.pending()
    pending.add(INIT, WEIGHT, name, tensor, label, op)
    if S.level == TENSORS and tensor.requires_grad and parts.divisible(tensor):
        parts.add(pending, INIT, WEIGHT, name, tensor, label, op, 0)


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
        self.size = len(state)
        for position, p in enumerate(parameters):
            entries = state.get(p)
            if not isinstance(entries, dict) or not entries:
                continue
            self.dicts.append((position, entries, len(entries)))
            base, scope = followed.names[position][:2]
            for key in entries:
                if key == "step" and _on_device(entries[key]) and followed.names[position][:2] != min(n[:2] for n in followed.names):
                    continue  # each costs a copy to the host: one of them stands for all, whatever their order
                self._add(base + "." + str(key), scope, followed.op, entries, key, 0)

    def _add(self, name, scope, op, holder, key, depth):
        value = holder[key]
        if tensors.is_tensor(value):
            self.tensors.append([holder, key, None, 0])
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
            holder, key, known, at = row
            value = holder.get(key) if isinstance(holder, dict) else holder[key]
            if value is not known:
                if not tensors.is_tensor(value):
                    return None
            elif type(value) in tensors._plain and value.data_ptr() == at:
                continue
            self.steady = False
            row[2], row[3] = value, value.data_ptr() if type(value) in tensors._plain else 0
        return [row[2] for row in self.tensors] if not self.steady else ()


def _entry(holder, key):
    return holder.get(key) if isinstance(holder, dict) else holder[key]


def _on_device(value):
    return tensors.is_tensor(value) and value.device.type != "cpu"


def _record_moments(followed, optimizer, parameters, flags, turn, everything):
    state = optimizer.state
    moments = followed.found
    values = moments.values() if moments is not None and moments.current(state, parameters) else None
    if values is None:
        moments = followed.found = Moments()
        moments.look(followed, state, parameters)
        values = moments.values()
    if values:
        followed.moments.record(moments.names, values, flags, turn, everything)
        core.saw("moment")
    elif moments.tensors:
        followed.moments.again(flags, turn, everything)
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
    written.using(followed.raw)
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
    if not followed.steps:
        facts.shared_weights(followed.label, parameters)
    turn = _turn(followed, optimizer)
    # One step further in every round of turns, so that each part has its statistics in time.
    counted = (S.step + S.step // parts.TURNS) % WEIGHT_STATS_EVERY == 0
    flags = STATS | SKETCH if counted else SKETCH
    everything = _everything(followed)
    followed.weights.record(followed.names, parameters, flags, turn, everything)
    core.saw("weight")
    if S.level >= TENSORS:
        _record_moments(followed, optimizer, parameters, flags, turn, everything)
    written.stepped(followed, parameters)
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


def backward_begins():
    """Weights that a line of the job has written since the forward."""
    if S.level >= TENSORS:
        written.using([watch for followed in list(_known.values()) for watch in followed.raw])


def backward_in_step():
    """A backward ended inside step(): a closure. Each one's gradients are an occurrence."""
    if not T.optimizers or S.level < TENSORS:
        return
    followed = T.optimizers[-1]
    optimizer = followed.reference()
    if optimizer is not None and followed.closure:
        record_gradients(followed, [p for group in optimizer.param_groups for p in group["params"]])


# ---------------------------------------------------------------- whole, between and behind the steps

_gone = []    # (label, names, Held) of optimizers that are no more


def _look_whole(pending, followed, phase, moments, flags=0):
    """Every element of the weights, and of the optimizer's state, as they are now."""
    for (name, scope, op, _site), p in zip(followed.names, followed.parameters):
        parts.add(pending, phase, WEIGHT, name, p, scope, op, flags)
    if moments and followed.found is not None:
        for (name, scope, op, _site), (holder, key, _known, _at) in zip(followed.found.names, followed.found.tensors):
            value = _entry(holder, key)
            if tensors.is_tensor(value):
                parts.add(pending, phase, MOMENT, name, value, scope, op, flags)


def look_at_checkpoint():
    """The job saves a checkpoint: the weights as they are now, every element of them."""
    if S.level != TENSORS or not S.begun:
        return
    pending = tensors.pending()
    for followed in list(_known.values()):
        optimizer = followed.reference()
        if optimizer is not None and followed.steps:
            _look_whole(pending, followed, CHECKPOINT, False)
    pending.flush()


@hook
def _digest_last(followed):
    held = parts.Held()
    _look_whole(held, followed, OPTIMIZER, S.level >= TENSORS)
    held.flush()
    del _gone[:-(GONE - 1)]
    _gone.append((followed.label, followed.names, held))


def _gone_with(key):
    """An optimizer is being freed, in a function that returns long before the process ends: its last look is taken now."""
    followed = _known.pop(key, None)
    if followed is not None and followed.steps and S.begun and threading.get_ident() == S.main_thread:
        _digest_last(followed)


def _last_look():
    """At the end of the process: every element."""
    pending = tensors.pending()
    named = set()
    for followed in list(_known.values()):
        optimizer = followed.reference()
        if optimizer is None or not followed.steps:
            continue
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        if [id(p) for p in parameters] != followed.ids:
            continue
        _look_whole(pending, followed, OPTIMIZER, S.level >= TENSORS, STATS | SKETCH)
        named.update(name[:2] for name in followed.names)
    _look_at_the_rest(pending, named)
    pending.flush()
    for _label, names, held in reversed(_gone):    # what a later one has gone on with is that one's to show
        if named.isdisjoint(name[:2] for name in names):
            held.release()
            named.update(name[:2] for name in names)
    del _gone[:]


def _look_at_the_rest(pending, named):
    """Of the models that are trained: weights that no optimizer holds, and buffers, also those too large for every step."""
    for root in list(naming.roots.values()):
        if root.reference() is None or not any((name, root.label) in named for name, _reference, _owner in root.parameters):
            continue
        for name, reference, owner in root.parameters + root.buffers:
            t = reference()
            if t is not None and (name, root.label) not in named:
                parts.add(pending, OPTIMIZER, WEIGHT, name, t, root.label, owner, STATS | SKETCH)


def _in_child():
    """After fork the steps count from 0 again, and what the parent saw is the parent's."""
    del _gone[:]
    T.optimizers = ()
    for followed in _known.values():
        followed.steps = 0


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
    S.on_fork.append(_in_child)
    S.on_exit.append(_last_look)
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
