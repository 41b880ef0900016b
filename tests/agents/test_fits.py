# SPDX-License-Identifier: Apache-2.0
"""Jobs of scikit-learn, LightGBM and (--full) XGBoost and CatBoost: what is recorded of a fit, what is told of
what was not seen, and that the job notices nothing.

They need a Python with these libraries: ./dev test makes one and names it in
TWINRUN_SKLEARN_PYTHON; without it the tests are skipped.
"""

import json
import os
import struct
import subprocess
import sys
from array import array
from pathlib import Path

import pytest

from conftest import FULL, ROOT

HERE = Path(__file__).resolve().parent


def python_with(*modules):
    python = os.environ.get("TWINRUN_SKLEARN_PYTHON", sys.executable)
    done = subprocess.run([python, "-c", "import " + ", ".join(modules)], capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"no Python with {' and '.join(modules)} (one in TWINRUN_SKLEARN_PYTHON)")
    return python


@pytest.fixture(scope="module")
def sklearn():
    return python_with("sklearn", "lightgbm")


@pytest.fixture
def check(twinrun, sklearn, script):
    """check(text of a job): the verdict of two runs of it; in the second a file `second` is there."""

    def judged(text, *options):
        script("job.py", HEAD + text)
        done = twinrun("check", "--json", "-n", "2", *options, "--", sklearn, "job.py")
        assert done.rc in (0, 1, 3), done
        return done.json

    return judged


HEAD = """\
import os, sys, warnings
import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

second = os.path.exists("second")
open("second", "w").close()
warnings.simplefilter("ignore")
draw = np.random.default_rng(0)
X = draw.normal(size=(120, 5))
y = (X[:, 0] + X[:, 1] > 0).astype(int)
"""


def test_every_change_of_a_state_is_seen(run, sklearn, work):
    """Each object looks like its twin and unlike its mutant, and what cannot be read is told of."""
    done = run([sklearn, HERE / "fits_mutants.py", ROOT / "python"])
    assert done.rc == 0, done
    found = done.json
    assert len(found["pairs"]) > 140
    wrong = {
        name: told for name, told in found["pairs"].items() if told != [True, True, []]
    }  # [like its twin, unlike its mutant, what was missed]
    assert not wrong
    assert len(found["opaque"]) > 7 and all(found["opaque"].values()), found["opaque"]
    assert "model.estimators_[1].tree_.nodes.threshold" in found["names"]
    assert found["unlike"] == ["model.round[1].tree[1]"]


def ubjson_of(value):
    """As XGBoost writes it: lengths as 8 bytes, numbers of an array of one type side by side."""
    if isinstance(value, dict):
        named = (ubjson_text(k)[1:] + ubjson_of(v) for k, v in value.items())
        return b"{" + b"".join(named) + b"}"
    if isinstance(value, list):
        return b"[#L" + struct.pack(">q", len(value)) + b"".join(map(ubjson_of, value))
    if isinstance(value, array):
        numbers = struct.pack(">%d%s" % (len(value), value.typecode), *value)
        kind = {"f": b"d", "d": b"D", "b": b"i"}[value.typecode]
        return b"[$" + kind + b"#L" + struct.pack(">q", len(value)) + numbers
    return b"l" + struct.pack(">i", value) if isinstance(value, int) else ubjson_text(value)


def ubjson_text(text):
    return b"SL" + struct.pack(">q", len(text)) + text.encode()


def test_where_the_trees_of_xgboost_lie():
    sys.path.insert(0, str(ROOT / "python" / "twinrun" / "_agent"))
    try:
        import ubjson
    finally:
        sys.path.pop(0)
    grown = [
        {"base_weights": array("f", [i, 0.5]), "id": i, "tree_param": {"trees": "none", "n": [1]}}
        for i in range(3)
    ]
    inner = {"cats": {"enc": [[]]}, "iteration_indptr": [0, 1, 3], "trees": grown}
    for booster in ({"model": inner}, {"gbtree": {"model": inner}, "weight_drop": array("d", [1])}):
        whole = ubjson_of({"Config": {"trees": [1]}, "Model": {"learner": {"booster": booster}}})
        places, rounds = ubjson.trees(whole)
        assert [whole[first:end] for first, end in places] == list(map(ubjson_of, grown))
        assert rounds == [0, 1, 3]
        for length in range(len(whole)):
            with pytest.raises(ValueError):
                ubjson.trees(whole[:length])
    assert ubjson.trees(ubjson_of({"Model": {"weights": array("f", [1])}})) == ([], [0])
    for hostile in (b"[" * 5000, b"[#L\x7f" + b"\xff" * 7 + b"Z", b"[$[#i\x80", b"[#i\x80", b"x"):
        with pytest.raises(ValueError):
            ubjson.trees(hostile)


TUTORIAL = """
import lightgbm
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


class Mine(LinearRegression):
    def fit(self, X, y):
        super().fit(X, y)
        self.__hidden = 3
        self.sets_ = {frozenset({"a", "b", "c"}), frozenset({"d", "e"})}
        if self.n_jobs == 7:
            raise ValueError("seven")
        return self


model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
print(model.score(X, y))
search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2, n_jobs=2).fit(X, y)
print(search.best_params_)
RandomForestClassifier(8, n_jobs=2, random_state=0).fit(X, y)
steps = SGDClassifier(random_state=0)
for part in range(2):
    steps.partial_fit(X, y, classes=[0, 1])
Mine().fit(X, y)
try:
    Mine(n_jobs=7).fit(X, y)
except ValueError:
    pass
StandardScaler().fit_transform(X)
lightgbm.LGBMClassifier(n_estimators=3, verbose=-1).fit(X, y)
data = lightgbm.Dataset(X, y)
for seed in range(2):
    lightgbm.train({"verbose": -1, "seed": seed}, data, 3)
"""


def test_a_tutorial_is_the_same_twice(check, twinrun):
    """Each outer fit is a step, with searches in other processes and forests in threads."""
    verdict = check(TUTORIAL)
    assert verdict["outcome"] == "same" and verdict["unseen"] == [], verdict
    assert verdict["steps"]["compared"] == 11, verdict["steps"]
    assert (
        "what the job computes outside of the calls that train was compared only where it is "
        "printed, written or given to such a call"
    ) in verdict["notes"], verdict


def test_an_unseeded_forest_differs(check):
    verdict = check("""
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import StandardScaler

scaled = StandardScaler().fit_transform(X)
RandomForestClassifier(5).fit(scaled, y)
""")
    first = verdict["first"]
    assert verdict["outcome"] == "differ" and (first["step"], first["role"]) == (1, "origin")
    assert "job.py:16 in <module>" in json.dumps(first)
    assert first["op"] == "RandomForestClassifier.fit", first
    assert any("numpy.random was drawn from before" in note for note in verdict["notes"])


def test_what_differs_is_named(check):
    """Also behind a fit that raised, which is no origin: one of its arguments cannot be read."""
    verdict = check("""
class Mine(BaseEstimator):
    def __init__(self, inner=None):
        self.inner = inner

    def fit(self, X, y):
        self.learned_ = {"table": np.array([1.0, 2.0 + second])}
        raise KeyError(3)

from sklearn.dummy import DummyClassifier
DummyClassifier().fit(X, y)
try:
    Mine().fit(X, (label for label in y))
except KeyError:
    DummyClassifier().fit(X, y)
""")
    first = verdict["first"]
    assert verdict["outcome"] == "differ" and first["step"] == 1
    assert first["name"] == "learned_['table']", first
    assert first["op"] == "Mine.fit (KeyError)"
    assert "a generator as y" in json.dumps(first) and first["role"] != "origin", first
    assert verdict["steps"]["compared"] == 3


LIGHT = """
import lightgbm


class Pull:
    rounds = 0

    def __call__(self, predicted, data):
        Pull.rounds += 1
        slope = predicted - data.get_label()
        slope[0] += 0.5 * (second and Pull.rounds == 3)
        return slope, np.ones_like(slope)


held = {"verbose": -1, "num_threads": 1, "objective": Pull()}
lightgbm.train(held, lightgbm.Dataset(X, y), 5)
loop = lightgbm.Booster({"verbose": -1, "num_threads": 1}, lightgbm.Dataset(X, y))
for _ in range(2):
    loop.update()
"""


def test_the_first_round_of_boosting_that_differs_is_named(check, twinrun):
    verdict = check(LIGHT)
    assert verdict["outcome"] == "differ" and verdict["steps"]["compared"] == 3, verdict
    first = verdict["first"]
    assert (first["step"], first["name"]) == (0, "result.round[2].tree[0]"), first
    # what the loop's first turn has grown is no record of its own in the second
    rows = [line.split() for line in twinrun("show", "last", "--step", "2").out.splitlines()]
    learned = [row[4:] for row in rows if row[2:4] == ["optimizer", "weight"]]
    names = [" ".join(row) for row in learned if row[0].startswith(("round", "trees"))]
    assert [name.partition(" bytes")[0] for name in names] == [
        "round[1].tree[0]",
        "trees (from before)",
        "trees",
    ]


OUTSIDE = """
from sklearn.preprocessing import FunctionTransformer

noise = np.array([1.0, 2.0, 3.0, 4.0, 5.0 + WHICH_NOISE])
rates = {"slow": 0.5 + WHICH_RATE}


def rate():
    return rates["slow"]


class Mine(BaseEstimator):
    def fit(self, X, y):
        self.coef_ = self.step(X)
        return self

    def step(self, X):
        return X.sum(axis=0) * rate()


made = FunctionTransformer(lambda X: X + noise).fit_transform(X)
Mine().fit(X, y)
FunctionTransformer().fit(made, y)
"""


def test_what_the_jobs_functions_read_beside_their_arguments_is_no_origin(check, work):
    """A global that a function of the job reads, and data that lines of the job made with a fit."""
    text = OUTSIDE.replace("WHICH_NOISE", "0").replace("WHICH_RATE", "second")
    first = check(text)["first"]
    assert (first["step"], first["name"], first["role"]) == (1, "coef_", "unknown"), first
    assert "reads rates, which is not looked into" in json.dumps(first)
    (work / "second").unlink()
    text = OUTSIDE.replace("WHICH_NOISE", "second").replace("WHICH_RATE", "0")
    first = check(text)["first"]
    assert (first["step"], first["name"], first["role"]) == (2, "X", "unknown"), first


UNSEEN = """
import multiprocessing, threading
from concurrent.futures import ThreadPoolExecutor
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import cross_val_score


class Fits:
    def fit(self, X, y):
        return self


class Mixed(Fits, BaseEstimator):
    "Its fit is a mixin's: seen."


class Silent:
    def __init_subclass__(cls, **named):
        "Tells nobody else."


class Unannounced(Silent, BaseEstimator):
    def fit(self, X, y):
        return self


class Late(BaseEstimator):
    pass


def late(self, X, y):
    return self


class Holding(BaseEstimator):
    def fit(self, X, y):
        self.lock_ = threading.Lock()
        return self


class Looking(BaseEstimator):
    def fit(self, X, y):
        locals()
        return self


if __name__ == "__main__":
    Mixed().fit(X, y)
    Late.fit = late
    Late().fit(X, y)
    Holding().fit(X, y)
    Unannounced().fit(X, y)
    Looking().fit(X, y)
    print(cross_val_score(DummyClassifier(), X, y, cv=2, n_jobs=2))
    child = multiprocessing.get_context("fork").Process(target=DummyClassifier().fit, args=(X, y))
    child.start()
    child.join()
    if os.fork() == 0:
        Holding().fit(X, y)
        os._exit(0)
    os.wait()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(DummyClassifier().fit, X, y).result()
"""


def test_what_was_not_seen_is_told(check):
    verdict = check(UNSEEN)
    assert verdict["outcome"] == "inconclusive", verdict
    assert verdict["steps"]["compared"] == 2
    said = "\n".join(verdict["unseen"])
    for text in (
        "Holding.lock_: a _thread.lock is not looked into",
        "Late.fit was not watched",
        "Unannounced.fit was not watched",
        "Looking.fit was not watched",
        "DummyClassifier: what it trained in a child process",
        "Holding: what it trained in a child process",
        "DummyClassifier: what it trained in another thread",
        "what joblib.Parallel ran in other processes",
    ):
        assert f"run 1: {text}" in said, said
    assert "Mixed" not in said


def test_the_job_notices_nothing(run, twinrun, sklearn, work):
    """Signatures, warnings' places, depth, tracebacks, what lives on, and a class that cloudpickle
    writes down by value and that a Python without us reads.
    """
    job = HERE / "fits_harmless.py"
    alone = run([sklearn, job], cwd=work)
    watched = twinrun("run", "--", sklearn, job)
    assert alone.rc == watched.rc == 0, (alone, watched)
    assert alone.out == watched.out
    assert "data are gone: True" in alone.out and "read elsewhere: 3" in alone.out


CLASSES = """
import importlib, pkgutil, sys, warnings
warnings.simplefilter("ignore")
from sklearn.utils import all_estimators
all_estimators()
import lightgbm
base = sys.modules["sklearn.base"].BaseEstimator
hooks = sys.modules["_twinrun_agent.fits_hooks"]
for cls in hooks._subclasses(base, set()):
    for name in hooks.METHODS:
        if not hooks._is_watched(cls, name, False):
            print(cls.__qualname__, name)
"""


def test_all_estimators_of_the_libraries_are_watched(twinrun, sklearn, script):
    """But for those of abstract classes, and one that only raises."""
    script("job.py", CLASSES)
    done = twinrun("run", "--", sklearn, "job.py")
    assert done.rc == 0, done
    assert set(done.out.splitlines()) == {
        "BaseSGD fit",
        "FeatureAgglomeration fit_predict",
        "LinearModel fit",
        "MultiOutputLinearModel fit",
        "_BasePCA fit",
    }


BOOSTED = """
import xgboost

xgboost.XGBClassifier(n_estimators=3, subsample=0.5, random_state=1).fit(X, y)
data = xgboost.DMatrix(X, y + 0.5 * (second and "data" in sys.argv))
seed = int(second and "seed" in sys.argv)


def pull(predicted, data):
    pull.rounds += 1
    slope = predicted - data.get_label()
    slope[0] += 0.5 * (second and "round" in sys.argv and pull.rounds == 3)
    return slope, np.ones_like(slope)


pull.rounds = 0
booster = xgboost.train({"subsample": 0.5, "seed": seed}, data, 4, obj=pull)
loop = xgboost.Booster({}, [data])
for number in range(2):
    loop.update(data, number)
"""


CATS = """
import catboost


class Pull:
    rounds = 0

    def calc_ders_range(self, predicted, targets, weights):
        Pull.rounds += 1
        more = 0.5 * (second and "round" in sys.argv and Pull.rounds == 6)
        return [(t - p + more * (i == 0), -1.0) for i, (p, t) in enumerate(zip(predicted, targets))]


held = {"iterations": 5, "depth": 3, "verbose": 0, "thread_count": 2, "allow_writing_files": False}
catboost.CatBoostClassifier(**held).fit(X, np.arange(120) % 3)
labels = y + 0.5 * (second and "data" in sys.argv)
catboost.CatBoostRegressor(loss_function=Pull(), eval_metric="RMSE", **held).fit(X, y)
seed = int(second and "seed" in sys.argv)
catboost.train(catboost.Pool(X, labels), {**held, "loss_function": "RMSE", "random_seed": seed})
kinds = np.array([["a", "1"], ["b", "2"]] * 60)
catboost.CatBoostClassifier(**held).fit(kinds, y, cat_features=[0])
"""


def hold_boosted(twinrun, python, work, told):
    """Each word of the job's makes its second run differ in a step, at a name; "" in nothing."""
    for word, step, name in told:
        (work / "second").unlink(missing_ok=True)
        verdict = twinrun("check", "--json", "-n", "2", "--", python, "job.py", word).json
        assert verdict["steps"]["compared"] == 4, verdict
        if not word:
            assert verdict["outcome"] == "same" and not verdict["unseen"], verdict
            continue
        assert verdict["outcome"] == "differ", verdict
        assert (verdict["first"]["step"], verdict["first"]["name"]) == (step, name)


@pytest.mark.skipif(not FULL, reason="XGBoost is large: --full")
def test_xgboost(twinrun, script, work):
    python = python_with("sklearn", "xgboost")
    script("job.py", HEAD + BOOSTED)
    told = [("", None, ""), ("data", 1, "dtrain.label"), ("seed", 1, "params")]
    told.append(("round", 1, "result.round[2].tree[0]"))
    hold_boosted(twinrun, python, work, told)


@pytest.mark.skipif(not FULL, reason="CatBoost is large: --full")
def test_catboost(twinrun, script, work):
    python = python_with("sklearn", "catboost")
    script("job.py", HEAD + CATS)
    told = [("", None, ""), ("data", 2, "pool.label"), ("seed", 2, "params")]
    told.append(("round", 1, "round[2].tree[0]"))
    hold_boosted(twinrun, python, work, told)


@pytest.mark.skipif(not FULL, reason="a search takes many runs: --full")
def test_the_cause_of_an_unseeded_forest(twinrun, sklearn, script):
    forest = "from sklearn.ensemble import RandomForestClassifier as Forest\n"
    script("job.py", HEAD + forest + "Forest(5).fit(X, y)\n")
    done = twinrun("isolate", "-q", "--json", "--pin", "seed.numpy", "--", sklearn, "job.py")
    assert done.json["outcome"] == "isolated", done
    assert "seed.numpy" in json.dumps(done.json["causes"]), done
