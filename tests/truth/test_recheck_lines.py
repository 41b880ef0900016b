# SPDX-License-Identifier: Apache-2.0
"""The reading of printed lines by twinrun.recheck, on the labelled corpus (lines/*.txt).

A line with only its noise changed must say the same; with one of its results changed it must not,
with and without its noise changed, too. The held-out lines count alone.
"""

import re
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "python"))

from twinrun import _lines  # noqa: E402

LABEL = re.compile(r"\{([nr])\|([^|}]*)\|([^}]*)\}")
# Run A of the corpus began at 12:46:10 on 22 November 2026 and took ten minutes; B came later.
RUNS = [
    {
        "start_realtime_ns": start * 10**9,
        "wall_s": wall,
        "processes": [{"pid": first, "ppid": 1}, {"pid": second, "ppid": first}],
        "ids": ids,
        "host": "vm",
        "fresh_names": [version],
    }
    for start, wall, first, second, ids, version in (
        (1795351570, 600, 8017, 8123, [8017, 8190], "version_1"),
        (1795354300, 660, 16201, 16276, [16201, 16390], "version_0"),
    )
]
FACTS = [_lines.facts(run, "/home/u/.twinrun/runs/" + n) for run, n in zip(RUNS, "ab")]


def corpus(name):
    for line in (HERE / "lines" / name).read_text().split("\n"):
        if line and not line.startswith("@ "):
            yield line


def render(line, noise, result=None):
    """The line as a run prints it: the second reading of its noise, and of one of its results."""
    count = iter(range(1000))

    def reading(m):
        second = noise if m[1] == "n" else next(count) == result
        return m[3] if second else m[2]

    return LABEL.sub(reading, line).encode("utf-8", "surrogateescape")


def alike(x, y):
    return _lines.masked(x, FACTS[0]) == _lines.masked(y, FACTS[1])


@pytest.mark.parametrize(
    "name", ["tuned.txt", "held.txt", "styles.txt", "lookalikes.txt", "unexplained.txt"]
)
def test_corpus(name):
    masked, reported, noise, results = [], [], 0, 0
    for line in corpus(name):
        kinds = [m[1] for m in LABEL.finditer(line)]
        first = render(line, False)
        noise += kinds.count("n")
        if not alike(first, render(line, True)):
            reported.append(line)
        for i in range(kinds.count("r")):
            results += 1
            for other in (False, True):
                if alike(first, render(line, other, i)):
                    masked.append((i, line))
    assert masked == []
    if name == "unexplained.txt":  # times in columns without a unit or a name: nothing says so
        assert len(reported) == 3
        return
    least = 10 if name == "lookalikes.txt" else 50  # mostly results that look like times
    assert noise > least and results > 45
    assert len(reported) <= 0.01 * noise, reported


RESULTS = [
    ("num_correct=8123", "num_correct=8124"),
    ("score 12:46", "score 12:47"),
    ("time_loss: 0.5", "time_loss: 0.6"),
    ("model size 12.0 MB", "model size 12.1 MB"),
    ("checksum 0x7f8a1c2d3e4", "checksum 0x7f8a1c2d3e5"),
    ("digest 7f8a1c2d3e40", "digest 7f8a1c2d3e41"),
    ("block 0x7f8a1c2d3e41", "block 0x7f8b1c2d3e45"),
    ("sum 139985000000001", "sum 139985000000033"),
    ("hash 0x1122334455667788", "hash 0x1122334455667789"),
    ("cycle = 5, time = 1.0e-02, dt = 1e-5", "cycle = 5, time = 1.1e-02, dt = 1e-5"),
    ("rain 3.2 mm/day", "rain 3.3 mm/day"),
    ("push ups: 3", "push ups: 4"),
    ("wps_loss 0.5", "wps_loss 0.6"),
    ("velocity 3.2 m/s", "velocity 3.3 m/s"),
    ("best day: 1926-03-01", "best day: 1927-03-01"),
    ("max 0.9 min 0.1", "max 0.8 min 0.1"),
    ("a 1, 2", "a 2, 1"),
    ("x -16.9", "x 16.9"),
    ("uuid 6ba7b810-9dad-31d1-80b4-00c04fd430c8", "uuid 6ba7b811-9dad-31d1-80b4-00c04fd430c8"),
    ("12345678 steps", "12345679 steps"),
    ("loss nan", "loss 0.5"),
    ("took 0.5 s, loss 0.5", "took 0.6 s, loss 0.6"),
    ("loss 0.5 (0.6)", "loss 0.5 (0.7)"),
    ("runtime error 7", "runtime error 8"),
    ("learned in 5 steps, 3.1", "learned in 5 steps, 3.2"),
]


@pytest.mark.parametrize("x, y", RESULTS)
def test_no_result_is_masked(x, y):
    assert not alike(x.encode(), y.encode())


def test_unexplained():
    mine = [b"took 0.5 s", b"loss 0.5", b"ready"]
    left = _lines.unexplained(mine, [b"took 0.7 s", b"loss 0.6", b"steady"], *FACTS)
    assert [(d.text, d.numbers) for d in left if d.numbers] == [("loss 0.5", True)]
    assert _lines.unexplained(mine, [b"ready", b"took 0.7 s", b"loss 0.5"], *FACTS) == []
