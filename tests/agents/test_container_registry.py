# SPDX-License-Identifier: Apache-2.0
"""Images of a real registry (Debian's docker-registry, by skopeo): asked for by a tag, packed by
their digest, and fetched again for a replay, in OCI's form and in docker's.
"""

import contextlib
import json
import os
import subprocess

import pytest

from image_helper import sha
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


def skopeo(registry, *words):  # noqa: F811
    env = {**os.environ, **registry[1]}
    return subprocess.run(["skopeo", *words], env=env, check=True, capture_output=True).stdout


def digests(registry, reference, tmp_path):  # noqa: F811
    """What somebody's record may name of this image: as served, and of skopeo's copy in OCI's form."""
    layout = tmp_path / "copied"
    skopeo(registry, "copy", "-q", reference, f"oci:{layout}")
    served = skopeo(registry, "inspect", "--raw", reference)
    copied = skopeo(registry, "inspect", "--raw", f"oci:{layout}")
    return {
        "served": sha(served),
        "served config": json.loads(served)["config"]["digest"],
        "copied": sha(copied),
        "copied config": json.loads(copied)["config"]["digest"],
    }


def packed(twinrun, registry, tmp_path, recorded, reference, *more):  # noqa: F811
    """(the image as packed, what is said of it) for a run whose record names this digest."""
    _, env = registry
    said = {"CONTAINER_IMAGE_DIGEST": recorded}
    assert twinrun("record", "-q", "--", "true", env={**env, **said}).rc == 0
    package = tmp_path / f"p{len(list(tmp_path.iterdir()))}"
    r = twinrun("pack", "last", "-o", str(package), "--data", "none", "--image", reference, *more,
                env=env)  # fmt: skip
    return image_of(package), r.out


def test_another_form_is_no_other_image(twinrun, registry, made, tmp_path):  # noqa: F811
    """docker's form has one digest at the registry and another one in a copy: the tag did not move
    for that."""
    reference = push(registry, f"{made}/image:train:1", "form:1", "v2s2")
    names = digests(registry, reference, tmp_path)
    assert len(set(names.values())) == 4, names
    for recorded in names.values():
        image, said = packed(twinrun, registry, tmp_path, recorded, reference, "--image-beside")
        assert image["moved"] is False and "the image: " not in said, (recorded, said)
        assert image["digest"] == names["served"]
    # without the layers only what the registry serves is known
    for form, moved in (("served", False), ("served config", False), ("copied", None)):
        image, said = packed(twinrun, registry, tmp_path, names[form], reference)
        assert image["moved"] is moved and ("in another form" in said) == (moved is None), said
        assert "has moved" not in said
    # nobody knows what that is: it is not called a moved tag, and not the same
    image, said = packed(twinrun, registry, tmp_path, "sha256:" + "7" * 64, reference,
                         "--image-inside")  # fmt: skip
    assert image["moved"] is None and "in another form, or another image" in said


@pytest.mark.parametrize("form", ["oci", "v2s2"])
def test_a_tag_that_did_move(twinrun, registry, made, tmp_path, form):  # noqa: F811
    """The registry still has the image of the run, and the tag names another one now."""
    reference = push(registry, f"{made}/image:train:1", f"moved-{form}:1", form)
    was = digests(registry, reference, tmp_path)["served"]
    push(registry, f"{made}/changed", f"moved-{form}:1", form)
    for more in ((), ("--image-inside",)):
        image, said = packed(twinrun, registry, tmp_path, was, reference, *more)
        assert image["moved"] is True and image["recorded"] == was
        assert f"and the run was made in {was}: the tag has moved" in said, said


def test_a_registry_that_has_both_forms(twinrun, registry, made, tmp_path):  # noqa: F811
    """What is the same image there under two digests is not said to be another one."""
    reference = push(registry, f"{made}/image:train:1", "both:1", "v2s2")
    names = digests(registry, reference, tmp_path)
    # the same configuration, and one that was written anew
    for layout, moved in ((f"{made}/image:train:1", False), (tmp_path / "copied", None)):
        other = push(registry, layout, "both:2", "oci")
        served = skopeo(registry, "inspect", "--raw", other)
        assert (json.loads(served)["config"]["digest"] == names["served config"]) is not (
            moved is None
        )
        image, said = packed(twinrun, registry, tmp_path, sha(served), reference)
        assert image["moved"] is moved and "has moved" not in said, said
