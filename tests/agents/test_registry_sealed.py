# SPDX-License-Identifier: Apache-2.0
"""A registry whose files lie encrypted: by keys that openssl made, and by age; keys that are not the
one, ciphertexts that were cut or changed, and what can be done without a key.
"""

import hashlib
import os
import shutil
import subprocess
import time

import pytest

from registry_helper import registry  # noqa: F401

WAYS = [
    "x25519",
    "rsa",
    pytest.param(
        "age", marks=pytest.mark.skipif(not shutil.which("age"), reason="no age (Debian: age)")
    ),
]
SECRET = b"weights that nobody else may read " * 5000  # of several chunks


def run(*argv, cwd):
    return subprocess.run(argv, cwd=cwd, check=True, capture_output=True, timeout=60).stdout


def new_key(work, way, name):
    """A recipient for --encrypt, and its identity's file, made by another program than ours."""
    if way == "age":
        run("age-keygen", "-o", f"{name}.age", cwd=work)
        return "age:" + run("age-keygen", "-y", f"{name}.age", cwd=work).decode().strip(), (
            f"{name}.age"
        )
    algorithm = ["X25519"] if way == "x25519" else ["RSA", "-pkeyopt", "rsa_keygen_bits:2048"]
    run("openssl", "genpkey", "-algorithm", *algorithm, "-out", f"{name}.pem", cwd=work)
    run("openssl", "pkey", "-in", f"{name}.pem", "-pubout", "-out", f"{name}.pub.pem", cwd=work)
    return f"openssl:{name}.pub.pem", f"{name}.pem"


class Sealed:
    def __init__(self, registry, way):  # noqa: F811
        self.r, self.way = registry, way
        first, self.identity = new_key(registry.work, way, "first")
        second, self.other = new_key(registry.work, way, "second")
        _, self.wrong = new_key(registry.work, way, "wrong")
        registry(
            "init", "--key", "ci.key", "-p", "policy.toml", "--encrypt", first, "--encrypt", second
        )

    def sealed(self):
        """Contents in which the plaintext's beginning does not stand; the longest first."""
        found = sorted(
            (self.r.folder / "contents").iterdir(), key=lambda p: p.stat().st_size, reverse=True
        )
        return [p for p in found if p.stat().st_size > len(SECRET) // 2]

    def get(self, identity, rc=0, into="got", env=None):
        words = ["--identity", identity] if identity else []
        return self.r("get", "resnet@1", "--into", into, *words, rc=rc, env=env)

    def nothing_left(self, into="got"):
        work = self.r.work
        return not (work / into).exists() and not list(work.glob(f"{into}.restoring*"))


@pytest.fixture(params=WAYS)
def sealed(registry, request):  # noqa: F811
    return Sealed(registry, request.param)


def test_the_whole_way(sealed):
    r = sealed.r
    r.add(content=SECRET)
    for content in (r.folder / "contents").iterdir():
        data = content.read_bytes()
        assert b"nobody else" not in data
        assert hashlib.sha256(data).hexdigest() == content.name  # also without a key
    for i, identity in enumerate((sealed.identity, sealed.other)):
        sealed.get(identity, into=f"got{i}")
        assert (r.work / f"got{i}").read_bytes() == SECRET
    # no key: the policy cannot see what it is about, and nothing is promoted
    v = r("promote", "resnet", "--key", "ana.key", rc=1)
    assert "FAIL  contents" in v.out and "--identity" in v.out
    r("promote", "resnet", "--key", "ana.key", "--to", "production", "-i", sealed.identity)
    r.add(content=b"")
    r("promote", "resnet@2", "--key", "ana.key", "--to", "production", "-i", sealed.identity)
    r("rollback", "resnet", "--into", "back", "--key", "ana.key", rc=2)
    assert sealed.nothing_left("back") and r.stages() == {1: "retired", 2: "production"}
    r("rollback", "resnet", "--into", "back", "--key", "ana.key", "-i", sealed.identity)
    assert (r.work / "back").read_bytes() == SECRET
    r("get", "resnet@2", "--into", "empty", "-i", sealed.other)
    assert (r.work / "empty").read_bytes() == b""
    r("get", "resnet@1", "--oci", "--into", "L", "-i", sealed.identity)
    blob = r.work / "L" / "blobs" / "sha256" / hashlib.sha256(SECRET).hexdigest()
    assert blob.read_bytes() == SECRET


def test_equal_files_are_kept_once(sealed):
    sealed.r.add(content=SECRET)
    sealed.r.add(model="other", content=SECRET)
    assert len(sealed.sealed()) == 1
    sealed.r("get", "other@1", "--into", "got", "-i", sealed.identity)
    assert (sealed.r.work / "got").read_bytes() == SECRET


def test_a_folder_and_lengths_at_the_edges_of_chunks(sealed):
    r = sealed.r
    model = r.work / "model"
    model.mkdir()
    for n in (0, 1, 65535, 65536, 65537, 131072):
        (model / f"{n}").write_bytes(os.urandom(n))
    r("add", "edges", "model", "--key", "ci.key")
    r("get", "edges@1", "--into", "back", "-i", sealed.identity)
    for f in model.iterdir():
        assert (r.work / "back" / f.name).read_bytes() == f.read_bytes(), f


def test_a_wrong_key_or_none(sealed):
    sealed.r.add(content=SECRET)
    said = sealed.get(sealed.wrong, rc=2).err
    assert "none of the keys opens it" in said and sealed.nothing_left()
    said = sealed.get(None, rc=2).err
    assert "is sealed: expected --identity" in said and sealed.nothing_left()
    said = sealed.get("no-such-file", rc=2).err
    assert "no-such-file" in said and sealed.nothing_left()
    said = sealed.r("verify", "--contents", "-i", sealed.wrong, rc=2).err
    assert "none of the keys opens it" in said


@pytest.mark.parametrize("how", ["cut", "a bit", "lost", "other bytes", "empty"])
def test_a_ciphertext_that_was_changed(sealed, how):
    """It is found with a key and without one, and nothing is given out."""
    r = sealed.r
    r.add(content=SECRET)
    (content,) = sealed.sealed()
    data = content.read_bytes()
    if how == "lost":
        content.unlink()
    else:
        content.write_bytes(
            {
                "cut": data[: len(data) - 65552],
                "a bit": data[:90000] + bytes([data[90000] ^ 1]) + data[90001:],
                "other bytes": os.urandom(len(data)),
                "empty": b"",
            }[how]
        )
    said = sealed.get(sealed.identity, rc=2).err
    assert ("damaged" in said or "cannot read" in said) and sealed.nothing_left()
    for words in ([], ["-i", sealed.identity]):
        assert content.name[:12] in " ".join(r("verify", "--contents", *words, rc=1).out.split())
    v = r("promote", "resnet", "--key", "ana.key", "-i", sealed.identity, rc=1)
    assert "FAIL  contents" in v.out and r.stages() == {1: "candidate"}
    # who has the file can bring it again: the same version is whole then
    r.add(content=SECRET)
    assert "each opened" in r("verify", "--contents", "-i", sealed.identity).out
    sealed.get(sealed.identity)


def test_what_verify_and_gc_do_without_a_key(sealed):
    r = sealed.r
    for content in (SECRET, b"two" * 40000, b"three"):
        r.add(content=content)
    v = r("verify", "--contents")
    assert "3 files: the encrypted bytes are those of the log; not checked" in v.out
    v = r("verify", "--contents", "--json", "-i", sealed.identity)
    assert v.json["sealed"] == {"contents": 3, "unopened": 0}
    r("retire", "resnet@1", "--why", "old", "--key", "ci.key")
    before = {p.name for p in (r.folder / "contents").iterdir()}
    time.sleep(1.1)  # times of entries are in seconds
    r("gc", "--key", "ci.key", "--older-than", "0", "--keep", "0", "--strays", "0")
    gone = before - {p.name for p in (r.folder / "contents").iterdir()}
    assert len(gone) == 2  # its file and its manifest; lists stay
    assert "each opened" in r("verify", "--contents", "-i", sealed.identity).out
    r("get", "resnet@2", "--into", "two", "-i", sealed.identity)
    assert (r.work / "two").read_bytes() == b"two" * 40000


def test_a_lost_list_removes_nothing(sealed):
    """Which contents are needed is not known then: gc says so, and verify names the list."""
    r = sealed.r
    r.add(content=SECRET)
    lists = [p for p in (r.folder / "contents").iterdir() if b'twinrun.sealed/1"' in p.read_bytes()]
    (one,) = lists
    one.unlink()
    assert one.name[:12] in r("verify", "--contents", rc=1).out
    before = set((r.folder / "contents").iterdir())
    said = r("gc", "--key", "ci.key", "--older-than", "0", "--strays", "0", rc=2).err
    assert "a list of sealed ones cannot be read" in said
    assert set((r.folder / "contents").iterdir()) == before
    sealed.get(sealed.identity, rc=2)
    assert sealed.nothing_left()


def test_a_machine_without_age(registry):  # noqa: F811
    if not shutil.which("age"):
        pytest.skip("no age (Debian: age)")
    sealed = Sealed(registry, "age")
    registry.add(content=SECRET)
    nowhere = {"PATH": str(registry.work / "nothing")}
    (registry.work / "model.pt").write_bytes(b"another")
    before = registry.entries()
    r = registry("add", "resnet", "model.pt", "--key", "ci.key", rc=2, env=nowhere)
    assert (
        "expected the program age in PATH (Debian: age)" in r.err and "nothing was added" in r.err
    )
    assert registry.entries() == before
    r = sealed.get(sealed.identity, rc=2, env=nowhere)
    assert "expected the program age" in r.err and sealed.nothing_left()
    registry("verify", "--contents", env=nowhere)


@pytest.mark.parametrize(
    "recipients",
    [
        ["age:age1notone", "openssl:ci.key.pub"],
        ["rot13:me"],
        ["openssl:ci.key.pub"],
        ["openssl:ci.key"],
        ["openssl:nowhere.pem"],
        ["openssl:policy.toml"],
        ["age:AGE-SECRET-KEY-1ABC"],
    ],
)
def test_recipients_that_are_none(registry, recipients):  # noqa: F811
    """The keys for signatures among them: they can sign and not open. Nothing is made."""
    words = [w for r in recipients for w in ("--encrypt", r)]
    r = registry("init", "--key", "ci.key", *words, rc=2)
    assert "nothing was made" in r.err and "expected" in r.err or "nowhere" in r.err
    assert "SECRET-KEY-1ABC" not in r.err
    assert not registry.folder.exists()


def test_an_identity_for_what_is_not_sealed(registry):  # noqa: F811
    registry.make().add()
    r = registry("get", "resnet@1", "--into", "got", "-i", "ci.key", rc=2)
    assert "nothing in" in r.err and "is sealed" in r.err


def test_promoting_writes_the_plaintext_to_no_disk(sealed, build):
    """The contents are read through: with a file of at most 64 KiB there is no room for them."""
    r = sealed.r
    r.add(content=SECRET)
    ran = subprocess.run(
        ["prlimit", "--fsize=65536", build / "cmd" / "twinrun", "registry", "promote", "resnet"]
        + ["--key", "ana.key", "-i", sealed.identity],
        cwd=r.work,
        env={**os.environ, **r.env, "TMPDIR": str(r.work / "none")},
        capture_output=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran
    assert r.stages() == {1: "canary"}


def test_where_temporary_files_lie(sealed):
    """The ciphertext on its way: in TMPDIR, never in /tmp by itself."""
    r = sealed.r
    (r.work / "model.pt").write_bytes(SECRET)
    words = ["add", "resnet", "model.pt", "--key", "ci.key"]
    v = r(*words, rc=2, env={"TMPDIR": str(r.work / "none")})
    assert "cannot make a temporary file in" in v.err and "(TMPDIR)" in v.err
    (r.work / "T").mkdir()
    r(*words, env={"TMPDIR": str(r.work / "T")})
    assert not list((r.work / "T").iterdir())


def der(tag, *parts):
    body = b"".join(parts)
    size = len(body).to_bytes(4, "big").lstrip(b"\0") or b"\0"
    return bytes([tag]) + (size if len(body) < 128 else bytes([0x80 | len(size)]) + size) + body


def test_more_keys_than_a_head_has_room_for(registry):  # noqa: F811
    """Refused when it is sealed: it could not be opened again. A modulus that nobody can factor, nor
    needs to: only the public half is used."""
    modulus = b"\0\xc1" + b"\x5a" * 2046 + b"\x01"
    key = der(0x30, der(0x02, modulus), der(0x02, b"\1\0\1"))
    name = der(0x30, bytes.fromhex("06092a864886f70d0101010500"))
    (registry.work / "k.der").write_bytes(der(0x30, name, der(0x03, b"\0" + key)))
    run("openssl", "pkey", "-pubin", "-inform", "DER", "-in", "k.der", "-out", "k.pem",
        cwd=registry.work)  # fmt: skip
    registry("init", "--key", "ci.key", *["--encrypt", "openssl:k.pem"] * 90)
    v = registry.add(rc=2)
    assert "the keys of 90 recipients take" in v.err
