# SPDX-License-Identifier: Apache-2.0
"""Puts the calls of `fits` into the functions of scikit-learn, XGBoost, LightGBM and CatBoost that
train, and into `fit` of estimators that the job writes itself.

Each function stays the object that it is and gets another code (inplace.py): no frame more in
tracebacks, warnings and the depth of recursion, no other signature. The code has no object of ours
in it, only the name of our module: a class that cloudpickle or dill writes down by value is at home
where nobody watches, too. All fits of scikit-learn's own estimators go through one inner function
of `sklearn.base._fit_context` (1.3 and later), so one code does for all of them.

A class whose fit cannot be given such a code is told of at the end: a run that has one is never
"same".
"""

import ast
import inspect
import sys
import types

from . import boosters, core, fits, inplace, rng, sites
from .core import S

METHODS = ("fit", "partial_fit", "fit_transform", "fit_predict", "fit_resample")
LIBRARIES = ("sklearn", "joblib", "xgboost", "lightgbm", "catboost", "imblearn")
# A function that looks at its own variables would find ours.
_CURIOUS = {"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe", "stack"}

AROUND = """
fits_ = __import__("sys").modules.get("_twinrun_agent.fits")
thing_ = THING
token_ = result_ = None
if fits_ is not None:
    token_ = fits_.begins(thing_, NAME, GIVEN)
if token_ is None:
    PLAIN
else:
    try:
        BODY
    except:
        fits_.raised(token_)
        raise
    finally:
        fits_.ends(token_, thing_, result_)
"""
AFTERWARDS = """
fits_ = __import__("sys").modules.get("_twinrun_agent.fits")
thing_ = THING
try:
    PLAIN
finally:
    if fits_ is not None:
        fits_.CALL(thing_)
"""

_watched = set()  # codes with our calls in them
_refused = set()  # codes that could not be given them


def _name(text):
    return ast.Name(text, ast.Load())


def _constant(text):
    return ast.Constant(text)


def _arguments(code):
    """(the first argument, {name: the others}) as pieces of syntax; None: they cannot be named."""
    count = code.co_argcount + code.co_kwonlyargcount
    names = list(code.co_varnames[: count + bool(code.co_flags & 4) + bool(code.co_flags & 8)])
    if any(name.endswith("_") or name.startswith("__") for name in names) or not names:
        return None
    if code.co_argcount:
        return _name(names[0]), names[1:]
    if not code.co_flags & 4:
        return None
    rest = names[code.co_kwonlyargcount]
    first = ast.parse("%s[0] if %s else None" % (rest, rest), mode="eval").body
    return inplace.unplaced(first), names


def _watch(function, alone=None):
    """Puts our calls into a function that trains; `alone`: its name, where it is no method. Returns
    whether they are in it.
    """
    code = function.__code__
    if code in _watched:
        return True
    if code in _refused or code.co_flags & 0x2A0:  # a generator or coroutine
        return False
    found = _arguments(code)
    if found is not None and _CURIOUS.isdisjoint(code.co_names):
        first, names = found
        inner = "fit_method" in code.co_freevars  # scikit-learn's own, around the method
        parts = {
            "THING": first if alone is None else _constant(None),
            "NAME": _name("fit_method") if inner else _constant(alone or code.co_name),
            "GIVEN": ast.Dict([_constant(n) for n in names], [_name(n) for n in names]),
        }
        if alone is not None and code.co_argcount:
            parts["GIVEN"].keys.insert(0, _constant(code.co_varnames[0]))
            parts["GIVEN"].values.insert(0, first)
        if inplace.put_into(function, AROUND, "", {}, parts):
            _watched.add(function.__code__)
            return True
    _refused.add(code)
    return False


def _after(function, call):
    """Puts a call of fits.CALL(first argument) at the end of a function."""
    first = _name(function.__code__.co_varnames[0])
    around = AFTERWARDS.replace("CALL", call)
    return inplace.put_into(function, around, "", {}, {"THING": first})


# ---------------------------------------------------------------- scikit-learn


def _watch_context(base):
    """All fits of scikit-learn's own classes: the code of the function that _fit_context makes."""
    make = base._fit_context

    def fit(self):
        return self

    made = make(prefer_skip_nested_validation=True)(fit)
    before = made.__code__
    if not _watch(made):
        return False

    def replaced(code):
        consts = tuple(
            made.__code__ if c is before else replaced(c) if isinstance(c, types.CodeType) else c
            for c in code.co_consts
        )
        return code.replace(co_consts=consts)

    make.__code__ = replaced(make.__code__)
    probe = make(prefer_skip_nested_validation=True)(fit)
    return probe.__code__ in _watched


def _functions(attribute):
    """The functions behind an attribute of a class, the outermost first."""
    for _ in range(16):
        if isinstance(attribute, (staticmethod, classmethod)):
            attribute = attribute.__func__
        if isinstance(attribute, types.FunctionType):
            yield attribute
        inner = getattr(attribute, "__dict__", {})
        attribute = inner.get("__wrapped__", inner.get("fn"))  # functools.wraps, available_if
        if attribute is None:
            return


def _is_watched(cls, name, may_try):
    """Whether calls of this method are seen; may_try: our calls may still be put in."""
    attribute = inspect.getattr_static(cls, name, None)
    if attribute is None:
        return True
    found = list(_functions(attribute))
    if any(function.__code__ in _watched for function in found):
        return True
    if found and found[-1].__module__ == "sklearn.base":
        return True  # a mixin's: it calls the other methods
    return may_try and any(_watch(function) for function in reversed(found))


def _made(cls):
    """A class of estimators has been made."""
    for name in METHODS:
        _is_watched(cls, name, True)


def _subclasses(cls, found):
    for heir in type.__subclasses__(cls):
        if heir not in found:
            found.add(heir)
            _subclasses(heir, found)
    return found


def _at_end():
    """Classes of the job whose fits nobody saw. A method that was put into its class later is one:
    what it did before this look is not known.
    """
    base = sys.modules["sklearn.base"].BaseEstimator
    classes = _subclasses(base, set()) if fits.matters() else ()
    for cls in sorted(classes, key=lambda c: c.__qualname__):
        if (cls.__module__ or "").partition(".")[0] in LIBRARIES:
            continue  # tests/agents/test_fits.py looks at all of them
        for name in METHODS:
            if not _is_watched(cls, name, False):
                core.unseen("%s.%s was not watched" % (cls.__qualname__, name))


def _arm_sklearn():
    base = sys.modules["sklearn.base"]
    requests = sys.modules.get("sklearn.utils._metadata_requests")
    if not hasattr(base, "_fit_context") or not _watch_context(base):
        fits.cannot("fits of this scikit-learn (1.3 and later can be watched)")
        return
    starter = getattr(requests, "_MetadataRequester", None)
    starter = vars(starter).get("__init_subclass__") if starter is not None else None
    function = getattr(starter, "__func__", None)
    if function is None or not _after(function, "made"):
        fits.cannot("fits of estimators that the job itself defines")
    fits.when_made(_made)
    S.on_exit.append(_at_end)
    S.armed.append("fits of scikit-learn")


def _arm_joblib():
    call = sys.modules["joblib.parallel"].Parallel.__call__
    if not _after(call, "parallel"):
        fits.cannot("whether joblib gives work to other processes")


def _arm_functions(library, functions):
    for function, name in functions:
        inner = reversed(list(_functions(function)))  # behind its decorators, with names
        if not any(_watch(each, name) for each in inner):
            fits.cannot("%s of this %s" % (name or function.__qualname__, library))
    S.armed.append("training of " + library)


def arm(name, process):
    """The library of this module has been imported, in a process that was armed as `process`."""
    if not core.start():
        return
    fits.arm(process)
    rng.arm_without_torch()
    for library in LIBRARIES:
        package = sys.modules.get(library)
        if getattr(package, "__file__", None):
            sites.skip(package)
    if name == "sklearn.base":
        _arm_sklearn()
    elif name == "joblib.parallel":
        _arm_joblib()
    elif name == "xgboost.training":
        _arm_functions("XGBoost", boosters.of_xgboost())
    elif name == "catboost.core":
        _arm_functions("CatBoost", boosters.of_catboost())
    else:
        _arm_functions("LightGBM", boosters.of_lightgbm())
