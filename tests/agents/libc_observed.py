# SPDX-License-Identifier: Apache-2.0
"""Programs under the libc agent, for its tests: each runs under `twinrun record`; what it prints is
compared between runs, which no code of ours sees.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from native import BUILD

SOURCES = Path(__file__).resolve().parent / "libc_jobs"
HOT = os.path.join(BUILD, "agents", "libtwinrun_hot.so")

if not os.path.exists(HOT):
    pytest.skip(
        "this build has no libtwinrun_hot.so (sanitizers interpose these functions themselves)",
        allow_module_level=True,
    )


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """program(name, *flags): a program of libc_jobs, compiled once."""
    folder, made = tmp_path_factory.mktemp("programs"), {}

    def compiled(source, *flags):
        if (source, flags) not in made:
            out = folder / f"{len(made)}-{Path(source).stem}"
            compiler = shutil.which("g++" if source.endswith(".cc") else "gcc")
            if not compiler:
                pytest.skip("no compiler for " + source)
            subprocess.run(
                [compiler, "-O1", "-Wall", SOURCES / source, "-o", out, "-pthread", *flags],
                check=True,
            )
            made[source, flags] = out
        return made[source, flags]

    return compiled


class Observed:
    """A run of a job: rc, out, and what its processes said about their factors."""

    def __init__(self, done, folder):
        self.rc, self.out, self.err, self.folder = done.rc, done.out, done.err, folder
        rows = [line.split("\t") for line in self._lines("factors")]
        self.said = [(key, value) for _, _, _, key, value in rows]
        self.pids = {int(row[0]) for row in rows}
        self.faults = self._lines("faults")

    def _lines(self, name):
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def about(self, key):
        return [value for k, value in self.said if k == key]


@pytest.fixture
def observe(twinrun, home):
    """observe(factors, *command, hot=, rc=) -> Observed. hot: with the second library, as the
    launcher preloads it for `malloc`, `schedule`.
    """

    def call(factors, *command, hot=False, rc=None, env=None):
        env = dict(env or {}, TWINRUN_FACTORS=factors)
        if hot:
            env["LD_PRELOAD"] = HOT
        before = set((home / "runs").iterdir()) if (home / "runs").exists() else set()
        done = twinrun("record", "--", *command, env=env)
        (folder,) = set((home / "runs").iterdir()) - before
        if rc is not None:
            assert done.rc == rc, done
        return Observed(done, folder)

    return call


def rows(text):
    return dict(line.split(None, 1) for line in text.splitlines())
