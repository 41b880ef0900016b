# SPDX-License-Identifier: Apache-2.0
"""Which part of a wide matrix has its turn in this run of the tests.

Where each case of a matrix proves the same rule of another job, an everyday run takes a part, drawn
by the commit's tree, so that commits take turns; --full takes all. A run says its turn after the
tests; TWINRUN_TEST_TURN=N takes the part of that run again, on any commit.
"""

import os
import subprocess
from pathlib import Path

FULL = os.environ.get("TWINRUN_FULL", "") not in ("", "0")
VARIABLE = "TWINRUN_TEST_TURN"


def _tree():
    """The name of the commit's tree; 0 without a repository (a source archive)."""
    argv = ["git", "rev-parse", "HEAD^{tree}"]
    try:
        done = subprocess.run(argv, cwd=Path(__file__).parent, capture_output=True, text=True)
    except FileNotFoundError:  # no git
        return "0"
    return done.stdout.strip() if done.returncode == 0 else "0"


def turn():
    """The number of this run's turn. Kept in the environment: the workers of pytest draw no other
    one, even when a commit is made meanwhile.
    """
    if VARIABLE not in os.environ:
        os.environ[VARIABLE] = str(int(_tree()[:8], 16))
    return int(os.environ[VARIABLE])


def part(cases, of, always=(), number=None):
    """Of a list of cases one in `of`, in their order, and those that are in always. Any `of` turns
    that follow each other take all of them. number: another turn than this run's.
    """
    at = turn() if number is None else number
    taken = (case for case in cases if case not in always)
    drawn = [case for i, case in enumerate(taken) if (i + at) % of == 0]
    return [case for case in cases if FULL or case in always or case in drawn]
