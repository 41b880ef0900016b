# SPDX-License-Identifier: Apache-2.0
"""Where a resumed job goes on: its place is found at any step, large weights are compared behind
it, and the optimizer's state that it has loaded is compared with what the whole job had.
"""

import re

import pytest

pytestmark = pytest.mark.usefixtures("light")

JOB = """
import os, sys, torch
last, kind = int(sys.argv[1]), sys.argv[2]
torch.manual_seed(0)
model = torch.nn.Linear(256, 257)
optimizer = {"sgd": lambda p: torch.optim.SGD(p, lr=.01), "momentum": lambda p: torch.optim.SGD(p, lr=.01, momentum=.9),
             "adam": lambda p: torch.optim.Adam(p, lr=.001)}[kind](model.parameters())
first = 0
if "--resume" in sys.argv:
    state = torch.load("state.pt")
    model.load_state_dict(state["model"])
    first = state["step"]
    if "--halved" in sys.argv:
        state["optimizer"]["state"][0]["momentum_buffer"] *= .5
    if "--forget" not in sys.argv:
        optimizer.load_state_dict(state["optimizer"])
for step in range(first, last):
    x = torch.randn(8, 256, generator=torch.Generator().manual_seed(step))
    if "--late" in sys.argv and step == last - 1:
        with torch.no_grad():
            model.weight[200, 200] += 1e-6
    optimizer.zero_grad()
    model(x).pow(2).mean().backward()
    optimizer.step()
if "--save" in sys.argv:
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": last}, "state.pt")
"""


def arms(twinrun, python, work, seam, steps, kind, *more):
    (work / "job.py").write_text(JOB)
    whole = "%s job.py %d %s" % (python, seam + steps, kind)
    resumed = "%s job.py %d %s --save && %s --resume %s" % (
        python,
        seam,
        kind,
        whole,
        " ".join(more),
    )
    return twinrun(
        "check", "-q", "--json", "--no-zoom", "--runs", "2", "--a", whole, "--b", resumed
    )


@pytest.mark.parametrize(
    "seam, kind", [(3, "sgd"), (20, "sgd"), (200, "sgd"), (20, "momentum"), (20, "adam")]
)
def test_a_seam_at_any_step(twinrun, python, work, seam, kind):
    done = arms(twinrun, python, work, seam, 24, kind)
    assert done.rc == 0 and done.json["outcome"] == "same", done
    shares = [
        note
        for note in done.json["notes"]
        if note.startswith("weights: of tensors of 65,536 elements")
    ]
    said = re.search("each at least every ([0-9]+) steps, and all of them at the end", shares[0])
    assert len(shares) == 1 and said and int(said[1]) <= 16, done.json["notes"]


def test_state_that_was_loaded_differs_at_the_seam(twinrun, python, work):
    done = arms(twinrun, python, work, 20, 4, "momentum", "--halved")
    first = done.json["first"]
    assert done.rc == 1 and (first["kind"], first["role"]) == ("moment", "origin"), done
    assert first["name"].startswith("weight.momentum_buffer") and first["step"] == 19, done
    assert "at the seam, after step 19" in done.out and not first["between"], done


def resumed(twinrun, python, work, *more):
    """The zoom runs again what one command made, so that the resumed job is one here."""
    (work / "job.py").write_text(JOB)
    job = python + " job.py"
    resume = " ".join([job, "8 adam --resume", *more])
    return twinrun(
        *("check", "-q", "--json", "--runs", "2", "--half", job + " 4 adam --save"),
        *("--resume-with", resume, "--", python, "job.py", "8", "adam"),
    )


def test_the_set_up_of_a_resumed_run_is_no_difference(twinrun, python, work):
    """Its first step holds the operations of the set-up, which the whole run made long before."""
    done = resumed(twinrun, python, work, "--forget")
    first = done.json["first"]
    assert done.rc == 1 and (first["phase"], first["kind"]) == ("optimizer", "moment"), done
    assert first["step"] == done.json["b_starts_at"] == 4, done
    assert done.json["seen_before"][0]["id"] == "resume-optimizer", done
    assert not any("zoom" in note for note in done.json["notes"]), done


def test_an_operation_of_a_later_step_is_named(twinrun, python, work):
    done = resumed(twinrun, python, work, "--late")
    first = done.json["first"]
    assert done.rc == 1 and (first["step"], done.json["b_starts_at"]) == (7, 4), done
    line = 1 + JOB[: JOB.index("model.weight[200, 200] +=")].count("\n")
    assert first["op"] == "aten::add_" and "job.py:%d " % line in str(first), done


def test_parts_of_large_weights_over_a_seam(twinrun, python, work):
    """In step 22 the whole run has a part of the weights, the resumed one, in its step 2, all."""
    done = arms(twinrun, python, work, 20, 4, "adam", "--late")
    assert done.rc == 1 and done.json["first"]["step"] == 23, done
    assert "weights" in done.json["equal_before"], done  # and recheck confirms it
    assert done.json["first"]["between"][1].endswith(", as run 2 counts its steps"), done
