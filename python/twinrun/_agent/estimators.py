# SPDX-License-Identifier: Apache-2.0
"""scikit-learn: what goes into each fit, and the fitted state that comes out.

A fit that the job calls is a step (docs/python.md): its data are the batch, its parameters are
hyperparameters, and all that the estimator holds afterwards are weights, down to the trees of a
forest and the estimators in a pipeline. Fits that a fit makes are its own business: what they find
hangs below the outer one. `BaseEstimator.__init_subclass__` wraps the methods as classes are made,
also those of other libraries and of the job.
"""

import functools
import sys
import types

from . import core, faults, finder, fitted, native, rng, sites, steps, tensors
from .core import S, T, hook

METHODS = ("fit", "partial_fit", "fit_transform", "fit_predict")
STACK = 60  # frames that are looked through for joblib's
_running = {"main": False, "op": ""}  # the outer fit of the main thread


class Fit:
    """A fit that goes on. outer: it is recorded. idle: what it draws decides nothing."""

    __slots__ = ("estimator", "op", "site", "outer", "idle")

    def __init__(self, estimator, op):
        self.estimator, self.op, self.site = estimator, op, ""
        self.outer = self.idle = False


def _depth():
    return T.__dict__.get("fits", 0)


# ---------------------------------------------------------------- the methods


def wrapped(function):
    """The method, told of before and after. What cloudpickle takes along of it (a class of
    `__main__`, to a process of joblib) must work where no agent is.
    """

    @functools.wraps(function)
    def method(self, *args, **kwargs):
        agent = sys.modules.get("_twinrun_agent.estimators")
        fit = agent and agent.begins(self, function, args, kwargs)
        try:
            result = function(self, *args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next  # our frame is none of the job's
            if fit:
                agent.leaves(fit)
            raise
        if fit:
            agent.ends(fit)
        return result

    return method


def _wrap(cls):
    for name in METHODS:
        function = cls.__dict__.get(name)
        if type(function) is types.FunctionType:
            setattr(cls, name, wrapped(function))


def _wrap_subclasses(base):
    original = base.__dict__.get("__init_subclass__")

    def __init_subclass__(cls, **kwargs):
        if original is not None:
            original.__func__(cls, **kwargs)
        else:
            super(base, cls).__init_subclass__(**kwargs)
        try:
            _wrap(cls)
        except Exception as error:
            faults.pass_on(error)
            core.fail_with("fit of %s: %s" % (cls.__name__, error))

    base.__init_subclass__ = classmethod(__init_subclass__)


# ---------------------------------------------------------------- one fit


def _of_joblib():
    """Does joblib's code run this thread?"""
    frame = sys._getframe(1)
    for _ in range(STACK):
        if frame is None:
            return False
        if frame.f_globals.get("__name__", "").startswith("joblib."):
            return True
        frame = frame.f_back
    return False


def _is_outer():
    """Is a fit that begins one to be recorded? Of fits in a worker process the parent says that
    they are not seen (parallel).
    """
    if _depth() or core.child_number():
        return False
    if core.on_main_thread():
        return True
    if not (_running["main"] and _of_joblib()):
        core.unseen("fits of estimators in threads of the job")
    return False


def _draws_in_vain(estimator):
    """A support vector machine draws a seed in each fit, and uses it for probabilities alone."""
    kinds = {(kind.__module__, kind.__name__) for kind in type(estimator).__mro__}
    held = fitted._held(estimator) or {}
    return ("sklearn.svm._base", "BaseLibSVM") in kinds and (
        held.get("probability", False) in (False, "deprecated")
    )


@hook
def begins(estimator, function, args, kwargs):
    fit = Fit(estimator, "%s.%s" % (type(estimator).__name__, function.__name__))
    fit.outer = _is_outer() and core.begin()
    T.fits = _depth() + 1
    fit.idle = S.begun and core.on_main_thread() and _draws_in_vain(estimator)
    if not fit.outer:
        if fit.idle:
            rng.check(_running["op"])
        return fit
    _running.update(main=True, op=fit.op)
    for name in ("sklearn", "numpy", "scipy", "joblib", "pandas"):
        package = sys.modules.get(name)
        if getattr(package, "__file__", None):
            sites.skip(package)
    fit.site = sites.user()
    rng.check("user code")
    _record(fit, native.DATA, native.BATCH, _named(function, args, kwargs))
    core.saw("batch")
    held = fitted._held(estimator) or {}
    parameters = _parameters(estimator)
    if S.level >= native.TENSORS:
        asked = [(name, held[name]) for name in sorted(held) if name in parameters]
        _record(fit, native.OPTIMIZER, native.HYPER, asked)
    before = [(name, held[name]) for name in sorted(held) if name not in parameters]
    if before:  # what an earlier fit left, or a line of the job
        _record(fit, native.INIT, native.WEIGHT, before)
    return fit


@hook
def ends(fit):
    leaves(fit)
    if fit.idle:
        rng.resync()
    if not fit.outer:
        return
    rng.check(fit.op)
    held, parameters = fitted._held(fit.estimator) or {}, _parameters(fit.estimator)
    state = [(name, held[name]) for name in sorted(held) if name not in parameters]
    _record(fit, native.OPTIMIZER, native.WEIGHT, state)
    core.saw("weight")
    steps.fitted()


def leaves(fit):
    T.fits = max(0, _depth() - 1)
    if fit.outer:
        _running["main"] = False


def _named(function, args, kwargs):
    """The arguments by the names that the method itself has for them."""
    while hasattr(function, "__wrapped__"):  # scikit-learn's own decorators
        function = function.__wrapped__
    code = function.__code__
    names = code.co_varnames[1 : code.co_argcount]
    given = list(zip(names, args))
    if len(args) > len(names):
        given.append(("args", args[len(names) :]))
    return given + sorted(kwargs.items())


def _parameters(estimator):
    """Names of the arguments of its constructor, as scikit-learn's clone() takes them."""
    init = type(estimator).__init__
    init = getattr(init, "deprecated_original", init)
    code = getattr(init, "__code__", None)
    if code is None:
        return ()
    return code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]


def _record(fit, phase, kind, values):
    """Arrays one by one; all plain values as one record."""
    pending, scope = tensors.pending(), type(fit.estimator).__name__
    flags = native.STATS | native.SKETCH if phase != native.DATA else native.STATS

    def array(name, value):
        number = core.series(phase, kind, name, scope, fit.op, fit.site)
        view = core_view(value)
        if view is None:
            walk.unread.append("%s (%s)" % (name, value.dtype))
            return
        pending.keep.append(view.keep)
        pending.put(number, view.pointer, view.code, view.count(), view.shape, view.strides, flags)

    walk = fitted.Walk(array)
    for name, value in values:
        if name not in fitted.NO_STATE:
            walk.look(name, value)
    pending.flush()
    if walk.texts:
        text = "\n".join(walk.texts).encode("utf-8", "backslashreplace")
        held = native.ctypes.create_string_buffer(text, len(text))
        address = native.ctypes.addressof(held)
        core.series_bytes(phase, kind, "plain values", fit.op, fit.site, address, len(text), scope)
    for what in walk.unread:
        core.unseen("%s of %s" % (what, fit.op))


def core_view(array):
    from . import buffers

    return buffers.from_interface(array)


# ---------------------------------------------------------------- joblib


def _watch_parallel():
    """Fits in joblib's processes are not recorded: which process gets which is chance. Inside of a
    fit that is nothing to miss, as what they find comes back to it.
    """
    parallel = sys.modules["joblib.parallel"].Parallel
    original = parallel.__call__

    @functools.wraps(original)
    def __call__(self, iterable):
        try:
            return original(self, iterable)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            _say_parallel(self)

    parallel.__call__ = __call__


@hook
def _say_parallel(parallel):
    backend = type((fitted._held(parallel) or {}).get("_backend")).__name__
    apart = backend not in ("SequentialBackend", "ThreadingBackend", "NoneType")
    if apart and not _depth() and not core.child_number():
        core.unseen("what joblib's processes compute outside of a fit (n_jobs)")


# ---------------------------------------------------------------- arming


def _after_fork():
    _running["main"] = False


def arm():
    """sklearn.base has been imported: no estimator is made yet."""
    if not core.start():
        return
    rng.arm_without_torch()
    _wrap_subclasses(sys.modules["sklearn.base"].BaseEstimator)
    S.on_fork.append(_after_fork)
    S.armed.append("fits of scikit-learn")
    S.unarmed.append("what NumPy computes outside of fits, unless it is printed or written")
    finder.when_imported("joblib.parallel", _watch_parallel)
