# SPDX-License-Identifier: Apache-2.0
"""A checkout whose own configuration names programs: no command of twinrun's starts one of them."""

import os
import subprocess

import pytest


def git(folder, *words):
    who = [
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b.c",
        "-c",
        "protocol.file.allow=always",
        "-c",
        "init.defaultBranch=trunk",
    ]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def poison(folder, trap, name):
    """Each way in which git starts what a repository's configuration names. `trap` is made when one
    of them runs.
    """
    program = trap.parent / "program"
    program.write_text(f"#!/bin/sh\necho \"$0 $*\" >>'{trap}'\ncat\n")
    program.chmod(0o755)
    for key, value in [
        (f"filter.{name}.clean", program),
        (f"filter.{name}.smudge", program),
        (f"filter.{name}.process", program),
        (f"filter.{name}.required", "true"),
        ("core.fsmonitor", program),
        ("diff.external", program),
        (f"diff.{name}.command", program),
        (f"diff.{name}.textconv", program),
        ("core.pager", program),
        ("pager.status", program),
        ("pager.diff", program),
        ("core.sshCommand", program),
        ("core.editor", program),
        ("core.gitProxy", program),
        ("gpg.program", program),
        ("core.askPass", program),
    ]:
        subprocess.run(["git", "config", key, str(value)], cwd=folder, check=True)
    (folder / ".gitattributes").write_text(f"* filter={name} diff={name}\n")
    real = subprocess.run(
        ["git", "rev-parse", "--absolute-git-dir"],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    for hook in (
        "post-index-change",
        "pre-auto-gc",
        "post-checkout",
        "reference-transaction",
        "fsmonitor-watchman",
    ):
        path = os.path.join(real, "hooks", hook)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(program.read_text())
        os.chmod(path, 0o755)


@pytest.fixture
def hostile(work, tmp_path):
    module = tmp_path / "module"
    module.mkdir()
    git(module, "init", "-q")
    (module / "inner.txt").write_text("inner\n")
    git(module, "add", ".")
    git(module, "commit", "-qm", "inner")
    git(work, "init", "-q")
    (work / "train.txt").write_text("1\n")
    git(work, "submodule", "--quiet", "add", str(module), "lib")
    git(work, "add", ".")
    git(work, "commit", "-qm", "first")
    traps = tmp_path / "traps"
    traps.mkdir()
    trap = traps / "sprung"
    poison(work, trap, "evil")
    poison(work / "lib", trap, "inner evil")
    (work / "train.txt").write_text("2\n")
    (work / "lib" / "inner.txt").write_text("changed\n")
    return work, trap


def test_no_program_of_the_checkout_is_started(twinrun, hostile, tmp_path):
    work, trap = hostile
    for words in [
        ("record", "--", "cat", "train.txt"),
        ("check", "--runs", "2", "--", "cat", "train.txt"),
        ("run", "--pin", "hash-seed", "--", "cat", "train.txt"),
        ("show", "last", "--provenance"),
        ("snapshot", "lib", "-o", str(tmp_path / "lib.snapshot")),
        ("audit", "last"),
        ("doctor",),
        ("pack", "last", "-o", str(tmp_path / "package")),
        ("diff", "--env", "last", "last"),
    ]:
        twinrun(*words)
        assert not trap.exists(), (words, trap.read_text())
    # The trap works: git itself falls into it.
    subprocess.run(["git", "status"], cwd=work, capture_output=True)
    subprocess.run(["git", "diff"], cwd=work, capture_output=True)
    assert trap.exists()


def test_the_change_is_recorded_all_the_same(twinrun, hostile, home):
    import json

    assert twinrun("record", "--", "cat", "train.txt").rc == 0
    (run,) = (home / "runs").iterdir()
    code = json.loads((run / "provenance.json").read_text())["code"]
    assert code["dirty"] and b"+2" in (run / code["diff"]["file"]).read_bytes(), code


@pytest.mark.parametrize("name", ["a=b", "a b", "x.y", "naïve"])
def test_names_of_filters(twinrun, work, tmp_path, name):
    git(work, "init", "-q")
    (work / "train.txt").write_text("1\n")
    git(work, "add", ".")
    git(work, "commit", "-qm", "first")
    trap = tmp_path / "traps" / "sprung"
    trap.parent.mkdir()
    poison(work, trap, name)
    (work / "train.txt").write_text("2\n")
    assert twinrun("record", "--", "cat", "train.txt").rc == 0
    assert not trap.exists(), trap.read_text()
