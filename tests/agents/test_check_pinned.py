# SPDX-License-Identifier: Apache-2.0
"""`check --pinned` proves what isolate found; recheck refutes each lie about the pins."""

import copy
import json
import shutil
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "python"))
try:
    from twinrun import recheck
finally:
    sys.path.pop(0)

JOB = """
    import array, hashlib, twinrun
    from helper import number
    for step in range(3):
        twinrun.record("batch:x", array.array("d", [step, number()]))
        twinrun.record("weights", array.array("d", [step * number()]))
        twinrun.step()
"""
SALTED = """
    def number():
        return hash("word") % 2**31
"""


@pytest.fixture
def proven(twinrun, script, home):
    """The verdict of pinned runs whose cause was found before, and its job."""
    script("job.py", JOB)
    script("helper.py", SALTED)
    job = ["python3", "job.py"]
    found = twinrun("isolate", "-q", "--json", "--pin", "hash-seed,aslr", "--", *job)
    assert found.rc == 1 and found.json["causes"][0]["factor"] == "hash-seed", found
    assert found.json["then"] == "twinrun check --pinned -- python3 job.py", found.json["then"]
    done = twinrun("check", "-q", "--json", "--pinned", "--", *job)
    assert (done.rc, done.json["outcome"]) == (0, "same"), done
    newest = max((home / "searches").glob("2*"))
    assert done.json["pinned"] == {"factors": ["hash-seed"], "search": str(newest), "held": True}
    return done.json, job


def refuted(verdict, path, folders=()):
    path.write_text(json.dumps(verdict))
    return [kind for state, kind, _ in recheck.recheck(str(path), folders) if state == "refuted"]


def lies_are_refuted(verdict, path):
    claims = verdict["claims"]
    at = next(i for i, c in enumerate(claims) if c["claim"] == "pinned")

    def lie(change):
        other = copy.deepcopy(verdict)
        change(other)
        return refuted(other, path)

    assert "verdict" in lie(lambda v: v["claims"].pop(at)), "no claim of the pins"
    assert "verdict" in lie(lambda v: v.pop("pinned")), "a verdict of the job as it is"
    assert "pinned" in lie(lambda v: v["pinned"].update(factors=["hash-seed", "threads"]))

    def both(v, factors):
        v["pinned"]["factors"] = v["claims"][at]["factors"] = factors

    for other in (["aslr"], ["seed.python"], ["hash-seed", "entropy"], ["threads"], []):
        assert "pinned" in lie(lambda v, other=other: both(v, other)), other

    def loose(v):
        v["pinned"]["held"] = v["claims"][at]["held"] = False

    assert "pinned" in lie(loose), "pins that did nothing prove nothing"


def runs_that_say_otherwise_refute_their_pin(verdict, folder):
    copies = [shutil.copytree(d, folder / f"run{i}") for i, d in enumerate(verdict["runs_dir"])]
    factors = copies[1] / "factors"
    said = factors.read_text()
    for was, now in (("env.PYTHONHASHSEED\t0", "env.PYTHONHASHSEED\t5"), ("\tenv.", "\tunset.")):
        assert was in said
        factors.write_text(said.replace(was, now))
        found = refuted(verdict, folder / "said.json", [str(c) for c in copies])
        assert found == ["pinned"], (now, found)


def test_what_isolate_found_is_proven_and_no_lie_about_it(proven, twinrun, script, tmp_path):
    verdict, job = proven
    assert refuted(verdict, tmp_path / "said.json") == []
    lies_are_refuted(verdict, tmp_path / "said.json")
    runs_that_say_otherwise_refute_their_pin(verdict, tmp_path)
    # What the pin holds is gone, and with it the divergence: the pin is on all the same, and that
    # is all that is said.
    script("helper.py", "def number():\n    return 4\n")
    done = twinrun("check", "-q", "--pinned", "--", *job)
    assert done.rc == 0 and "with hash-seed pinned: 3 steps" in done.out, done
    assert "not of the job as it is" in " ".join(done.out.split()), done
    # a cause that the pin does not reach
    script(
        "helper.py", "import os\ndef number():\n    return int.from_bytes(os.urandom(6), 'big')\n"
    )
    done = twinrun("check", "-q", "--json", "--pinned", "--", *job)
    assert (done.rc, done.json["outcome"], done.json["pinned"]["held"]) == (1, "differ", True), done
