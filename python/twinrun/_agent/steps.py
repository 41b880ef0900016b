# SPDX-License-Identifier: Apache-2.0
"""When a step ends. The rules are deterministic and documented in docs/python.md:

1. A step is one round of the optimizers: it ends when every optimizer that is alive has stepped
once. When one steps again
   before the others had their turn, they do not alternate one to one: from then on the others'
   steps each end a step of
   their own, and so do this one's.
2. Without an optimizer, a step ends when the parameters have changed after a backward: noticed at
the next batch, forward or
   backward.
3. Without optimizer and backward (evaluation only), every forward of a root is a step: it ends at
the next batch or forward.
"""

import threading

from . import core, fp8, gradients, handed, naming, refs, rng, tensors, trainers, written
from .core import S
from .native import BACKWARD, GRADIENT, OPTIMIZER, STATS, TENSORS, WEIGHT

# elements: larger buffers (masks, tables) are looked at only when they seem to have changed
SMALL = 16384

_optimizers = {}  # id -> weak reference, of every optimizer made and still alive
_user = {}  # id -> (thread that made it or stepped it last, whether it has stepped)
_stepped = {}  # id -> steps in this round
_idle = set()  # optimizers that do not alternate with the others
_used = {}  # label -> Root called in this step
_used_in = {}  # label -> thread that called it last
# digests of the leaves when the last backward ended, while no optimizer is alive
_by_hand = None
# id -> (weak reference, thread): leaves of raw tensor code, found in the graph
_leaves = {}
_evaluated = None  # weak reference of the root that ran without a backward, ever
_by_user = False  # the program calls twinrun.step()
_trained = False  # a backward or an optimizer step was seen
noticed_late = False  # the step that ends now ended before a forward that has run already


# ---------------------------------------------------------------- what happened


def made(optimizer):
    """An optimizer was constructed."""
    key = id(optimizer)

    def gone(reference):
        if _optimizers.get(key) is reference:
            del _optimizers[key]
            _user.pop(key, None)
            _stepped.pop(key, None)
            _idle.discard(key)

    _optimizers[key] = refs.to(optimizer, gone)
    _user[key] = threading.get_ident(), False


def forget(optimizer):
    """It steps within another one, which ends the steps."""
    key = id(optimizer)
    _optimizers.pop(key, None)
    _user.pop(key, None)


def step_begins(optimizer):
    """An optimizer steps: it is this thread's."""
    trainers.begins()
    _user[id(optimizer)] = threading.get_ident(), True


def stepped_here(key):
    """Whether the optimizer of this id has stepped, and last in this thread."""
    return _user.get(key) == (threading.get_ident(), True)


def boundary():
    """A new batch is asked for."""
    if _by_hand is not None:
        _close_if_changed()
    elif _evaluated is not None:
        close()


def before_forward(root):
    if _by_hand is not None:
        _close_if_changed()
    elif _evaluated is not None and not root.stateless and (_evaluated[1] or _evaluated[0] is root):
        close()
    if not root.stateless:
        _used[root.label] = root
        _used_in[root.label] = threading.get_ident()


def after_forward(root, _output):
    global _evaluated
    if not _trained and not root.stateless and not _optimizers:
        _evaluated = (root, not tensors._torch.is_grad_enabled())


def backward_begins():
    """Before a root backward."""
    global _evaluated, _trained, noticed_late
    _trained = True
    _evaluated = None
    if _by_hand is not None:
        noticed_late = True
        _close_if_changed()
        noticed_late = False


def backward_ended(leaves):
    """After a root backward. `leaves`: tensors of the graph that no root owns, listed only while no
    optimizer is alive.
    """
    global _by_hand
    if _optimizers:
        return
    for name, tensor in leaves:
        if id(tensor) not in _leaves:
            _leaves[id(tensor)] = refs.to(tensor), threading.get_ident()
    current = _hand_tensors()
    gradients = [(naming.parameter(t), t.grad) for t in current if t.grad is not None]
    if S.level >= TENSORS and gradients:
        pending = tensors.pending()
        for name, gradient in gradients:
            pending.add(BACKWARD, GRADIENT, name[0], gradient, name[1])
        pending.flush()
        core.saw("gradient")
    _by_hand = _digests(current)


def gradients_taken(leaves):
    """After torch.autograd.grad without an optimizer: who asks for the gradients of leaves is about
    to change them.
    """
    global _by_hand
    for tensor in leaves:
        _leaves[id(tensor)] = refs.to(tensor), threading.get_ident()
    if leaves:
        _by_hand = _digests(_hand_tensors())


def has_optimizers():
    return bool(_optimizers)


def optimizers():
    """Those that are alive, in the order in which they were made: those of which this thread may
    read gradients, and the others.
    """
    own, others, me, alone = [], [], threading.get_ident(), trainers.alone()
    for key, reference in list(_optimizers.items()):
        optimizer = reference()
        if optimizer is not None:
            thread, has_stepped = _user.get(key, (None, True))
            (own if thread == me and (has_stepped or alone) else others).append(optimizer)
    return own, others


# ---------------------------------------------------------------- optimizers


def turn(optimizer):
    """An optimizer has stepped (or a gradient scaler has skipped its step): closes the step when
    the round is complete.
    """
    global _by_hand, _trained, _evaluated
    _trained = True
    _by_hand = _evaluated = None
    key = id(optimizer)
    if key not in _optimizers:
        made(optimizer)
    if key in _idle:
        close()
        return
    steps = _stepped[key] = _stepped.get(key, 0) + 1
    waiting = [k for k in list(_optimizers) if k not in _stepped and k not in _idle]
    if waiting and steps < 2:
        return
    _idle.update(waiting)
    close()


# ---------------------------------------------------------------- updates by hand


def _hand_tensors():
    """Everything that a backward of this thread may have given a gradient: parameters of the roots
    in use, leaves of raw code; in order.
    """
    found, me, alone = [], threading.get_ident(), trainers.alone()
    for root in list(_used.values()):
        if alone or _used_in.get(root.label) == me:
            found.extend(
                t
                for t in (reference() for _n, reference, _o in root.parameters)
                if t is not None and t.requires_grad
            )
    known = {id(t) for t in found}
    for key in list(_leaves):
        reference, thread = _leaves.get(key, (lambda: None, None))
        tensor = reference()
        if tensor is None:
            _leaves.pop(key, None)
        elif (alone or thread == me) and key not in known and naming.parameter(tensor):
            found.append(tensor)
    return found


def _digests(found):
    """A digest per tensor; for those without plain memory their version counter."""
    digests = []
    for t in found:
        memory = tensors.contiguous_bytes(t)
        digests.append((id(t), S.lib.quick_digest(*memory) if memory else t._version))
    return digests


def _close_if_changed():
    global _by_hand
    current = _hand_tensors()
    if _digests(current) == _by_hand:
        return  # accumulating
    pending = tensors.pending()
    for t in current:
        name = naming.parameter(t)
        if name is not None:
            pending.add(OPTIMIZER, WEIGHT, name[0], t, name[1], "by hand")
    core.saw("weight")
    pending.flush()
    written.written_by_hand(_used.values())
    _by_hand = None
    close()


# ---------------------------------------------------------------- the end of a step


def _record_buffers():
    roots = [root for root in list(_used.values()) if root.buffers or root.fp8]
    if not roots:
        return
    pending = tensors.pending()
    count = 0
    for root in roots:
        for name, reference, owner in root.buffers:
            tensor = reference()
            if tensor is None:
                core_root = root.reference()
                if core_root is not None:
                    root.announced = False  # replaced: learn again at the next call
                continue
            if tensor.numel() > SMALL:
                mark = (tensor._version, tensor.data_ptr())
                if root.buffer_marks.setdefault(name, mark) == mark:
                    continue
                root.buffer_marks[name] = mark
            pending.add(OPTIMIZER, WEIGHT, name, tensor, root.label, owner, flags=STATS)
            count += 1
        count += fp8.add(pending, root)
    pending.flush()
    if count:
        core.saw("buffer")


def close_by_user():
    """twinrun.step(): from now on steps end nowhere else. The one that an optimizer has just ended
    is not ended twice.
    """
    global _by_user
    first, _by_user = not _by_user, True
    if not (first and S.fresh and S.step):
        _close()


def close():
    """Closes the step, unless the user does."""
    global _evaluated
    _evaluated = None
    if S.begun and not _by_user:
        _close()


def _close():
    """Buffers, generator states, value hash."""
    _record_buffers()
    rng.confirm()
    core.step_end()
    written.step_ended()
    gradients.step_ended()
    handed.step_ended()
    _stepped.clear()
    _used.clear()
    _used_in.clear()


def at_exit():
    """What rules 2 and 3 left open."""
    if _by_hand is not None:
        _close_if_changed()
    elif _evaluated is not None:
        close()


def _after_fork():
    global _by_hand, _evaluated, _trained
    _by_hand = _evaluated = None
    _trained = False
    _stepped.clear()
    _used.clear()
    _used_in.clear()


def arm():
    S.on_exit.append(at_exit)
    S.on_fork.append(_after_fork)
