# SPDX-License-Identifier: Apache-2.0
"""Chosen lines get other values from a pinned factor (`TWINRUN_OTHER_LINES`), and no other line
notices.
"""

import os

import pytest

ENTROPY = """\
import os
def helper():
    return os.urandom(3).hex()
values = [os.urandom(3).hex()]
values.append(os.urandom(3).hex())
values.append(helper())
def several():
    yield os.urandom(3).hex()
    yield os.urandom(3).hex()
values.extend(several())
try:
    raise KeyError(os.urandom(3))
except KeyError as e:
    values.append(e.args[0].hex())
values.append(os.urandom(3).hex())
print(*values)
"""

DIRECTORY = """\
import os
print(os.listdir("files"))
print(os.listdir("files"))
"""

CLOCK = """\
import time
print(time.time())
print(time.time())
print(time.time())
"""


def printed(twinrun, script, home, text, factor, lines):
    """What the job prints under the pin of `factor` when `lines` get other values, and how many
    calls that were.
    """
    script("job.py", text)
    env = dict(os.environ, TWINRUN_FACTORS=factor)
    if lines:
        env["TWINRUN_OTHER_LINES"] = "\t".join(
            [factor.partition("=")[0]] + ["job.py:%d" % line for line in lines]
        )
    done = twinrun("record", "-q", "--", "python3", "job.py", env=env)
    assert done.rc == 0, done
    newest = max((home / "runs").iterdir(), key=lambda run: run.stat().st_mtime_ns)
    said = [line.split("\t") for line in (newest / "factors").read_text().splitlines()]
    return done.out, [value for *_, key, value in said if key == "other.answered"]


@pytest.mark.parametrize(
    "lines, other",
    [((4,), {0}), ((3,), {2}), ((6,), set()), ((9,), {4}), ((12,), {5}), ((5, 15), {1, 6})],
)
def test_entropy(twinrun, script, home, lines, other):
    plain, _ = printed(twinrun, script, home, ENTROPY, "entropy=pin:0", ())
    changed, answered = printed(twinrun, script, home, ENTROPY, "entropy=pin:0", lines)
    pairs = list(zip(plain.split(), changed.split()))
    assert len(pairs) == 7
    assert {i for i, (a, b) in enumerate(pairs) if a != b} == other
    assert answered == [str(len(other))]


def test_directories_are_read_backwards(twinrun, script, home, work):
    (work / "files").mkdir()
    for name in "bca":
        (work / "files" / name).touch()
    out, answered = printed(twinrun, script, home, DIRECTORY, "dir-order=pin", (2,))
    assert out == "['c', 'b', 'a']\n['a', 'b', 'c']\n"
    assert answered == ["1"]


def test_the_clock_of_one_line(twinrun, script, home):
    out, answered = printed(twinrun, script, home, CLOCK, "clock=pin:1000000000", (3,))
    first, second, third = map(float, out.split())
    assert second - first > 1000000
    assert 0 < third - first < 1000
    assert answered == ["1"]
