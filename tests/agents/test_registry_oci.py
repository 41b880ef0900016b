# SPDX-License-Identifier: Apache-2.0
"""A version as an OCI image layout: by its own digests, by skopeo, and by way of a container
registry.
"""

import hashlib
import json
import shutil
import subprocess

import pytest

from oci_here import docker_registry
from registry_helper import registry  # noqa: F401


@pytest.fixture
def layout(registry):  # noqa: F811
    """The layout L of a folder in which two files are equal and one may be run."""
    model = registry.work / "model"
    (model / "deep").mkdir(parents=True)
    (model / "weights").write_bytes(b"weights" * 1000)
    (model / "deep" / "copy").write_bytes(b"weights" * 1000)
    (model / "run.sh").write_text("#!/bin/sh\n")
    (model / "run.sh").chmod(0o755)
    registry.make()
    registry("add", "vision/net", "model", "--key", "ci.key")
    r = registry("get", "vision/net@1", "--oci", "--into", "L")
    assert "is in L, tag 1" in r.out
    return registry


def blob(folder, descriptor):
    """Its bytes, which are what the descriptor says."""
    data = (folder / "blobs" / descriptor["digest"].replace(":", "/")).read_bytes()
    assert descriptor["digest"] == "sha256:" + hashlib.sha256(data).hexdigest()
    assert descriptor["size"] == len(data)
    return data


def check(folder, registry, tag="1"):  # noqa: F811
    """Each file is there by its title, and the config is the artifact of the log's entry."""
    assert json.loads((folder / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads((folder / "index.json").read_text())
    (image,) = index["manifests"]
    assert image["annotations"]["org.opencontainers.image.ref.name"] == tag
    manifest = json.loads(blob(folder, image))
    version = registry("show", "vision/net@1", "--json").json["version"]
    assert manifest["config"]["digest"] == "sha256:" + version["artifact"]
    blob(folder, manifest["config"])
    model = registry.work / "model"
    files = {str(p.relative_to(model)): p.read_bytes() for p in model.rglob("*") if p.is_file()}
    layers = manifest["layers"]
    found = {x["annotations"]["org.opencontainers.image.title"]: blob(folder, x) for x in layers}
    assert found == files
    assert [x["annotations"].get("twinrun.executable") for x in layers].count("true") == 1
    kept = {p.name for p in (folder / "blobs" / "sha256").iterdir()}
    assert len(kept) == len({x["digest"] for x in layers}) + 2


def test_the_layout_is_what_its_digests_say(layout):
    check(layout.work / "L", layout)
    r = layout("get", "vision/net@1", "--oci", "--into", "L", rc=2)
    assert "is there already" in r.err
    r = layout("ls", "--oci", rc=2)
    assert "--oci" in r.err


def test_a_damaged_content_gives_no_layout(layout):
    content = layout.folder / "contents" / hashlib.sha256(b"weights" * 1000).hexdigest()
    content.write_bytes(b"Weights" * 1000)
    r = layout("get", "vision/net@1", "--oci", "--into", "other", rc=2)
    assert "damaged" in r.err
    assert not (layout.work / "other").exists() and not list(layout.work.glob("*.restoring*"))


def run(*argv, cwd):
    r = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, r
    return r.stdout


@pytest.mark.skipif(not shutil.which("skopeo"), reason="no skopeo (Debian: skopeo)")
def test_skopeo_copies_it(layout):
    """It holds every digest against what it reads."""
    run("skopeo", "--insecure-policy", "copy", "oci:L:1", "oci:M:1", cwd=layout.work)
    check(layout.work / "M", layout)
    content = layout.work / "L" / "blobs" / "sha256"
    content /= hashlib.sha256(b"weights" * 1000).hexdigest()
    content.write_bytes(b"Weights" * 1000)
    words = ["skopeo", "--insecure-policy", "copy", "oci:L:1", "oci:N:1"]
    assert subprocess.run(words, cwd=layout.work, capture_output=True, timeout=120).returncode != 0


@pytest.mark.skipif(
    not (shutil.which("skopeo") and shutil.which("docker-registry")),
    reason="no container registry (Debian: skopeo docker-registry)",
)
def test_by_way_of_a_container_registry(layout):
    with docker_registry(layout.work / "pushed") as port:
        there = f"docker://127.0.0.1:{port}/vision/net:1"
        copy = ["skopeo", "--insecure-policy", "copy"]
        run(*copy, "--dest-tls-verify=false", "oci:L:1", there, cwd=layout.work)
        run(*copy, "--src-tls-verify=false", there, "oci:P:1", cwd=layout.work)
    check(layout.work / "P", layout)
