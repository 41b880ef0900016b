# SPDX-License-Identifier: Apache-2.0
"""Rules that hold between verdicts: what must not change when the question is put another way."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]

import mutants  # noqa: E402
import pool  # noqa: E402
from traces import Edited, record  # noqa: E402
from twinrun import recheck  # noqa: E402
from twinrun.trace import KINDS, PHASES, Series  # noqa: E402

BUILD = Path(os.environ.get("TWINRUN_BUILD", HERE.parents[1] / "build")).resolve()
# kinds of mutants in what was recorded, with a place of their own
PLACED = (
    "digest",
    "drop-record",
    "twice",
    "rename",
    "dtype",
    "shape",
    "exchange-names",
    "drop-step",
)


@pytest.fixture(params=["values", "ranks", "stepless", "trainer"])
def recorded(request):
    return pool.recorded(request.param, BUILD)


def copies(recorded, folder):
    return mutants.Copy(recorded.a, folder / "a"), mutants.Copy(recorded.b, folder / "b")


def mutate(copy, kind, seed):
    return mutants.HARMFUL[kind](copy, random.Random(seed))


def verdict(a, b, *options):
    env = pool.environment("/nonexistent")
    argv = [BUILD / "cmd" / "twinrun", "diff", "--json", *options, a, b]
    done = subprocess.run(argv, env=env, capture_output=True, text=True)
    assert done.stdout.strip(), done
    return json.loads(done.stdout)


def place(v):
    """Where a verdict says that the runs part first."""
    f = v["first"]
    if f is None:
        return None
    return f["step"], f["rank"], f["phase"], f["kind"], f["name"], f["detail"]["scope"]


def confirmed(v, folder):
    path = folder / "rechecked.json"
    path.write_text(json.dumps(v))
    assert [r for r in recheck.recheck(str(path)) if r[0] == "refuted"] == []


MIRROR = {"only-a": "only-b", "only-b": "only-a"}


@pytest.mark.parametrize("kind", PLACED)
def test_either_way_round(recorded, tmp_path, kind):
    """A against B and B against A name the same place."""
    a, b = copies(recorded, tmp_path)
    if mutate(b, kind, 3) is None:
        pytest.skip("not with this job")
    there, back = verdict(a.folder, b.folder), verdict(b.folder, a.folder)
    assert there["outcome"] == back["outcome"] == "differ"
    assert place(there)[:2] == place(back)[:2]
    if kind not in ("rename", "exchange-names"):  # two records differ: either may come first
        assert place(there) == place(back)
    type_ = there["first"]["detail"]["type"]
    assert kind == "rename" or back["first"]["detail"]["type"] == MIRROR.get(type_, type_)
    confirmed(there, tmp_path)
    confirmed(back, tmp_path)


def with_thread(copy):
    """One more thread that records the same in both runs."""
    for name in copy.traces():
        trace = Edited.read(copy.folder / name)
        if not trace.records:
            continue
        words = [trace.string(w) for w in ("watched", "bystander", "thread")]
        series, layout = len(trace.series) + 1, trace.layout(1, (2,))
        trace.series[series] = Series(
            PHASES.index("forward"), KINDS.index("activation"), *words, 0, 0
        )
        for step in range(max(trace.steps, 1)):
            more = record(step, 0, series, layout, (step + 5, 7), thread=9)
            last = [i for i, r in enumerate(trace.records) if r.step == step]
            trace.records.insert(last[-1] + 1 if last else len(trace.records), more)
        copy.write(name, trace.renumber().sealed())


def with_process(copy):
    """One more process without steps, equal in both runs."""
    trace = Edited.read(copy.folder / copy.traces()[0])
    trace.role = b"helper"
    trace.header[5] = 4242
    trace.records = [r._replace(step=0, links=None, flags=r.flags & ~8) for r in trace.records[:3]]
    trace.steps = 0
    copy.write("ranks/%d.4242.twt" % trace.rank, trace.renumber().sealed())


def with_line(copy):
    copy.stream("stdout", (copy.folder / "stdout").read_bytes() + b"bye, all of you\n")


def with_file(copy):
    run = copy.run
    run["files"].append(
        dict(path="more.txt", bytes=3, sha256="ab" * 32, why=None, existed_before=False)
    )
    copy.run = run


def add(more, a, b):
    """The same addition to both runs."""
    more(a)
    if more is not with_process:
        more(b)
        return
    helper = sorted((a.folder / "ranks").glob("*.4242.twt"))[0]
    b.write("ranks/" + helper.name, helper.read_bytes())


MORE = [with_thread, with_process, with_line, with_file]


@pytest.mark.parametrize("more", MORE, ids=[m.__name__ for m in MORE])
def test_what_is_beside_it_changes_nothing(recorded, tmp_path, more):
    """An unrelated thread, process, line or file: same stays same, a divergence stays."""
    a, b = copies(recorded, tmp_path)
    add(more, a, b)
    v = verdict(a.folder, b.folder)
    assert v["outcome"] == "same", v["first"] or v["unseen"]
    confirmed(v, tmp_path)
    found = []
    for beside in (False, True):
        (tmp_path / str(beside)).mkdir()
        a, b = copies(recorded, tmp_path / str(beside))
        assert mutate(b, "digest", 8)
        if beside:
            add(more, a, b)
        found.append(verdict(a.folder, b.folder))
    assert found[0]["outcome"] == found[1]["outcome"] == "differ"
    assert place(found[0]) == place(found[1])


def test_a_longer_run_names_the_same_place(recorded, tmp_path):
    a, b = copies(recorded, tmp_path)
    if recorded.verdict["steps"]["reference"] < 4:
        pytest.skip("a job without steps")
    for seed in range(20):
        _, b = copies(recorded, tmp_path / str(seed))
        mutate(b, "digest", seed)
        whole = verdict(a.folder, b.folder)
        if whole["first"]["step"] <= 2:
            break
    assert whole["first"]["step"] <= 2
    for copy in (a, b):
        for name in copy.traces():
            trace = Edited.read(copy.folder / name)
            trace.steps = min(trace.steps, 4)
            trace.records = [r for r in trace.records if r.step < trace.steps]
            copy.write(name, trace.sealed())
    short = verdict(a.folder, b.folder)
    assert place(short) == place(whole)
    limited = verdict(a.folder, b.folder, "--steps", "3")
    assert place(limited) == place(whole)


# ---- rules that need runs


class Home:
    def __init__(self, folder):
        self.folder = folder
        (folder / "work").mkdir(parents=True)

    def __call__(self, *args, nudge=None):
        env = pool.environment(self.folder / "home")
        if nudge is not None:
            env["NUDGE"] = str(nudge)
        argv = [BUILD / "cmd" / "twinrun", *args, "--", sys.executable, HERE / "jobs" / "values.py"]
        return subprocess.run(
            argv, cwd=self.folder / "work", env=env, capture_output=True, text=True
        )

    def runs(self):
        return sorted((self.folder / "home" / "runs").iterdir(), key=lambda p: p.stat().st_mtime)


@pytest.mark.parametrize("nudge", [None, 0, 4])
def test_check_and_against_agree(tmp_path, nudge):
    """The gate against a baseline and the comparison of the same two runs say the same."""
    home = Home(tmp_path)
    base = tmp_path / "expected.json"
    assert home("check", "--runs", "2", "--save-baseline", base).returncode == 0
    reference = home.runs()[0]
    gate = home("check", "--json", "--against", base, nudge=nudge)
    gate = json.loads(gate.stdout)
    pair = verdict(reference, home.runs()[-1])
    assert gate["outcome"] == pair["outcome"] == ("same" if nudge is None else "differ")
    if nudge is not None:
        assert gate["first"]["step"] == pair["first"]["step"] == nudge


@pytest.mark.parametrize("level", ["steps", "tensors", "modules"])
def test_no_level_says_less(tmp_path, level):
    """Where one level of detail shows that runs differ, no other level calls them the same."""
    home = Home(tmp_path)
    home("record", "--level", level)
    home("record", "--level", level, nudge=5)
    v = verdict(*home.runs()[-2:])
    assert v["outcome"] == "differ" and v["first"]["step"] == 5
    home("record", "--level", level)
    assert verdict(home.runs()[0], home.runs()[-1])["outcome"] == "same"
