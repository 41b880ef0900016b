# SPDX-License-Identifier: Apache-2.0
"""Run by a Python with scikit-learn: makes objects in pairs and prints, as JSON, what the agent's
look at them says: {name: [digest of one, of its twin, of its mutant, what was missed]}.
"""

import enum
import functools
import importlib.util
import io
import json
import os
import random
import sys
import threading
import weakref
from array import array
from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass
from decimal import Decimal

import lightgbm
import numpy as np
import scipy.sparse as sparse
from joblib import Memory
from sklearn.base import BaseEstimator
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

X, Y = make_classification(80, 6, random_state=0)
HIGH = 1 << 63


class Slots:
    __slots__ = ("x", "y")

    def __init__(self, x):
        self.x = x


class SlotsAndMore(Slots):
    def __init__(self, x, z):
        super().__init__(x)
        self.z = z


class Array(np.ndarray):
    pass


class Listed(list):
    pass


class Keyed(dict):
    pass


class Counted(defaultdict):
    pass


class Pair(tuple):
    pass


class Estimator(BaseEstimator):
    def __init__(self, learned=None):
        self.learned = learned


class Slotted(BaseEstimator):
    __slots__ = ("x",)


class Saying(BaseEstimator):
    """Gives pickle less than it holds."""

    def __init__(self, x):
        self.x = x

    def __getstate__(self):
        return {"x": None}


class Reducing:
    def __init__(self, x):
        self.x = x

    def __reduce__(self):
        return Reducing, (0,)


class Adder:
    def __init__(self, x):
        self.x = x

    def add(self, y):
        return self.x + y


class Color(enum.Enum):
    RED = 1
    BLUE = 2


if sys.version_info >= (3, 10):

    @dataclass(slots=True)
    class Data:
        x: int

else:
    Data = Slots


def closed_over(x):
    def function(y):
        return x + y

    return function


def with_default(x):
    def function(y=x, *, z=x):
        return y

    return function


def cycle(x):
    one, other = [x], {}
    one.append(other)
    other["back"] = one
    return one


def with_attribute(thing, **attributes):
    for name, value in attributes.items():
        setattr(thing, name, value)
    return thing


def masked(mask):
    return np.ma.MaskedArray([1.0, 2.0], [False, mask])


def set_items(matrix, value):
    matrix[1, 2] = value
    return matrix


def tree_node(change):
    model = RandomForestClassifier(3, random_state=0).fit(X, Y)
    model.estimators_[2].tree_.value[0, 0, 0] += change
    return model


def tree_threshold(change):
    model = RandomForestClassifier(3, random_state=0).fit(X, Y)
    model.estimators_[1].tree_.threshold[0] += change
    return model


def boosted(change):
    model = HistGradientBoostingClassifier(max_iter=3, random_state=0).fit(X, Y)
    model._predictors[1][0].nodes["value"][2] += change
    return model


def pipeline(change):
    model = Pipeline([("scale", StandardScaler()), ("last", LogisticRegression())]).fit(X, Y)
    model.steps[0][1].mean_[0] += change
    return model


def union(change):
    model = FeatureUnion([("scale", StandardScaler())]).fit(X)
    model.transformer_list[0][1].var_[0] += change
    return model


def searched(c):
    return GridSearchCV(LogisticRegression(), {"C": [0.1, c]}, cv=2).fit(X, Y)


@functools.cache
def grown():
    """The text of a model of LightGBM."""
    labels = np.arange(80) % 3
    model = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1).fit(X, labels)
    return model.booster_.model_to_string()


def grown_otherwise(behind, old, new):
    """mutant -> the model, with another text, as long, behind the first `behind`."""

    def make(mutant):
        before, found, after = grown().partition(behind)
        assert found and old in after
        changed = before + found + after.replace(old, new, mutant)
        return lightgbm.Booster(model_str=changed)

    return make


def neighbours(change):
    model = KNeighborsClassifier(3, algorithm="kd_tree").fit(X + change, Y)
    return model._tree


def drawn(generator, count):
    generator.random(count) if hasattr(generator, "permuted") else generator.random_sample(count)
    return generator


def python_generator(count):
    generator = random.Random(3)
    for _ in range(count):
        generator.random()
    return generator


def objects(x):
    found = np.empty(2, object)
    found[:] = ["text", [x]]
    return found


PAIRS = {
    "int": lambda m: 5 + m,
    "int and bool": lambda m: [1, True][m],
    "int and float": lambda m: [1, 1.0][m],
    "zero and minus zero": lambda m: [0.0, -0.0][m],
    "not a number": lambda m: [float("nan"), 1.0][m],
    "text and bytes": lambda m: ["a", b"a"][m],
    "large int": lambda m: HIGH + m,
    "large ints in a list": lambda m: [HIGH] * 9 + [HIGH + m],
    "long list of numbers": lambda m: [0.5] * 99 + [0.5 + m],
    "long list of texts": lambda m: [["ab", "c"], ["a", "bc"]][m] * 9,
    "list and tuple": lambda m: [[1, 2], (1, 2)][m],
    "nesting": lambda m: [[[1], [2]], [[1, [2]]]][m],
    "order of a list": lambda m: [[1, 2], [2, 1]][m],
    "order of a dictionary": lambda m: [{"a": 1, "b": 2}, {"b": 2, "a": 1}][m],
    "key": lambda m: {"ab"[m]: 1},
    "set": lambda m: {"a", "b", "cd"[m]},
    "set of sets": lambda m: {frozenset({"a", "b"}), frozenset({"cd"[m]})},
    "cycle": lambda m: cycle(m),
    "complex": lambda m: complex(1, m),
    "decimal": lambda m: Decimal("1.%d" % m),
    "enumeration": lambda m: [Color.RED, Color.BLUE][m],
    "array module": lambda m: array("d", [1, m]),
    "ordered": lambda m: OrderedDict([("a", m)]),
    "queue": lambda m: deque([1, m], 5),
    "longest of a queue": lambda m: deque([1], 5 + m),
    "array": lambda m: np.array([1.0, 2.0 + m]),
    "type of an array": lambda m: np.zeros(3, ["f8", "i8"][m]),
    "shape of an array": lambda m: np.zeros([(2, 3), (3, 2)][m]),
    "transposed array": lambda m: np.arange(6.0).reshape(2, 3)[:, :: 1 - 2 * m],
    "array backwards": lambda m: np.array([1.0, 2.0, 3.0 + m])[::-1],
    "swapped bytes": lambda m: np.array([1, 2 + m], ">i4"),
    "texts in an array": lambda m: np.array(["a", "bc"[m]]),
    "times in an array": lambda m: np.array([5 + m], "M8[s]"),
    "objects in an array": objects,
    "long doubles": lambda m: np.array([1, 1 + m * np.finfo(np.longdouble).eps], np.longdouble),
    "fields": lambda m: np.array([(1, 2.0 + m)], [("a", "i4"), ("b", "f8")]),
    "names of fields": lambda m: np.array([(1,)], [("ab"[m], "i4")]),
    "number of numpy": lambda m: np.float64(m),
    "its type": lambda m: [np.float64(1), np.float32(1)][m],
    "mask": masked,
    "heir of an array": lambda m: np.array([1.0, m]).view(Array),
    "attribute of an array's heir": lambda m: with_attribute(np.zeros(2).view(Array), unit=m),
    "attribute of a list's heir": lambda m: with_attribute(Listed([1]), unit=m),
    "item of a list's heir": lambda m: Listed([m]),
    "attribute of a dictionary's heir": lambda m: with_attribute(Keyed(a=1), unit=m),
    "item of a dictionary's heir": lambda m: Keyed(a=m),
    "attribute of a defaultdict's heir": lambda m: with_attribute(Counted(int), unit=m),
    "attribute of a tuple's heir": lambda m: with_attribute(Pair((1,)), unit=m),
    "slots": lambda m: Slots(m),
    "slots and attributes": lambda m: SlotsAndMore(m, 1),
    "attributes and slots": lambda m: SlotsAndMore(1, m),
    "dataclass with slots": lambda m: Data(m),
    "slots of an estimator": lambda m: with_attribute(Slotted(), x=m),
    "attribute of a slotted estimator": lambda m: with_attribute(Slotted(), y=m),
    "less is said by __getstate__": lambda m: Saying(m),
    "less is said by __reduce__": lambda m: Reducing(m),
    "closure": closed_over,
    "default": with_default,
    "two lambdas": lambda m: [lambda x: x + 1, lambda x: x + 2][m],
    "function with a cache": lambda m: functools.cache(closed_over(m)),
    "variable of a class": lambda m: type("Kernel", (Slots,), {"gamma": m}),
    "variable of an object's class": lambda m: type("Kernel", (Estimator,), {"seen": [m]})(1),
    "method of a class": lambda m: type("Kernel", (), {"read": closed_over(m)}),
    "base of a class": lambda m: type("Kernel", (type("Base", (), {"gamma": m}),), {}),
    "bound method": lambda m: Adder(m).add,
    "bound builtin": lambda m: [m].append,
    "partial": lambda m: functools.partial(max, m),
    "code of a lambda in a transformer": lambda m: FunctionTransformer([np.log1p, np.exp][m]),
    "dok": lambda m: set_items(sparse.dok_matrix((3, 3)), 1.0 + m),
    "lil": lambda m: set_items(sparse.lil_matrix((3, 3)), 1.0 + m),
    "csr": lambda m: sparse.csr_matrix(([1.0], ([0], [m])), (2, 2)),
    "legacy generator": lambda m: drawn(np.random.RandomState(1), 1 + m),
    "legacy generator of PCG64": lambda m: drawn(np.random.RandomState(np.random.PCG64(1)), 1 + m),
    "generator": lambda m: drawn(np.random.default_rng(1), 1 + m),
    "generator of Python": lambda m: python_generator(m),
    "value of a tree": tree_node,
    "threshold of a tree": tree_threshold,
    "node of a boosted tree": boosted,
    "what a pipeline learned": pipeline,
    "what a union learned": union,
    "first tree of LightGBM": grown_otherwise("\nTree=0\n", "shrinkage=0.1", "shrinkage=0.3"),
    "later tree of LightGBM": grown_otherwise("\nTree=4\n", "shrinkage=0.1", "shrinkage=0.3"),
    "head of LightGBM": grown_otherwise("feature_names=", "Column_1", "Column_9"),
    "tail of LightGBM": grown_otherwise("parameters:", "[max_bin: 255]", "[max_bin: 155]"),
    "search": lambda m: searched(1.0 + m),
    "tree of neighbours": neighbours,
    "vocabulary": lambda m: CountVectorizer().fit(["one two", "two " + ["three", "four"][m]]),
    "stop words": lambda m: CountVectorizer(stop_words=["the", "ab"[m]]).fit(["the one two"]),
    "loss in Cython": lambda m: SGDClassifier(
        loss=["hinge", "log_loss"][m], max_iter=2, tol=None, random_state=0
    ).fit(X, Y),
    "cache on disk": lambda m: Memory("cache%d" % m, verbose=0),
}

# These must not pass for looked at.
OPAQUE = {
    "generator function": lambda: (x for x in [1]),
    "lock": threading.Lock,
    "file": lambda: io.TextIOWrapper(io.BytesIO()),
    "ufunc of a function": lambda: np.frompyfunc(lambda x: x, 1, 1),
    "weak reference": lambda: weakref.ref(Color),
    "in a list in an attribute": lambda: Estimator([1, {"a": threading.Lock()}]),
    "mapped generator": lambda: map(str, (x for x in [1])),
    "very deep": lambda: functools.reduce(lambda inner, _: [inner], range(200), []),
    "in a closure": lambda: closed_over(threading.Lock()),
}


def agent():
    """The agent's package, as its boot loads it."""
    path = os.path.join(sys.argv[1], "twinrun", "_agent", "boot.py")
    spec = importlib.util.spec_from_file_location("_twinrun_boot", path)
    boot = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(boot)
    boot.package()
    importlib.import_module(boot.PACKAGE + ".boosters").of_lightgbm()
    return importlib.import_module(boot.PACKAGE + ".fitted")


def looked_at(fitted, thing, own=False):
    """(a text that stands for the whole of it, names of what was missed); own: trees are parts of
    their own.
    """
    look = fitted.Look(own)
    token = look.value(thing, "it")
    arrays = [(name, a.dtype.str, a.shape, a.tobytes().hex()) for name, a in look.arrays]
    return repr((token, arrays, look.own)), look.missed


def main():
    fitted = agent()
    told = {}
    for name, make in PAIRS.items():
        made = [make(m) for m in (0, 0, 1)]  # all alive: no two at one address
        for own in (False, True):
            one, twin, mutant = (looked_at(fitted, thing, own) for thing in made)
            how = name + (" by its parts" if own else "")
            told[how] = [one[0] == twin[0], one[0] != mutant[0], one[1] + mutant[1]]
    opaque = {name: looked_at(fitted, make())[1] for name, make in OPAQUE.items()}
    look = fitted.Look()
    look.value(tree_threshold(0), "model")
    names = [name for name, _array in look.arrays]
    one, other = fitted.Look(own=True), fitted.Look(own=True)
    for mutant, look in enumerate((one, other)):
        look.value(PAIRS["later tree of LightGBM"](mutant), "model")
    unlike = [a[0] for a, b in zip(one.own, other.own) if a != b]
    print(json.dumps({"pairs": told, "opaque": opaque, "names": names, "unlike": unlike}))


main()
