# SPDX-License-Identifier: Apache-2.0
"""Jobs under pins, for the tests of TWINRUN_PINS: the Pythons that there are, a job with what its
processes said of their factors, and the contract that every seed keeps.
"""

import glob
import os
import sys

import pytest

# The oldest and the newest that are supported, where there are such.
OTHERS = [
    glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}.*/bin/python"))[:1]
    for version in ("3.8", "3.13")
]
PYTHONS = [sys.executable, *(path for found in OTHERS for path in found)]


class Job:
    """How a job under `twinrun record` ended, and the lines of its `factors`: (pid, rank, role,
    key, text).
    """

    def __init__(self, result, home):
        self.result, self.out, self.err = result, result.out, result.err
        run = max(
            (home / "runs").iterdir(), key=lambda folder: (folder / "run.json").stat().st_mtime_ns
        )
        path = run / "factors"
        lines = path.read_text().splitlines() if path.exists() else []
        self.factors = [tuple(line.split("\t")) for line in lines]
        assert all(len(fields) == 5 for fields in self.factors), lines
        self.effects = [
            (key[7:], text)
            for _pid, _rank, _role, key, text in self.factors
            if key.startswith("effect.")
        ]

    def texts(self, name):
        return [text for key, text in self.effects if key == name]


@pytest.fixture
def job(twinrun, home, script):
    """job(text, pins, python, options, env) runs the script under `twinrun record` and expects exit
    code 0 (or `rc`).
    """

    def call(text, pins=None, python=sys.executable, options=(), env=None, rc=0, command=None):
        path = script("job.py", text)
        argv = command or [python, *options, path]
        result = twinrun(
            "record", "--quiet", "--", *argv, env={"TWINRUN_PINS": pins, **(env or {})}
        )
        assert result.rc == rc, result
        return Job(result, home)

    return call


def pinned_and_shaken(job, text, name, natural=True, **kwargs):
    """The contract of a seed: equal with pin, natural without, by the seed with vary. Returns the
    pinned job.
    """
    first, again = job(text, name + "=pin", **kwargs), job(text, name + "=pin", **kwargs)
    one, same, other = (job(text, "%s=vary:%d" % (name, seed), **kwargs) for seed in (1, 1, 2))
    assert first.out and first.out == again.out
    assert one.out == same.out and len({first.out, one.out, other.out}) == 3
    assert first.texts(name)[0].startswith("pin ") and one.texts(name)[0].startswith("vary ")
    assert not natural or job(text, **kwargs).out != job(text, **kwargs).out
    return first
