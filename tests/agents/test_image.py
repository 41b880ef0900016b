# SPDX-License-Identifier: Apache-2.0
"""src/image by tests/unit/image_driver: layouts, layers that mean harm, what engines are told.

Independent of us: tarfile makes the layers, umoci and skopeo make and read layouts.
"""

import os
import shutil
import subprocess
import tarfile

import pytest

from image_helper import ARCH, INDEX, Layout, entry, sha, tar, tree
from launch_helper import BUILD

DRIVER = BUILD / "tests" / "unit" / "image_driver"


def driver(*words, ok=True, env=None):
    r = subprocess.run(
        [str(DRIVER), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C", **(env or {})},
    )
    assert r.returncode == (0 if ok else 1), r.stdout + r.stderr
    return r.stdout if ok else r.stderr


@pytest.fixture
def root(tmp_path):
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def unpack(tmp_path, root):
    """Layers become a root; (what the driver said, what is in it)"""

    def call(*layers, ok=True, **more):
        folder = tmp_path / "layout"
        if folder.exists():
            shutil.rmtree(folder)
        Layout(folder, [tar(x) for x in layers], **more)
        said = driver("root", folder, root, ok=ok)
        return said, tree(root)

    return call


@pytest.mark.parametrize("packing", ["gzip", "plain"])
def test_layers_become_a_root(unpack, root, packing):
    said, is_ = unpack(
        [
            entry("./"),
            entry("usr/"),
            entry("usr/bin/", mode=0o755),
            entry("usr/bin/tool", b"one", 0o755),
            entry("bin", kind=tarfile.SYMTYPE, target="/usr/bin"),
            entry("usr/bin/same", kind=tarfile.LNKTYPE, target="usr/bin/tool"),
            entry("etc/deep/down", b"made without its folders"),
            entry("gr\u00fc\u00dfe/\u4f60", b"not ASCII"),
            entry("n" * 200 + "/" + "m" * 200, b"long"),
        ],
        [entry("bin/more", b"through the link of the layer below")],
        packing=packing,
    )
    assert is_["usr/bin/tool"] == ("f", 0o755, b"one")
    assert is_["bin"] == ("l", "/usr/bin")
    assert is_["usr/bin/more"][2] == b"through the link of the layer below"
    assert is_["etc/deep/down"][2] == b"made without its folders"
    assert is_["gr\u00fc\u00dfe/\u4f60"][2] == b"not ASCII"
    assert is_["n" * 200 + "/" + "m" * 200][2] == b"long"
    assert os.stat(root / "usr/bin/tool").st_ino == os.stat(root / "usr/bin/same").st_ino
    assert os.stat(root / "usr/bin/tool").st_mtime == 1_600_000_000
    assert f"linux/{ARCH}" in said and "entries=10" in said


def test_whiteouts_take_away_what_lies_below_and_only_that(unpack):
    below = [
        entry("a/gone", b"1"),
        entry("a/stays", b"2"),
        entry("b/old/deep", b"3"),
        entry("c", b"a file"),
        entry("d/x", b"4"),
    ]
    above = [
        entry("a/.wh.gone", b""),
        entry("b/new", b"5"),  # before its marker, and of the same layer: it stays
        entry("b/.wh..wh..opq", b""),
        entry("c/"),
        entry("c/in", b"a folder where a file was"),
        entry("d", b"a file where a folder was"),
        entry("nowhere/.wh.thing", b""),
        entry(".wh..wh.plnk", b""),
    ]
    is_ = unpack(below, above)[1]
    assert {k: v[2] for k, v in is_.items() if v[0] == "f"} == {
        "a/stays": b"2",
        "b/new": b"5",
        "c/in": b"a folder where a file was",
        "d": b"a file where a folder was",
    }


def test_what_no_root_here_has_is_left_out_and_counted(unpack):
    said, is_ = unpack(
        [
            entry("bin/su", b"x", 0o4755),
            entry("bin/wall", b"x", 0o2755),
            entry("dev/null", kind=tarfile.CHRTYPE, devmajor=1, devminor=3),
            entry("run/pipe", kind=tarfile.FIFOTYPE),
        ]
    )
    assert is_["bin/su"][1] == 0o755 and is_["bin/wall"][1] == 0o755
    assert "dev/null" not in is_ and "run/pipe" not in is_
    assert "setuid=2 devices=1 pipes=1" in said


HOSTILE = {
    "dot-dot": ([entry("../out", b"x")], "leads out"),
    "dot-dot-inside": ([entry("a/../../out", b"x")], "leads out"),
    "absolute": ([entry("/etc/x", b"x")], "an absolute path"),
    "hard-link-out": ([entry("x", kind=tarfile.LNKTYPE, target="../secret")], "leads out"),
    "hard-link-absolute": ([entry("x", kind=tarfile.LNKTYPE, target="/secret")], "absolute"),
    "hard-link-to-nothing": (
        [entry("x", kind=tarfile.LNKTYPE, target="not/there")],
        "not in the image",
    ),
    "hard-link-to-a-folder": (
        [entry("d/"), entry("x", kind=tarfile.LNKTYPE, target="d")],
        "not in the image",
    ),
    "device": ([entry("x", kind=tarfile.BLKTYPE, devmajor=8)], "a device outside of dev/"),
    "device-like-dev": ([entry("devil/x", kind=tarfile.CHRTYPE)], "a device outside of dev/"),
    "whiteout-of-nothing": ([entry("a/.wh.", b"")], "names nothing"),
    "whiteout-of-above": ([entry("a/.wh...", b"")], "names nothing"),
    "whiteout-dot-dot": ([entry("a/../../.wh.out", b"")], "leads out"),
    "long-part": ([entry("n" * 300, b"")], "too long"),
    "root-as-a-link": ([entry(".", kind=tarfile.SYMTYPE, target="/")], "the image's root"),
    "file-as-a-folder": ([entry("a", b"x"), entry("a/b", b"y")], "something else is there"),
    "link-without-a-target": ([entry("a", kind=tarfile.SYMTYPE, target="")], "without a target"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_layer_is_refused(unpack, tmp_path, root, name):
    entries, why = HOSTILE[name]
    (tmp_path / "secret").write_text("mine")
    before = {k: v for k, v in tree(tmp_path).items() if not k.startswith("layout")}
    said, is_ = unpack([entry("first", b"harmless"), *entries], ok=False)
    assert why in said, said
    # What is checked before anything is made leaves nothing at all.
    if "not in the image" not in said and "something else is there" not in said:
        assert is_ == {}
    after = {k: v for k, v in tree(tmp_path).items() if not k.startswith(("layout", "root/"))}
    assert before == after


def test_links_lead_to_the_image_and_not_out_of_it(unpack, tmp_path, root):
    """Every way to write, or to take away, through a link that leads out."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("mine")
    up = "../" * 20 + str(outside)[1:]
    below = [
        entry("abs", kind=tarfile.SYMTYPE, target=str(outside)),
        entry("rel", kind=tarfile.SYMTYPE, target=up),
        entry("file", kind=tarfile.SYMTYPE, target=str(outside / "precious")),
        entry("proc-root", kind=tarfile.SYMTYPE, target="/proc/self/root"),
    ]
    for attack in [
        [entry("abs/new", b"x")],
        [entry("rel/new", b"x")],
        [entry("abs/.wh.precious", b"")],
        [entry("rel/.wh..wh..opq", b"")],
        [entry("x", kind=tarfile.LNKTYPE, target="abs/precious")],
        [entry("proc-root/new", b"x")],
    ]:
        for layers in [[below, attack], [below + attack]]:
            shutil.rmtree(root)
            root.mkdir()
            folder = tmp_path / "layout"
            shutil.rmtree(folder, ignore_errors=True)
            Layout(folder, [tar(x) for x in layers])
            subprocess.run(
                [str(DRIVER), "root", str(folder), str(root)], capture_output=True, timeout=60
            )  # refused, or kept inside: both are right
            assert os.listdir(outside) == ["precious"], attack
            assert (outside / "precious").read_text() == "mine", attack
            assert os.stat(outside / "precious").st_nlink == 1, attack
    # A file over a link replaces the link.
    shutil.rmtree(root)
    root.mkdir()
    is_ = unpack(below, [entry("file", b"new")])[1]
    assert is_["file"][2] == b"new" and (outside / "precious").read_text() == "mine"


def test_a_bomb_is_refused_before_anything_is_written(tmp_path, root):
    bomb = tar([entry("zeros", b"\0" * (192 << 20))])
    Layout(tmp_path / "bomb", [bomb])
    said = driver("root", tmp_path / "bomb", root, ok=False)
    assert "become more than" in said and tree(root) == {}
    # A sparse file is large without any bytes.
    info, data = entry("hole", b"1.0\n")
    info.pax_headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": "hole",
        "GNU.sparse.realsize": str(1 << 45),
    }
    data = b"1\n0\n0\n".ljust(512, b"\0")
    info.size = len(data)
    Layout(tmp_path / "sparse", [tar([(info, data)])])
    said = driver("root", tmp_path / "sparse", root, ok=False)
    assert "become more than" in said and tree(root) == {}


def damage_config(config, manifest):
    config["rootfs"]["diff_ids"][0] = sha(b"something else")


def damage_count(config, manifest):
    config["rootfs"]["diff_ids"].append(sha(b"one more"))


def damage_digest(config, manifest):
    manifest["layers"][0]["digest"] = "sha512:" + "0" * 128


def damage_path(config, manifest):
    manifest["layers"][0]["digest"] = "sha256:../../../../etc/passwd"


def damage_size(config, manifest):
    manifest["layers"][0]["size"] = -1


@pytest.mark.parametrize(
    "change, why",
    [
        (damage_config, "the image's configuration says"),
        (damage_count, '"diff_ids" for each layer'),
        (damage_digest, "expected digests by SHA-256"),
        (damage_path, "a descriptor"),
        (damage_size, "a descriptor"),
    ],
)
def test_a_manifest_that_cannot_be(unpack, change, why):
    said, is_ = unpack([entry("a", b"x")], ok=False, change=change)
    assert why in said and is_ == {}


def test_blobs_that_are_not_what_they_are_named(tmp_path, root):
    for which in ["config", "manifest", "layer"]:
        for how, why in [
            ("missing", "is missing"),
            ("short", "bytes, found"),
            ("changed", "is not what it is named"),
            ("link", "cannot read the blob"),
        ]:
            folder = tmp_path / f"{which}-{how}"
            made = Layout(folder, [tar([entry("a", b"x" * 5000)])])
            blob = made.blob(made.layers[0] if which == "layer" else getattr(made, which))
            data = blob.read_bytes()
            blob.unlink()
            if how == "short":
                blob.write_bytes(data[:-1])
            elif how == "changed":
                blob.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
            elif how == "link":
                (folder / "elsewhere").write_bytes(data)
                blob.symlink_to(folder / "elsewhere")
            assert why in driver("verify", folder, ok=False), (which, how)
            (tmp_path / "to").mkdir(exist_ok=True)
            assert why in driver("copy", folder, tmp_path / "to", ok=False)
            shutil.rmtree(tmp_path / "to")


def test_which_image_of_a_layout(tmp_path, root):
    made = Layout(tmp_path / "l", [tar([entry("a", b"x")])], tag="train:1")
    other = Layout(tmp_path / "l", [tar([entry("a", b"y")])], tag="train:2")
    made.name([made.manifest, other.manifest])
    said = driver("verify", tmp_path / "l", ok=False)
    assert "holds 2 images: name one by its tag" in said
    # An index for several platforms: the one for this machine.
    strange = dict(other.manifest, platform={"os": "linux", "architecture": "m68k"})
    here = dict(made.manifest, platform={"os": "linux", "architecture": ARCH})
    index = made.put_json({"schemaVersion": 2, "manifests": [strange, here]}, INDEX)
    made.name([index])
    assert driver("verify", tmp_path / "l").startswith(made.config["digest"])
    made.name([strange])
    assert "holds no image for linux/" in driver("verify", tmp_path / "l", ok=False)
    Layout(tmp_path / "m68k", [tar([entry("a", b"x")])], arch="m68k")
    assert "the image is for linux/m68k" in driver("verify", tmp_path / "m68k", ok=False)
    assert "expected an OCI image layout" in driver("verify", tmp_path, ok=False)


def test_skopeo_and_umoci_agree(tmp_path, root):
    """Layouts that others made, a copy of ours read by others."""
    layers = [
        [
            entry("usr/bin/tool", b"one", 0o755),
            entry("bin", kind=tarfile.SYMTYPE, target="usr/bin"),
        ],
        [entry("bin/more", b"two"), entry("usr/bin/.wh.tool", b"")],
    ]
    Layout(tmp_path / "l", [tar(x) for x in layers], tag="x")
    subprocess.run(
        ["skopeo", "copy", "-q", f"oci:{tmp_path}/l:x", f"oci:{tmp_path}/s:x"], check=True
    )
    assert (
        driver("verify", tmp_path / "s").split()[0] == driver("verify", tmp_path / "l").split()[0]
    )
    (tmp_path / "c").mkdir()
    driver("copy", tmp_path / "s", tmp_path / "c")
    subprocess.run(["skopeo", "copy", "-q", f"oci:{tmp_path}/c", f"dir:{tmp_path}/d"], check=True)
    driver("root", tmp_path / "c", root)
    subprocess.run(
        ["umoci", "unpack", "--rootless", "--image", f"{tmp_path}/s:x", str(tmp_path / "bundle")],
        check=True,
        capture_output=True,
    )
    assert tree(root) == tree(tmp_path / "bundle" / "rootfs")


def test_where_a_folder_is_mounted(tmp_path, root):
    (root / "home").mkdir()
    driver("mount", root, "/home/ana/replay")
    assert (root / "home" / "ana" / "replay").is_dir()
    (root / "link").symlink_to("/home")
    assert "a link or a file" in driver("mount", root, "/link/x", ok=False)
    (root / "file").write_text("x")
    assert "a link or a file" in driver("mount", root, "/file/x", ok=False)


@pytest.mark.parametrize("engine", ["docker", "podman", "apptainer", "bwrap", "chroot"])
def test_the_command_line_of(engine, request):
    """Golden texts; nothing is started. Engines that the machine can start are tried in
    test_container.py."""
    out = ""
    for image in ["layout", "digest"]:
        for network in ["none", "network"]:
            for gpus in ["none", "gpus"]:
                for uid in ["0", "1000"]:
                    r = subprocess.run(
                        [str(DRIVER), "lines", engine, image, network, gpus, uid],
                        capture_output=True,
                        text=True,
                    )
                    out += f"## {image} {network} {gpus} {uid}: {r.returncode}\n"
                    out += r.stdout + r.stderr
    golden = request.path.parent.parent / "golden" / "image" / f"{engine}.txt"
    if os.environ.get("TWINRUN_ACCEPT"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(out)
    assert out == golden.read_text()
