# SPDX-License-Identifier: Apache-2.0
"""Jobs of scikit-learn: what goes into a fit and what comes out is compared, what cannot be seen is
named, and the job is what it was.
"""

import json
import os
import subprocess

import pytest

from conftest import ROOT, clean_environment

PYTHON = os.environ.get("TWINRUN_SKLEARN_PYTHON", "")
pytestmark = pytest.mark.skipif(
    not PYTHON, reason="TWINRUN_SKLEARN_PYTHON names no Python with scikit-learn (./dev sets it)"
)

TUTORIAL = """
import sys
from sklearn.datasets import make_classification
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

X, y = make_classification(120, 6, random_state=0)
seed = None if "unseeded" in sys.argv else 0
make_pipeline(StandardScaler(), PCA(3), LogisticRegression()).fit(X, y)
KNeighborsClassifier().fit(X, y)
SVC().fit(X, y)  # draws from a generator that nobody has seeded, and does not use it
TfidfVectorizer().fit_transform(["a quick fox", "a lazy dog"])
RandomForestClassifier(4, random_state=seed).fit(X, y)
online = SGDClassifier(random_state=0)
for part in range(3):
    online.partial_fit(X[part::3], y[part::3], classes=[0, 1])
GridSearchCV(LogisticRegression(), {"C": [0.1, 1]}, cv=2).fit(X, y)
print("trained")
"""
# script() leaves out the first, empty line
LINE = TUTORIAL.split("\n").index("RandomForestClassifier(4, random_state=seed).fit(X, y)")


@pytest.fixture
def judged(twinrun, script, home):
    """The verdict of check over a job, and what recheck says of it."""

    def check(text, *args, rc, rechecked=True):
        job = script("job.py", text)
        done = twinrun("check", "--json", "--runs", "2", "--no-zoom", "--", PYTHON, job, *args,
                       env={"OMP_NUM_THREADS": "1"})  # fmt: skip
        assert done.rc == rc, done
        if rechecked:
            verdict = max(home.glob("runs/*/verdict.json"), key=os.path.getmtime)
            said = subprocess.run(
                [PYTHON, "-m", "twinrun.recheck", str(verdict)],
                env=clean_environment({"PYTHONPATH": str(ROOT / "python")}),
                capture_output=True,
                text=True,
            )
            assert said.returncode == 0 and " 0 refuted" in said.stdout, said
        return done.json

    return check


def test_a_tutorial_is_the_same_and_without_a_seed_it_is_not(judged):
    verdict = judged(TUTORIAL, rc=0)
    assert verdict["outcome"] == "same" and not verdict["unseen"]
    verdict = judged(TUTORIAL, "unseeded", rc=1)
    first = verdict["first"]
    assert (first["step"], first["phase"], first["name"]) == (4, "rng", "numpy")
    assert first["op"] == "RandomForestClassifier.fit"
    assert f"job.py:{LINE} in <module>" in first["source"]


CHANGED = """
import os, sys
import numpy as np
from sklearn.linear_model import Ridge
X, y = np.arange(24.0).reshape(8, 3) % 7, np.arange(8.0) % 5
once = int.from_bytes(os.urandom(7), "little") * 1e-15  # another one in each run
what = sys.argv[1]
if what == "batch":
    X[3, 1] += once
ridge = Ridge(alpha=once if what == "hyper" else 1.0).fit(X, y)
if what == "weight":
    ridge.coef_[1] += once
Ridge().fit(X, y)
ridge.fit(X, y)
"""


@pytest.mark.parametrize(
    "what, where",
    [
        ("batch", (0, "data", "batch", "X")),
        ("hyper", (0, "optimizer", "hyper", "plain values")),
        # what a line of the job wrote is no fit's doing
        ("weight", (2, "init", "weight", "coef_")),
    ],
)
def test_what_goes_into_a_fit_is_compared(judged, what, where):
    first = judged(CHANGED, what, rc=1)["first"]
    assert (first["step"], first["phase"], first["kind"], first["name"]) == where


MUTANTS = """
import copy, sys
import numpy as np, scipy.sparse
sys.path.insert(0, %r)
from twinrun._agent import fitted
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

def seen(value):
    found = []
    walk = fitted.Walk(lambda name, a: found.append((name, str(a.dtype), a.shape, a.tobytes())))
    walk.look("x", value)
    assert not walk.unread, walk.unread
    return found, walk.texts

rng = np.random.RandomState(0)
X, y = rng.rand(60, 4), np.array(["a", "b", "c"] * 20)
forest = RandomForestClassifier(3, random_state=0).fit(X, y)
boosted = GradientBoostingClassifier(n_estimators=2, random_state=0).fit(X, y)
hist = HistGradientBoostingClassifier(max_iter=2, random_state=0).fit(X, y)
near = KNeighborsClassifier().fit(X, y)
piped = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
plain = {"array": X, "text": y, "words": ["one", "two"], "numbers": list(range(20)), "set": {1, 2},
         "float": 0.1, "sparse": scipy.sparse.csr_matrix(X), "state": np.random.RandomState(1),
         "generator": np.random.default_rng(1), "objects": np.array([None, "x", 1.5], object)}

def change(name, value, do):
    mutant = copy.deepcopy(value)
    assert seen(mutant) == seen(value), "a copy is another one: " + name
    do(mutant)
    print(name, "seen" if seen(mutant) != seen(value) else "NOT SEEN")

def put(array, place, value):
    array[place] = value

change("leaf", forest, lambda e: put(e.estimators_[2].tree_.value, (1, 0, 1), 0.125))
change("threshold", forest, lambda e: put(e.estimators_[0].tree_.threshold, 0, 0.125))
change("stage", boosted, lambda e: put(e.estimators_[1, 0].tree_.value, (0, 0, 0), 0.125))
change("node", hist, lambda e: put(e._predictors[1][0].nodes["value"], 0, 0.125))
change("neighbour", near, lambda e: put(e._fit_X, (5, 2), 0.125))
change("class", near, lambda e: put(e.classes_, 0, "z"))
change("nested", piped, lambda e: put(e.steps[0][1].mean_, 3, 0.125))
change("nested plain", piped, lambda e: e.steps[1][1].__dict__.update(C=2.0))
change("array", plain, lambda p: put(p["array"], (59, 3), 0.125))
change("view", X.T[::2], lambda a: put(a, (1, 7), 0.125))
change("text", plain, lambda p: put(p["text"], 59, "a"))
change("words", plain, lambda p: p["words"].reverse())
change("numbers", plain, lambda p: put(p["numbers"], 19, 20))
change("set", plain, lambda p: p["set"].add(3))
change("float", plain, lambda p: p.update(float=np.nextafter(0.1, 1).item()))
change("float type", plain, lambda p: p.update(float=np.float32(0.1)))
change("sparse", plain, lambda p: put(p["sparse"].data, 7, 0.125))
change("sparse place", plain, lambda p: p["sparse"].indices[:2].sort() or put(p["sparse"].indices, 1, 0))
change("state", plain, lambda p: p["state"].rand())
change("generator", plain, lambda p: p["generator"].random())
change("objects", plain, lambda p: put(p["objects"], 2, 1.25))
change("key", plain, lambda p: p.update(other=p.pop("array")))
change("dates", np.array(["2020-01-01", "2020-01-02"], "M8[D]"), lambda a: put(a, 1, a[0]))
change("complex", np.array([1 + 2j, 2]), lambda a: put(a, 1, 2 + 1e-16j))
""" % str(ROOT / "python")


def test_each_change_of_a_fitted_state_is_seen():
    """A tree's leaf, a boosted stage, a nested scaler, one bit of a number: none may pass."""
    done = subprocess.run([PYTHON, "-W", "ignore", "-c", MUTANTS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 24 and all(line.endswith(" seen") for line in lines), done.stdout


HARMLESS = """
import hashlib, inspect, pickle, traceback
import cloudpickle, joblib
import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.cluster import KMeans
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

class Mine(ClassifierMixin, BaseEstimator):
    def __init__(self, alpha=1):
        self.alpha = alpha

    @property
    def trap_(self):
        print("an attribute was read")

    def __getattr__(self, name):
        if name.endswith("_") and not name.startswith("__"):
            print("an attribute was asked for", name)
        raise AttributeError(name)

    def fit(self, X, y, *, weights=None):
        if self.alpha < 0:
            raise ValueError("negative")
        self.mean_ = X.mean(0)
        return self

def digest(value):
    return hashlib.sha256(pickle.dumps(value)).hexdigest()

def one(alpha):
    return Mine(alpha).fit(X, y).mean_.tobytes().hex()

X, y = make_classification(100, 5, random_state=0)
np.random.seed(3)
for estimator in (Mine(), RandomForestClassifier(3), SVC(), KMeans(2),
                  make_pipeline(StandardScaler(), Mine())):
    cls = type(estimator)
    print(cls.__name__, inspect.signature(estimator.fit), inspect.signature(cls.fit))
    estimator.fit(X, y)
    print(digest(estimator), digest(clone(estimator)), joblib.hash(estimator))
    print(cls.fit.__qualname__, cls.fit.__module__, sorted(vars(estimator)))
print(np.random.rand(), inspect.getsource(Mine.fit))
for bad in (Mine(-1), SVC(C=-1)):
    try:
        bad.fit(X, y)
    except ValueError:
        print(traceback.format_exc())
print(Parallel(n_jobs=2)(delayed(one)(alpha) for alpha in range(3)))
print(vars(cloudpickle.loads(cloudpickle.dumps(Mine))(2).fit(X, y)))
"""


def test_the_job_is_what_it_was(twinrun, script):
    """Results, pickles, clones, hashes, signatures, tracebacks; and no property is read."""
    job = script("job.py", HARMLESS)
    env = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    bare = subprocess.run([PYTHON, job], capture_output=True, text=True, cwd=job.parent,
                          env=clean_environment(env))  # fmt: skip
    assert bare.returncode == 0 and "attribute was" not in bare.stdout, bare
    watched = twinrun("record", "-q", "--", PYTHON, job, env=env)
    assert (watched.rc, watched.out, watched.err) == (0, bare.stdout, bare.stderr)


UNSEEN = """
import collections, ctypes, threading
import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator
from sklearn.linear_model import Ridge

X, y = np.arange(12.0).reshape(4, 3), np.arange(4.0)

class Slots:
    __slots__ = ("inside", "__dict__")

class Table(collections.deque):
    pass

class Odd(BaseEstimator):
    def fit(self, X, y):
        self.lock_, self.handle_ = threading.Lock(), ctypes.c_void_p(1)
        self.slots_, self.table_ = Slots(), Table()
        return self

Ridge().fit(X, y)
Odd().fit(X, y)
thread = threading.Thread(target=Ridge().fit, args=(X, y))
thread.start()
thread.join()
Parallel(n_jobs=2)(delayed(Ridge().fit)(X, y) for _ in range(2))
"""


def test_what_cannot_be_seen_is_named(judged):
    """Not even a job in which all that was seen agrees is then the same."""
    verdict = judged(UNSEEN, rc=3, rechecked=False)
    assert verdict["outcome"] == "inconclusive"
    for said in (
        "lock_ (_thread.lock) of Odd.fit",
        "handle_ (ctypes.c_void_p) of Odd.fit",
        "slots_ (__main__.Slots) of Odd.fit",
        "table_ (__main__.Table) of Odd.fit",
        "fits of estimators in threads of the job",
        "what joblib's processes compute outside of a fit (n_jobs)",
    ):
        assert said in json.dumps(verdict["unseen"]), verdict["unseen"]
