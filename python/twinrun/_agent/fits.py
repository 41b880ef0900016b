# SPDX-License-Identifier: Apache-2.0
"""Models that are trained by one call: `fit` of scikit-learn's estimators, XGBoost, LightGBM,
CatBoost.

Each call that is not made by another one, in the main thread of a process that is nobody's child,
is a step: what it was given, all that the estimator held before it, the generators that moved, and
all that the estimator holds after it, also where it ended with an exception. What trains in other
threads or processes is noted, and keeps a run from being called "same": the order there is none of
the job's. What a fit itself gives to others (forests, searches with n_jobs) is seen by what comes
back.

begins(), raised(), ends(), made() and parallel() are called by code that fits_hooks.py put into the
libraries' functions and the job's.
"""

import os
import sys
import threading

from . import buffers, code_reads, core, fitted, handed, rng, sites, steps, tensors
from .core import S, T, hook
from .native import (
    ACTIVATION,
    BATCH,
    DATA,
    FORWARD,
    HYPER,
    IN,
    OPTIMIZER,
    SKETCH,
    STATS,
    TENSORS,
    WEIGHT,
)

MISSED = 8  # that are told of one fit

_state = {"process": 0, "main": None, "seen": 0, "made": None, "waiting": []}


class Token:
    """An outermost fit that runs. Nothing of the job is held here."""

    __slots__ = ("frame", "code", "label", "op", "site", "failed", "watched", "trees")

    def __init__(self, frame):
        self.frame, self.code = id(frame), frame.f_code
        self.label = self.op = self.site = ""
        self.failed, self.watched = None, False
        self.trees = {}  # that a booster had before: name -> digest


def arm(process):
    """process: the one that was armed; every other one is a child that was forked since."""
    if not _state["process"]:
        _state["process"] = process
        S.on_fork.append(_after_fork)


def _after_fork():
    _state["main"] = None
    _state["seen"] = 0


# ---------------------------------------------------------------- who calls


def _runs(token, frame):
    """Whether the call of this token is one of those that have called the frame. Its end may have
    been missed: an exception of a signal handler can come before it.
    """
    while frame is not None:
        if id(frame) == token.frame and frame.f_code is token.code:
            return True
        frame = frame.f_back
    return False


def _of_joblib():
    """Whether this thread works on tasks that a joblib.Parallel has given it."""
    calls = getattr(sys.modules.get("joblib.parallel"), "BatchedCalls", None)
    code = getattr(getattr(calls, "__call__", None), "__code__", None)
    frame = sys._getframe(1)
    while frame is not None and code is not None:
        if frame.f_code is code:
            return True
        frame = frame.f_back
    return False


def _is_child():
    return S.forked or os.getpid() != _state["process"] or bool(core.child_number())


def _elsewhere():
    """Where this fit runs, if its place among the others is not the job's: empty where it is, None
    where somebody else has told or sees what comes back.
    """
    if core.on_main_thread() and not _is_child():
        return ""
    if _of_joblib() and (_is_child() or _state["main"] is not None):
        return None
    return "a child process" if _is_child() else "another thread"


# ---------------------------------------------------------------- records


class _Records:
    """Looks at objects and records what it finds, all of one fit."""

    def __init__(self, token):
        self.token, self.look = token, fitted.Look(own=True)
        self.pending = tensors.pending()
        self.done = self.told = 0

    def add(self, phase, kind, name, value):
        """One object: a digest of what is no array, under its name, and its arrays."""
        plain = self.look.value(value, name)
        fresh, self.done = self.look.arrays[self.done :], len(self.look.arrays)
        self._add_trees(phase, kind, name)
        if not (len(fresh) == 1 and fresh[0][0] == name):
            number = core.series(
                phase, kind, name, self.token.label, self.token.op, self.token.site
            )
            self.pending.add_bytes(number, plain)
        flags = 0 if kind == HYPER else STATS | SKETCH  # the same values were told of before
        for part, array in fresh:
            where = self.token.label, self.token.op, self.token.site
            buffers.add(self.pending, phase, kind, part, array, *where, flags)

    def _add_trees(self, phase, kind, name):
        """The trees of a booster, before the rest of it: the first one that differs is the finding.
        Those that were there before the call are one record, or a loop over `update` would make a
        record of each tree in each turn.
        """
        fresh, self.told = self.look.own[self.told :], len(self.look.own)
        before, where = [], (self.token.label, self.token.op, self.token.site)
        for part, data in fresh:
            digest = fitted.hashed(data)
            if kind == WEIGHT and self.token.trees.get(part) != digest:
                self.pending.add_bytes(core.series(phase, kind, part, *where), data)
                continue
            before += [part.encode("utf-8", "replace"), digest]
            if kind == HYPER:
                self.token.trees[part] = digest
        if before:
            number = core.series(phase, kind, name + " (from before)", *where)
            self.pending.add_bytes(number, fitted.hashed(*before))

    def add_members(self, phase, kind, thing):
        """What an object holds, each attribute under its own name."""
        try:
            made, inner = fitted.members(thing)
        except fitted.Missing as missing:
            self.look.missed.append((self.token.label, str(missing)))
            return
        self.add(phase, kind, "class", list(made))
        trees = [(suffix.lstrip("."), v) for suffix, v in inner if type(v) is fitted.Own]
        if trees:
            plain = fitted.hashed(*[self.look.value(value, suffix) for suffix, value in trees])
            self._add_trees(phase, kind, "trees")
            where = self.token.label, self.token.op, self.token.site
            self.pending.add_bytes(core.series(phase, kind, "trees", *where), plain)
            inner = [item for item in inner if type(item[1]) is not fitted.Own]
        for suffix, value in inner:
            self.add(phase, kind, suffix.lstrip("."), value)

    def tell_variables(self):
        """What functions of the job read beside all this was not seen."""
        names = code_reads.variables(self.look.code)
        if names:
            handed.unseen(
                self.token.label,
                "reads %s, which is not looked into" % ", ".join(names[:MISSED]),
            )

    def missed(self):
        """[(name, why)] since the last call."""
        found, self.look.missed = self.look.missed, []
        return found


@hook
def _begins(thing, name, given, token):
    where = _elsewhere()
    label = type(thing).__name__ if thing is not None else name
    if where != "":
        if where is not None:
            _tell_trained("%s: what it trained in %s" % (label, where))
        return
    if not core.begin():
        return
    _tell_waiting()
    token.label = label
    token.op = label if thing is None else "%s.%s" % (label, name)
    token.site = sites.user()
    token.watched = True
    rng.check("user code")
    records = _Records(token)
    # Behind a fit, lines of the job may have made the data with it, by predict() for one.
    kind = IN if _state["seen"] else BATCH
    for key, value in given.items():
        if value is not None and value is not thing:
            records.add(DATA, kind, key, value)
    for key, why in records.missed():
        handed.unseen(label, "was given %s as %s, which is not looked into" % (why, key))
    if thing is not None and S.level >= TENSORS:
        records.add_members(OPTIMIZER, HYPER, thing)
    records.tell_variables()
    records.pending.flush()
    core.saw("batch")


@hook
def _ends(token, thing, result):
    rng.check(token.op)
    if token.failed is not None:
        token.op += " (%s)" % token.failed
    records = _Records(token)
    if thing is not None:
        records.add_members(OPTIMIZER, WEIGHT, thing)
    elif result is not None:
        records.add(OPTIMIZER, WEIGHT, "result", result)
    records.tell_variables()
    missed = records.missed()
    for key, why in missed[:MISSED]:
        core.unseen("%s.%s: %s is not looked into" % (token.label, key, why))
    if len(missed) > MISSED:
        core.unseen("%s: %d more of its parts are not looked into" % (token.label, len(missed)))
    if thing is not None and result is not None and result is not thing and S.level >= TENSORS:
        records.add(FORWARD, ACTIVATION, "output", result)
        for _key, why in records.missed():
            core.unseen("%s gave out %s, which is not looked into" % (token.op, why))
    records.pending.flush()
    core.saw("weight")
    _state["seen"] += 1
    if not S.torch:
        if "fits" not in S.seen:  # what lies between them is not seen
            S.seen.add("fits")
            core.note("fits", "from step %d on" % S.step)
        steps.close()


# ---------------------------------------------------------------- what the job's code calls


def begins(thing, name, given):
    """A call that trains begins. A Token; None where it is part of another one, or nobody watches."""
    if not S.on or T.busy:
        return None
    frame = sys._getframe(1)
    if T.fit is not None and _runs(T.fit, frame.f_back):
        return None
    token = Token(frame)
    method = getattr(name, "__name__", None)
    if method is not None:  # scikit-learn's wrapper: the method that it is around
        given = _by_name(name.__code__, given) if hasattr(name, "__code__") else given
        name = method
    T.fit = token
    if threading.get_ident() == S.main_thread:
        _state["main"] = token
    _begins(thing, name, given, token)
    return token


def _by_name(code, given):
    """Arguments of `(*args, **kwargs)` by the names that the method has for them."""
    names = code.co_varnames[1 : code.co_argcount]
    args = given.get("args", ())
    found = {names[i] if i < len(names) else "args[%d]" % i: arg for i, arg in enumerate(args)}
    found.update(given.get("kwargs", {}))
    return found


def raised(token):
    error = sys.exc_info()[0]
    token.failed = getattr(error, "__name__", "an exception")


def ends(token, thing, result):
    T.fit = None
    if _state["main"] is token:
        _state["main"] = None
    if token.watched:
        _ends(token, thing, result)


def when_made(function):
    _state["made"] = function


@hook
def _made(cls):
    _state["made"](cls)


def made(cls):
    if _state["made"] is not None:
        _made(cls)


@hook
def _parallel(call):
    backend = type(getattr(call, "_backend", None)).__name__
    if backend in ("SequentialBackend", "ThreadingBackend"):
        return
    if getattr(call, "_cached_effective_n_jobs", 2) != 1 and not _of_joblib():
        cannot("what joblib.Parallel ran in other processes")


def parallel(call):
    """A joblib.Parallel has been called. Within a fit it is seen by what comes back."""
    if T.fit is None or not _runs(T.fit, sys._getframe(1)):
        _parallel(call)


# ---------------------------------------------------------------- what is not seen


def _tell_trained(text):
    """Something was trained whose place among the others is not known. A process that records
    nothing says it so that it counts all the same, and at once: pools end their children by a
    signal.
    """
    if S.begun:
        core.unseen(text)
    elif text not in S.seen:
        S.seen.add(text)
        core.note("unseen.trained", text)
        S.lib.flush()


def matters():
    """Whether this process trains without torch, as far as is known."""
    return _state["seen"] > 0 or not S.torch


def cannot(text):
    """Something that trains is not seen. In a job of torch that is its business only once it trains
    without torch, too.
    """
    if matters():
        core.unseen(text)
    else:
        _state["waiting"].append(text)


def _tell_waiting():
    for text in _state["waiting"]:
        core.unseen(text)
    del _state["waiting"][:]
