# SPDX-License-Identifier: Apache-2.0
"""Checklists of operations (audit --checklist): each item passes when its evidence is there, fails
when the evidence says no, and is not known when there is none.
"""

import json
import subprocess
import sys
import time

import pytest
from ledger_by_hand import Ledger

DAY = 86400 * 10**9
PRE = ["Code and", "The container", "The data's", "Seeds", "Deterministic"]
PRODUCTION = ["Repeats", "Artifacts", "Dashboards", "A rollback", "No rollout"]
INCIDENT = ["The run", "The data's", "Operator", "Digests", "Rolled", "No rollout"]
INCIDENT += ["The postmortem"]
JOB = "import random\nrandom.seed(7)\nopen('m.bin', 'w').write('x' if %r else 'y')\n"


@pytest.fixture
def answers(twinrun, home):
    """answers(list, target) -> {begin of item: answer}, in order"""

    def call(name, target="last", items=()):
        done = twinrun("audit", "--json", target, "--checklist", name)
        assert done.rc in (0, 1), done
        found = done.json["targets"][0]["checklist"]
        assert all(x["because"] for x in found), done
        assert [x["item"].startswith(i) for x, i in zip(found, items, strict=True)], done
        return {i: x["answer"] for x, i in zip(found, items, strict=True)}

    return call


class Events:
    """Events of a project, in a home's ledger; times count from now."""

    def __init__(self, home):
        self.ledger = Ledger(home)

    def __call__(self, kind, outcome, after, project="mine"):
        self.ledger.event(kind, outcome, time.time_ns() + after, project)
        self.ledger.done()


def git(folder, *argv):
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *argv], cwd=folder,
                   check=True, capture_output=True, timeout=30)  # fmt: skip


@pytest.fixture
def job(twinrun, work, script):
    """job(...options, env=, commit=) records one run of a job in a checkout."""
    script("job.py", JOB % True)

    def call(*options, env=None, commit=True):
        if commit:
            git(work, "init", "-q")
            (work / ".gitignore").write_text("m.bin\ndata*\n")
            git(work, "add", "job.py", ".gitignore")
            git(work, "commit", "-qm", "x")
        done = twinrun(
            "record",
            "-q",
            *options,
            "--",
            sys.executable,
            "job.py",
            env={"TWINRUN_PROJECT": "mine", **(env or {})},
        )
        assert done.rc == 0, done

    return call


def test_before_production(job, answers, work, twinrun):
    job(commit=False)
    found = answers("pre-production", items=PRE)
    assert found["Code and"] == "fail"  # it is kept, and it is no version
    assert found["The data's"] == "fail" and found["Deterministic"] == "not known"
    assert found["The container"] != "pass"
    (work / "data").mkdir()
    (work / "data" / "x").write_text("1")
    assert twinrun("snapshot", "data", cwd=work).rc == 0
    job("--data", "data", env={"IMAGE_DIGEST": "r/x@sha256:" + "0" * 64})
    found = answers("pre-production", items=PRE)
    assert found["The container"] == "pass" and found["The data's"] == "pass", found
    assert found["Code and"] == "pass", found
    (work / "helper.py").write_text("")  # code, or something else? git does not know it
    job("--data", "data", commit=False)
    assert answers("pre-production", items=PRE)["Code and"] == "not known"
    (work / "helper.py").unlink()
    # a change that is not committed is recorded, and is no version
    (work / "job.py").write_text(JOB % True + "# changed\n")
    job("--data", "data", env={"IMAGE_DIGEST": "r/x:latest"}, commit=False)
    found = answers("pre-production", items=PRE)
    assert found["Code and"] == "fail" and found["The container"] != "pass", found


def test_without_a_run_or_a_ledger(answers, work, twinrun):
    (work / "f").mkdir()
    for name, items in (("production", PRODUCTION), ("incident", INCIDENT)):
        assert "pass" not in answers(name, "f", items).values()


def test_in_production(job, answers, home, twinrun):
    job()
    assert set(answers("production", items=PRODUCTION).values()) == {"not known"}
    event = Events(home)
    event("drill", "restored", -DAY)
    event("artifact", "verified", -DAY)
    found = answers("production", items=PRODUCTION)
    assert (found["A rollback"], found["Artifacts"]) == ("pass", "pass"), found
    assert found["Dashboards"] == found["Repeats"] == "not known"
    event("drill", "failed", -DAY)
    event("artifact", "unsigned", -DAY)
    found = answers("production", items=PRODUCTION)
    assert (found["A rollback"], found["Artifacts"]) == ("fail", "fail"), found


def test_old_or_others_events_do_not_count(job, answers, home):
    job()
    event = Events(home)
    event("drill", "restored", -40 * DAY)
    event("artifact", "verified", -DAY, project="another")
    assert set(answers("production", items=PRODUCTION).values()) == {"not known"}


def test_in_an_incident(job, answers, home, twinrun, work):
    job()
    found = answers("incident", items=INCIDENT)
    assert found["The run"] == "pass"
    unseen = ("Operator", "Digests", "Rolled", "The postmortem")
    assert all(found[i] == "not known" for i in unseen), found
    event = Events(home)
    event("rollback", "restored", -DAY)  # before the run began
    assert answers("incident", items=INCIDENT)["Rolled"] == "not known"
    event("rollback", "restored", 1)
    assert answers("incident", items=INCIDENT)["Rolled"] == "pass"
    event("rollback", "failed", 2)
    assert answers("incident", items=INCIDENT)["Rolled"] == "fail"


def test_text_and_what_is_refused(job, twinrun):
    job()
    done = twinrun("audit", "last", "--checklist", "production")
    assert "  not known  Dashboards and alerts are live\n" in done.out, done
    done = twinrun("audit", "last", "--checklist", "operations")
    assert done.rc == 2 and "pre-production, production or incident" in done.err, done
    assert json.loads(twinrun("audit", "last", "--json").out)["targets"][0].get("checklist") is None
