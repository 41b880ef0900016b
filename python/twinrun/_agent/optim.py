# SPDX-License-Identifier: Apache-2.0
"""Optimizers: gradients and hyperparameters as step() finds them, weights and moments as it leaves
them.

By torch's global step hooks; where they do not exist (before 2.0), by the per-class wrapper that
Optimizer sets up itself.

Every record of the optimizer is independent of the step's number, so that a resumed run, which
counts from 0 again, can be compared with the one it continues. Gradients are whole. Large weights
and moments are recorded in parts that take turns (parts.py); whose turn it is, the optimizer's own
count of steps says where it keeps one, which a resumed run restores. All parts are recorded in the
first steps of a process, in the last one that `--steps` lets pass, beside a checkpoint, and at the
end.
"""

import functools
import os
import sys
import threading
from array import array

from . import (
    core,
    device,
    facts,
    gradients,
    naming,
    parts,
    refs,
    replicas,
    rng,
    steps,
    swift,
    tensors,
    trainers,
    written,
)
from .core import S, T, hook
from .native import (
    CHECKPOINT,
    F64,
    INIT,
    MOMENT,
    OPTIMIZER,
    ORDER,
    SKETCH,
    STATS,
    TENSORS,
    WEIGHT,
)
from .optim_moments import Moments
from .optim_numbers import Numbers

GONE = 8  # optimizers whose last look is kept after they are gone
NAMES_SHOWN = 40  # names of parameters in the note about their order

_known = {}  # id(optimizer) -> Followed


class Followed:
    """What we keep about an optimizer that steps."""

    def __init__(self, optimizer):
        key = id(optimizer)

        def gone(reference):
            if key in _known and _known[key].reference is reference:
                del _known[key]

        self.reference = refs.to(optimizer, gone)
        self.op = type(optimizer).__name__
        self.label = naming.optimizer_labels.of(optimizer)
        self.weights = parts.Rotating(OPTIMIZER, WEIGHT)
        self.moments = parts.Rotating(OPTIMIZER, MOMENT)
        self.numbers = Numbers(self.label, self.op)
        self.ids = None
        self.list = None  # the same ids for the swift path
        self.names = []
        self.found = None
        self.closure = False
        self.steps = 0  # since this process began
        # place of the parameter whose state counts its steps, and the last count
        self.counter = None
        self.count = self.stood = 0
        self.watched_at = None  # which models `watches` was made of (written.py)
        self.placed_at = None  # which models replicas.py has looked at
        self.watches = self.raw = ()


def _of(optimizer, name):
    """An attribute, without the job's `__getattribute__` where there is one."""
    found = object.__getattribute__(optimizer, "__dict__").get(name)
    return found if found is not None else getattr(optimizer, name)


def _parameters(optimizer):
    return [p for group in _of(optimizer, "param_groups") for p in group["params"]]


def _parameters_of(optimizer):
    known = _known.get(id(optimizer))
    if known is not None and known.list is not None:
        parameters = swift.parameters(known.list, _of(optimizer, "param_groups"))
        if parameters is not None:
            return parameters
    return _parameters(optimizer)


def follow(optimizer):
    found = _known.get(id(optimizer))
    if found is None or found.reference() is not optimizer:
        found = Followed(optimizer)
        _known[id(optimizer)] = found
    return found


def _refresh(followed, optimizer):
    """The list of parameters; named again when groups or parameters have changed."""
    if followed.list is not None:
        parameters = swift.parameters(followed.list, _of(optimizer, "param_groups"))
        if parameters is not None:
            return parameters
    parameters = _parameters(optimizer)
    ids = list(map(id, parameters))
    if ids == followed.ids:
        return parameters
    # Known by no ids until all of it is made: an exception of the job's may come in between.
    followed.list, followed.ids, followed.names = None, (), []
    fresh = []
    for g, group in enumerate(_of(optimizer, "param_groups")):
        for i, p in enumerate(group["params"]):
            known = naming.parameter(p)
            if known is None:
                known = ("param[%d][%d]" % (g, i), followed.label)
                naming.give(p, *known)
                fresh.append((known, p))
            followed.names.append((known[0], known[1], followed.op, ""))
    followed.found = followed.counter = followed.watched_at = followed.placed_at = None
    if fresh and not followed.steps:
        _announce(fresh, followed)
    if S.level >= TENSORS:
        _record_order(followed, _of(optimizer, "param_groups"))
    followed.ids = ids
    if swift.ON:
        followed.list = swift.new_list(ids)
    return parameters


def _record_order(followed, groups):
    """In which order each group holds its parameters: it decides in which order norms
    are added up.
    """
    pending = tensors.pending()
    at, shown = 0, []
    for g, group in enumerate(groups):
        names = [
            "%s.%s" % (scope, name)
            for name, scope, _op, _site in followed.names[at : at + len(group["params"])]
        ]
        at += len(names)
        number = core.series(
            INIT, ORDER, "parameters of %s[%d]" % (followed.label, g), "", followed.op, ""
        )
        pending.add_bytes(number, "\n".join(names).encode("utf-8", "replace"))
        more = ["and %d more" % (len(names) - NAMES_SHOWN)] if len(names) > NAMES_SHOWN else []
        shown.append("%s[%d]: %s" % (followed.label, g, ", ".join(names[:NAMES_SHOWN] + more)))
    pending.flush()
    core.note("order", "\n".join(shown))


def _turn(followed, state, parameters, values):
    """Which part of large tensors is recorded in this step. values: of the moments, where they
    are as they were.
    """
    if followed.counter is None:
        followed.counter = _find_counter(state, parameters)
    at = followed.found.counts.get(followed.counter) if values is not None else None
    if at is not None and values[at].numel() == 1:
        count = _whole(values[at].item())
    else:
        count = (
            _count_of(state.get(parameters[followed.counter])) if followed.counter >= 0 else None
        )
    if count is None:
        return followed.steps % parts.TURNS
    if count == followed.count:  # this parameter had no gradient: go on all the same
        followed.stood += 1
        followed.counter = None
    followed.count = count
    return (count + followed.stood) % parts.TURNS


def _everything(followed):
    """Whether all parts are: in the first steps of a process, which many checks do not go beyond,
    and in the last one. Where the optimizer keeps no count, a resumed job does not know whose turn
    it was: as the second of two commands it shows all.
    """
    first_or_last = followed.steps < parts.TURNS or (
        S.last_step is not None and S.step >= S.last_step
    )
    return first_or_last or (
        followed.counter in (None, -1) and os.environ.get("TWINRUN_PARTS") == "all"
    )


def _find_counter(state, parameters):
    """The place of the parameter that has made the most steps; -1 where the optimizer keeps no
    count.
    """
    best, most = -1, -1
    for i, p in enumerate(parameters):
        count = _count_of(state.get(p))
        if count is not None and count > most:
            best, most = i, count
    return best


def _count_of(entries):
    count = entries.get("step") if isinstance(entries, dict) else None
    if type(count) in tensors._plain and count.numel() == 1 and tensors._simple(count):
        count = count.item()
    return _whole(count)


def _whole(count):
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


def _record_gradients(followed, optimizer, parameters):
    """Gradients as they are now; parameters without one are left out."""
    left = gradients.left_to(optimizer)
    if not left.step_begins_swiftly(followed.names, parameters):
        left.step_begins(followed.names, parameters, [p.grad for p in parameters])


def _record_first_moments(followed, state, parameters):
    """The state that an optimizer has before its first step: a resumed job has loaded it, and what
    it holds is compared with what the whole job had there.
    """
    moments, pending = Moments(), tensors.pending()
    values, _numbers, _steady = moments.look(followed, state, parameters)
    for (name, scope, op, _site), value in zip(moments.names, values):
        pending.add(INIT, MOMENT, name, value, scope, op)
        if S.level == TENSORS and parts.divisible(value):
            parts.add(pending, INIT, MOMENT, name, value, scope, op, 0)
    pending.flush()


def _record_moments(followed, state, parameters, flags, turn, everything, values):
    moments = followed.found
    if values is not None and followed.moments.again(flags, turn, everything):
        return
    found = moments.again(state, parameters) if moments is not None else None
    if found is None:
        moments = followed.found = Moments()
        found = moments.look(followed, state, parameters)
    values, numbers, steady = found
    if moments.names and not (steady and followed.moments.again(flags, turn, everything)):
        followed.moments.record(moments.names, values, flags, turn, everything)
        core.saw("moment")
    if numbers:
        _record_numbers(followed, numbers)


def _record_numbers(followed, numbers):
    """Plain numbers in the optimizer's state, such as LBFGS's counters."""
    values = array("d", [value for _name, value in numbers])
    pending = tensors.pending()
    for i, (name, _value) in enumerate(numbers):
        pending.put(
            core.series(OPTIMIZER, MOMENT, name, followed.label, followed.op, "", ""),
            values.buffer_info()[0] + 8 * i,
            F64,
            1,
            (),
            None,
            0,
        )
    pending.flush()


# ---------------------------------------------------------------- the step


def _others(followed):
    """The optimizers whose step runs around this one's."""
    if T.optimizers in ((), (followed,)):
        return ()
    return tuple(f for f in T.optimizers if f is not followed)


@hook
def before_step(optimizer, args, kwargs):
    if not core.begin():
        return
    steps.step_begins(optimizer)
    rng.check("user code")
    followed = follow(optimizer)
    written.using(followed.raw)
    followed.closure = bool(args and callable(args[-1])) or kwargs.get("closure") is not None
    T.optimizers = (*_others(followed), followed)
    parameters = _refresh(followed, optimizer)
    if S.level < TENSORS:
        return
    if not followed.closure:
        replicas.stepping(followed)
    state = _of(optimizer, "state")
    if not followed.steps and state:
        _record_first_moments(followed, state, parameters)
    if not followed.closure:
        _record_gradients(followed, optimizer, parameters)
    followed.numbers.record(_of(optimizer, "param_groups"))


@hook
def after_step(optimizer, args, kwargs):
    if not S.begun:
        return
    followed = follow(optimizer)
    T.optimizers = _others(followed)
    parameters = _refresh(followed, optimizer)
    rng.check(followed.op)
    if followed.closure and S.level >= TENSORS:
        replicas.stepping(followed)  # DDP was told of its backward within the step
    if not followed.steps:
        facts.shared_weights(followed.label, parameters)
    state = _of(optimizer, "state")
    values = None  # held until they are recorded
    if followed.found is not None and S.level >= TENSORS:
        values = followed.found.swiftly(state)
    turn = _turn(followed, state, parameters, values)
    flags = STATS | SKETCH if parts.counted(S.step) else SKETCH
    everything = _everything(followed)
    with device.all_at_once:
        followed.weights.record(followed.names, parameters, flags, turn, everything)
        core.saw("weight")
        if S.level >= TENSORS:
            _record_moments(followed, state, parameters, flags, turn, everything, values)
    written.stepped(followed, parameters)
    gradients.left_to(optimizer).step_ends()
    followed.steps += 1
    steps.turn(optimizer)


def skipped(optimizer):
    """A gradient scaler found infinities and left step() out: what it saw, and that it did."""
    followed = follow(optimizer)
    parameters = _refresh(followed, optimizer)
    if S.level >= TENSORS:
        _record_gradients(followed, optimizer, parameters)
        followed.numbers.record(_of(optimizer, "param_groups"))
        _record_numbers(followed, [("step skipped", 1.0)])
    gradients.left_to(optimizer).step_ends()
    followed.steps += 1
    steps.turn(optimizer)


def backward_begins():
    """Weights that a line of the job has written since the forward."""
    if S.level >= TENSORS:
        written.using(
            [
                watch
                for key, followed in list(_known.items())
                if steps.stepped_here(key)
                for watch in followed.raw
            ]
        )
        _each_gradients("backward_begins")


def backward_ended():
    if S.level >= TENSORS:
        _each_gradients("look")


def _each_gradients(what):
    if T.optimizers:
        return
    if what == "backward_begins" and not gradients.any_open():
        return
    found = []
    with trainers.no_other_begins():
        own, others = steps.optimizers()
        for optimizer in own:
            left = gradients.left_to(optimizer)
            if what == "look" or left.is_open():
                parameters = _parameters_of(optimizer)
                if what == "look" and left.look_swiftly(parameters):
                    continue
                found.append((left, parameters, [p.grad for p in parameters]))
    for left, parameters, present in found:
        getattr(left, what)(parameters, present)
    if what == "look":
        gradients.not_looked_at(others)


def backward_in_step():
    """A backward ended inside step(): a closure. Each one's gradients are an occurrence."""
    if not T.optimizers or S.level < TENSORS:
        return
    followed = T.optimizers[-1]
    optimizer = followed.reference()
    if optimizer is not None and followed.closure:
        replicas.stepping(followed)
        gradients.left_to(optimizer).in_step(
            followed.names, [p.grad for p in _parameters(optimizer)]
        )


# ---------------------------------------------------------------- whole, between and behind the
# steps

_gone = []  # (label, names, Held) of optimizers that are no more


def _look_whole(pending, followed, optimizer, phase, moments, flags=0):
    """Every element of the weights, and of the optimizer's state, as they are now. Whether it has
    the parameters it stepped with.
    """
    parameters = _parameters(optimizer)
    if list(map(id, parameters)) != followed.ids:
        return False
    for (name, scope, op, _site), p in zip(followed.names, parameters):
        parts.add(pending, phase, WEIGHT, name, p, scope, op, flags)
    if moments and followed.found is not None:
        found = Moments()
        values, _numbers, _steady = found.look(followed, _of(optimizer, "state"), parameters)
        for (name, scope, op, _site), value in zip(found.names, values):
            parts.add(pending, phase, MOMENT, name, value, scope, op, flags)
    return True


def look_at_checkpoint():
    """The job saves a checkpoint: the weights as they are now, every element of them."""
    if S.level != TENSORS or not S.begun:
        return
    pending = tensors.pending()
    for followed in list(_known.values()):
        optimizer = followed.reference()
        if optimizer is not None and followed.steps:
            _look_whole(pending, followed, optimizer, CHECKPOINT, False)
    pending.flush()


@hook
def _digest_last(followed, optimizer):
    held = parts.Held()
    if S.level >= TENSORS:
        written.behind_the_steps(held, followed, _parameters(optimizer))
    if _look_whole(held, followed, optimizer, OPTIMIZER, S.level >= TENSORS):
        held.flush()
        del _gone[: -(GONE - 1)]
        _gone.append((followed.label, followed.names, held))


@core.while_freed
def _gone_with(optimizer):
    """An optimizer is being freed, in a function that returns long before the process ends: its
    last look is taken now.
    """
    followed = _known.pop(id(optimizer), None)
    if (
        followed is not None
        and followed.steps
        and S.begun
        and threading.get_ident() == S.main_thread
    ):
        _digest_last(followed, optimizer)


def _last_look():
    """At the end of the process: every element."""
    written.at_end()
    pending = tensors.pending()
    named = set()
    for followed in list(_known.values()):
        optimizer = followed.reference()
        if optimizer is None or not followed.steps:
            continue
        if _look_whole(pending, followed, optimizer, OPTIMIZER, S.level >= TENSORS, STATS | SKETCH):
            named.update(name[:2] for name in followed.names)
    _look_at_the_rest(pending, named)
    pending.flush()
    # what a later one has gone on with is that one's to show
    for _label, names, held in reversed(_gone):
        if named.isdisjoint(name[:2] for name in names):
            held.release()
            named.update(name[:2] for name in names)
    del _gone[:]


def _look_at_the_rest(pending, named):
    """Of the models that are trained: weights that no optimizer holds, and buffers, also those too
    large for every step.
    """
    for root in list(naming.roots.values()):
        if root.reference() is None or not any(
            (name, root.label) in named for name, _reference, _owner in root.parameters
        ):
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
    _follow_end(optimizer)
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
    """Optimizer.__init__ and __setstate__ call one method for every instance: there we
    learn of it.
    """
    name = (
        "_patch_step_function"
        if hasattr(optimizer, "_patch_step_function")
        else "_hook_for_profile"
    )
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


def _follow_end(optimizer):
    """Only a finalizer finds the optimizer whole, also where the garbage collector frees it
    together with its parameters: by then weak references are gone, and who held the parameters for
    that would keep a cycle alive.
    """
    if hasattr(optimizer, "__del__"):
        S.unarmed.append("last look at optimizers that end early")
        return

    def __del__(self):
        _gone_with(self)

    optimizer.__del__ = __del__


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
