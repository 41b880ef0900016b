# SPDX-License-Identifier: Apache-2.0
"""The job that the tests of packages pack, and packages of it."""

import hashlib
import inspect
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import job_pool
from conftest import ROOT, clean_environment

AREAS = ["code", "data", "environment", "configuration", "seeds"]


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
    return subprocess.run(
        ["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


def repack(package):
    """Makes the manifests say what the folder holds: what somebody would do who changes
    a package.
    """

    def sha(path):
        return hashlib.sha256(path.read_bytes()).hexdigest()

    files = sorted(
        (p for p in (package / "data").rglob("*") if p.is_file() or p.is_symlink()),
        key=lambda p: os.fsencode(p.relative_to(package)),
    )
    files = [f for f in files if not f.is_symlink()]
    later = (
        [line.split(" ") for line in (package / "fetch.txt").read_text().splitlines()]
        if (package / "fetch.txt").exists()
        else []
    )
    listed = dict(
        line.split("  ", 1)[::-1]
        for line in (package / "manifest-sha256.txt").read_text().splitlines()
    )
    lines = {str(f.relative_to(package)): sha(f) for f in files}
    lines.update({path: listed[path] for _, _, path in later})
    (package / "manifest-sha256.txt").write_text(
        "".join(f"{lines[k]}  {k}\n" for k in sorted(lines, key=os.fsencode))
    )
    info = [
        line
        for line in (package / "bag-info.txt").read_text().splitlines()
        if not line.startswith("Payload-Oxum")
    ]
    size = sum(f.stat().st_size for f in files) + sum(int(n) for _, n, _ in later)
    (package / "bag-info.txt").write_text(
        "\n".join(info + [f"Payload-Oxum: {size}.{len(lines)}"]) + "\n"
    )
    tags = sorted(
        p.name
        for p in package.iterdir()
        if p.is_file() and p.name not in ("tagmanifest-sha256.txt", "signature.dsse.json")
    )
    (package / "tagmanifest-sha256.txt").write_text(
        "".join(f"{sha(package / t)}  {t}\n" for t in tags)
    )


def make_job(build, work, tmp_path):
    """A C trainer in a checkout: a changed file, a submodule with a change, untracked files, a
    program that git ignores; data beside it.
    """
    module = tmp_path / "module"
    module.mkdir()
    git(module, "init", "-q")
    (module / "inner.c").write_text("int x;\n")
    git(module, "add", ".")
    git(module, "commit", "-qm", "inner")
    git(work, "init", "-q")
    (work / ".gitignore").write_text("/train\n*.pt\n")
    (work / "model.c").write_text("int model;\n")
    (work / "blob.bin").write_bytes(bytes(range(256)))
    git(work, "submodule", "--quiet", "add", str(module), "lib")
    git(work, "add", ".")
    git(work, "commit", "-qm", "first")
    (work / "model.c").write_text("int model = 1;\n")
    (work / "blob.bin").write_bytes(bytes(range(255, -1, -1)))
    (work / "lib" / "inner.c").write_text("int x = 1;\n")
    (work / "new file.txt").write_text("untracked\n")
    (work / "lr.yaml").write_text("lr: 0.1\n")
    shutil.copy(build / "workloads" / "trainer", work / "train")
    data = tmp_path / "images"
    shutil.copytree(ROOT / "workloads" / "data", data)
    (data / "empty").mkdir()
    return work, data


@pytest.fixture
def job(build, work, tmp_path):
    return make_job(build, work, tmp_path)


COMMAND = ["./train", "--ordered", "--steps", "4", "--seed", "7", "--data"]


@pytest.fixture
def recorded(twinrun, job):
    work, data = job
    assert twinrun("snapshot", str(data)).rc == 0
    r = twinrun("record", "--data", "../images", "--", *COMMAND, "../images")
    assert r.rc == 0, r.err
    return job


def make_package(build, folder):
    """(package, checkout): a package, and what it was made from, renamed away."""
    work = folder / "work"
    work.mkdir()
    data = make_job(build, work, folder)[1]
    env = clean_environment(
        {"TWINRUN_HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "cache")}
    )

    def call(*words):
        r = subprocess.run(
            [str(build / "cmd" / "twinrun"), *words],
            cwd=work,
            env=env,
            capture_output=True,
            text=True,
        )
        assert r.returncode == 0, r.stdout + r.stderr
        return r.stdout

    call("snapshot", str(data))
    call("record", "--data", "../images", "--", *COMMAND, "../images")
    areas = json.loads(call("pack", "last", "-o", str(folder / "package"), "--json"))["areas"]
    assert [a["name"] for a in areas if not a["pass"]] == [], areas
    for name in ["images", "images.snapshot", "module", "home", "work"]:
        os.rename(folder / name, folder / (name + ".away"))
    return folder / "package", folder / "work.away"


@pytest.fixture
def packed(build):
    """What make_package returns, made once for all tests; for reading."""
    key = ("package", COMMAND, inspect.getsource(make_job), inspect.getsource(make_package))
    return job_pool.pooled(key, lambda folder: make_package(build, folder))


@pytest.fixture
def package(packed, tmp_path):
    """A copy of it elsewhere."""
    return Path(shutil.copytree(packed[0], tmp_path / "elsewhere" / "copy"))
