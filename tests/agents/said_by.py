# SPDX-License-Identifier: Apache-2.0
"""A program that is run to its end, for tests of packages."""

import subprocess

from conftest import clean_environment


def run(*argv, rc=0, env=None, **options):
    """What it printed, on either stream; env: added to that of a user."""
    done = subprocess.run(
        [str(word) for word in argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        env=clean_environment(env),
        **options,
    )
    assert done.returncode == rc, done.stdout[-4000:]
    return done.stdout
