# SPDX-License-Identifier: Apache-2.0
"""Drills of registries that are encrypted, or lie in an object store or a container registry: the
same as of a folder; nothing is written there, and no plaintext stays behind.
"""

import pytest

from oci_here import oci, oci_server  # noqa: F401
from registry_helper import registry  # noqa: F401
from s3_here import s3, s3_server  # noqa: F401
from test_drill_registry import CHECK, LOSSES, check, drill, tree
from test_registry_sealed import WAYS, new_key

SECRET = b"weights that nobody else may read " * 500
SEALED_LOSSES = (
    ("a list of encrypted contents lost", "list"),
    ("a bit of a list of encrypted contents turned over", "list"),
)


def stock(r, *opens):
    """Two versions that were in production one after the other, and a check."""
    for i, content in enumerate((b"first " + SECRET, SECRET)):
        r.add(content=content)
        r("promote", f"resnet@{i + 1}", "--key", "ana.key", "--to", "production", *opens)
    (r.work / "check.py").write_text(CHECK)
    (r.work / "model.pt").unlink()


def holds_secret(folder):
    return [p for p in folder.rglob("*") if p.is_file() and SECRET[:30] in p.read_bytes()]


def found(said, losses):
    for loss, why in losses:
        steps = [s for s in said["steps"] if s.startswith(f"{loss}: found: ")]
        assert steps and why in steps[0], (loss, said)


@pytest.mark.parametrize("way", WAYS)
def test_an_encrypted_one(registry, way):  # noqa: F811
    r = registry
    recipient, identity = new_key(r.work, way, "first")
    _, wrong = new_key(r.work, way, "wrong")
    r("init", "--key", "ci.key", "-p", "policy.toml", "--encrypt", recipient)
    stock(r, "--identity", identity)
    # without a key, and with another one
    said = drill(r, "rollback", "resnet", *check("sum"), rc=2)
    assert "expected --identity FILE" in said and "are encrypted" in said
    drill(r, "rollback", "resnet", "-i", wrong, *check("sum"), rc=2)
    said = drill(r, "rollback", "resnet", "-i", identity, *check("sum"))
    assert said["outcome"] == "restored" and said["detect_s"] > 0
    assert "the check says the same as before" in said["steps"]
    # what the check was given, good or bad, lies nowhere any more
    assert not holds_secret(r.home) and not holds_secret(r.folder)
    # a mirror is brought back without a key; with one, each file is opened, too
    with_key = drill(r, "registry-loss", "--mirror", r.folder, "-i", identity)
    without = drill(r, "registry-loss", "--mirror", r.folder)
    for said in (with_key, without):
        assert said["outcome"] == "restored"
        found(said, (*LOSSES, *SEALED_LOSSES))
    unopened = "without --identity: encrypted files are digested, and not opened"
    assert unopened in without["steps"] and unopened not in with_key["steps"]
    drill(r, "registry-loss", "--mirror", r.folder, "-i", wrong, rc=2)


def test_a_key_for_what_is_not_encrypted(registry):  # noqa: F811
    registry.make()
    stock(registry)
    said = drill(registry, "rollback", "resnet", "-i", "ci.key", rc=2)
    assert "--identity: nothing in" in said


def of_remote(r, store, place):
    """Both drills of a registry elsewhere, which is its own mirror: it is only read."""
    r.env.update(TWINRUN_REGISTRY=place, no_proxy="127.0.0.1", HOME=str(r.work))
    r.make()
    stock(r)
    store.requests.clear()
    before = tree(r.work)
    for words in (("rollback", "resnet", *check("sum")), ("registry-loss", "--mirror", place)):
        said = drill(r, *words)
        assert said["outcome"] == "restored", said
    found(said, LOSSES)
    # lost, and not in what is said to be its mirror
    (r.work / "empty").mkdir()
    said = drill(r, "registry-loss", "--mirror", "empty", rc=1)
    assert said["outcome"] == "failed" and "mirror" in said["steps"][-1]
    (r.work / "empty").rmdir()
    assert tree(r.work) == before
    assert {q.method for q in store.requests} <= {"GET", "HEAD"} and store.requests


def test_one_in_an_object_store(registry, s3):  # noqa: F811
    registry.env.update(s3.env())
    of_remote(registry, s3, s3.place)


def test_one_in_a_container_registry(registry, oci):  # noqa: F811
    of_remote(registry, oci, oci.place)
