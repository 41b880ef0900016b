# SPDX-License-Identifier: Apache-2.0
"""pack --image and replay --container end to end: a job that was recorded in an image runs again in
it, in real containers of bubblewrap and, as root, of chroot. docker, podman and apptainer are stood
in for by a program of the test, which only looks at how it is called; their command lines are in
test_image.py.

The image is made without network, of this machine's own C library, by tarfile.
"""

import fcntl
import io
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import tarfile
import termios
import time
import uuid

import pytest

import job_pool
from conftest import ROOT, clean_environment
from image_helper import Layout, entry, in_docker_form, sha, tar

JOB = ["./train", "--ordered", "--steps", "3", "--seed", "7", "--data", "../images"]

# expf as the image's "other version" of a library has it: the last bits are others.
OTHER_LIBRARY = """
#include <math.h>
float expf(float x) { return (float)exp(x) * 1.000001f; }
"""


def libraries(*programs):
    found = set()
    for program in programs:
        said = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
        # twinrun's own library is brought by the replay
        found |= {w for w in said.split() if w.startswith("/") and "libtwinrun" not in w}
    return sorted(found)


def system_layer(build):
    """A small root: the C library, a shell, what the job is linked with."""
    links = [("lib64", "usr/lib64"), ("lib", "usr/lib"), ("bin", "usr/bin")]
    out = [entry(name, kind=tarfile.SYMTYPE, target=to) for name, to in links]
    shell = os.path.realpath("/bin/sh")
    out.append(entry("usr/bin/sh", open(shell, "rb").read(), 0o755))
    job, agent = build / "workloads" / "trainer", build / "agents" / "libtwinrun.so"
    for path in libraries(str(job), str(agent), shell):
        name = path[1:] if path.startswith("/usr/") else "usr" + path
        out.append(entry(name, open(path, "rb").read(), 0o755))
    return tar(out)


def make(build, folder):
    """The image, another one with a changed library, and a package of a run made in the first."""
    base = system_layer(build)
    Layout(folder / "image", [base], env=["PATH=/usr/bin", "OF_THE_IMAGE=1"], tag="train:1")
    (folder / "other.c").write_text(OTHER_LIBRARY)
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-o", "other.so", "other.c", "-lm"],
        cwd=folder,
        check=True,
    )
    changed = tar(
        [
            entry("usr/lib/other.so", (folder / "other.so").read_bytes(), 0o755),
            entry("etc/ld.so.preload", b"/usr/lib/other.so\n"),
        ]
    )
    Layout(folder / "changed", [base, changed], env=["PATH=/usr/bin"])
    work = folder / "work"
    work.mkdir()
    shutil.copy(build / "workloads" / "trainer", work / "train")
    shutil.copytree(ROOT / "workloads" / "data", folder / "images")
    config = json.loads((folder / "image" / "index.json").read_text())["manifests"][0]
    env = clean_environment(
        {
            "TWINRUN_HOME": str(folder / "home"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            # what somebody who starts the container tells the job of its image
            "CONTAINER_IMAGE_DIGEST": config["digest"],
        }
    )
    # Recorded in the image: its root by skopeo's and tarfile's hands, not by ours.
    root = folder / "root"
    root.mkdir()
    with tarfile.open(fileobj=io.BytesIO(base)) as t:
        t.extractall(root)
    (root / str(folder)[1:]).mkdir(parents=True)
    twinrun = str(build / "cmd" / "twinrun")
    for path in {*libraries(twinrun)}:
        there = root / "usr" / path.removeprefix("/usr").lstrip("/")
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, there)
    for place in {str(build), str(ROOT)}:
        (root / place[1:]).mkdir(parents=True, exist_ok=True)
    bwrap = ["bwrap", "--die-with-parent", "--bind", str(root), "/", "--proc", "/proc"]
    bwrap += ["--dev", "/dev", "--ro-bind", "/sys", "/sys", "--bind", str(folder), str(folder)]
    for place in sorted({str(build), str(ROOT)}):
        bwrap += ["--ro-bind", place, place]

    def call(*words, inside=()):
        r = subprocess.run(
            [*inside, twinrun, *words], cwd=work, env=env, capture_output=True, text=True
        )
        assert r.returncode == 0, r.stdout + r.stderr

    call("snapshot", "../images")
    call("record", "--data", "../images", "--", *JOB, inside=[*bwrap, "--chdir", str(work)])
    call("pack", "last", "-o", "../inside", "--code", "train", "--image", "oci:../image:1",
         "--image-inside")  # fmt: skip
    call("pack", "last", "-o", "../beside", "--code", "train", "--image", "oci:../image",
         "--image-beside")  # fmt: skip
    call("pack", "last", "-o", "../named", "--code", "train", "--image", "oci:../image")
    call("pack", "last", "-o", "../without", "--code", "train")
    call("pack", "last", "-o", "../other", "--code", "train", "--image", "oci:../changed")
    shutil.rmtree(root)
    return folder


@pytest.fixture(scope="session")
def can_contain():
    r = subprocess.run(
        "bwrap --bind / / --proc /proc --dev /dev --unshare-pid --unshare-net true",
        shell=True,
        capture_output=True,
    )
    if r.returncode:
        pytest.skip(f"bubblewrap cannot start a container here: {r.stderr.decode().strip()}")


@pytest.fixture
def made(build, can_contain):
    return job_pool.pooled(("container", 3, JOB, OTHER_LIBRARY), lambda to: make(build, to))


def image_of(package):
    return json.loads((package / "data" / "environment" / "environment.json").read_text())["image"]


def left_of(tmp_path):
    """What is still mounted, or running, of a replay into this folder."""
    mounts = open("/proc/self/mountinfo").read().splitlines()
    found = [line for line in mounts if str(tmp_path) in line]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read()
        except OSError:
            continue
        if b"--replay-inside\0" + os.fsencode(tmp_path) in words:
            found.append((pid, words))
    return found


ENGINES = [
    "bwrap",
    pytest.param("chroot", marks=pytest.mark.skipif(os.geteuid() != 0, reason="root only")),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("where", ["inside", "beside"])
def test_in_its_own_image_the_same_comes_out(twinrun, made, tmp_path, engine, where):
    into = tmp_path / "into"
    r = twinrun("replay", str(made / where), "--container", engine, "--into", str(into), "--json")
    assert r.rc == 0, r.out + r.err
    said = json.loads(r.out)
    assert said["outcome"] == "same"
    image, id_ = said["container"]["image"], image_of(made / where)["id"]
    assert said["container"]["engine"] == engine
    assert (image["ran"], image["package"], image["same"]) == (id_, id_, True)
    outside = {o["what"]: o["same"] for o in said["container"]["outside"]}
    assert outside["kernel"] is True and outside["processor"] is True
    # It ran in the image, not here: by the libraries' digests that the run's record has.
    record = json.loads(next((into / "runs").glob("*/provenance.json")).read_text())
    hints = record["environment"]["container"]["hints"]
    assert hints["CONTAINER_IMAGE_DIGEST"] == id_
    assert record["environment"]["system"] == {}  # the image has no /etc/os-release
    assert not (into / "image").exists() and not (into / "twinrun").exists()
    assert not left_of(into)


def test_the_words_of_the_verdict(twinrun, made, tmp_path):
    r = twinrun("replay", str(made / "inside"), "--container", "bwrap", "--into", f"{tmp_path}/a")
    assert r.rc == 0, r.out + r.err
    id_ = image_of(made / "inside")["id"]
    assert f"image       {id_}, by bwrap" in r.out
    assert "as the package and the run's own record name it" in r.out
    assert "no image fixes it, and it is the same: kernel" in r.out
    assert r.out.splitlines()[-1] == "REPRODUCED  bit for bit what the package says"


def test_another_image_is_named_and_its_library_found(twinrun, made, tmp_path):
    words = ["replay", str(made / "inside"), "--container", "bwrap", "--image"]
    r = twinrun(*words, f"oci:{made}/changed", "--into", f"{tmp_path}/a")
    assert r.rc == 1, r.out + r.err
    assert f"not the image that the package names, {image_of(made / 'inside')['id']}" in r.out
    assert r.out.splitlines()[-1].startswith("DIFFERS")
    # The package that names the changed image, but whose record names the first one: it moved.
    assert image_of(made / "other")["moved"] is True
    r = twinrun("replay", str(made / "other"), "--container", "bwrap", "--image",
                f"oci:{made}/changed", "--into", f"{tmp_path}/b")  # fmt: skip
    assert r.rc == 1 and "and the run's record another one" in r.out
    # A package that names none: what ran is said, and that nobody knows more.
    r = twinrun("replay", str(made / "without"), "--container", "bwrap", "--image",
                f"oci:{made}/image", "--into", f"{tmp_path}/c")  # fmt: skip
    assert r.rc == 0 and "the package names no image" in r.out, r.out + r.err


def test_an_image_that_is_not_there_or_not_what_it_is_named(twinrun, made, tmp_path):
    def refused(package, why, *more):
        into = tmp_path / "into"
        r = twinrun("replay", str(package), "--container", "bwrap", "--into", str(into), *more)
        assert r.rc == 2 and why in r.err, r.out + r.err
        assert not into.exists()

    refused(made / "named", "name a layout of it with --image oci:DIR")
    refused(made / "without", "the package names no image")
    refused(made / "named", "expected an OCI image layout", "--image", f"oci:{tmp_path}")
    refused(made / "named", "holds no image tagged 9", "--image", f"oci:{made}/image:9")
    shutil.copytree(made / "beside", tmp_path / "p")
    layer = max(
        (made / "beside.image" / "blobs" / "sha256").iterdir(), key=lambda f: f.stat().st_size
    )
    for how, why in [
        ("missing", "is missing"),
        ("short", "bytes, found"),
        ("changed", "is not what"),
    ]:
        shutil.rmtree(tmp_path / "p.image", ignore_errors=True)
        shutil.copytree(made / "beside.image", tmp_path / "p.image")
        blob = tmp_path / "p.image" / "blobs" / "sha256" / layer.name
        data = bytearray(blob.read_bytes())
        blob.unlink()
        if how == "short":
            blob.write_bytes(data[:-100])
        elif how == "changed":
            data[len(data) // 2] ^= 1
            blob.write_bytes(data)
        refused(tmp_path / "p", why)
    # Another image in its place is not taken for it.
    shutil.rmtree(tmp_path / "p.image")
    shutil.copytree(made / "changed", tmp_path / "p.image")
    refused(tmp_path / "p", f"holds no image {image_of(tmp_path / 'p')['id']}")


def test_without_room_nothing_is_left(twinrun, made, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("root only: a small file system is mounted")
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=9m", "tmpfs", str(small)]).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        into = small / "into"
        r = twinrun("replay", str(made / "inside"), "--container", "bwrap", "--into", str(into))
        assert r.rc == 2 and ("no room" in r.err or "No space left" in r.err), r.err
        assert not into.exists()
    finally:
        subprocess.run(["umount", str(small)], check=True)


def stand_in(folder, name, body):
    """A program of this name in PATH, for how it is called; no container."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n" + body)
    (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def test_an_engine_that_is_missing_or_fails(twinrun, made, tmp_path):
    package, into = str(made / "inside"), tmp_path / "into"
    if not shutil.which("apptainer"):
        r = twinrun("replay", package, "--container", "apptainer", "--into", str(into))
        assert r.rc == 2 and "apptainer is not installed" in r.err and not into.exists()
    body = 'case "$*" in *--replay-inside*) echo oh no >&2; exit 125;; esac; exit 0\n'
    env = stand_in(tmp_path / "bin", "bwrap", body)
    r = twinrun("replay", package, "--container", "bwrap", "--into", str(into), env=env)
    assert r.rc == 2 and "bwrap ended with 125 before the replay began" in r.err, r.err
    assert not into.exists()
    r = twinrun("replay", package, "--container", "cri-o")
    assert r.rc == 2 and "expected docker, podman" in r.err
    r = twinrun("replay", package, "--image", "oci:x")
    assert r.rc == 2 and "expected --container" in r.err


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_what_an_engine_is_called_with(twinrun, made, tmp_path, engine):
    """Stand-ins for docker, podman and skopeo: the arguments arrive as --print shows them, and a
    container that goes on is taken away."""
    log = tmp_path / "log"
    body = f'printf "%s\\n" "$(basename "$0") $*" >>{log}\n'
    env = stand_in(tmp_path / "bin", engine, body + 'case "$1" in run) exit 125;; esac\n')
    stand_in(tmp_path / "bin", "skopeo", body)
    words = ["replay", str(made / "inside"), "--container", engine, "--into", f"{tmp_path}/into"]
    r = twinrun(*words, env=env)
    assert r.rc == 2 and f"{engine} ended with 125" in r.err, r.out + r.err
    called = log.read_text().splitlines()
    printed = twinrun(*words, "--print", env=env)
    assert printed.rc == 0 and not (tmp_path / "into").exists()
    # it is taken away in any case, and by a name that nobody can have known
    number = called[-1].split("twinrun-replay-")[1]
    assert called[-1] == f"{engine} rm --force --volumes twinrun-replay-{number}"
    assert re.fullmatch("[0-9a-f]{32}", number)
    wanted = printed.out.replace("twinrun-replay-0", f"twinrun-replay-{number}").splitlines()
    assert [w for w in called if w in wanted] == wanted
    assert "--network none" in wanted[1] and "readonly" in wanted[1]
    assert image_of(made / "inside")["id"][7:] in wanted[1]


def with_command(made, folder, *argv):
    """A package whose author had another command in mind."""
    from package_helper import repack

    shutil.copytree(made / "inside", folder)
    configuration = folder / "data" / "configuration" / "configuration.json"
    said = json.loads(configuration.read_text())
    said["argv"] = list(argv)
    configuration.write_text(json.dumps(said))
    repack(folder)
    return folder


@pytest.mark.parametrize("engine", ENGINES)
def test_the_job_has_no_rights_and_no_terminal(build, made, tmp_path, engine, home):
    """What runs inside could otherwise type into the terminal of whoever replays, or, being root,
    leave a chroot."""
    look = """
        while read -r name value; do
            case $name in CapInh:|CapPrm:|CapEff:|CapAmb:|NoNewPrivs:) echo "$name $value";; esac
        done </proc/self/status >"$TO/rights"
        read -r line </proc/self/stat; set -- ${line##*) }; echo "$5" >"$TO/terminal"
    """
    into = tmp_path / "into"
    package = with_command(made, tmp_path / "p", "sh", "-c", f"TO={into}; {look}")
    ours, theirs = pty.openpty()

    def take_terminal():
        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    words = ["replay", str(package), "--container", engine, "--into", str(into)]
    try:
        r = subprocess.run(
            [str(build / "cmd" / "twinrun"), *words],
            cwd=tmp_path,
            env=clean_environment({"TWINRUN_HOME": str(home)}),
            stdin=theirs,
            capture_output=True,
            preexec_fn=take_terminal,
            timeout=300,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert (into / "rights").exists(), r.stderr
    rights = dict(line.split() for line in (into / "rights").read_text().splitlines())
    assert rights.pop("NoNewPrivs:") == "1"  # so that no program gives rights back
    assert len(rights) == 4 and {int(x, 16) for x in rights.values()} == {0}, rights
    assert (into / "terminal").read_text() == "0\n"  # tty_nr


@pytest.mark.parametrize(
    "form", ["{}/into/", "../work/into", "sub/../into", "link/into", "deep/er/into//"]
)
def test_a_folder_has_one_path_inside_and_outside(twinrun, made, tmp_path, form):
    """The engine mounts what the run inside says that it was made in."""
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    (work / "link").symlink_to(work)
    r = twinrun("replay", str(made / "inside"), "--container", "bwrap", "--into",
                form.format(work), "--json", cwd=work)  # fmt: skip
    assert r.rc == 0 and json.loads(r.out)["outcome"] == "same", r.out + r.err


def test_folders_that_a_replay_cannot_be_in(twinrun, made, tmp_path):
    package = str(made / "named")

    def refused(why, *words, cwd=tmp_path):
        before = sorted(tmp_path.rglob("*"))
        r = twinrun("replay", package, "--container", "bwrap", "--image", f"oci:{made}/image",
                    *words, cwd=cwd)  # fmt: skip
        assert r.rc == 2 and why in r.err, r.out + r.err
        assert sorted(tmp_path.rglob("*")) == before

    refused('".." of a folder that is not there', "--into", "none/../into")
    data = tmp_path / "images"
    shutil.copytree(made / "images", data)
    for given in [str(data), "images", "images/../images"]:
        refused("lies in it: name another", "--into", "images/into", "--data", given)
        refused("lies in it: name another", "--into", f"{data}/a/b", "--data", f"images={given}")
    strange = os.fsdecode(b"images-\xff")
    shutil.copytree(made / "images", tmp_path / strange)
    refused("expected a path in UTF-8", "--into", "into", "--data", strange)
    refused("expected a path in UTF-8", "--into", os.fsdecode(b"into-\xff"), "--data", "images")


@pytest.mark.parametrize(
    "code, named, why",
    [
        (0, "$TO/runs/1", "does not say so"),
        (137, "$TO/verified/data/expected", "names no run that was made there"),
        (137, "$TO/runs/../verified/data/expected", "names no run that was made there"),
        (137, "$TO/runs/mine", "names no run that was made there"),
        (137, "/", "names no run that was made there"),
        ("true", "$TO/runs/1", "does not say so"),
    ],
)
def test_a_job_that_says_itself_how_it_ended(twinrun, made, tmp_path, code, named, why):
    """It ends twinrun inside, and leads the judge to the run that is in the package."""
    into = tmp_path / "into"
    said = '{\\"code\\":%s,\\"run\\":\\"%s\\",\\"differences\\":[]}' % (code, named)
    forge = f'TO={into}; echo "{said}" >"$TO/inside-ended.json"; kill -9 $PPID'
    package = with_command(made, tmp_path / "p", "sh", "-c", forge)
    r = twinrun("replay", str(package), "--container", "bwrap", "--into", str(into), "--json")
    assert r.rc == 2 and why in r.err and not r.out, r.out + r.err


def processes_of(text):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if os.fsencode(text) in f.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


def wait_until(ask, seconds=60):
    end = time.monotonic() + seconds
    while not ask():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_killed_in_the_middle(build, start, made, tmp_path, engine, how, home):
    """Whatever ends twinrun, nothing goes on and nothing stays mounted."""
    loop = f"while :; do : {uuid.uuid4()}; done"  # another test's loop is none of ours
    package = with_command(made, tmp_path / "p", "sh", "-c", loop)
    into = tmp_path / "into"
    words = ["replay", str(package), "--container", engine, "--into", str(into)]
    process = start(
        [str(build / "cmd" / "twinrun"), *words],
        cwd=tmp_path,
        env=clean_environment({"TWINRUN_HOME": str(home)}),
    )
    wait_until(lambda: list(into.glob("runs/*")) and processes_of(loop))
    process.send_signal(how)
    process.wait(60)
    if how == signal.SIGTERM:
        assert process.returncode == 130
    # The kernel kills what is left one after the other, after twinrun has ended. What it kills
    # may not have had its turn yet when the job has.
    wait_until(lambda: not processes_of(loop) and not left_of(into))


def test_an_archive_of_docker(twinrun, made, tmp_path):
    archive = tmp_path / "image.tar"
    subprocess.run(
        ["skopeo", "copy", "-q", f"oci:{made}/image:train:1", f"docker-archive:{archive}:train:1"],
        check=True,
    )
    home = str(made / "home")
    r = twinrun("pack", "last", "-o", f"{tmp_path}/p", "--home", home, "--image",
                f"docker-archive:{archive}", "--image-inside")  # fmt: skip
    assert r.rc == 0, r.err
    assert twinrun("verify", f"{tmp_path}/p").rc == 0
    # skopeo turns docker's form into OCI's: the id is of what it makes, every time
    subprocess.run(
        ["skopeo", "copy", "-q", f"docker-archive:{archive}", f"oci:{tmp_path}/again:1"], check=True
    )
    again = json.loads((tmp_path / "again" / "index.json").read_text())["manifests"][0]
    manifest = json.loads(
        (tmp_path / "again" / "blobs" / "sha256" / again["digest"][7:]).read_text()
    )
    assert image_of(tmp_path / "p")["id"] == manifest["config"]["digest"]
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith("p")) == ["p"]
    r = twinrun("pack", "last", "-o", f"{tmp_path}/q", "--home", home, "--image",
                f"docker-archive:{tmp_path}/none.tar", "--image-beside")  # fmt: skip
    assert r.rc == 2 and "none.tar" in r.err
    assert not [p for p in tmp_path.iterdir() if p.name.startswith("q")]


def packed_for(twinrun, recorded, tmp_path, image):
    """What is packed of the image for a run whose record names this digest."""
    env = {"CONTAINER_IMAGE_DIGEST": recorded, "TWINRUN_HOME": str(tmp_path / "runs")}
    assert twinrun("record", "-q", "--", "true", env=env).rc == 0
    to = tmp_path / f"of{len(list(tmp_path.iterdir()))}"
    assert (
        twinrun("pack", "last", "-o", str(to), "--data", "none", "--image", image, env=env).rc == 0
    )
    return image_of(to)


def test_an_archive_keeps_its_id(twinrun, made, tmp_path):
    """docker's own id of the image, which a copy in OCI's form has no more."""
    archive = f"docker-archive:{tmp_path}/image.tar"
    subprocess.run(["skopeo", "copy", "-q", f"oci:{made}/image:train:1", archive], check=True)
    raw = subprocess.run(["skopeo", "inspect", "--raw", archive], check=True, capture_output=True)
    docker_id = json.loads(raw.stdout)["config"]["digest"]
    image = packed_for(twinrun, docker_id, tmp_path, archive)
    assert image["id"] != docker_id and image["moved"] is False
    # what is none of its names may be one of its other forms
    assert packed_for(twinrun, "sha256:" + "7" * 64, tmp_path, archive)["moved"] is None


def test_a_layout_in_docker_s_form(twinrun, made, tmp_path):
    """It stays as it is, with its digests, and its copies say of which type it is: else skopeo would
    not bring them to docker."""
    manifest, named = in_docker_form(made / "image", tmp_path / "dk")
    home = ("--home", str(made / "home"), "--code", str(made / "work" / "train"))
    for where, copy in ("inside", "p/data/environment/image"), ("beside", "q.image"):
        r = twinrun("pack", "last", "-o", f"{tmp_path}/{copy[0]}", *home, "--image",
                    f"oci:{tmp_path}/dk", f"--image-{where}")  # fmt: skip
        assert r.rc == 0, r.err
        image = image_of(tmp_path / copy[0])
        assert (image["digest"], image["id"]) == (named["digest"], manifest["config"]["digest"])
        # the run's record has the digest in OCI's form
        assert image["moved"] is None and "an image in docker's form" in r.out, r.out
        index = json.loads((tmp_path / copy / "index.json").read_text())
        assert index["manifests"] == [named]
        archive = tmp_path / f"{where}.tar"
        words = ["skopeo", "copy", "-q", f"oci:{tmp_path / copy}", f"docker-archive:{archive}:a:b"]
        subprocess.run(words, check=True)
        with tarfile.open(archive) as t:
            assert image["id"][7:] + ".json" in t.getnames()
    r = twinrun("replay", f"{tmp_path}/p", "--container", "bwrap", "--into", f"{tmp_path}/into",
                "--json")  # fmt: skip
    said = json.loads(r.out)
    assert r.rc == 0 and said["outcome"] == "same" and said["container"]["image"]["same"] is True
    # by its own digest it is the image of the run, also where the manifest does not say its type
    assert packed_for(twinrun, named["digest"], tmp_path, f"oci:{tmp_path}/dk")["moved"] is False
    del manifest["mediaType"]
    text = json.dumps(manifest)
    silent = {**named, "digest": sha(text.encode()), "size": len(text)}
    (tmp_path / "dk" / "blobs" / "sha256" / silent["digest"][7:]).write_text(text)
    (tmp_path / "dk" / "index.json").write_text(json.dumps({**index, "manifests": [silent]}))
    image = packed_for(twinrun, named["digest"], tmp_path, f"oci:{tmp_path}/dk")
    assert image["digest"] == silent["digest"] and image["moved"] is None


def test_pack_says_what_is_missing(twinrun, made, tmp_path):
    home = str(made / "home")
    r = twinrun("pack", "last", "-o", f"{tmp_path}/p", "--home", home, "--image",
                f"oci:{made}/changed")  # fmt: skip
    assert r.rc == 0 and "it came from no registry" in r.out, r.out
    assert "the run's record says that it was made in" in r.out
    r = twinrun("pack", "last", "--home", home, "--image-inside")
    assert r.rc == 2 and "expected --image" in r.err


def test_the_checklist_takes_the_image_from_the_package(twinrun, made):
    def line(package):
        r = twinrun("audit", str(package), "--checklist", "pre-production", "--json")
        said = json.dumps(json.loads(r.out))
        return said[said.index("The container image is named by its digest") :][:400]

    id_ = image_of(made / "inside")["id"]
    assert '"pass"' in line(made / "inside") and id_ in line(made / "inside")
