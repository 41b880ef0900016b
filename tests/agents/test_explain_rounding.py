# SPDX-License-Identifier: Apache-2.0
"""check --explain rounding from the command line; what it judges: tests/truth/test_rounding.py."""

import copy
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from turn import FULL

pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("light")

BUILD = Path(os.environ.get("TWINRUN_BUILD", "build"))
JOB = """
import sys, torch
torch.manual_seed(0)
m = torch.nn.Linear(8, 8)
o = torch.optim.SGD(m.parameters(), lr=0.1)
x = torch.randn(4, 8)
how = sys.argv[1]
def normed(y):
    if how == "bug":
        return y * (torch.rsqrt(y.pow(2).mean(-1, keepdim=True)) + 1e-5)
    if how == "new":
        return y / torch.sqrt((y * y).sum(-1, keepdim=True) / 8 + 1e-5)
    return y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)
for i in range(2):
    o.zero_grad()
    loss = (normed(m(x)) ** 3).sum()
    loss.backward()
    o.step()
    print("loss", loss.item())
"""


def said(folder, how, job=JOB, arms=None, **env):
    (folder / "job.py").write_text(job)
    arm = "%s job.py " % sys.executable
    arms = arms or [arm + "old", arm + how]
    command = [BUILD.resolve() / "cmd/twinrun", "check", "--no-zoom", "--no-clock", "--runs", "2"]
    command += ["--explain", "rounding", "--a", arms[0], "--b", arms[1]]
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, **env},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 1, done.stderr
    return " ".join(done.stdout.split())


# ---- what was found is kept, and held against the recordings by a second reader


def kept(home):
    """The verdict, and the folders of the two recorded runs."""
    (found,) = [p for p in home.glob("runs/*/verdict.json") if '"rounding":{' in p.read_text()]
    verdict = json.loads(found.read_text())
    return verdict, [home / "runs" / name for name in verdict["rounding"]["runs"]]


def answers(verdict):
    """Of the notes about rounding: [(state, text)]."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
    from twinrun import recheck

    reader = recheck.Recheck(
        verdict["claims"], [recheck.Run(d) for d in verdict["runs_dir"]], verdict
    )
    claims = [c for c in verdict["claims"] if c["claim"] == "note"]
    claims = [c for c in claims if re.match("rounding|beyond|in its place", c["text"])]
    return [(reader.one(c)[0], c["text"]) for c in claims]


def forged(verdict, text, other):
    return json.loads(json.dumps(verdict).replace(json.dumps(text), json.dumps(other)))


def every_number_counts(verdict):
    for state, text in answers(verdict):
        assert state == "confirmed", text
        for m in re.finditer(r"(?<![\w.])[0-9]+(?![\w.])", text):
            other = text[: m.start()] + str(int(m[0]) + 1) + text[m.end() :]
            said_so = [a for a in answers(forged(verdict, text, other)) if a[1] == other]
            assert [state for state, _ in said_so] == ["refuted"], other


def lies(verdict, folders):
    """Changes of what was kept beside the verdict, none of which may stand."""
    whole = json.loads((folders[1] / "rounding.json").read_text())

    def answer(change):
        lie = copy.deepcopy(whole)
        change(lie["operations"])
        (folders[1] / "rounding.json").write_text(json.dumps(lie))
        try:
            return {state for state, _ in answers(verdict)}
        finally:
            (folders[1] / "rounding.json").write_text(json.dumps(whole))

    def at(rows, kind):
        return next(r for r in rows if r["verdict"] == kind)

    yield "one left out", answer(lambda rows: rows.pop(0))
    yield "one twice", answer(lambda rows: rows.append(rows[0]))
    yield "another line", answer(lambda rows: rows[0].update(line=rows[1]["line"]))
    yield "another operation", answer(lambda rows: rows[0].update(operation="aten.sin.default"))
    yield "a word of its own", answer(lambda rows: rows[0].update(verdict="fine"))
    yield "held against nothing", answer(lambda rows: rows[0].update(like=[]))
    far = copy.deepcopy(verdict)
    far["rounding"]["outcome"] = "equal"
    yield "another word for programs", {state for state, _ in answers(far)}
    far["rounding"]["finding"] = {"times": 10**400}
    yield "a number without end", {state for state, _ in answers(far)}
    # of two ranks each has a folder: the first one that the verdict rests on
    values = folders[0] / "values" / verdict["rounding"]["recorded"][0][0] / "values.bin"
    before = values.read_bytes()
    lines = (values.parent / "operations.jsonl").read_text().splitlines()
    equal = [r for r in whole["operations"] if r["verdict"] == "equal"]
    places = [p for r in equal for p in r["like"] if "line" in p]
    outs = [(json.loads(lines[p["line"] - 1])["outs"], p["slot"]) for p in places]
    # what a collective received stands in another line
    where = next(of[slot]["v"] for of, slot in outs if len(of) > slot)
    changed = bytearray(before)
    changed[where[0]] ^= 1
    values.write_bytes(changed)
    yield "other bytes in A", {state for state, _ in answers(verdict)}
    values.write_bytes(before[:8])
    yield "values that are cut off", {state for state, _ in answers(verdict)}
    values.write_bytes(before)
    if at(whole["operations"], "equal") and not verdict["rounding"]["finding"]:
        wrong = at(whole["operations"], "rounding")

        def swap(rows):
            rows[whole["operations"].index(wrong)]["verdict"] = "equal"
            other = next(r for r in rows if r["verdict"] == "equal" and r != wrong)
            other["verdict"] = "rounding"

        yield "rounding called equal", answer(swap)
    shutil.move(folders[1] / "rounding.json", folders[1] / "gone")
    yield "nothing kept", {state for state, _ in answers(verdict)}
    shutil.move(folders[1] / "gone", folders[1] / "rounding.json")


# ---- several ranks

RANKS = """
import sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
m = torch.nn.Linear(6, 4)
x, t = torch.randn(8, 6), torch.randn(8, 4)
part = slice(rank * 8 // world, (rank + 1) * 8 // world)
if sys.argv[1] == "parallel":
    m = torch.nn.parallel.DistributedDataParallel(m)
o = torch.optim.SGD(m.parameters(), lr=0.1)
for i in range(2):
    o.zero_grad()
    ((m(x[part]) - t[part]) ** 2).mean().backward()
    if sys.argv[1] == "forgotten":
        for p in m.parameters():
            dist.all_reduce(p.grad)
    o.step()
"""


def said_of_ranks(folder, how, **env):
    start = sys.executable + " -m torch.distributed.run --standalone --nproc-per-node %d job.py "
    return said(folder, how, job=RANKS, arms=[start % 1 + how, start % 2 + how], **env)


def test_a_mean_over_ranks_that_was_forgotten(tmp_path):
    text = said_of_ranks(tmp_path, "forgotten", TWINRUN_HOME=str(tmp_path / "home"))
    verdict, folders = kept(tmp_path / "home")
    every_number_counts(verdict)
    assert [what for what, states in lies(verdict, folders) if states == {"confirmed"}] == []
    assert "beyond rounding: c10d.allreduce_.default of B at job.py:17 in <module>, rank 0" in text
    assert "it is 2 times what A has there" in text
    assert "rounding: A has 1 rank and B 2: " in text
    held = " operations of B were held against A's as rows of a batch or parts of a loss; "
    assert held in text
    assert " add to a sum over the ranks and were judged by what they lead to" in text


@pytest.mark.skipif(not FULL, reason="two starts of torchrun more: with --full")
def test_one_process_and_two(tmp_path):
    text = said_of_ranks(tmp_path, "parallel")
    assert "rounding or bug, first step: rounding; operations of B: " in text
    assert "beyond rounding" not in text


def test_an_epsilon_outside_of_the_root_is_beyond_rounding(tmp_path):
    text = said(tmp_path, "bug", TWINRUN_HOME=str(tmp_path / "home"))
    verdict, folders = kept(tmp_path / "home")
    every_number_counts(verdict)
    assert [what for what, states in lies(verdict, folders) if states == {"confirmed"}] == []
    assert (
        "beyond rounding: aten.rsqrt.default of B at job.py:10 in normed, called at job.py:16"
        in text
    )
    assert " times the bound)" in text
    assert (
        "in its place A has aten.rsqrt.default at job.py:13 in normed, called at job.py:16 in"
        in text
    )


def test_another_order_is_rounding(tmp_path):
    text = said(tmp_path, "new", TWINRUN_HOME=str(tmp_path / "home"))
    verdict, folders = kept(tmp_path / "home")
    every_number_counts(verdict)
    assert [what for what, states in lies(verdict, folders) if states == {"confirmed"}] == []
    assert "rounding or bug, first step: rounding; operations of B: " in text
    assert " equal, 14 rounding, 11 between values that A has, 0 not known, 0 behind the" in text
    assert "beyond rounding" not in text


def test_a_folder_that_takes_no_file(tmp_path):
    """What was found is said all the same."""
    fake = tmp_path / "bin"
    fake.mkdir()
    judge = 'case "$1" in */_rounding) mkdir -p "$3/rounding.json" ;; esac'
    (fake / "python3").write_text('#!/bin/sh\n%s\nexec "%s" "$@"\n' % (judge, sys.executable))
    (fake / "python3").chmod(0o755)
    text = said(tmp_path, "new", PATH="%s:%s" % (fake, os.environ["PATH"]))
    assert "rounding or bug, first step: rounding" in text
    assert "rounding: what was found of each operation could not be kept: " in text


def test_without_a_pytorch_for_the_judge_it_is_not_known(tmp_path):
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "python3").write_text("#!/bin/sh\nexit 1\n")
    (fake / "python3").chmod(0o755)
    text = said(tmp_path, "new", PATH="%s:%s" % (fake, os.environ["PATH"]))
    assert "rounding or bug: not known: the operations were recorded and could not" in text
