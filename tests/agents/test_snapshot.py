# SPDX-License-Identifier: Apache-2.0
"""`twinrun snapshot` and `verify`: the manifest read again here from docs/format/snapshot.md, by
sha256sum -c, and what must be named.
"""

import hashlib
import os
import random
import signal
import socket
import struct
import subprocess
import time

import pytest
from conftest import FULL

DEFAULT = [".git/", ".hg/", ".svn/", ".dvc/", ".twinrun/"]


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def snap(twinrun, tmp_path):
    def of(*args, rc=0):
        r = twinrun(*[a if isinstance(a, bytes) else str(a) for a in args], cwd=str(tmp_path))
        assert r.rc == rc, r
        return r

    return of


def unescaped(text):
    out, i = b"", 0
    while i < len(text):
        out += (
            {b"n": b"\n", b"r": b"\r", b"\\": b"\\"}[text[i + 1 : i + 2]]
            if text[i : i + 1] == b"\\"
            else text[i : i + 1]
        )
        i += 2 if text[i : i + 1] == b"\\" else 1
    return out


def read(path):
    """Entries of a manifest: (kind, path, bytes or None, digest or target), and the root of its
    head.
    """
    lines = path.read_bytes().split(b"\n")
    assert (
        lines.pop() == b""
        and lines.pop()
        == b"# end sha256:" + hashlib.sha256(path.read_bytes()[:-78]).hexdigest().encode()
        and lines[0] == b"# twinrun.snapshot/1"
    )
    root, entries, target, i = lines[1][len(b"# root sha256:") :].decode(), [], None, 3
    while i < len(lines):
        line = lines[i]
        if line.startswith(b"#to "):
            target = unescaped(line[4:])
        elif line.startswith(b"#link "):
            entries.append((b"l", unescaped(line[6:]), None, target))
        elif line.startswith(b"#folder "):
            entries.append((b"d", unescaped(line[8:]), None, None))
        elif line.startswith(b"#file "):
            i += 1
            escaped = lines[i].startswith(b"\\")
            digest, name = lines[i][escaped:].split(b"  ", 1)
            entries.append(
                (
                    b"f",
                    b"-" if name == b"./-" else unescaped(name) if escaped else name,
                    int(line.split()[2]),
                    bytes.fromhex(digest.decode()),
                )
            )
        i += 1
    return root, entries


def root_of(entries):
    def text(s):
        return struct.pack("<Q", len(s)) + s

    h = hashlib.sha256(b"twinrun.snapshot/1\0")
    for kind, path, size, what in entries:
        h.update(
            kind
            + text(path)
            + (
                struct.pack("<Q", size) + what
                if kind == b"f"
                else text(what)
                if kind == b"l"
                else b""
            )
        )
    return h.hexdigest()


def walk(folder):
    """The same entries by os.walk and hashlib."""
    entries = []
    for at, folders, files in os.walk(os.fsencode(folder)):
        folders[:] = [f for f in folders if f + b"/" not in [d.encode() for d in DEFAULT]]
        inside = os.path.relpath(at, os.fsencode(folder))
        for name in files + [f for f in folders if os.path.islink(os.path.join(at, f))]:
            full, path = os.path.join(at, name), os.path.normpath(os.path.join(inside, name))
            if os.path.isfile(full):
                with open(full, "rb") as f:
                    data = f.read()
                entries.append((b"f", path, len(data), hashlib.sha256(data).digest()))
            else:
                entries.append((b"l", path, None, os.readlink(full)))
        if not files and not folders and inside != b".":
            entries.append((b"d", os.path.normpath(inside), None, None))
    return sorted(entries, key=lambda e: e[1])


def fill(data):
    for folder in ("a/deep/er", "empty", ".git", "a/.twinrun"):
        (data / folder).mkdir(parents=True)
    for name, content in (
        ("one", b"1"),
        ("a/b c", b"x\r\n"),
        ("a/deep/er/none", b""),
        (".git/HEAD", b"ref"),
        ("a/.twinrun/x", b"y"),
        ("large", bytes(3 << 20)),
        ("e\u0301", b"decomposed"),
        ("\u00e9", b"composed"),
        ("n\nl", b"lf"),
        ("c\rr", b"cr"),
        ("end\r", b"cr"),
        ("b\\s", b"backslash"),
        ("\\n", b"not lf"),
        (" *", b"star"),
        ("# x", b"hash"),
        ("-", b"dash"),
    ):
        (data / name).write_bytes(content)
    with open(os.fsencode(data) + b"/caf\xe9", "wb") as f:
        f.write(b"latin-1")
    (data / "link").symlink_to("a/b c")
    (data / "a" / "up").symlink_to("..")
    (data / "nowhere").symlink_to("not/there")


def test_manifest(snap, tmp_path):
    data = tmp_path / "data"
    fill(data)
    snap("snapshot", "data")
    root, entries = read(tmp_path / "data.snapshot")
    assert entries == walk(data)
    assert root == root_of(entries)
    check = subprocess.run(
        ["sha256sum", "-c", "--strict", "../data.snapshot"], cwd=data, capture_output=True
    )
    assert check.returncode == 0 and check.stdout.count(b"OK") == sum(
        e[0] == b"f" for e in entries
    ), check
    (data / "one").write_bytes(b"2")
    check = subprocess.run(
        ["sha256sum", "-c", "--quiet", "../data.snapshot"], cwd=data, capture_output=True
    )
    assert check.returncode == 1 and check.stdout == b"one: FAILED\n"


def test_equal_data_equal_root(snap, tmp_path):
    fill(tmp_path / "data")
    snap("snapshot", "data")
    subprocess.run(["cp", "-rL", "data/a/b c", "x"], cwd=tmp_path, check=True)
    subprocess.run(["cp", "-a", "data", "copy"], cwd=tmp_path, check=True)
    for path in (tmp_path / "copy").rglob("*"):
        if not path.is_symlink() and path.is_file():
            path.chmod(0o600)
            os.utime(path, (1, 1))
    (tmp_path / "copy" / "link").unlink()
    os.link(tmp_path / "x", tmp_path / "copy" / "link")  # the file in place of the link to it
    assert "OK" in snap("verify", "data.snapshot", "copy").out
    snap("snapshot", "copy/")
    assert read(tmp_path / "copy.snapshot")[0] == read(tmp_path / "data.snapshot")[0]


def test_names_each_difference(snap, tmp_path):
    data = tmp_path / "data"
    fill(data)
    snap("snapshot", "data")
    (data / "one").write_bytes(b"2")
    (data / "a" / "b c").write_bytes(b"longer than before")
    (data / "a" / "new").write_bytes(b"")
    (data / "large").unlink()
    (data / "nowhere").unlink()
    (data / "nowhere").symlink_to("elsewhere")
    (data / "empty").rmdir()
    (data / "-").unlink()
    (data / "-").mkdir()
    (data / "# x").chmod(0o640)  # neither umask gives that
    r = snap("verify", "--json", "data.snapshot", rc=1)
    assert r.json["outcome"] == "differ"
    assert {(d["change"], d["path"]) for d in r.json["differences"]} == {
        ("changed", "one"),
        ("changed", "a/b c"),
        ("changed", "link"),
        ("added", "a/new"),
        ("missing", "large"),
        ("changed", "nowhere"),
        ("missing", "empty"),
        ("changed", "-"),
        ("mode", "# x"),
    }
    text = snap("verify", "data.snapshot", rc=1).out
    for name in ("one", "a/b c", "a/new", "large", "nowhere", "empty"):
        assert "  %s  " % name in text, text


def test_every_byte_counts(snap, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "f").write_bytes(b"some data")
    snap("snapshot", "data")
    for i in range(9):
        changed = bytearray(b"some data")
        changed[i] ^= 1
        before = os.stat(data / "f")
        (data / "f").write_bytes(bytes(changed))
        os.utime(data / "f", ns=(before.st_atime_ns, before.st_mtime_ns))  # as a careless tool does
        snap("verify", "data.snapshot", rc=1)
        snap("verify", "--quick", "data.snapshot", rc=1)
        (data / "f").write_bytes(b"some data")
    snap("verify", "data.snapshot")


def test_every_byte_of_the_manifest_counts(snap, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "f").write_bytes(b"some data")
    (data / "l").symlink_to("gone")
    snap("snapshot", "data", "-x", "tmp*")
    good = (tmp_path / "data.snapshot").read_bytes()
    for i in range(len(good)):
        for bit in (1, 128) if FULL else (1 << i % 8,):
            bad = bytearray(good)
            bad[i] ^= bit
            (tmp_path / "bad.snapshot").write_bytes(bytes(bad))
            r = snap("verify", "bad.snapshot", "data", rc=2)
            assert "bad.snapshot" in r.err, (i, bit)
        if i % 5 == 0:
            (tmp_path / "bad.snapshot").write_bytes(good[:i])
            snap("verify", "bad.snapshot", "data", rc=2)


def ended(text):
    return (
        text.encode()
        + b"# end sha256:"
        + hashlib.sha256(text.encode()).hexdigest().encode()
        + b"\n"
    )


@pytest.mark.parametrize(
    "path, why",
    [
        ("../x", "below the folder"),
        ("/etc/passwd", "below the folder"),
        ("a/../../x", "below the folder"),
        ("./a", "below the folder"),
        ("a//b", "below the folder"),
        ("", "two spaces, a path"),
        ("./-x", "below the folder"),
        ("a\\x", "SHA-256"),
        ("a\0b", "path"),
    ],
)
def test_hostile_paths(snap, tmp_path, path, why):
    (tmp_path / "data").mkdir()
    head = (
        "# twinrun.snapshot/1\n# root sha256:%s\n# holds 1 files, 0 links, 0 folders, 1 bytes\n"
        % ("0" * 64)
    )
    (tmp_path / "bad.snapshot").write_bytes(
        ended(head + "#file 644 1\n" + "1" * 64 + "  " + path + "\n")
    )
    assert why in snap("verify", "bad.snapshot", "data", rc=2).err


def test_twice_and_huge(snap, tmp_path):
    (tmp_path / "data").mkdir()
    head = (
        "# twinrun.snapshot/1\n# root sha256:%s\n# holds 1 files, 0 links, 0 folders, 1 bytes\n"
        % ("0" * 64)
    )
    entry = "#file 644 1\n" + "1" * 64 + "  a\n"
    for text, why in (
        (head + entry + entry, "each once"),
        (head + entry.replace("644 1", "644 99999999999999999999"), "MODE BYTES"),
        (head + entry, "root"),
        (head + "#to x\n", "middle"),
        (head + "#link x\n", "#to before #link"),
        ("# twinrun.snapshot/2\n", "newer"),
        ("", "manifest"),
        (head + "# exclude x\n" * 1001, "1,000"),
        (head.replace("1 files", "2 files") + entry, "head"),
    ):
        (tmp_path / "bad.snapshot").write_bytes(ended(text))
        assert why in snap("verify", "bad.snapshot", "data", rc=2).err, why


def test_links_out_of_the_folder(snap, tmp_path):
    data, other = tmp_path / "data", tmp_path / "other"
    data.mkdir()
    (other / "sub").mkdir(parents=True)
    (other / "sub" / "f").write_bytes(b"x")
    (other / "back").symlink_to("sub")
    (other / "loop").symlink_to("../other")
    (data / "out").symlink_to("../other")
    assert "--follow" in snap("snapshot", "data", rc=2).err
    assert "loop" in snap("snapshot", "data", "--follow", rc=2).err
    (other / "loop").unlink()
    snap("snapshot", "data", "--follow")
    assert [e[1] for e in read(tmp_path / "data.snapshot")[1]] == [b"out/back/f", b"out/sub/f"]
    (other / "sub" / "f").write_bytes(b"y")
    snap("verify", "data.snapshot", rc=1)
    (data / "up").symlink_to(tmp_path)
    assert "holds it" in snap("snapshot", "data", "--follow", "-o", "x", rc=2).err
    snap("snapshot", "data", "-x", "up", "-x", "out", "-o", "x")
    assert not (tmp_path / "x").read_bytes().endswith(b"out")


def test_special_unreadable_changing(snap, tmp_path, build):
    data = tmp_path / "data"
    data.mkdir()
    (data / "fine").write_bytes(b"x")
    os.mkfifo(data / "pipe")
    s = socket.socket(socket.AF_UNIX)
    s.bind(os.path.relpath(data / "sock"))
    (data / "dev").symlink_to("/dev/zero")
    (data / "loop").symlink_to("loop")
    r = snap("snapshot", "data", rc=2)
    for name, why in (("pipe", "named pipe"), ("sock", "socket"), ("dev", "device")):
        assert "%s: a %s" % (name, why) in r.err
    assert "3 things" in r.err and not (tmp_path / "data.snapshot").exists()
    snap("snapshot", "data", "-x", "pipe", "-x", "sock", "-x", "dev")
    if os.getuid() != 0:
        (data / "fine").chmod(0)
        assert "Permission denied" in snap("verify", "data.snapshot", rc=2).err


def test_a_file_that_changes_while_it_is_read(snap, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    writer = subprocess.Popen(
        [
            "python3",
            "-c",
            "import sys,time\nf=open(sys.argv[1],'wb',0)\nf.write(bytes(64<<20))\nprint(flush=True)\nwhile True:\n f.seek(0)\n f.write(b'x')\n time.sleep(.0005)",
            data / "busy",
        ],
        stdout=subprocess.PIPE,
    )
    try:
        writer.stdout.readline()
        assert "changed while it was read" in snap("snapshot", "data", rc=2).err
    finally:
        writer.kill()
        writer.wait()
    snap("snapshot", "data")


def test_incremental_and_paranoid(snap, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for i in range(50):
        (data / str(i)).write_bytes(b"%d" % i)
    time.sleep(0.05)
    assert snap("snapshot", "--json", "data").json["read_files"] == 50
    assert snap("snapshot", "--json", "data").json["read_files"] == 0
    assert snap("snapshot", "--json", "--paranoid", "data").json["read_files"] == 50
    (data / "7").write_bytes(b"8")
    r = snap("snapshot", "--json", "data", rc=1).json
    assert (
        r["read_files"] == 1
        and r["outcome"] == "differ"
        and [d["path"] for d in r["differences"]] == ["7"]
    )
    (data / "7").write_bytes(b"7")
    os.rename(data / "8", data / "x")  # another inode under the same name, size and time
    (data / "8").write_bytes(b"9")
    os.utime(data / "8", ns=(os.stat(data / "x").st_atime_ns, os.stat(data / "x").st_mtime_ns))
    (data / "x").unlink()
    r = snap("snapshot", "--json", "data", rc=1).json
    assert r["read_files"] == 2 and [d["path"] for d in r["differences"]] == ["8"]
    snap("snapshot", "--force", "data")
    snap("verify", "data.snapshot")


def test_never_replaces_what_is_no_manifest(snap, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data.snapshot").write_text("precious")
    assert "--force" in snap("snapshot", "data", rc=2).err
    assert (tmp_path / "data.snapshot").read_text() == "precious"
    (tmp_path / "data" / "inside").write_text("x")
    snap("snapshot", "data", "-o", "data/m.snapshot")
    snap("verify", "data/m.snapshot", "data")
    assert snap("snapshot", ".", "-o", "here.snapshot").rc == 0


def test_cache_is_foreign_bytes(snap, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for i in range(20):
        (data / str(i)).write_bytes(b"%d" % i)
    time.sleep(0.05)
    snap("snapshot", "data")
    root = read(tmp_path / "data.snapshot")[0]
    (journal,) = (
        p
        for p in (
            os.path.join(os.environ["XDG_CACHE_HOME"], "twinrun/hashes", n)
            for n in os.listdir(os.path.join(os.environ["XDG_CACHE_HOME"], "twinrun/hashes"))
        )
    )
    with open(journal, "rb") as f:
        good = f.read()
    draw = random.Random(5)
    for _ in range(60):
        bad = bytearray(good[: draw.randrange(len(good) + 1)])
        for _ in range(draw.randrange(3)):
            if bad:
                bad[draw.randrange(len(bad))] ^= 1 << draw.randrange(8)
        with open(journal, "wb") as f:
            f.write(bytes(bad))
        assert snap("snapshot", "--json", "data").json["root"] == root
    assert snap("snapshot", "--json", "data").json["read_files"] == 0


@pytest.mark.parametrize("moments", [200 if FULL else 6])
def test_killed_and_resumed(snap, build, tmp_path, moments):
    data = tmp_path / "data"
    data.mkdir()
    draw = random.Random(9)
    for i in range(400):
        (data / ("f%03d" % i)).write_bytes(draw.randbytes(1 << 18))
    time.sleep(0.05)
    whole = root_of(walk(data))
    resumed = 0
    for k in range(moments):
        os.environ["XDG_CACHE_HOME"] = str(tmp_path / ("cache%d" % k))
        p = subprocess.Popen(
            [build / "cmd" / "twinrun", "snapshot", "data", "-o", "killed.snapshot"],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
        )
        time.sleep(draw.uniform(0.0, 0.12))
        p.send_signal(signal.SIGKILL)
        p.wait()
        if not (tmp_path / "killed.snapshot").exists():
            assert [n for n in os.listdir(tmp_path) if n.startswith("killed")] in (
                [],
                [n for n in os.listdir(tmp_path) if ".tmp-" in n],
            )
        r = snap("snapshot", "--json", "--force", "-o", "killed.snapshot", "data").json
        assert r["root"] == whole
        resumed += 0 < r["read_files"] < 400
        for n in os.listdir(tmp_path):
            if n.startswith("killed"):
                os.unlink(tmp_path / n)
    assert resumed or moments < 20
