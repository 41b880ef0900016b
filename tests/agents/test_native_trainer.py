# SPDX-License-Identifier: Apache-2.0
"""The embedded trainer: diverges in arrival order, repeats when ordered, and its trace
shows where.
"""

import os

import pytest
from native import TRAINER, Run, bare

PAIRS = 20 if os.environ.get("TWINRUN_FULL") else 5


def weights(path, *options):
    result = bare(TRAINER, "--quiet", "--steps", "150", "--checkpoint", str(path), *options)
    assert result.returncode == 0 and result.stderr == b""
    return path.read_bytes()


def first_difference(a, b):
    """(step, phase, kind, name) of the first step in which a record differs, and everything that
    differs there.
    """

    def by_step(trace):
        steps = {}
        for r in trace.records:
            steps.setdefault(r["step"], {})[
                (r["phase"], r["kind"], r["name"], r["scope"], r["role"], r["occurrence"])
            ] = r["digest"]
        return steps

    x, y = by_step(a), by_step(b)
    assert x.keys() == y.keys()
    for step in sorted(x):
        if x[step] != y[step]:
            assert x[step].keys() == y[step].keys()
            return step, {k[:3] for k in x[step] if x[step][k] != y[step][k]}
    return None


def observed(folder, *options):
    run = Run(folder)
    result = run.start(TRAINER, *options)
    assert result.returncode == 0 and result.stderr == b""
    return run.traces()["main"]


def test_runs_differ_and_ordered_runs_do_not(tmp_path):
    files = [weights(tmp_path / str(i)) for i in range(PAIRS + 1)]
    parted = sum(a != b for a, b in zip(files, files[1:]))
    assert parted >= 0.95 * PAIRS
    assert len({weights(tmp_path / f"o{i}", "--ordered") for i in range(PAIRS)}) == 1
    assert weights(tmp_path / "seed", "--ordered", "--seed", "2") != weights(
        tmp_path / "o", "--ordered"
    )


def test_watching_does_not_hide_the_divergence(tmp_path):
    traces = [observed(tmp_path / str(i)) for i in range(3)]
    found = [first_difference(a, b) for a, b in zip(traces, traces[1:])]
    assert all(found), "two observed runs were equal"
    for step, what in found:
        assert step < 100
        # the sums part first: what went into them was equal
        assert ("backward", "gradient", "w1") in what
        assert not any(
            phase in ("data", "init", "rng") or kind == "gradient (local)"
            for phase, kind, _ in what
        )


def test_ordered_traces_are_equal(tmp_path):
    traces = [observed(tmp_path / str(i), "--ordered", "--steps", "60") for i in range(3)]
    assert (
        first_difference(traces[0], traces[1]) is None
        and first_difference(traces[0], traces[2]) is None
    )
    kinds = {r["kind"] for r in traces[0].records}
    assert {
        "batch",
        "indices",
        "state",
        "weight",
        "activation",
        "gradient (local)",
        "gradient",
        "loss",
    } <= kinds


def test_the_agent_changes_no_bit(tmp_path):
    alone = weights(tmp_path / "alone", "--ordered")
    run = Run(tmp_path / "run")
    result = run.start(
        TRAINER, "--quiet", "--steps", "150", "--ordered", "--checkpoint", str(tmp_path / "armed")
    )
    assert result.returncode == 0 and (tmp_path / "armed").read_bytes() == alone
    assert result.stdout == bare(TRAINER, "--quiet", "--steps", "150", "--ordered").stdout


@pytest.mark.parametrize("threads", ["1", "2", "3", "7", "40"])
def test_any_number_of_threads_learns(tmp_path, threads):
    result = bare(TRAINER, "--ordered", "--threads", threads)
    assert result.returncode == 0
    accuracy = float(result.stdout.split(b"accuracy ")[1].split(b"%")[0])
    assert accuracy > 65


@pytest.mark.parametrize(
    "options,code",
    [
        (["--steps", "x"], 2),
        (["--threads", "0"], 2),
        (["--threads", "65"], 2),
        (["extra"], 2),
        (["--nonsense"], 2),
        (["--data", "/nonexistent"], 1),
        (["--help"], 0),
    ],
)
def test_bad_use(options, code):
    result = bare(TRAINER, *options)
    assert result.returncode == code and (result.stdout if code == 0 else result.stderr)


@pytest.mark.parametrize("damage", ["cut", "magic", "label"])
def test_bad_data(tmp_path, damage):
    source = os.path.join(os.path.dirname(__file__), "..", "..", "workloads", "data")
    for name in os.listdir(source):
        with open(os.path.join(source, name), "rb") as f:
            (tmp_path / name).write_bytes(f.read())
    images, labels = tmp_path / "train-images-idx3-ubyte", tmp_path / "train-labels-idx1-ubyte"
    if damage == "cut":
        images.write_bytes(images.read_bytes()[:1000])
    elif damage == "magic":
        images.write_bytes(b"\0\0\x0d" + images.read_bytes()[3:])
    else:
        labels.write_bytes(labels.read_bytes()[:-1] + b"\x0a")
    result = bare(TRAINER, "--data", str(tmp_path))
    assert result.returncode == 1 and b"trainer: " in result.stderr and result.stdout == b""
