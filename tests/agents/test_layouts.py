# SPDX-License-Identifier: Apache-2.0
"""`twinrun verify` of data that DVC, Git LFS and Hugging Face keep: files made here by their rules,
and (TWINRUN_FULL=1) by DVC itself.
"""

import hashlib
import json
import os
import subprocess
import sys

import pytest
from conftest import FULL


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def verify(twinrun, tmp_path):
    def of(*args, rc=0):
        r = twinrun("verify", "--json", *map(str, args), cwd=str(tmp_path))
        assert r.rc == rc, r
        return {x["path"]: x["outcome"] for x in r.json["results"]} if rc in (0, 1, 3) else r.err

    return of


def md5(data):
    return hashlib.md5(data).hexdigest()


def dos2unix(data):
    out = b""
    for i in range(0, len(data), 1 << 20):
        piece = data[i : i + (1 << 20)]
        head = piece[:512]
        odd = head.translate(None, bytes(range(32, 127)) + b"\n\r\t\f\b")
        out += (
            piece if b"\0" in head or len(odd) / len(head) > 0.30 else piece.replace(b"\r\n", b"\n")
        )
    return out


def dvc_list(folder, convert=lambda d: d):
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and ".dvc/" not in str(path.relative_to(folder)) + "/":
            found.append(
                {
                    "md5": md5(convert(path.read_bytes())),
                    "relpath": path.relative_to(folder).as_posix(),
                }
            )
    return json.dumps(sorted(found, key=lambda x: x["relpath"]), sort_keys=True).encode()


def dvc_file(path, out, digest, new=True):
    path.write_text(
        "outs:\n- md5: %s\n%s  size: 1\n  path: %s\n"
        % (digest, "  hash: md5\n" if new else "", out)
    )


NAMES = [
    "a",
    "a.b",
    "a-b",
    "sub/x",
    "sub/deep/y",
    "\u00e9",
    "\U0001f600",
    "\ufb33",
    'q"uote',
    "tab\there",
    "back\\slash",
    "\x7f",
    "\x01",
    "new\nline",
]


def fill(data):
    for i, name in enumerate(NAMES):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_bytes(b"line %d\r\nmore\r\n" % i)


def test_dvc_file_and_folder(verify, tmp_path):
    (tmp_path / ".dvc").mkdir()
    (tmp_path / "one").write_bytes(b"data\r\n")
    dvc_file(tmp_path / "one.dvc", "one", md5(b"data\r\n"))
    assert verify("one.dvc") == {"one": "same"}
    dvc_file(tmp_path / "one.dvc", "one", md5(b"data\n"), new=False)
    assert verify("one.dvc") == {"one": "same"}
    (tmp_path / "one").write_bytes(b"dato\r\n")
    assert verify("one.dvc", rc=1) == {"one": "changed"}
    (tmp_path / "one").unlink()
    assert verify("one.dvc", rc=1) == {"one": "missing"}
    data = tmp_path / "data"
    fill(data)
    (data / "empty folder").mkdir()
    for new in (True, False):
        text = dvc_list(data, (lambda d: d) if new else dos2unix)
        dvc_file(tmp_path / "data.dvc", "data", md5(text) + ".dir", new)
        assert verify("data.dvc") == {"data": "same"}
    (data / "sub" / "x").write_bytes(b"other")
    assert verify("data.dvc", rc=1) == {"data": "changed"}


def test_dvc_names_the_files_from_its_cache(verify, tmp_path):
    data = tmp_path / "data"
    fill(data)
    text = dvc_list(data)
    (tmp_path / ".dvc" / "cache" / "files" / "md5" / md5(text)[:2]).mkdir(parents=True)
    cached = (
        tmp_path / ".dvc" / "cache" / "files" / "md5" / md5(text)[:2] / (md5(text)[2:] + ".dir")
    )
    cached.write_bytes(text)
    dvc_file(tmp_path / "data.dvc", "data", md5(text) + ".dir")
    (data / "a").write_bytes(b"other")
    (data / "\u00e9").unlink()
    (data / "e\u0301").write_bytes(b"another name that looks the same")
    assert verify("data.dvc", rc=1) == {
        "data/a": "changed",
        "data/\u00e9": "missing",
        "data/e\u0301": "added",
    }
    cached.write_bytes(text + b" ")  # a damaged list names nothing
    assert verify("data.dvc", rc=1) == {"data": "changed"}


def test_dvc_text_by_its_old_rule(verify, tmp_path):
    for i, data in enumerate(
        (
            b"",
            b"\r",
            b"\r\n",
            b"a\r\r\nb\r",
            b"\0\r\n",
            b"\xff\xfe\r\n" * 100,
            b"abcdefghij\r\n" * 100 + b"\xff" * 4000,
            b"x" * ((1 << 20) - 1) + b"\r\nabc\r\n",
            b"x" * ((1 << 20) - 1) + b"\r",
            b"y" * (128 << 10) + b"\r",
            b"z" * ((128 << 10) - 1) + b"\r\n" * 9,
            b"t\r\n" * 400000 + b"\0" * 1000 + b"\r\n" * 400000,
        )
    ):
        (tmp_path / "f").write_bytes(data)
        dvc_file(tmp_path / "f.dvc", "f", md5(dos2unix(data)), new=False)
        assert verify("f.dvc") == {"f": "same"}, i


def test_dvc_lock(verify, tmp_path):
    (tmp_path / "in").write_bytes(b"1")
    (tmp_path / "out").write_bytes(b"2")
    (tmp_path / "dvc.lock").write_text(
        json.dumps(
            {
                "schema": "2.0",
                "stages": {
                    "train": {
                        "cmd": "python train.py",
                        "deps": [
                            {"path": "in", "hash": "md5", "md5": md5(b"1"), "size": 1},
                            {"path": "/etc/passwd", "hash": "md5", "md5": md5(b"x")},
                            {"path": "../up", "hash": "md5", "md5": md5(b"x")},
                            {"path": "remote", "hash": "etag", "etag": "x"},
                        ],
                        "outs": [{"path": "out", "hash": "md5", "md5": md5(b"3")}],
                    }
                },
            }
        )
    )
    assert verify("dvc.lock", rc=1) == {
        "in": "same",
        "/etc/passwd": "unknown",
        "../up": "unknown",
        "remote": "unknown",
        "out": "changed",
    }


def test_dvc_does_not_follow_a_link_on_the_way(verify, tmp_path):
    """d/.. is d's folder only where d is none that leads elsewhere; a link at the end is how DVC
    keeps files in its cache.
    """
    outside, repo = tmp_path / "outside", tmp_path / "repo"
    (repo / ".dvc").mkdir(parents=True)
    (outside / "in").mkdir(parents=True)
    (outside / "secret").write_bytes(b"1")
    (repo / "kept").write_bytes(b"1")
    (repo / "d").symlink_to(outside / "in")
    (repo / "link").symlink_to("kept")
    found = {}
    for i, path in enumerate(("d/../secret", "d/secret", "link", ".//./link")):
        dvc_file(repo / ("%d.dvc" % i), path, md5(b"1"))
        rc = 3 if i == 1 else 1 if i == 0 else 0
        found.update(verify("repo/%d.dvc" % i, rc=rc))
    (repo / "d").unlink()
    (repo / "d").symlink_to(outside)
    dvc_file(repo / "4.dvc", "d/secret", md5(b"1"))
    found.update(verify("repo/4.dvc", rc=3))
    assert found == {
        "d/../secret": "missing",
        "d/secret": "unknown",
        "link": "same",
        ".//./link": "same",
    }


@pytest.mark.parametrize(
    "text, why",
    [
        ("", "outs"),
        ("outs: 3\n", "a list"),
        ("outs:\n- md5: x\n", "a path"),
        ("outs: [", "line"),
        ("outs:\n- path: a\n  path: b\n", "twice"),
        ("a: &x [1]\n" + "b: " + "[" * 300, "nested"),
        ("- 1\n", "outs"),
    ],
)
def test_dvc_hostile(verify, tmp_path, text, why):
    (tmp_path / "x.dvc").write_text(text)
    assert why in verify("x.dvc", rc=2)


def test_lfs(verify, twinrun, tmp_path):
    data = b"the real thing" * 1000
    digest = hashlib.sha256(data).hexdigest()
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n" % (
        digest,
        len(data),
    )
    (tmp_path / "repo" / "sub").mkdir(parents=True)
    (tmp_path / "repo" / "sub" / "model.bin").write_text(pointer)
    (tmp_path / "real").write_bytes(data)
    assert "git lfs pull" in verify("repo/sub/model.bin", rc=2)
    assert verify("repo/sub/model.bin", "real") == {"real": "same"}
    objects = tmp_path / "repo" / ".git" / "lfs" / "objects" / digest[:2] / digest[2:4]
    objects.mkdir(parents=True)
    (objects / digest).write_bytes(data)
    assert list(verify("repo/sub/model.bin").values()) == ["same"]
    (objects / digest).write_bytes(data[:-1] + b"G")
    assert list(verify("repo/sub/model.bin", rc=1).values()) == ["changed"]
    (tmp_path / "real").write_bytes(data + b" ")
    assert verify("repo/sub/model.bin", "real", rc=1) == {"real": "changed"}
    for bad in (
        pointer[:-1],
        pointer.replace("size ", "size -"),
        pointer.replace("oid", "old"),
        pointer + pointer,
        pointer + "oid sha256:" + "0" * 64 + "\n",
        pointer.replace(digest, digest.upper()),
        pointer.replace("size ", "size 99999999999999999999"),
        pointer + "x" * 2000,
    ):
        (tmp_path / "bad").write_text(bad)
        assert "expected" in verify("bad", "real", rc=2)
    r = twinrun("snapshot", "--json", "repo", cwd=str(tmp_path))
    assert r.rc == 0 and r.json["ids"] == [
        {"scheme": "lfs-pointer", "value": digest, "path": "sub/model.bin"}
    ]
    assert "git lfs pull" in r.err


def blob(data, small):
    return (
        hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        if small
        else hashlib.sha256(data).hexdigest()
    )


def test_huggingface(verify, twinrun, tmp_path):
    repo = tmp_path / "hub" / "models--org--name"
    commit = "0123456789abcdef0123456789abcdef01234567"
    snapshot = repo / "snapshots" / commit
    (snapshot / "sub").mkdir(parents=True)
    (repo / "blobs").mkdir()
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(commit)
    for name, data, small in (
        ("config.json", b"{}", True),
        ("model.safetensors", b"weights" * 10000, False),
        ("sub/empty", b"", True),
    ):
        (repo / "blobs" / blob(data, small)).write_bytes(data)
        (snapshot / name).symlink_to(
            os.path.relpath(repo / "blobs" / blob(data, small), (snapshot / name).parent)
        )
    (repo / "blobs" / (blob(b"half", False) + ".incomplete")).write_bytes(b"ha")
    assert set(verify(repo).values()) == {"same"}
    assert verify(snapshot) == {
        "config.json": "same",
        "model.safetensors": "same",
        "sub/empty": "same",
    }
    r = twinrun("snapshot", "--json", str(snapshot), "-o", "s", cwd=str(tmp_path))
    assert r.rc == 0 and [(i["scheme"], i["value"]) for i in r.json["ids"]] == [
        ("huggingface-commit", commit),
        ("huggingface-repository", "models--org--name"),
    ]
    assert twinrun("verify", "s", str(snapshot), cwd=str(tmp_path)).rc == 0
    (repo / "blobs" / blob(b"weights" * 10000, False)).write_bytes(b"weights" * 9999 + b"weight5")
    (snapshot / "copied").write_text("no link")
    (repo / "blobs" / blob(b"", True)).unlink()
    assert verify(snapshot, rc=1) == {
        "config.json": "same",
        "model.safetensors": "changed",
        "sub/empty": "missing",
        "copied": "unknown",
    }
    assert sorted(verify(repo, rc=1).items()) == [
        (blob(b"{}", True), "same"),
        (blob(b"weights" * 10000, False), "changed"),
        ("snapshots/%s/sub/empty" % commit, "missing"),
    ]
    (snapshot / "evil").symlink_to("/etc/passwd")
    assert verify(snapshot, rc=1)["evil"] == "unknown"


def test_snapshot_records_what_dvc_says(twinrun, tmp_path):
    (tmp_path / "data" / "in").mkdir(parents=True)
    (tmp_path / "data" / "in" / "f").write_bytes(b"x")
    dvc_file(tmp_path / "data" / "in" / "f.dvc", "f", md5(b"x"))
    dvc_file(tmp_path / "data.dvc", "data", md5(b"[]") + ".dir")
    r = twinrun("snapshot", "--json", "data", cwd=str(tmp_path))
    assert r.json["ids"] == [
        {"scheme": "dvc-md5", "value": md5(b"[]") + ".dir", "path": ""},
        {"scheme": "dvc-md5", "value": md5(b"x"), "path": "in/f"},
    ]
    assert twinrun("verify", "data.snapshot", cwd=str(tmp_path)).rc == 0


@pytest.mark.skipif(not FULL, reason="DVC in a virtual environment of its own: TWINRUN_FULL=1")
def test_dvc_itself_agrees(verify, tmp_path, tmp_path_factory):
    env = tmp_path_factory.mktemp("dvc")
    dvc = os.environ.get("TWINRUN_DVC")
    if not dvc:
        subprocess.run([sys.executable, "-m", "venv", env], check=True)
        subprocess.run(
            [
                env / "bin" / "python",
                "-m",
                "pip",
                "install",
                "-q",
                "--disable-pip-version-check",
                "dvc",
            ],
            check=True,
        )
        dvc = env / "bin" / "dvc"

    def run(*args):
        return subprocess.run(
            [dvc, *args],
            cwd=tmp_path,
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "DVC_NO_ANALYTICS": "1", "HOME": str(tmp_path)},
        ).stdout

    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    run("init", "-q")
    fill(tmp_path / "data")
    (tmp_path / "one").write_bytes(b"a file\r\n")
    run("add", "-q", "data", "one")
    assert verify("data.dvc") == {"data": "same"} and verify("one.dvc") == {"one": "same"}
    assert "up to date" in run("status")
    (tmp_path / "dvc.yaml").write_text(
        "stages:\n  go:\n    cmd: cp one out\n    deps: [one, data]\n    outs: [out]\n"
    )
    run("repro", "-q")
    assert set(verify("dvc.lock").values()) == {"same"}
    for change in (
        lambda: (tmp_path / "data" / "a").unlink(),
        lambda: (tmp_path / "data" / "new").write_bytes(b"n"),
        lambda: (tmp_path / "data" / "sub" / "x").write_bytes(b"y"),
    ):
        subprocess.run(["rm", "-rf", tmp_path / "data"], check=True)
        run("checkout", "-q", "data.dvc")
        assert verify("data.dvc") == {"data": "same"} and "up to date" in run("status", "data.dvc")
        change()
        assert len(verify("data.dvc", rc=1)) == 1 and "modified" in run("status", "data.dvc")
