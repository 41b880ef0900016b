# SPDX-License-Identifier: Apache-2.0
"""Ghosts: programs with one known cause of divergence each, their deterministic twins, and clean
jobs, judged by `check`.

The truth stands in ghosts/*/truth.json and ghosts/clean/jobs.json (docs/ghosts.md);
ghosts/verify_natively.py shows it without twinrun. The scripts know nothing of twinrun.
"""

import json
import re
import shutil
from pathlib import Path

import pytest
from conftest import FULL, GHOSTS, marker_line, masked, shell
from turn import part

# Those with a twin.py are held to all of what check says; the others belong to ghosts/run, which
# judges isolate by them.
TRUTHS = {
    path.parent.name: truth
    for path in sorted(GHOSTS.glob("*/truth.json"))
    if "twin" in (truth := json.loads(path.read_text()))
}
CLEAN = json.loads((GHOSTS / "clean" / "jobs.json").read_text())
# What the everyday run leaves out: a third way to start loaders' workers; jobs, and the unwatched
# run of jobs, whose like test_torch_unchanged.py has.
SLOW = (
    set()
    if FULL
    else {
        "workers-forkserver",
        "workers-spawn",
        "accumulation",
        "by-hand",
        "closure",
        "eval-only",
        "gan",
        "lbfgs",
        "several-optimizers",
    }
)
UNCHANGED_ELSEWHERE = (
    set() if FULL else {"checkpointing", "compiled", "ddp", "grad-scaler", "workers-fork"}
)
# Jobs that keep PyTorch's compiler (conftest.light): those that it has a part in (what asks for
# deterministic algorithms imports it, torch.func does; of DistributedDataParallel, which asks it,
# one job and one twin), and one that is as ordinary as can be. The two threads of "threads" do
# without: meeting in that import would put them in step.
WHOLE = {
    "checkpointing",
    "compiled",
    "ddp",
    "index-gradient twin",
    "mlp",
    "transforms",
    "two-ranks twin",
}
# A ghost of one process and one of two commands.
THREE_RUNS = set(TRUTHS) if FULL else {"uninitialised-bias", "eval-interval"}
# Without twins whose like is another one's. Those that are the only one with several ranks, with a
# checkpoint of another job, or that keep the compiler, are in every run; of the rest half have
# their turn.
TWINS = part(
    [
        name
        for name in TRUTHS
        if FULL or name not in {"index-gradient-warmup", "raw-tensors", "gan-noise"}
    ],
    2,
    always={"index-gradient", "two-ranks", "resume-generator"},
)
# Ordinary jobs of one process, each of another kind of model or loop: the rule is the same, so half
# of them have their turn. What has processes, threads, a compiler or no PyTorch is in every run.
IN_TURN = {
    "checkpointing",
    "cnn",
    "dict-batches",
    "grad-scaler",
    "helpers",
    "iterable",
    "no-autograd",
    "own-optimizer",
    "raw-tensors",
    "second-order",
    "transformer",
    "transforms",
}
JOBS = part([name for name in CLEAN if name not in SLOW], 2, always=set(CLEAN) - IN_TURN)


def lighten(request, name):
    request.getfixturevalue("calm" if name in WHOLE else "light")


def filled(argv, python, folder):
    torchrun = Path(python).parent / "torchrun"
    if "{torchrun}" in argv and not torchrun.exists():
        pytest.skip(f"no torchrun beside {python}")
    return [part.format(python=python, torchrun=torchrun, here=folder) for part in argv]


def check(twinrun, run, python, work, name, variant, *options):
    """Runs `check --json` on a ghost or its twin, after the preparation its truth asks for."""
    truth = TRUTHS[name]
    arms, env = truth[variant], truth.get("env")
    for script in (GHOSTS / name).glob("*.py"):
        shutil.copy(script, work)
    for argv in arms.get("prepare", []):
        done = run(filled(argv, python, "."), work, env)
        assert done.rc == 0, done
    if "argv" in arms:
        command = ["--", *filled(arms["argv"], python, ".")]
    else:
        command = [
            part for arm in "ab" for part in (f"--{arm}", shell(filled(arms[arm], python, ".")))
        ]
    return twinrun("check", "--json", *options, *command, env=env)


def unwatched(run, python, work, truth, variant):
    """The ghost or its twin, the first arm of two, with nothing of ours around it."""
    arms = truth[variant]
    native = run(filled(arms.get("argv") or arms["a"], python, "."), work, truth.get("env"))
    assert native.rc == 0, native
    return native


def assert_stored(folder, native):
    """What the run folder has of the job's output and end is what the unwatched job gave."""
    assert (folder / "stdout").read_bytes() == native.raw_out, folder
    assert (folder / "stderr").read_bytes() == native.raw_err, folder
    assert json.loads((folder / "run.json").read_text())["exit_code"] == native.rc


def matches(pattern, text):
    return re.search(pattern, text or "") is not None


@pytest.mark.parametrize("name", TRUTHS)
def test_ghost_is_told_by_its_truth(name, twinrun, run, python, work, request):
    lighten(request, name)
    truth = TRUTHS[name]
    # Where no run differs, or each differs from each, a third one says no more; of the ghosts of
    # one kind one has three all the same.
    two = name not in THREE_RUNS and (truth["outcome"] == "same" or truth["rate"] == "always")
    done = check(twinrun, run, python, work, name, "job", *(["--runs", "2"] if two else []))
    verdict = done.json
    assert (verdict["outcome"], done.rc) == (truth["outcome"], truth["exit"]), done
    if "benign" in truth:
        assert any(matches(truth["benign"], json.dumps(item)) for item in verdict["benign"]), done
    if "first" not in truth:
        return

    want, first = truth["first"], verdict["first"]
    wrong = []
    for field in ("layer", "phase", "kind", "role"):
        if first[field] not in want[field]:
            wrong.append(f"{field}: expected one of {want[field]}, found {first[field]!r}")
    if not want["step"][0] <= first["step"] <= want["step"][1]:
        wrong.append(f"step: expected {want['step']}, found {first['step']}")
    if first["rank"] != want["rank"]:
        wrong.append(f"rank: expected {want['rank']}, found {first['rank']}")
    for field in ("name", "op"):
        if field in want and not matches(want[field], first[field]):
            wrong.append(f"{field}: expected /{want[field]}/, found {first[field]!r}")
    if want.get("source"):
        line = f"job.py:{marker_line(GHOSTS / name / 'job.py')}"
        if not any(re.search(rf"{re.escape(line)}\b", source) for source in first["source"]):
            wrong.append(f"source: expected {line}, found {first['source']}")
    if "only" in truth:
        others = [o["name"] for o in verdict["origins"] if not matches(truth["only"], o["name"])]
        if others:
            wrong.append(f"origins: only /{truth['only']}/ diverges first, found also {others}")
    assert not wrong, "\n".join([*wrong, repr(done)])

    # The same pair of runs as a person reads it: fits one screen, and says what was still equal.
    text = twinrun("diff", *verdict["runs_dir"][:2])
    lines = text.out.splitlines()
    assert text.rc == 1 and lines[0].startswith("DIFFER"), text
    assert len(lines) <= 24 and max(map(len, lines)) <= 100, text
    equal = " ".join(line for line in lines if re.match(r"\s+equal\s", line))
    for what in truth.get("equal", []):
        assert (
            what in equal
        ), f"expected {what!r} among what was still equal, found {equal!r}\n{text}"


@pytest.mark.parametrize("name", TWINS)
def test_twin_is_same(name, twinrun, run, python, work, request):
    lighten(request, name + " twin")
    done = check(twinrun, run, python, work, name, "twin", "--runs", "2")
    assert (done.json["outcome"], done.rc) == ("same", 0), done
    assert done.json["first"] is None and done.json["differing"] == 0, done
    assert done.json["observer"]["lost_records"] == 0, done
    if FULL:  # test_recording_changes_no_output has one of them
        assert_stored(
            Path(done.json["runs_dir"][0]), unwatched(run, python, work, TRUTHS[name], "twin")
        )


@pytest.mark.parametrize("name", JOBS)
def test_clean_job(name, twinrun, run, python, work, tmp_path, request):
    """Outcome as expected; and what the watched job printed and how it ended is what it does when
    nobody watches.
    """
    lighten(request, name)
    job = CLEAN[name]
    if "needs" in job:
        probe = run(job["needs"])
        if probe.rc != 0:
            pytest.skip(f"{name} needs {' '.join(job['needs'])}")
    argv = filled(job["argv"], python, GHOSTS / "clean")
    env = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"), **job.get("env", {})}
    done = twinrun("check", "--json", "--runs", "2", "--", *argv, env=env)
    verdict = done.json
    exits = {"same": 0, "inconclusive": 3}
    assert verdict["outcome"] in job["outcome"] and done.rc == exits[verdict["outcome"]], done
    assert verdict["differing"] == 0 and verdict["first"] is None, done
    if verdict["outcome"] == "inconclusive":
        text = twinrun("diff", *verdict["runs_dir"][:2])
        assert matches(job.get("unseen", "."), text.out), text
    assert all(
        json.loads((Path(folder) / "run.json").read_text())["exit_code"] == 0
        for folder in verdict["runs_dir"]
    )
    if name not in UNCHANGED_ELSEWHERE:
        native = run(argv, work, env)
        assert native.rc == 0, native
        for folder in map(Path, verdict["runs_dir"]):
            assert_stored(folder, native)


@pytest.mark.usefixtures("light")
@pytest.mark.parametrize("name", TRUTHS if FULL else ["gan-noise"])
@pytest.mark.parametrize("variant", ["job", "twin"])
def test_recording_changes_no_output(name, variant, twinrun, run, python, work):
    """`record` passes on the very bytes and the exit code; of a ghost that prints other numbers
    each time, all but these.
    """
    truth = TRUTHS[name]
    shutil.copy(GHOSTS / name / f"{variant}.py", work)
    native = unwatched(run, python, work, truth, variant)
    arms = truth[variant]
    watched = twinrun(
        "record",
        "-q",
        "--",
        *filled(arms.get("argv") or arms["a"], python, "."),
        env=truth.get("env"),
    )
    blur = masked if variant == "job" and truth["outcome"] == "differ" else bytes
    assert watched.rc == 0, watched
    assert blur(native.raw_out) == blur(watched.raw_out), watched
    assert native.raw_err == watched.raw_err, watched


@pytest.mark.usefixtures("light")
def test_verdict_on_one_screen(twinrun, python, work):
    """The text of a check names step, tensor, operation and line, and never exceeds a screen."""
    job = work / "job.py"
    text = (GHOSTS / "index-gradient" / "job.py").read_text()
    assert text.count("range(20)") == 1
    job.write_text(text.replace("range(20)", "range(4)"))  # they part in the first step
    done = twinrun("check", "--", python, "job.py")
    assert done.rc == 1, done
    lines = done.out.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 100, done
    for pattern in (
        r"^DIFFER",
        r"first +step 0 .* table .*ORIGIN",
        r"op +aten::",
        rf"job\.py:{marker_line(job)}\b",
        r"equal +.*loss",
        r"next +twinrun",
    ):
        assert re.search(pattern, done.out, re.M), f"/{pattern}/ not in\n{done}"
