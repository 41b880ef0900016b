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
