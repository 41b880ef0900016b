# SPDX-License-Identifier: Apache-2.0
"""rollback --rerun of a version whose environment is gone: it says what is missing, where it was
looked for and what can be proven all the same; the stage stays, and nothing lies about.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pip

from image_helper import Layout
from package_helper import repack
from registry_helper import registry  # noqa: F401
from test_container import can_contain  # noqa: F401
from test_registry_evidence import recorded, with_package

ROLLBACK = ["rollback", "resnet", "--rerun", "--into", "back.pt", "--key", "ana.key"]


def stocked(r, record):
    """Version 1 has the package P of the run that record() makes; version 2 took its place."""
    r.make()
    record()
    r("add", "resnet", "model.pt", "--key", "ci.key", "--evidence", "P")
    r("promote", "resnet@1", "--to", "production", "--key", "ana.key")
    r.add(content=b"newer")
    r("promote", "resnet@2", "--to", "production", "--key", "ana.key")
    return r


def refused(r, missing, why, *more, env=None, proven=1):
    """Both forms of one refusal. `why` in both; the JSON, for more."""
    before, around = r.entries(), sorted(p.name for p in r.work.iterdir())
    text = r(*ROLLBACK, *more, rc=2, env=env)
    said = r(*ROLLBACK, *more, "--json", rc=2, env=env).json
    assert why in text.err and why in " ".join([said["why"], *said["differences"]]), text.err
    assert "nothing was rolled back: resnet@1 cannot be run again" in text.err
    assert "stage   resnet@2 stays in production" in text.err and not text.out
    assert said["rerun"] == "not possible" and said["missing"] == missing
    assert said["rolled_back"] is False and said["production"] == 2
    assert (said["files"], said["proven"]) == (1, proven)
    assert ("proven  its files are in the registry, each with" in text.err) == (proven == 1)
    assert ("without --rerun it comes back" in text.err) == (proven == 1)
    # nothing half-promoted, half-restored or left behind
    assert r.entries() == before and r.stages() == {1: "retired", 2: "production"}
    assert sorted(p.name for p in r.work.iterdir()) == around
    return said


def python_job(r):
    """A job in an environment with one package, which no index has."""
    env = r.work / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(env)], check=True)
    site = next((env / "lib").glob("python*/site-packages"))
    (site / "gone-1.0.dist-info").mkdir()
    (site / "gone-1.0.dist-info" / "METADATA").write_text("Name: gone\nVersion: 1.0\n")
    (r.work / "job.py").write_text('open("model.pt", "wb").write(b"abc" * 100)\n')
    r.run("record", "-q", "--", env / "bin" / "python", "job.py")
    r.run("pack", "last", "-o", "P", "--data", "none")


def test_an_environment_that_is_gone(registry, tmp_path):  # noqa: F811
    r = stocked(registry, lambda: python_job(registry))
    shutil.rmtree(r.work / "env")
    # there is no Python at all
    empty = tmp_path / "empty"
    empty.mkdir()
    refused(r, "environment", f"in PATH, {empty}", env={"PATH": str(empty)})
    refused(r, "environment", "none at /no/python", "--python", "/no/python")
    # there is one, without the package
    said = refused(r, "environment", "gone 1.0 is not installed", "--python", sys.executable)
    assert sys.executable in said["why"]
    # there is one, of which no environment can be made: as Debian's without python3-venv
    lame = tmp_path / "python3"
    lame.write_text(
        '#!/bin/sh\n[ "$2" = venv ] && echo "ensurepip is not available" && exit 1\n'
        f'exec {sys.executable} "$@"\n'
    )
    lame.chmod(0o755)
    build = ("--environment", "build", "--python")
    refused(r, "environment", "ensurepip is not available", *build, lame)
    # it comes back by its digest
    r(*(w for w in ROLLBACK if w != "--rerun"))
    assert (r.work / "back.pt").read_bytes() == b"abc" * 100
    assert r.stages() == {1: "production", 2: "retired"}


def test_an_index_that_has_it_no_more(registry, tmp_path):  # noqa: F811
    """A real environment is made, and a real pip asks in vain."""
    r = stocked(registry, lambda: python_job(registry))
    python = tmp_path / "python3"  # venv takes seconds to install pip: it is lent this one's
    python.write_text(
        f'#!/bin/sh\n[ "$2" != venv ] && exec {sys.executable} "$@"\n'
        f'{sys.executable} -m venv --without-pip "$3" && ln -s {Path(pip.__file__).parent} '
        '"$3"/lib/python3*/site-packages\n'
    )
    python.chmod(0o755)
    words = ("--environment", "build", "--python", python, "--pip-option=--no-index")
    said = refused(r, "environment", "gone==1.0", *words)
    assert "-m pip, with the options of --pip-option" in said["why"]


def test_a_package_that_is_gone(registry):  # noqa: F811
    r = stocked(registry, lambda: recorded(registry, package="P"))
    lost = r.folder / "contents" / digest(r.work / "P" / "data" / "package.json")
    kept = lost.read_bytes()
    lost.unlink()
    refused(r, "package", f"cannot read contents/{lost.name}")
    lost.write_bytes(kept[:-1])
    refused(r, "package", "damaged")
    # the version's own file is gone, too: nothing is proven
    (r.folder / "contents" / digest(r.work / "weights")).unlink()
    refused(r, "package", "damaged", proven=0)


def digest(path):
    return subprocess.run(["sha256sum", path], capture_output=True, text=True).stdout[:64]


def test_an_image_that_is_gone(registry, can_contain):  # noqa: F811
    def record():
        Layout(registry.work / "image", [], env=["PATH=/usr/bin"])
        recorded(registry)
        registry.run("pack", "last", "-o", "P", "--data", "none", "--image", "oci:image")

    r = stocked(registry, record)
    words = ("--container", "bwrap")
    named = refused(r, "image", "is not in the package", *words)["why"]
    assert "sha256:" in named and "--image oci:DIR" in named
    refused(r, "image", "expected an image's layout", *words, "--image", "oci:nowhere")
    refused(r, "engine", "docker", "--container", "docker", env={"PATH": str(r.work)})
    assert "expected --rerun" in r(*ROLLBACK[:2], *ROLLBACK[3:], *words, rc=2).err
    assert 'found "cart"' in r(*ROLLBACK, "--container", "cart", rc=2).err


def test_a_job_that_dies_now(registry):  # noqa: F811
    """All is there, and it ends otherwise: that is no missing environment."""

    def change(package):
        path = package / "data" / "configuration" / "configuration.json"
        config = json.loads(path.read_text())
        path.write_text(json.dumps({**config, "argv": [*config["argv"], "--die-at", "1"]}))
        repack(package)

    with_package(registry, change)
    before = registry.entries()
    r = registry(*ROLLBACK, "--json", rc=1)
    assert r.json["rerun"] == "differs" and r.json["proven"] == 1
    assert r.json["missing"] is None and r.json["why"] is None
    assert "something else came out of the replay" in r.err and "  try " not in r.err
    assert registry.entries() == before and not (registry.work / "back.pt").exists()
