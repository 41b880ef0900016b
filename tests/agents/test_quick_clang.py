# SPDX-License-Identifier: Apache-2.0
"""The clang that the tests meet (quick_clang.py) answers as the real one, and is it otherwise."""

import os
import shutil
import subprocess

import pytest
from quick_clang import put_in_front

STAND_IN = r"""#!/bin/sh
echo "asked $*" >>"$0.log"
[ "$1" != --version ] || echo "it's 9%d clang"
echo "$# words" >&2
exit ${2:-0}
"""


@pytest.fixture
def clang(tmp_path):
    """A real one, that keeps a log; and a PATH in which it is found."""
    program = tmp_path / "real" / "clang"
    program.parent.mkdir()
    program.write_text(STAND_IN)
    program.chmod(0o755)
    return program, str(program.parent) + os.pathsep + "/usr/bin:/bin"


def ask(path, *words):
    return subprocess.run(["clang", *words], env={"PATH": path}, capture_output=True, text=True)


def test_the_version_is_asked_once(clang, tmp_path):
    program, path = clang
    real = ask(path, "--version")
    quick = put_in_front(tmp_path / "bin", path)
    assert shutil.which("clang", path=quick) == str(tmp_path / "bin" / "clang")
    assert [ask(quick, "--version").stdout for _ in range(3)] == [real.stdout] * 3
    assert real.stdout.startswith("it's 9%d clang\n"), real
    log = program.with_name("clang.log").read_text()
    assert log == "asked --version\n" * 2, log


def test_all_else_goes_to_the_real_one(clang, tmp_path):
    program, path = clang
    quick = put_in_front(tmp_path / "bin", path)
    for words in (["-c", "a b.c"], ["--version", "3"], []):
        there, here = ask(path, *words), ask(quick, *words)
        assert (here.returncode, here.stdout, here.stderr) == (
            there.returncode,
            there.stdout,
            there.stderr,
        )
    assert ask(quick, "--version", "3").returncode == 3


def test_where_there_is_none(tmp_path):
    (tmp_path / "empty").mkdir()
    assert put_in_front(tmp_path / "bin", str(tmp_path / "empty")) == str(tmp_path / "empty")
    assert not (tmp_path / "bin").exists()
