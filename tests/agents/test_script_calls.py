# SPDX-License-Identifier: Apache-2.0
"""Functions of scripts of NumPy: what they hold is compared, what differs is placed, and what was
not looked at keeps a verdict from "same". From Python 3.12 on (TWINRUN_NEWER_PYTHON).
"""

import os
import re
import subprocess

import pytest
from native import clean_environment
from newer_python import MARKS, PYTHON
from script_mutants import BEGIN, DRAWN, MUTANTS
from test_script_end import PROGRAM, check
from torch_observed import HERE

pytestmark = MARKS


def mutant(name, drawn):
    return MUTANTS[name][0].replace("DRAWN", DRAWN % drawn)


def check_script(folder, text):
    (folder / "beside.py").write_text("import numpy\ntable = numpy.arange(3)\n")
    (folder / "s.py").write_text(text)
    return check(folder, "", PYTHON, "s.py")


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_differs_where_it_was_made(name, tmp_path):
    variable, line = MUTANTS[name][1]
    code, verdict = check_script(tmp_path, BEGIN + mutant(name, 1))
    first = verdict["first"]
    assert (code, first["name"], first["role"]) == (1, variable, "unknown"), verdict
    assert line is None or first["source"][0] == line, first


def test_all_of_them_that_do_not_differ_are_same(tmp_path):
    """One script; the last is the one that ends the script."""
    order = [name for name in MUTANTS if name != "exit"] + ["exit"]
    text = BEGIN + "".join(mutant(name, 0) for name in order)
    code, verdict = check_script(tmp_path, text)
    assert (code, verdict["unseen"]) == (0, []), verdict


def test_the_verdict_counts_functions_calls_and_what_follows_the_clock(tmp_path):
    text = (
        "import time\nimport numpy as np\ndef f(i):\n    return i * 2\ndef main():\n"
        "    began = time.time()\n    for i in range(1000):\n        f(i)\n    w = np.ones(3)\n"
        "    took = time.time() - began\nmain()\n"
    )
    code, verdict = check_script(tmp_path, text)
    assert code == 0, verdict
    assert (
        "of s.py was compared what its variables held when it ended, 0 values, the states of its "
        "generators, and what its 2 functions were given, gave back and held at their ends, "
        "1001 calls; not each line on the way"
    ) in verdict["notes"], verdict
    assert (
        "numbers and texts that follow the clock were left out: began (main), took (main)"
    ) in verdict["notes"]


HIDES = "    hidden = np.zeros(2) + int.from_bytes(os.urandom(4), 'big')\n"
# name -> (text, what the verdict must tell as unseen): each hides what differs where nobody looks
UNSEEN = {
    "thread": (
        "import threading\ndef work():\n" + HIDES + "t = threading.Thread(target=work)\n"
        "t.start()\nt.join()\n",
        "calls of work on other threads",
    ),
    "coroutine": (
        "import asyncio\nasync def work():\n"
        + HIDES
        + "    after()\ndef after():\n"
        + HIDES
        + "asyncio.run(work())\n",
        "not watched from the coroutine work on",
    ),
    "signal": (
        "import signal\ndef handler(number, frame):\n"
        + HIDES
        + "signal.signal(signal.SIGUSR1, handler)\nsignal.raise_signal(signal.SIGUSR1)\n",
        "what handler computed, which is called with a frame",
    ),
    "process": (
        "import multiprocessing\ndef work(i):\n" + HIDES + "if __name__ == '__main__':\n"
        "    p = multiprocessing.get_context('fork').Process(target=work, args=(1,))\n"
        "    p.start()\n    p.join()\n",
        "what programs that the script started computed",
    ),
    "many calls": (
        "def f(i):\n    if i == 1500 or i == 19000:\n    " + HIDES + "    return i\n"
        "for i in range(20000):\n    f(i)\n",
        # of 1024 to 16384 each 64th, then each 128th and so on
        "calls of functions: more than 15296 of f (looked at: 1088)",
    ),
    "deep": (
        "def down(n):\n    if n == 70:\n    " + HIDES + "    return down(n - 1) if n else 0\n"
        "down(200)\n",
        "of down (looked at: 64)",
    ),
    "unknown object": (
        "def f():\n    return np.poly1d([int.from_bytes(os.urandom(4), 'big')])\nf()\n",
        "what result (numpy.poly1d) holds, in f",
    ),
    "nothing": (
        "def say():\n    import time\n    count = 3\n    print(time.strftime('%H:%M:%S'))\nsay()\n",
        "arrays and numbers with a point: the script and its functions held none",
    ),
}


@pytest.mark.parametrize("name", UNSEEN)
def test_what_differs_where_nobody_looks_is_never_same(name, tmp_path):
    text, told = UNSEEN[name]
    kept = "" if name == "nothing" else "kept = np.arange(3)\n"
    code, verdict = check_script(tmp_path, BEGIN + kept + text)
    assert code == 3 and any(told in text for text in verdict["unseen"]), verdict


# A signal comes at a chosen place: another one in the second run. WHEN: in which call of step()
SIGNALLED = """
import os, signal, sys
import numpy as np
sys.second = os.path.exists("second")  # no variable of the job, which would differ itself
open("second", "w").close()
kept = np.zeros(3)

def saved(w):
    hidden = w * HIDDEN
    for i in parts(hidden):
        kept[0] = KEPT

def parts(w):
    for i in range(2):
        yield w[i]

def handler(number, frame):
    saved(np.ones(3))

class Handler:
    def __call__(self, *given):
        saved(np.ones(3))

def step(w, i):
    if i == (WHEN):
        signal.raise_signal(signal.SIGUSR1)
    saved(w)
    return w * 0.5

def main():
    signal.signal(signal.SIGUSR1, HANDLER)
    w = np.arange(3.0)
    for i in range(6):
        w = step(w, i)

main()
"""


def check_signalled(folder, handler="handler", when="4 if sys.second else 2", hidden="1", kept="1"):
    text = SIGNALLED.replace("HANDLER", handler).replace("WHEN", when)
    return check_script(folder, text.replace("HIDDEN", hidden).replace("KEPT", kept))


@pytest.mark.parametrize("handler", ["handler", "Handler()"])
def test_where_a_signal_came_is_no_difference(handler, tmp_path):
    code, verdict = check_signalled(tmp_path, handler)
    assert code == 3, verdict
    told = " and ".join(verdict["unseen"])
    name = "handler" if handler == "handler" else "Handler.__call__"
    assert f"what {name} computed, which is called with a frame" in told, told
    for function in ("saved", "parts"):
        assert f"calls of {function} by what is called with a frame" in told, told


def test_what_differs_in_a_handler_is_never_same(tmp_path):
    """Hidden in it, nobody looks; what it leaves to the script is compared."""
    code, verdict = check_signalled(tmp_path, hidden="(1 if w[0] == 0 or not sys.second else 2)")
    assert code == 3 and verdict["unseen"], verdict
    (tmp_path / "second").unlink()
    code, verdict = check_signalled(tmp_path, kept="2 if w[0] and sys.second else kept[0]")
    assert code == 1 and verdict["first"]["name"] == "kept", verdict


RAISES = """
import os, sys
import numpy as np
sys.second = os.path.exists("second")
open("second", "w").close()

def f(w):
    raise RAISED

def main():
    w = np.ones(3)
    try:
        f(w)
    except LookupError as error:
        kept = len(str(error)) * KEPT

main()
"""


@pytest.mark.parametrize(
    "raised, kept, name",
    [
        ("(KeyError if sys.second else IndexError)()", "0.5", "exception"),
        ("KeyError('%d at %#x' % (os.getpid(), id(object())))", "0", None),
        ("KeyError('x' * (2 if sys.second else 1))", "0.5", "kept"),
    ],
)
def test_of_an_exception_the_type_is_compared_and_what_is_made_of_its_text(
    raised, kept, name, tmp_path
):
    code, verdict = check_script(tmp_path, RAISES.replace("RAISED", raised).replace("KEPT", kept))
    if name is None:
        assert (code, verdict["unseen"]) == (0, []), verdict
    else:
        assert (code, verdict["first"]["name"]) == (1, name), verdict


def test_names_that_the_verdict_has_no_room_for_keep_it_from_same(tmp_path):
    lines = "".join("    began_%030d = time.time()\n" % i for i in range(20))
    text = BEGIN + "import time\ndef main():\n    w = np.ones(3)\n" + lines + "main()\n"
    code, verdict = check_script(tmp_path, text)
    said = "numbers and texts in too many variables that follow the clock: "
    assert code == 3 and any(said in text for text in verdict["unseen"]), verdict


LOOPS = """
import os, sys, warnings
import numpy as np
from sklearn.preprocessing import StandardScaler
sys.second = os.path.exists("second")  # no variable of the job, which would differ itself
open("second", "w").close()
warnings.simplefilter("ignore")

class Plain:
    def fit(self, X):
        self.w = np.zeros(3) + CHANGE
        return self

def train(X):
    w = np.zeros(5)
    for _ in range(3):
        w -= 0.1 * (X.T @ (X @ w - 1.0))
    hidden = w + OTHER

scaled = StandardScaler().fit_transform(np.random.default_rng(0).normal(size=(20, 5)))
train(scaled)
Plain().fit(scaled)
"""


@pytest.mark.parametrize("change, other, name", [("0", "0", None), ("sys.second", "0", "self.w")])
def test_loops_and_classes_beside_fits_are_compared(change, other, name, tmp_path):
    text = LOOPS.replace("CHANGE", change).replace("OTHER", other)
    code, verdict = check_script(tmp_path, text)
    if name is None:
        assert (code, verdict["unseen"]) == (0, []), verdict
    else:
        assert code == 1 and verdict["first"]["name"] == name, verdict


def test_a_function_that_began_before_numpy_was_imported_is_told(tmp_path):
    text = "import os\ndef main():\n    import numpy as np\n" + HIDES + "    inner(np)\n"
    text += "def inner(np):\n    return np.arange(3)\nmain()\n"
    code, verdict = check_script(tmp_path, text)
    assert code == 3, verdict
    assert any("main ran before NumPy was imported" in text for text in verdict["unseen"]), verdict


def test_the_job_does_not_notice(tmp_path):
    """Its output is its own, to the depth of a recursion, under a debugger's function, too."""
    job = [PYTHON, os.path.join(HERE, "script_jobs", "alone.py")]
    env = clean_environment()
    told = dict(cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    alone = subprocess.run(job, **told)
    watched = subprocess.run([PROGRAM, "record", "--", *job], **told)
    assert (alone.returncode, alone.stderr) == (0, ""), alone
    assert (watched.returncode, watched.stdout) == (0, alone.stdout), watched
    run = re.search(r"recorded in (.*)", watched.stderr).group(1)
    notes = subprocess.run([PROGRAM, "show", run], **told).stdout
    assert int(re.search(r"(\d+) records", notes).group(1)) > 400, notes  # so it was watched
