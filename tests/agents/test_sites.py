# SPDX-License-Identifier: Apache-2.0
"""Which lines of a stack are shown as the job's."""

import sys

from conftest import ROOT

DEEP = "def deep(n):\n    return deep(n - 1) if n else sites.user()\n\n\ndef call(then):\n    return then()\n"


def lines(tmp_path, depth, inner):
    """What is shown of a stack with `depth` frames of a package, and with or without a function of
    the job's that the package calls.
    """
    sys.path.insert(0, str(ROOT / "python"))
    try:
        from twinrun._agent import sites
    finally:
        sys.path.pop(0)
    package, job = tmp_path / "site-packages" / "frame.py", tmp_path / "job.py"
    scope = {"sites": sites}
    exec(compile(DEEP, str(package), "exec"), scope)
    then = "lambda: sites.user()" if inner else "lambda: deep(%d)" % depth
    job_text = "def main():\n    return call(%s)\n" % then
    exec(compile(job_text, str(job), "exec"), scope)
    return [line.rsplit("/", 1)[-1] for line in scope["main"]().split("\n")]


def test_a_framework_does_not_hide_the_jobs_line(tmp_path):
    # the lambda and main() are the job's, whatever lies in between
    assert lines(tmp_path, 0, True)[:3] == [
        "job.py:2 in <lambda>",
        "frame.py:6 in call",
        "job.py:2 in main",
    ]
    for depth in (0, 1, 9):
        assert lines(tmp_path, depth, False)[:3] == [
            "frame.py:2 in deep",
            "job.py:2 in <lambda>",
            "job.py:2 in main",
        ]
    assert lines(tmp_path, 200, False) == ["frame.py:2 in deep"] * 4  # nobody looks for ever
