# SPDX-License-Identifier: Apache-2.0
"""Images of a real registry (Debian's docker-registry, by skopeo): asked for by a tag, packed by
their digest, and fetched again for a replay, in OCI's form and in docker's.
"""

import contextlib
import json
import subprocess

import pytest

from oci_here import docker_registry, need_registry
from test_container import can_contain, image_of, made  # noqa: F401

pytestmark = pytest.mark.usefixtures("can_contain")


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """(host:port, the environment in which skopeo may ask it without TLS)."""
    need_registry()
    folder = tmp_path_factory.mktemp("registry")
    with contextlib.ExitStack() as stack:
        host = f"127.0.0.1:{stack.enter_context(docker_registry(folder))}"
        conf = folder / ".config" / "containers" / "registries.conf"
        conf.parent.mkdir(parents=True)
        conf.write_text(f'[[registry]]\nlocation = "{host}"\ninsecure = true\n')
        yield host, {"HOME": str(folder), "no_proxy": "127.0.0.1"}


def push(registry, layout, name, form):  # noqa: F811
    host, _ = registry
    words = ["skopeo", "copy", "-q", "--dest-tls-verify=false", "--format", form]
    subprocess.run([*words, f"oci:{layout}", f"docker://{host}/{name}"], check=True)
    return f"docker://{host}/{name}"


@pytest.mark.parametrize(("form", "same"), [("oci", True), ("v2s2", None)])
def test_by_the_digest_behind_a_tag(twinrun, registry, made, tmp_path, form, same):  # noqa: F811
    _, env = registry
    reference = push(registry, f"{made}/image:train:1", f"train-{form}:1", form)
    package = tmp_path / "p"
    r = twinrun("pack", "last", "-o", str(package), "--home", str(made / "home"), "--code",
                str(made / "work" / "train"), "--image", reference, env=env)  # fmt: skip
    assert r.rc == 0, r.out + r.err
    named = image_of(package)
    assert named["tag"] == "1" and reference[9:].startswith(named["reference"])
    # the tag moves on; the package stays with what it names
    push(registry, f"{made}/changed", f"train-{form}:1", form)
    words = ["replay", str(package), "--container", "bwrap", "--json"]
    r = twinrun(*words, "--into", str(tmp_path / "unasked"), env=env)
    assert r.rc == 2 and "--fetch" in r.err, r.err
    r = twinrun(*words, "--fetch", "--into", str(tmp_path / "into"), env=env)
    assert r.rc == 0, r.out + r.err
    said = json.loads(r.out)
    assert said["outcome"] == "same"
    assert said["container"]["image"]["ran"] == named["id"]
    assert said["container"]["image"]["same"] is same
    r = twinrun("replay", str(package), "--container", "bwrap", "--fetch",
                "--into", str(tmp_path / "words"), env=env)  # fmt: skip
    unseen = "fetched by the digest that the package names; that it is its image was not seen here"
    assert (unseen in r.out) == (same is None), r.out


def test_a_registry_that_lost_it(twinrun, registry, made, tmp_path):  # noqa: F811
    host, env = registry
    reference = push(registry, f"{made}/image:train:1", "gone:1", "oci")
    package = tmp_path / "p"
    r = twinrun("pack", "last", "-o", str(package), "--home", str(made / "home"), "--image",
                reference, env=env)  # fmt: skip
    assert r.rc == 0, r.out + r.err
    subprocess.run(
        ["skopeo", "delete", "--tls-verify=false", f"docker://{host}/gone:1"], check=True
    )
    r = twinrun("replay", str(package), "--container", "bwrap", "--fetch", "--into",
                str(tmp_path / "into"), env=env)  # fmt: skip
    assert r.rc == 2 and image_of(package)["digest"] in r.err, r.err
    assert not (tmp_path / "into").exists()
