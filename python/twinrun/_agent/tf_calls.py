# SPDX-License-Identifier: Apache-2.0
"""Records of a TensorFlow job: batches, what traced functions are given and give back, losses,
gradients, what optimizers leave; and where a step ends.

A step ends when the optimizers of the job have each been applied once (steps.turn), be it operation
by operation or within a traced function. Until an optimizer has been applied, a step ends before
something is called from a line that has called it in this step already, as for JAX.
"""

import sys
import threading

from . import core, parts, refs, rng, sites, steps, tensors, tf_programs, tf_values, tf_variables
from .core import S, hook
from .native import (
    ACTIVATION,
    BACKWARD,
    BATCH,
    DATA,
    FORWARD,
    GRADIENT,
    IN,
    LOSS,
    OPTIMIZER,
    SKETCH,
    STATS,
    TENSORS,
)


class Inside(threading.local):
    """depth: of calls that are being recorded: what runs inside of them is theirs. keras: what
    Keras runs (`train_step`), or None. call: the outermost call.
    """

    depth = 0
    keras = None
    call = None


inside = Inside()
_called = set()  # (label, site) of this step
_applied = False  # an optimizer has been applied in this process
_counts = {}  # id(optimizer) -> its iterations when they were read last
_running = None  # the Call that waits for a traced function
_recorded = refs.AtOnce()  # gradients as a tape gave them out -> True


class Call:
    def __init__(self, label, site, program=None):
        self.label, self.site, self.program = label, site, program
        self.role = core.thread_role()
        self.variables = ()
        self.batches = []  # (names, label, arrays) of what the graph has shown

    def number(self, phase, kind, name, op=None):
        op = self.label if op is None else op
        return core.series(phase, kind, name, self.label, op, self.site, self.role)


def is_main():
    return core.on_main_thread() and not S.torch


def _step_begins(label, site):
    if _applied or not is_main():
        return
    if (label, site) in _called:
        _close()
    _called.add((label, site))


def _close():
    _called.clear()
    steps.close()


def _add_all(pending, call, phase, kind, found, op=None):
    for name, value in found:
        if tf_values.is_tensor(value) and tf_values.is_handle(value):
            continue
        tf_values.add(pending, call.number(phase, kind, name, op), value, STATS | SKETCH)


# ---------------------------------------------------------------- batches


@hook
def batch(data, label):
    """An element that the job took from a dataset itself."""
    if not core.begin() or S.level < TENSORS:
        return
    site = sites.near(sys._getframe(2))
    _step_begins(label, site)
    rng.check("user code")
    found = []
    tf_values.walk(data, "batch", found)
    pending = tensors.pending()
    _add_all(pending, Call(label, site), DATA, BATCH, found, "")
    pending.flush()
    core.saw("batch")


def batch_in_graph(names, label, arrays):
    """The same of one that a traced function of Keras has taken: called by TensorFlow, from one of
    its threads, while the call that runs the function waits. It is recorded once that has ended,
    since threads keep no order.
    """
    call = _running
    if call is None and S.on:
        core.unseen("a batch of a function that was not seen to be called")
    elif S.on:
        call.batches.append((names, label, arrays))


def _record_batches(call):
    pending = tensors.pending()
    for names, label, arrays in call.batches:
        for name, array in zip(names, arrays):
            number = core.series(DATA, BATCH, name, label, "", call.site, call.role)
            tf_values.add(pending, number, array, STATS | SKETCH)
        core.saw("batch")
    pending.flush()
    call.batches = []


# ---------------------------------------------------------------- traced functions


@hook
def before(concrete, given, captured):
    if tf_programs.is_own(concrete) or not core.begin():
        return None
    site = sites.near(sys._getframe(2))
    program = tf_programs.of(concrete, len(given), inside.keras)
    call = Call(program.label, site, program)
    _step_begins(program.label, site)
    rng.check("user code")
    if S.level >= TENSORS:
        pending = tensors.pending()
        pending.add_bytes(call.number(DATA, IN, "program"), program.digest)
        for i, (name, value) in enumerate(zip(program.arguments, given)):
            if i not in program.handles:
                tf_values.add(pending, call.number(DATA, IN, name), value, STATS | SKETCH)
        for place, name in program.constants:
            tf_values.add(pending, call.number(DATA, IN, name), captured[place], STATS)
        pending.flush()
    call.variables = program.variables_of(given)
    tf_variables.check(call.variables)
    if program.hidden:
        _note_hidden(program)
    global _running
    if _running is not None:
        core.unseen("functions of TensorFlow that run in several threads at once")
    _running = call
    return call


def failed():
    """The function that was called has raised."""
    global _running
    _running = None


def _note_hidden(program):
    key = "tensorflow hidden " + program.label
    if key not in S.seen:
        S.seen.add(key)
        text = "%d %s %s" % (S.step, program.label, program.hidden)
        core.note("input.unseen", text)
        core.note("call.unseen", text)  # a variable does not say which function wrote to it


@hook
def after(call, results):
    global _running
    _running = None
    rng.check(call.label)
    if inside.keras is None:
        _after(call, results)
    else:
        inside.call = call


@hook
def after_keras(results):
    """Keras's own loop gets the loss and the metrics of what has run."""
    call, inside.call = inside.call, None
    if call is not None:
        _after(call, results)


def _after(call, results):
    if S.level >= TENSORS:
        _record_batches(call)
        found = []
        tf_values.walk(results, "result", found)
        _results(call, found)
    advanced = _advanced()
    tf_variables.record(call.variables, _turn(advanced))
    _turns(advanced)


def _results(call, found):
    pending = tensors.pending()
    named = [("%s: %s" % (call.label, name), value) for name, value in found]
    _add_all(pending, call, FORWARD, ACTIVATION, named)
    pending.flush()
    core.saw("output")


# ---------------------------------------------------------------- optimizers


def _advanced():
    """The optimizers that have been applied since this was asked last."""
    found = []
    with tf_variables.unrecorded():
        for optimizer in tf_variables.optimizers():
            known = tf_variables.of(getattr(optimizer, "_iterations", None))
            count = known.read() if known is not None else None
            if count is None:
                continue
            before, now = _counts.get(id(optimizer), 0), int(count)
            _counts[id(optimizer)] = now
            if now != before:
                found.append((optimizer, now))
    return found


def _turn(advanced):
    return advanced[0][1] % parts.TURNS if advanced else S.step % parts.TURNS


def _turns(advanced):
    global _applied
    if not advanced or not is_main():
        return
    _applied = True
    _called.clear()
    before = S.step
    for optimizer, _count in advanced:
        if S.step == before:
            steps.turn(optimizer)


@hook
def made(optimizer):
    tf_variables.optimizer_made(optimizer)
    for inner in [getattr(optimizer, "inner_optimizer", None)]:
        if inner is not None:
            steps.forget(inner)
    if not S.torch:
        steps.made(optimizer)


@hook
def gradients_taken(target, sources, found):
    """A tape has made gradients, operation by operation."""
    if not core.begin() or S.level < TENSORS:
        return
    site = sites.near(sys._getframe(2))
    label = "GradientTape.gradient"
    _step_begins(label, site)
    rng.check("user code")
    call = Call("", site)
    pending = tensors.pending()
    losses, given, made = [], [], []
    tf_values.walk_flat(sources, given)
    tf_variables.meet([k for k in map(tf_variables.of, given) if k is not None])
    tf_values.walk(target, "loss", losses)
    _add_all(pending, call, FORWARD, LOSS, losses, "backward")
    tf_values.walk_flat(found, made)
    _add_gradients(pending, BACKWARD, given, made, site)
    pending.flush()
    core.saw("gradient")
    for gradient in made:
        if gradient is not None:
            _recorded.put(gradient, True)


def _add_gradients(pending, phase, variables, gradients, site, op=""):
    for i, (variable, gradient) in enumerate(zip(variables, gradients)):
        if gradient is None:
            continue
        known = tf_variables.of(variable)
        name = known.name if known is not None else "source[%d]" % i
        found = []
        tf_values.walk(gradient, name, found)
        for part, value in found:
            number = core.series(phase, GRADIENT, part, "", op, site)
            tf_values.add(pending, number, value, STATS | SKETCH)


@hook
def before_apply(optimizer, gradients, variables):
    if not core.begin():
        return None
    site = sites.near(sys._getframe(2))
    rng.check("user code")
    tf_variables.optimizer_made(optimizer)
    if variables is None:
        variables = getattr(optimizer, "_trainable_variables", ())
    knowns = _knowns(optimizer, variables)
    tf_variables.check(knowns)
    if S.level >= TENSORS and isinstance(gradients, (list, tuple)):
        pending = tensors.pending()
        # what a tape has just given out and nobody changed stands there already
        handed = [None if _recorded.get(g) else g for g in gradients]
        op = type(optimizer).__name__
        _add_gradients(pending, OPTIMIZER, variables, handed, site, op)
        pending.flush()
    return variables


def _knowns(optimizer, variables):
    found = []
    for variable in [*variables, *tf_variables.own(optimizer)]:
        known = tf_variables.of(variable)
        if known is not None and known not in found:
            found.append(known)
    return found


@hook
def after_apply(optimizer, variables):
    rng.check(type(optimizer).__name__)
    knowns = _knowns(optimizer, variables)
    tf_variables.meet(knowns)
    advanced = _advanced()
    tf_variables.record(knowns, _turn(advanced))
    _turns(advanced)


@hook
def assigned(variable, op):
    if core.begin():
        tf_variables.assigned(variable, op, sites.near(sys._getframe(2)))


# ---------------------------------------------------------------- the process


def _at_exit():
    if _called:
        _close()
    tf_variables.at_exit()


def _in_child():
    _called.clear()
    tf_variables.in_child()


def _tell_eager():
    """Most jobs compute some things so, and no hook of ours sees which."""
    core.note("tensorflow.eager", "since step 0")


def arm():
    S.on_begin.append(_tell_eager)
    S.on_exit.append(_at_exit)
    S.on_fork.append(_in_child)
