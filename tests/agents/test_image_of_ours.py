# SPDX-License-Identifier: Apache-2.0
"""packaging/make_image.py: twinrun in an image, which is named by digests only. With --full it is
built, taken apart by another program, and run without any right of root.
"""

import json
import os
import shutil
import sys

import pytest
from said_by import run

from conftest import FULL, ROOT

MAKE = ROOT / "packaging" / "make_image.py"
FRESH = os.environ.get("TWINRUN_DEBIAN_ROOT", "")


def test_a_base_that_may_be_another_one_tomorrow_is_refused(tmp_path):
    """A tag, a digest that is cut short, and what has no name at all."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("buildah", "dpkg-deb"):  # neither is called
        (tools / name).write_text("#!/bin/sh\ntouch %s/called\n" % tmp_path)
        (tools / name).chmod(0o755)
    (tmp_path / "package.deb").write_bytes(b"")
    env = {"PATH": f"{tools}:{os.environ['PATH']}"}
    for base in ("debian:bookworm-slim", "debian@sha256:" + "a" * 63, "@sha256:" + "a" * 64):
        said = run(sys.executable, MAKE, "package.deb", base, "out", rc=2, env=env, cwd=tmp_path)
        assert "expected NAME@sha256:DIGEST" in said and base in said
    there = run(sys.executable, MAKE, "package.deb", ".", "tools", rc=2, env=env, cwd=tmp_path)
    assert "there already" in there
    assert not (tmp_path / "called").exists() and not (tmp_path / "out").exists()


def test_the_containerfile_has_no_base_of_its_own():
    """So that no tag can come into it: the one who builds says which, by digest."""
    lines = (ROOT / "packaging/image/Containerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith(("ARG", "FROM"))] == [
        "ARG BASE",
        "FROM ${BASE}",
    ]


IN_THE_IMAGE = """set -eu
test "$(id -u)" != 0
twinrun --version
twinrun check -q --runs 2 -- /usr/libexec/twinrun/trainer --ordered --steps 3
"""


@pytest.mark.skipif(not FULL, reason="builds an image of 500 MB: with --full")
def test_it_runs_in_a_root_without_rights(build, tmp_path):
    """umoci takes the layers apart, so that they are not read by who wrote them alone. Then a job
    that was recorded here is replayed in the image, by twinrun's own reader of layouts.
    """
    for tool in ("buildah", "umoci", "bwrap", "dpkg-deb", "dh"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed: ./dev test --full installs it")
    if not FRESH:
        pytest.skip("TWINRUN_DEBIAN_ROOT names no minimal Debian (./dev test --full makes one)")
    deb = run(sys.executable, ROOT / "packaging/make_deb.py", build, tmp_path).strip()
    image = run(sys.executable, MAKE, deb, FRESH, tmp_path / "image").strip()
    layout = json.loads((tmp_path / "image" / "index.json").read_text())
    assert len(layout["manifests"]) == 1
    run("umoci", "unpack", "--rootless", "--image", image, tmp_path / "bundle")
    config = json.loads((tmp_path / "bundle" / "config.json").read_text())
    assert config["process"]["args"] == ["/usr/bin/twinrun", "--help"]
    root = tmp_path / "bundle" / "rootfs"
    assert not (root / "twinrun.deb").exists()
    said = run(
        *("bwrap", "--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
        *("--unshare-all", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL", "--clearenv"),
        *("--setenv", "PATH", "/usr/bin", "--setenv", "TWINRUN_HOME", "/tmp/home"),
        *("--chdir", "/tmp", "sh", "-c", IN_THE_IMAGE),
    )
    assert "SAME" in said
    work = tmp_path / "work"
    work.mkdir()
    shutil.copy(build / "workloads" / "trainer", work / "train")
    env = {"TWINRUN_HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    twinrun = build / "cmd" / "twinrun"
    shutil.copytree(ROOT / "workloads" / "data", tmp_path / "data")
    data = ("--data", "../data")
    run(twinrun, "snapshot", "../data", cwd=work, env=env)
    job = ("./train", "--ordered", "--steps", "3", "--seed", "7", *data)
    run(twinrun, "record", *data, "--", *job, cwd=work, env=env)
    pack = ("pack", "last", "-o", "../package", "--code", "train", "--image", "oci:" + image)
    run(twinrun, *pack, "--image-beside", cwd=work, env=env)
    replay = ("replay", "../package", "--container", "bwrap", "--into", "../into")
    assert "REPRODUCED" in run(twinrun, *replay, cwd=work, env=env)
    shutil.rmtree(tmp_path / "bundle")
