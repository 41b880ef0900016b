# SPDX-License-Identifier: Apache-2.0
"""What a person is told to do next, in PyTorch jobs: `check --resume-with`, the zoom of scratch
copies, suggestions that can be pasted.
"""

import json
import re
import shlex

import pytest
from conftest import FULL, ROOT

pytestmark = pytest.mark.usefixtures("light")

RESUMED = """
import os, sys, torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=.1, momentum=.9)
first = 0
if "--resume" in sys.argv and os.path.exists("state.pt"):
    state = torch.load("state.pt")
    model.load_state_dict(state["model"])
    first = state["step"]
    if "--whole" in sys.argv:
        optimizer.load_state_dict(state["optimizer"])
x = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))
for step in range(first, 6):
    optimizer.zero_grad()
    model(x * (1 + step)).pow(2).mean().backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}, "state.pt")
"""

NOISY = """
import os, torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=.1)
for step in range(3):
    noise = int.from_bytes(os.urandom(2), "big") if step == 1 else 1
    optimizer.zero_grad()
    (model(torch.randn(8, 4)).pow(2).mean() * noise).backward()
    optimizer.step()
"""


def test_resume_with_names_what_the_seam_lost(twinrun, python, work):
    (work / "job.py").write_text(RESUMED)
    job = [python, "job.py"]
    resume = shlex.join([*job, "--resume"])
    lost = twinrun(
        *("check", "-q", "--json", "--html", "page.html", "--no-zoom", "--runs", "2"),
        *("--resume-with", resume, "--", *job),
    )
    assert lost.rc == 1, lost
    assert "again, once that is saved and restored" in (work / "page.html").read_text()
    first = lost.json["first"]
    assert first["kind"] == "moment" and first["name"].endswith("momentum_buffer"), lost
    whole = twinrun(
        "check", "-q", "--json", "--runs", "2", "--resume-with", resume + " --whole", "--", *job
    )
    assert (whole.rc, whole.json["outcome"]) == (0, "same"), whole
    assert not (work / "state.pt").exists(), "a run has written into the job's own folder"


def test_a_zoom_that_takes_too_long_leaves_the_verdict_as_it_was(twinrun, python, work):
    slow = "import os, time\ntime.sleep(2 * (os.environ.get('TWINRUN_LEVEL') == 'ops'))\n"
    (work / "job.py").write_text(slow + NOISY)  # longer than its limit in each rerun
    plain = twinrun("check", "-q", "--json", "--no-zoom", "--runs", "2", "--", python, "job.py")
    done = twinrun(
        "check", "-q", "--json", "--zoom-time", "1", "--runs", "2", "--", python, "job.py"
    )
    assert done.rc == plain.rc == 1, done
    same = ("step_a", "phase", "kind", "name", "op", "role")
    assert [done.json["first"].get(k) for k in same] == [
        plain.json["first"].get(k) for k in same
    ], done
    cut = [
        note for note in done.json["notes"] if note.startswith("zoom: cut short at its limit of 1")
    ]
    assert (
        cut
        and "before it named an operation; --zoom-time gives it more, and twinrun zoom on the two runs has no limit"
        in cut[0]
    ), done.json["notes"]


def test_suggestions_after_runs_in_scratch_copies(twinrun, python, work):
    (work / "job.py").write_text(NOISY)
    done = twinrun("check", "-q", "--no-zoom", "--runs", "2", "--fresh-dir", "--", python, "job.py")
    assert done.rc == 1, done
    zoom = next(
        line[line.index("twinrun zoom") :]
        for line in done.out.splitlines()
        if "twinrun zoom" in line
    )
    assert zoom.startswith("twinrun zoom --window ") and " --fresh-dir " in zoom, done
    pasted = twinrun(*shlex.split(zoom.split("   ")[0])[1:])
    assert pasted.rc == 1 and "aten::" in pasted.out, pasted
    refused = twinrun("zoom", "last~3", "last~2")
    assert (
        refused.rc == 2 and "scratch copy" in refused.err and "--fresh-dir --window" in refused.err
    ), refused


UNSEEDED = """
import torch

def make():
    return torch.randn(8, 4)

torch.randn(2, generator=torch.Generator().manual_seed(1))
x = make()
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=.1)
for step in range(3):
    optimizer.zero_grad()
    model(x).pow(2).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("wrapped", [False, True], ids=["alone", "in a shell"])
def test_the_line_that_draws_is_the_headline(wrapped, twinrun, python, work, home):
    """Nobody seeded torch: the finding is its generator, and the place is the user's line that drew
    from it first; not the one before, whose generator has a seed. The reruns end behind that draw,
    where the job is the launcher's child and not a process that the job has started.
    """
    (work / "job.py").write_text(UNSEEDED)
    job = [python, "job.py"]
    if wrapped:
        job = ["sh", "-c", shlex.join(job) + "; exit $?"]
    done = twinrun("check", "-q", "--github", "--runs", "2", "--", *job)
    assert done.rc == 1, done
    assert "aten::randn   job.py:5 in make" in done.out, done
    assert "::error file=job.py,line=5," in done.out, done
    tasks = json.loads((ROOT / "ci/vscode/tasks.json").read_text())["tasks"]
    pattern = tasks[0]["problemMatcher"]["pattern"]  # what an editor looks for
    met = re.search(pattern["regexp"], done.out, re.M)
    assert met and met.group(pattern["file"], pattern["line"]) == ("job.py", "5"), done
    assert "torch was drawn from before any seed was set" in done.out, done
    reruns = sorted(home.glob("runs/*-zoom_*"))
    assert len(reruns) == 2, reruns
    for rerun in reruns:
        shown = twinrun("show", str(rerun), "--step", "0", "--json")
        names = {record["name"] for record in shown.json["records"]}
        assert "aten::randn.out0" in names, shown
        assert ("aten::addmm.out0" in names) == wrapped, shown


TWICE = (
    NOISY.replace("import os", "import os, pathlib")
    .replace("noise = ", "noise = 1 if calls > 2 or not calls else ")
    .replace(
        "for step in",
        """count = pathlib.Path("count")
count.write_text(count.read_text() + "x" if count.exists() else "x")
calls = len(count.read_text())
for step in""",
    )
)


def test_a_zoom_into_what_no_longer_parts_says_so(twinrun, python, work):
    (work / "job.py").write_text(TWICE)
    done = twinrun(
        "check", "-q", "--json", "--runs", "2", "--ignore", "file:count", "--", python, "job.py"
    )
    assert done.rc == 1, done
    said = "zoom: 3 reruns of step 1 at operation level did not diverge: it is rare, or watching every operation hides it"
    assert said in done.json["notes"], done


@pytest.mark.skipif(not FULL, reason="spends 60 s on purpose: with --full")
def test_a_zoom_that_is_cut_in_its_replay_says_what_is_missing(twinrun, python, work):
    # what the first pair makes is not kept, so that a second one is told
    (work / "job.py").write_text(
        "import os\nif 'TWINRUN_ZOOM_OP' not in os.environ:\n"
        "    os.environ.pop('TWINRUN_ZOOM_KEEP', None)\n"
        + NOISY
        + "    if 'TWINRUN_ZOOM_OP' in os.environ:\n        __import__('time').sleep(300)\n"
    )
    done = twinrun(
        "check", "-q", "--json", "--zoom-time", "60", "--runs", "2", "--", python, "job.py"
    )
    assert done.rc == 1, done
    assert any(
        "zoom: cut short" in note
        and ", without replays of what it names; --zoom-time gives it more" in note
        for note in done.json["notes"]
    ), done.json["notes"]
