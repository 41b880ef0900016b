# SPDX-License-Identifier: Apache-2.0
"""`isolate --a --b` of commands that compute with other numbers of PyTorch's threads: whether what it
finds acts through that number is an experiment of its own, and its claim is held against the runs.

The job needs no PyTorch: it tells its number as PyTorch's agent does, and obeys as that does
(test_check_threads.py has the agent itself).
"""

import json
import math
import shlex
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "python"))

from twinrun import recheck  # noqa: E402

# FILE MORE HOW: the number of threads stands in the file, so that no option has it
JOB = """
import array, os, sys, twinrun
own = int(open(sys.argv[1]).read())
held = dict(item.split(":") for item in filter(None, os.environ.get("TWINRUN_TORCH_THREADS", "").split(",")))
threads = int(held.get("0", own)) if sys.argv[3] != "deaf" else own
assert sys.argv[3] != "strict" or threads == own
tells = 2 if sys.argv[3] == "turn" and "b_again" in os.environ["TWINRUN_RUN_DIR"] else threads
with open("%s/worlds/0.%d" % (os.environ["TWINRUN_RUN_DIR"], os.getpid()), "a") as told:
    told.write("setting\\tthreads %d\\n" % tells * 2)
w = array.array("d", [1.0])
for step in range(4):
    twinrun.record("batch:x", array.array("d", [step]))
    w = array.array("d", [v * 0.9 + step + threads / 8 + float(sys.argv[2]) for v in w])
    twinrun.record("weight:w", w)
    twinrun.step()
"""


def searched(twinrun, python, script, a, b):
    script("job.py", JOB)
    for n in (2, 3):
        script("%d.txt" % n, "%d\n" % n)
    command = shlex.quote(python) + " job.py "
    done = twinrun("isolate", "--json", "-q", "--a", command + a, "--b", command + b, timeout=300)
    assert done.rc == 1, done
    return done.json


def test_it_acts_through_the_number(twinrun, python, home, script):
    found = searched(twinrun, python, script, "2.txt 0 -", "3.txt 0 -")
    assert [c["factor"] for c in found["causes"]] == ["arg:2"]
    threads = found["threads"]
    assert sorted(threads.pop("arrangement")) == list("FFFFHHH")
    assert math.isclose(threads.pop("p"), 1 / 35, rel_tol=1e-8)
    assert threads == {
        "end": "through",
        "of_a": "2",
        "of_b": "3",
        "held": {"trials": 3, "diverged": 0},
        "free": {"trials": 4, "diverged": 4},
    }
    held = [p for p in (home / "runs").iterdir() if "b_held" in p.name]
    assert len(held) == 3
    path = Path(found["folder"]) / "verdict.json"
    assert claims(path) == []
    assert lies(path) == []


def test_what_does_not_act_through_it(twinrun, python, home, script):
    """The commands differ in the number, and in a value that changes the result by itself."""
    found = searched(twinrun, python, script, "2.txt 0 -", "3.txt 1 -")
    assert found["threads"]["end"] == "not-alone"
    assert found["threads"]["held"] == {"trials": 1, "diverged": 1}
    assert found["threads"]["p"] == 1
    path = Path(found["folder"]) / "verdict.json"
    assert claims(path) == []
    assert lies(path) == []


@pytest.mark.parametrize(
    "a, b, end",
    [
        ("3.txt 0 -", "3.txt 1 -", None),  # they have one number
        ("2.txt 0 turn", "3.txt 0 turn", "alike"),  # it is A's in a run of B as it is
        ("2.txt 0 deaf", "3.txt 0 deaf", "not-held"),
        ("2.txt 0 strict", "3.txt 0 strict", "failed"),
    ],
)
def test_where_nothing_can_be_said(twinrun, python, home, script, a, b, end):
    found = searched(twinrun, python, script, a, b)
    assert (found["threads"] or {}).get("end") == end
    path = Path(found["folder"]) / "verdict.json"
    assert claims(path) == []
    assert [c for c in json.loads(path.read_text())["claims"] if c["claim"] == "threads"] == []


def claims(path, change=None):
    """What of a verdict is refuted, changed or as it is."""
    verdict = json.loads(path.read_text())
    if change:
        change(verdict)
    changed = path.with_name("claims-under-test.json")
    changed.write_text(json.dumps(verdict))
    return [kind for state, kind, _ in recheck.recheck(str(changed)) if state == "refuted"]


def lies(path):
    """Changes of the claim, or of the runs that it names, that are confirmed all the same."""

    def set_to(key, value):
        return lambda claim, _: claim.update({key: value})

    def turned(claim, _):
        other = {"H": "F", "F": "H"}
        claim["arrangement"] = "".join(other[c] for c in claim["arrangement"])

    def rotated(claim, _):
        claim["arrangement"] = claim["arrangement"][1:] + claim["arrangement"][0]
        if claim["arrangement"] == original["arrangement"]:
            claim["arrangement"] = "x"

    def again(claim, _):
        claim["runs"] = (
            [*claim["runs"][:-1], claim["runs"][0]] if claim["runs"][1:] else claim["runs"] * 2
        )

    def of_the_search(claim, verdict):
        world = next(c for c in verdict["claims"] if c["claim"] == "confirmation")["worlds"][0]
        claim["runs"][0] = world["runs"][0]["run"]

    def shorter(claim, _):
        claim["runs"].pop()

    original = next(c for c in json.loads(path.read_text())["claims"] if c["claim"] == "threads")
    out = []
    for name, change in (
        ("through", set_to("through", not original["through"])),
        ("p", set_to("p", original["p"] / 2)),
        ("reference", set_to("reference", original["reference"] + 1)),
        ("turned", turned),
        ("rotated", rotated),
        ("again", again),
        ("of the search", of_the_search),
        ("shorter", shorter),
        ("none", set_to("runs", [])),
        ("no numbers", set_to("runs", ["1"] * len(original["runs"]))),
    ):

        def apply(verdict, change=change):
            change(next(c for c in verdict["claims"] if c["claim"] == "threads"), verdict)

        if "threads" not in claims(path, apply):
            out.append(name)
    return out
