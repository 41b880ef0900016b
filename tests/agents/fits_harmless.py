# SPDX-License-Identifier: Apache-2.0
"""A job of scikit-learn that looks at everything by which it could notice a watcher, and prints it."""

import gc
import inspect
import os
import pickle
import subprocess
import sys
import traceback
import warnings
import weakref

import cloudpickle
import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline


def depth():
    frame, count = sys._getframe(1), 0
    while frame is not None:
        frame, count = frame.f_back, count + 1
    return count


class Mine(RegressorMixin, BaseEstimator):
    """Mine."""

    def __init__(self, k=1):
        self.k = k

    def fit(self, X, y=None, *, weight: int = None):
        """Fits."""
        warnings.warn("who calls", stacklevel=2)
        self.depth_ = sys.modules["__main__"].__dict__.get("depth", lambda: 3)()
        if self.k == 3:
            raise ValueError("three")
        return self


class Heir(LinearRegression):
    def fit(self, X, y):
        super().fit(X, y)
        self.__hidden = depth()
        self.looked_ = sorted(locals())
        return self


class Decorated(LinearRegression):
    @staticmethod
    def same(function):
        def inner(*args, **named):
            return function(*args, **named)

        return inner

    @same.__func__
    def fit(self, X, y):
        return super().fit(X, y)


def told(message, category, filename, lineno, *_rest):
    print("warned", message, os.path.basename(filename), lineno)


def raised(function, *args):
    try:
        function(*args)
    except Exception:
        traceback.print_exc(file=sys.stdout)


warnings.simplefilter("always")
warnings.showwarning = told
X, y = np.arange(20.0).reshape(10, 2), np.arange(10.0)
for function in (Mine.fit, Heir.fit, Ridge.fit, Decorated.fit, BaseEstimator.__init_subclass__):
    print(inspect.signature(function), inspect.getfullargspec(function), function.__qualname__)
    print(function.__doc__, function.__code__.co_firstlineno, inspect.getsource(function))
for model in (Mine(), Heir(), Decorated()):
    held = vars(model.fit(X, y))
    print(sorted(held), [held.get(name) for name in ("depth_", "_Heir__hidden", "looked_")])
raised(Mine(3).fit, X)
raised(Ridge(alpha="no").fit, X, y)
raised(Decorated().fit, X, y[:3])
print(Decorated.fit(self=Decorated(), X=X, y=y).n_features_in_)
gc.disable()
data = X.copy()
gone = weakref.ref(data)
model = Ridge().fit(data, y)
del data
print("data are gone:", gone() is None)
print(len(pickle.dumps(model)))
gone = weakref.ref(model)
del model
print("the model is gone:", gone() is None)
print(clone(Mine(2)), repr(make_pipeline(Ridge())))
with open("class.pickle", "wb") as f:
    f.write(cloudpickle.dumps(Mine(2)))
unwatched = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("TWINRUN", "LD_")) and name != "PYTHONPATH"
}
READ = """
import pickle
with open("class.pickle", "rb") as f:
    print("read elsewhere:", pickle.load(f).fit([[1.0]]).depth_)
"""
done = subprocess.run(
    [sys.executable, "-W", "ignore", "-c", READ], env=unwatched, stdout=subprocess.PIPE
)
print(done.stdout.decode())
