# SPDX-License-Identifier: Apache-2.0
"""Scripts of NumPy, SciPy and pandas: what they hold at their end is recorded."""

import json
import os
import re
import subprocess

import pytest
from native import LIBRARY, ROOT, clean_environment
from test_torch_native import watched
from torch_observed import PYTHON

BUILD = os.environ.get("TWINRUN_BUILD", os.path.join(ROOT, "build"))
PROGRAM = os.path.join(BUILD, "cmd", "twinrun")

pytestmark = [
    pytest.mark.usefixtures("python"),
    pytest.mark.skipif(not os.path.exists(LIBRARY), reason=f"not built: {LIBRARY}"),
]

# CHANGE is 0 or 1: each variable differs in the smallest thing that it has.
VARIABLES = """
import array, collections, random
import numpy as np
x = np.arange(6.0)
x[-1] += CHANGE
strided = np.arange(12).reshape(3, 4).T[1:]
strided[2, 1] += CHANGE
empty = np.zeros((0, 3))
scalar = np.float32(1 + CHANGE)
kept = {"loss": [1.0, np.arange(3)], "name": "n"}
kept["loss"][1][2] += CHANGE
pair = (np.arange(2), (np.arange(3, dtype=np.int8) + CHANGE,))
queue = collections.deque([np.arange(2) + CHANGE])
words = np.array(["a", "b" if CHANGE else "c"])
days = np.array(["2020-01-0%d" % (1 + CHANGE)], dtype="datetime64[D]")
wide = np.array([1, 2 + CHANGE], dtype=np.longdouble) / 3
other_end = np.array([1.0, 2 + CHANGE], dtype=">f8")
rows = np.array([(1, 2.0 + CHANGE)], dtype=[("a", "i1"), ("b", "f8")])
things = np.array(["a", None, 1 + CHANGE], dtype=object)
masked = np.ma.array([1.0, 2.0], mask=[0, CHANGE])
raw = bytearray([1, CHANGE])
numbers = array.array("i", [1, CHANGE])
rng = np.random.default_rng(CHANGE)
old = np.random.RandomState(CHANGE)
mine = random.Random(CHANGE)
np.random.seed(CHANGE)
random.seed(CHANGE)
import time
seconds = time.time()  # follows the clock
number, text, several = 0.25 + CHANGE, "ab"[CHANGE], {"a", 1 + CHANGE}
"""
# the last three: of these containers themselves, their lengths and keys
ONLY_MASK = {"masked", "rows['a']", "pair[0]", "empty", "kept", "pair", "queue"}

# before Python 3.12 (test_script_calls.py has what is said from then on)
FUNCTIONS = "what functions of script.py computed and did not leave in its variables"


def records(folder, text):
    done, traces = watched(folder, "script", text=text)
    assert (done.returncode, done.stderr) == (0, b""), done
    trace = traces["main"]
    return trace, {(r["scope"], r["name"]): r for r in trace.records}


def unseen(trace):
    return [text for key, text in trace.notes if key == "unseen"]


def test_every_variable_is_seen_to_its_last_element(tmp_path):
    trace, one = records(tmp_path / "0", VARIABLES.replace("CHANGE", "0"))
    _, other = records(tmp_path / "1", VARIABLES.replace("CHANGE", "1"))
    assert list(one) == list(other) and not unseen(trace)
    assert not any(r["flags"] & 64 for r in one.values())
    equal = {
        name for scope, name in one if one[scope, name]["digest"] == other[scope, name]["digest"]
    }
    assert equal == ONLY_MASK
    states = [r["name"] for r in one.values() if r["kind"] == "state"]
    assert states == ["rng", "old", "mine", "numpy", "python.random"]
    assert ("held", "%d script.py" % (len(one) - len(states))) in trace.notes


def test_objects_of_the_script_and_its_modules_are_looked_into(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "beside.py").write_text("import numpy\ntable = numpy.arange(3)\n")
    text = """
import numpy as np, beside
class Model:
    def __init__(self): self.w = np.arange(2); self.parts = [self]
model = Model()
"""
    trace, found = records(folder, text)
    at_end = [("script.py", "model.w"), ("script.py", "model"), ("beside", "table")]
    assert [key for key in found if key[0] != "Model.__init__"] == at_end
    assert set(unseen(trace)) <= {FUNCTIONS}


UNSEEN = {
    "library": ("p = np.poly1d([1, 2])", "poly1d) holds"),
    "thread": (
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()",
        "threads of the script that still ran",
    ),
    "program": ("import subprocess\nsubprocess.run(['true'])", "programs that the script started"),
    "runpy": (
        "import runpy\nopen('o.py', 'w').close()\nrunpy.run_path('o.py')",
        "other files ran by runpy",
    ),
    "installed": (
        "import os, sys\nos.makedirs('site-packages/mine')\n"
        "open('site-packages/mine/__init__.py', 'w').write('import numpy\\n')\n"
        "sys.path.insert(0, os.path.abspath('site-packages'))\nimport mine",
        "what the package mine computed",
    ),
    "exec": ("exec('def f(): return np.arange(3)')", "what functions of script.py computed"),
    "module": (
        "import importlib.util as u\nopen('m.py', 'w').write('def f(): pass')\n"
        "s = u.spec_from_file_location('m', 'm.py')\nm = u.module_from_spec(s)",
        "what the module m holds",
    ),
    "queue": ("import queue\nq = queue.Queue(); q.put(x + 1)", "what q (Queue) holds"),
    "iterator": ("i = iter([[x + 1]])", "what i (list_iterator) holds"),
    "generator": ("g = (a for a in [x + 1])", "what g (generator) holds"),
    "partial": ("import functools\np = functools.partial(max, x + 1)", "what p (partial) holds"),
    "method": ("m = (x + 1).sort", "what m (builtin_function_or_method) holds"),
    "thread's own": ("import threading\nt = threading.local(); t.x = x + 1", "what t (_local)"),
    "context": (
        "import contextvars\nc = contextvars.ContextVar('c'); c.set(x + 1)",
        "what c (ContextVar) holds",
    ),
    "memory of C": ("import ctypes\nc = (ctypes.c_int * 3)(1)", "what c (c_int_Array_3) holds"),
    "many": ("many = [np.zeros(1)] * 2 + [np.zeros(1) for _ in range(5000)]", "first 4096"),
    "deep": ("d = [x]\nfor _ in range(20): d = [d]", "nested too deep"),
}


def test_what_a_package_draws_for_itself_is_not_the_scripts(tmp_path):
    text = UNSEEN["installed"][0].replace("import numpy\\n", "import numpy; numpy.random.rand()\\n")
    assert "rand()" in text
    trace, one = records(tmp_path, "import numpy as np\nx = np.arange(3)\n" + text + "\n")
    assert [name for _scope, name in one] == ["x"], one
    assert not any(key.startswith("unseeded") for key, _text in trace.notes), trace.notes


# Objects of Python's own that hold no array, or only such as a variable has shown.
HARMLESS = """
import argparse, collections, datetime, functools, io, itertools, logging, pathlib, queue, re, sys
import threading, time, types
import numpy as np
x = np.arange(3)
log, lock, stream = logging.getLogger("a"), threading.Lock(), io.StringIO()
thread = threading.Thread(target=print, args=("done",)); thread.start(); thread.join()
parser = argparse.ArgumentParser()
arguments = parser.parse_args([])
today, here, pattern, words = datetime.date(2026, 1, 1), pathlib.Path("."), re.compile("a"), "a"
mean, absolute, shout = functools.partial(np.mean, x), np.abs, words.upper
q = queue.Queue(); q.put(x); q.put((1, "a"))
pairs, numbers, each = zip([1], ["a"]), itertools.count(), (v for v in range(3))
double = lambda v: 2 * v
kind = np.dtype("f4")
Point = collections.namedtuple("Point", "x y")
"""


def test_what_holds_no_array_is_not_told(tmp_path):
    done, traces = watched(tmp_path, "script", text=HARMLESS)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"done\n", b""), done
    assert unseen(traces["main"]) == []


def test_variables_of_namespaces_and_classes_are_seen(tmp_path):
    text = """
import argparse, types
import numpy as np
space, given = types.SimpleNamespace(w=np.arange(2)), argparse.Namespace(w=np.arange(3))
Kind = type("Kind", (), {"w": np.arange(4), "__doc__": "none"})
__hidden = np.arange(5)
class Slotted: __slots__ = ("w",)
slotted = Slotted(); slotted.w = np.arange(6)
carrying = lambda y=np.arange(7): y
"""
    trace, found = records(tmp_path, text)
    names = ["space.w", "given.w", "Kind.w", "__hidden", "slotted.w", "carrying[0]"]
    assert [name for _, name in found if name != "carrying"] == names
    assert set(unseen(trace)) <= {FUNCTIONS}


@pytest.mark.parametrize("case", UNSEEN)
def test_what_is_not_looked_at_is_told(case, tmp_path):
    text, told = UNSEEN[case]
    trace, _ = records(tmp_path, "import numpy as np\nx = np.arange(3)\n" + text + "\n")
    assert [told in t for t in unseen(trace)].count(True) == 1, unseen(trace)


def test_an_array_that_cannot_be_read_is_recorded_as_such(tmp_path):
    _, found = records(tmp_path, "import numpy as np\nx = np.array([object()], dtype=object)\n")
    assert found["script.py", "x"]["flags"] & 64


def test_a_table_and_a_sparse_matrix_are_seen_in_their_parts(tmp_path):
    for library in ("pandas", "scipy"):
        if subprocess.run([PYTHON, "-c", "import " + library], capture_output=True).returncode:
            pytest.skip("no " + library)
    text = """
import numpy as np, pandas as pd, scipy.sparse as sp
t = pd.DataFrame({"a": [1.0, 2 + CHANGE], "b": ["x", "y" if CHANGE else "z"]})
c = pd.Series(pd.Categorical(["u", "v" if CHANGE else "u"], categories=["u", "v"]))
i = pd.Series([1, 2], index=[3, 4 + CHANGE])
n = pd.Series([1, None if CHANGE else 2], dtype="Int64")
d = pd.Series(pd.to_datetime(["2020-01-0%d" % (1 + CHANGE)]).tz_localize("UTC"))
f = pd.DataFrame({"a": [1.0]}, index=pd.Index([1], name="n%d" % CHANGE))
f.attrs["w"] = np.arange(2) + CHANGE
k = pd.Series(pd.Categorical(["u"], categories=["u", "v" if CHANGE else "w"]))
m = sp.csr_matrix(([1.0, 2 + CHANGE], ([0, 1], [0, CHANGE])), shape=(2, 2))
"""
    trace, one = records(tmp_path / "0", text.replace("CHANGE", "0"))
    _, other = records(tmp_path / "1", text.replace("CHANGE", "1"))
    assert list(one) == list(other) and not unseen(trace)
    assert not any(r["flags"] & 64 for r in one.values())
    differ = [
        name for key, r in one.items() for name in key[1:] if r["digest"] != other[key]["digest"]
    ]
    tables = ["t['a']", "t['b']", "c", "i.index", "n", "d", "f.attrs['w']", "f.index"]
    assert differ == [*tables, "k.categories", "m.data", "m.indices"]


# ---------------------------------------------------------------- verdicts

FLAT = """
import numpy as np
rng = np.random.default_rng(0)
x = rng.normal(size=(20, 3))
w = np.linalg.lstsq(x, x @ np.array([1.0, 2.0, 3.0]), rcond=None)[0]
"""


def check(folder, text, *command):
    (folder / "fit.py").write_text(text)
    done = subprocess.run(
        [PROGRAM, "check", "--runs", "2", "--json", "--", *(command or (PYTHON, "fit.py"))],
        cwd=folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, json.loads(done.stdout)


def test_a_script_without_functions_can_be_same_and_says_what_was_compared(tmp_path):
    code, verdict = check(tmp_path, FLAT)
    assert code == 0, verdict
    assert (
        "of fit.py was compared what its variables held when it ended, 2 arrays, and the states of "
        "its generators; not what it computed on the way"
    ) in verdict["notes"], verdict


def test_a_generator_without_a_seed_differs_and_is_no_origin(tmp_path):
    code, verdict = check(tmp_path, FLAT.replace("rng(0)", "rng()"))
    assert code == 1, verdict
    assert verdict["first"]["name"] == "rng" and verdict["first"]["role"] == "unknown", verdict


def test_a_script_whose_functions_have_no_file_is_never_same(tmp_path):
    code, verdict = check(tmp_path, FLAT + "exec('def fit(): pass')\n")
    assert code == 3, verdict


def test_a_script_beside_another_program_is_never_same(tmp_path):
    code, verdict = check(tmp_path, FLAT, "sh", "-c", f"true; '{PYTHON}' fit.py; true")
    assert code == 3, verdict
    said = re.compile("what the job's [0-9]+ processes computed on the way")
    assert any(said.fullmatch(text) for text in verdict["unseen"]), verdict
