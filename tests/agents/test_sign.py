# SPDX-License-Identifier: Apache-2.0
"""`twinrun sign` and `verify` against other people's programs: openssl over the PAE, SoftHSM's
tokens, a stand-in for Vault, the golden signature of the model_signing client; under TWINRUN_FULL
the client itself and securesystemslib. And each changed byte of a subject.
"""

import base64
import hashlib
import json
import os
import shutil
import ssl
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import pytest
from conftest import FULL, ROOT
from vault_stand_in import StandIn, openssl

GOLDEN = ROOT / "tests" / "golden"
SOFTHSM = "/usr/lib/softhsm/libsofthsm2.so"


@pytest.fixture
def sign(twinrun, work):
    def of(*args, rc=0, env=None, command="sign"):
        r = twinrun(command, *map(str, args), cwd=str(work), env=env)
        assert r.rc == rc, r
        return r

    return of


@pytest.fixture
def verify(sign):
    def of(*args, rc=0, env=None):
        return sign(*args, rc=rc, env=env, command="verify")

    return of


def pae(envelope):
    payload = base64.b64decode(envelope["payload"], validate=True)
    kind = envelope["payloadType"].encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def statement(envelope):
    return json.loads(base64.b64decode(envelope["payload"], validate=True))


@pytest.mark.parametrize("kind", ["ecdsa-p256", "ecdsa-p384", "ecdsa-p521", "ed25519"])
def test_openssl_verifies_the_pae(sign, verify, work, kind):
    (work / "f").write_bytes(os.urandom(1000))
    sign("--new-key", "k", "--type", kind)
    sign("f", "--key", "k")
    envelope = json.loads((work / "f.dsse.json").read_text())
    (work / "pae").write_bytes(pae(envelope))
    (work / "sig").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"], validate=True))
    if kind == "ed25519":
        openssl(
            "pkeyutl",
            "-verify",
            "-pubin",
            "-inkey",
            work / "k.pub",
            "-rawin",
            "-in",
            work / "pae",
            "-sigfile",
            work / "sig",
        )
    else:
        digest = {"ecdsa-p256": "-sha256", "ecdsa-p384": "-sha384", "ecdsa-p521": "-sha512"}[kind]
        assert b"Verified OK" in openssl(
            "dgst", digest, "-verify", work / "k.pub", "-signature", work / "sig", work / "pae"
        )
    said = statement(envelope)
    assert said["_type"] == "https://in-toto.io/Statement/v1"
    assert said["subject"] == [
        {"name": "f", "digest": {"sha256": hashlib.sha256((work / "f").read_bytes()).hexdigest()}}
    ]
    assert (
        envelope["signatures"][0]["keyid"]
        == hashlib.sha256((work / "k.pub").read_bytes()).hexdigest()
    )
    verify("f.dsse.json", "--key", "k.pub", "f")


def test_openssl_s_keys_and_envelopes_sign(sign, verify, work):
    """Keys by openssl (SEC 1, PKCS #8, encrypted), and an envelope whose JSON, key id and alphabet
    are another tool's.
    """
    (work / "f").write_bytes(b"hello\n")
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", work / "sec1")
    openssl("genpkey", "-algorithm", "ED25519", "-out", work / "ed")
    openssl(
        "pkcs8",
        "-topk8",
        "-in",
        work / "sec1",
        "-out",
        work / "locked",
        "-passout",
        "pass:open sesame",
    )
    (work / "pass").write_text("open sesame\n")
    for name, env in (
        ("sec1", {}),
        ("ed", {}),
        ("locked", {"TWINRUN_KEY_PASSPHRASE_FILE": str(work / "pass")}),
    ):
        (work / (name + ".pub")).write_bytes(
            openssl("pkey", "-in", work / name, "-pubout", "-passin", "file:%s" % (work / "pass"))
        )
        sign("f", "--key", name, "-o", name + ".json", env=env)
        verify(name + ".json", "--key", name + ".pub", "f")
    envelope = json.loads((work / "sec1.json").read_text())
    (work / "pae").write_bytes(pae(envelope))
    envelope["signatures"] = [
        {
            "sig": base64.urlsafe_b64encode(
                openssl("dgst", "-sha256", "-sign", work / "sec1", work / "pae")
            ).decode(),
            "keyid": "release key",
        }
    ]
    (work / "theirs.json").write_text(json.dumps(envelope, indent=4))
    assert "--foreign" in verify("theirs.json", "--key", "sec1.pub", "f", rc=2).err
    verify("theirs.json", "--key", "sec1.pub", "--foreign", "f")
    verify("theirs.json", "--key", "ed.pub", "--foreign", "f", rc=1)


def test_each_byte_of_a_subject_counts(sign, verify, work):
    data = bytes(range(64))
    (work / "f").write_bytes(data)
    sign("f", "--key", GOLDEN / "keys" / "ana.key")
    for at in range(len(data)) if FULL else range(0, len(data), 16):
        for value in (data[at] ^ 1, data[at] ^ 128):
            (work / "f").write_bytes(data[:at] + bytes([value]) + data[at + 1 :])
            verify("f.dsse.json", "--key", GOLDEN / "keys" / "ana.key.pub", "f", rc=1)
    for changed in (data[:-1], data + b"\0", b""):
        (work / "f").write_bytes(changed)
        verify("f.dsse.json", "--key", GOLDEN / "keys" / "ana.key.pub", "f", rc=1)


@pytest.mark.skipif(
    not FULL,
    reason="other values of the bytes of an envelope, by the program, are TWINRUN_FULL=1; each bit is a unit test",
)
def test_other_values_of_an_envelope_s_bytes(twinrun, work):
    data = (GOLDEN / "envelope" / "v1-two.json").read_bytes()
    (work / "f").write_bytes(b"hello\n")

    def outcome(envelope):
        (work / "e").write_bytes(envelope)
        return twinrun(
            "verify",
            "e",
            "--key",
            str(GOLDEN / "keys" / "ana.key.pub"),
            "--key",
            str(GOLDEN / "keys" / "ecdsa.key.pub"),
            "f",
            cwd=str(work),
        ).rc

    assert outcome(data) == 0
    for at in range(0, len(data), 5):
        for value in {0, 10, 32, 34, 43, 45, 47, 48, 61, 65, 95, 97, 122, 255, data[at] ^ 1} - {
            data[at]
        }:
            assert outcome(data[:at] + bytes([value]) + data[at + 1 :]) in (1, 2), (at, value)


# ---------------------------------------------------------------- models


def test_the_client_s_golden_signature(verify, work):
    shutil.copytree(GOLDEN / "model", work / "model")
    signature, key = (
        GOLDEN / "bundle" / "model-signing-1.1.1.sig",
        GOLDEN / "keys" / "ecdsa.key.pub",
    )
    assert "VERIFIED" in verify(signature, "--key", key, "model").out
    (work / "model" / "weights" / "part-0.bin").write_bytes(b"Weights")
    (work / "model" / "more").write_bytes(b"")
    (work / "model" / "config.json").unlink()
    r = json.loads(verify(signature, "--key", key, "--json", "model", rc=1).out)
    assert r["kind"] == "bundle" and r["outcome"] == "failed"
    assert {(c["change"], c["name"]) for c in r["changes"]} == {
        ("missing", "config.json"),
        ("added", "more"),
        ("changed", "weights/part-0.bin"),
    }
    assert (
        "unknown-key"
        in verify(signature, "--key", GOLDEN / "keys" / "ana.key.pub", "model", rc=1).out
    )


def bundle_with(change, key):
    """The golden bundle with its statement changed, signed again by openssl."""
    bundle = json.loads((GOLDEN / "bundle" / "model-signing-1.1.1.sig").read_text())
    said = statement(bundle["dsseEnvelope"])
    change(said, bundle)
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(json.dumps(said).encode()).decode()
    signed = openssl("dgst", "-sha256", "-sign", key, data=pae(bundle["dsseEnvelope"]))
    bundle["dsseEnvelope"]["signatures"] = [{"sig": base64.b64encode(signed).decode(), "keyid": ""}]
    return json.dumps(bundle)


def roots(said):
    raw = b"".join(bytes.fromhex(r["digest"]) for r in said["predicate"]["resources"])
    said["subject"][0]["digest"]["sha256"] = hashlib.sha256(raw).hexdigest()


def rename(said, bundle):
    said["predicate"]["resources"][0]["name"] = "../config.json"


def absolute(said, bundle):
    said["predicate"]["resources"][0]["name"] = "/etc/passwd"


def nothing(said, bundle):
    said["predicate"]["resources"] = []
    roots(said)


def other_root(said, bundle):
    said["subject"][0]["digest"]["sha256"] = "0" * 64


def shards(said, bundle):
    said["predicate"]["serialization"]["method"] = "shards"


def other_hash(said, bundle):
    said["predicate"]["resources"][0]["algorithm"] = "blake3"


def two_subjects(said, bundle):
    said["subject"] *= 2


def certificate(said, bundle):
    bundle["verificationMaterial"] = {"certificate": {"rawBytes": "AAAA"}}


def other_media(said, bundle):
    bundle["mediaType"] = "application/vnd.dev.sigstore.bundle.v0.4+json"


def wrong_hint(said, bundle):
    bundle["verificationMaterial"]["publicKey"]["hint"] = "0" * 64


def reordered(said, bundle):
    said["predicate"]["resources"].reverse()
    roots(said)


def no_hint(said, bundle):
    bundle["verificationMaterial"]["publicKey"] = {}


@pytest.mark.parametrize(
    "change, rc, text",
    [
        (rename, 2, "below the model's folder"),
        (absolute, 2, "below the model's folder"),
        (nothing, 2, "at least one file"),
        (other_root, 2, "SHA-256 of the files' digests"),
        (shards, 2, "method"),
        (other_hash, 2, "SHA-256 of each file"),
        (two_subjects, 2, "one subject"),
        (certificate, 2, "certificate"),
        (other_media, 2, "mediaType"),
        (wrong_hint, 1, "key id"),
        (reordered, 0, "VERIFIED"),
        (no_hint, 0, "VERIFIED"),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_strange_bundles(verify, work, change, rc, text):
    shutil.copytree(GOLDEN / "model", work / "model")
    (work / "b.sig").write_text(bundle_with(change, GOLDEN / "keys" / "ecdsa.key"))
    r = verify("b.sig", "--key", GOLDEN / "keys" / "ecdsa.key.pub", "model", rc=rc)
    assert text in r.out + r.err


def test_model_s_links(sign, verify, work):
    """Links are refused when we sign; a signature that allows them takes those that stay in the
    folder.
    """
    shutil.copytree(GOLDEN / "model", work / "model")
    (work / "model" / "z").symlink_to("config.json")
    assert (
        "symbolic link"
        in sign("--model", "model", "--key", GOLDEN / "keys" / "ecdsa.key", rc=2).err
    )

    def allowed(said, bundle):
        said["predicate"]["serialization"]["allow_symlinks"] = True
        said["predicate"]["resources"].append({**said["predicate"]["resources"][0], "name": "z"})
        roots(said)

    (work / "b.sig").write_text(bundle_with(allowed, GOLDEN / "keys" / "ecdsa.key"))
    verify("b.sig", "--key", GOLDEN / "keys" / "ecdsa.key.pub", "model")
    (work / "model" / "z").unlink()
    (work / "outside").write_bytes((GOLDEN / "model" / "config.json").read_bytes())
    (work / "model" / "z").symlink_to("../outside")
    assert (
        "below the same folder"
        in verify("b.sig", "--key", GOLDEN / "keys" / "ecdsa.key.pub", "model", rc=2).err
    )


@pytest.fixture(scope="module")
def signers():
    """A Python with the clients: model_signing, securesystemslib (./dev test --full makes it)."""
    python = os.environ.get("TWINRUN_SIGNING_PYTHON")
    if not python and not FULL:
        pytest.skip(
            "the clients themselves are TWINRUN_FULL=1; one golden signature of theirs is verified above"
        )
    assert (
        python
    ), "TWINRUN_SIGNING_PYTHON must name a Python with model-signing and securesystemslib"
    return python


def test_the_client_takes_ours_and_we_its(signers, sign, verify, work):
    def client(*args):
        return subprocess.run(
            [signers, "-m", "model_signing", *map(str, args)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=str(work),
        )

    sign("--new-key", "k")
    sign("--new-key", "k384", "--type", "ecdsa-p384")
    model = work / "model"
    (model / "deep" / "er").mkdir(parents=True)
    (model / ".git").mkdir()
    for name, size in (
        ("a", 0),
        ("A", 1),
        ("deep/er/é b", 70_000),
        ("deep.bin", 3_000_001),
        (".git/x", 5),
        ("z\U0001f600", 9),
    ):
        (model / name).write_bytes(os.urandom(size))
    for key in ("k", "k384"):
        for ours in ("ours.sig", "model/model.sig"):
            sign("--model", "model", "--key", key, "-o", ours)
            r = client("verify", "key", "model", "--public_key", key + ".pub", "--signature", ours)
            assert r.returncode == 0 and b"Verification succeeded" in r.stdout, r
            verify(ours, "--key", key + ".pub", "model")
            (work / ours).unlink()
        for theirs in ("theirs.sig", "model/model.sig"):
            r = client("sign", "key", "model", "--private_key", key, "--signature", theirs)
            assert r.returncode == 0, r
            verify(theirs, "--key", key + ".pub", "model")
            (work / theirs).rename(work / "moved")
            verify("moved", "--key", key + ".pub", "model")
    sign("--model", "model", "--key", "k", "-o", "ours.sig")
    (model / "deep.bin").write_bytes(os.urandom(3_000_001))
    assert (
        client(
            "verify", "key", "model", "--public_key", "k.pub", "--signature", "ours.sig"
        ).returncode
        != 0
    )
    verify("ours.sig", "--key", "k.pub", "model", rc=1)


def test_securesystemslib_takes_ours_and_we_its(signers, sign, verify, work):
    (work / "f").write_bytes(b"hello\n")
    for kind in ("ed25519", "ecdsa-p256", "ecdsa-p384"):
        sign("--new-key", kind, "--type", kind)
    sign(
        "f", *[word for kind in ("ed25519", "ecdsa-p256", "ecdsa-p384") for word in ("--key", kind)]
    )
    (work / "client.py").write_text("""
import hashlib, json, sys
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from securesystemslib.dsse import Envelope
from securesystemslib.signer import CryptoSigner, SSlibKey
kinds = sys.argv[1:]
pem = {k: open(k + ".pub", "rb").read() for k in kinds}
keys = {k: SSlibKey.from_crypto(load_pem_public_key(pem[k]), keyid=hashlib.sha256(pem[k]).hexdigest()) for k in kinds}
e = Envelope.from_dict(json.load(open("f.dsse.json")))
assert len(e.verify(list(keys.values()), len(kinds))) == len(kinds)
e.payload += b" "
try:
    e.verify(list(keys.values()), 1)
    sys.exit("a changed payload was accepted")
except Exception as x:
    assert type(x).__name__ == "VerificationError", x
theirs = Envelope(Envelope.from_dict(json.load(open("f.dsse.json"))).payload, e.payload_type, {})
for k in kinds:
    theirs.sign(CryptoSigner(load_pem_private_key(open(k, "rb").read(), None), keys[k]))
json.dump(theirs.to_dict(), open("theirs.json", "w"))
""")
    subprocess.run(
        [signers, "client.py", "ed25519", "ecdsa-p256", "ecdsa-p384"], cwd=str(work), check=True
    )
    verify(
        "theirs.json",
        "--foreign",
        "--key",
        "ed25519.pub",
        "--key",
        "ecdsa-p256.pub",
        "--key",
        "ecdsa-p384.pub",
        "f",
    )


# ---------------------------------------------------------------- tokens


@pytest.fixture
def token(work, monkeypatch):
    """A SoftHSM token "team" with keys ci (P-256), ed (Ed25519), big (P-384); its PIN is in the
    file pin.
    """
    if not os.path.exists(SOFTHSM):
        assert not FULL, "softhsm2 must be installed"
        pytest.skip("no SoftHSM (Debian: softhsm2)")
    (work / "tokens").mkdir()
    (work / "softhsm.conf").write_text(
        "directories.tokendir = %s\nobjectstore.backend = file\nlog.level = ERROR\n"
        % (work / "tokens")
    )
    monkeypatch.setenv("SOFTHSM2_CONF", str(work / "softhsm.conf"))
    run = lambda *args: subprocess.run(
        args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True
    )
    for label in ("team", "other"):
        run(
            "softhsm2-util",
            "--init-token",
            "--free",
            "--label",
            label,
            "--pin",
            "1234",
            "--so-pin",
            "5678",
        )
    for label, kind, number in (
        ("ci", "EC:prime256v1", "01"),
        ("ed", "EC:edwards25519", "02"),
        ("big", "EC:secp384r1", "03"),
        ("twin", "EC:prime256v1", "04"),
        ("twin", "EC:prime256v1", "05"),
    ):
        run(
            "pkcs11-tool",
            "--module",
            SOFTHSM,
            "--token-label",
            "team",
            "--login",
            "--pin",
            "1234",
            "--keypairgen",
            "--key-type",
            kind,
            "--id",
            number,
            "--label",
            label,
        )
    (work / "pin").write_text("1234\n")
    return (
        lambda key="object=ci",
        pin="pin",
        token="team": "pkcs11:token=%s;%s?module-path=%s&pin-source=file:%s"
        % (token, key, SOFTHSM, work / pin)
    )


def test_tokens(sign, verify, token, work):
    (work / "f").write_bytes(b"hello\n")
    for key in (
        "object=ci",
        "object=ed;type=private",
        "object=big",
        "id=%04",
        "object=twin;id=%05",
    ):
        (work / "pub").write_text(sign("--public-key", "--key", token(key)).out)
        sign("f", "--key", token(key), "-o", "e.json")
        verify("e.json", "--key", "pub", "f")
        (work / "e.json").unlink()
    sign("--public-key", "--key", token())
    (work / "wrong").write_text("4321\n")
    for uri, text in (
        (token(pin="wrong"), "the PIN is wrong"),
        (token(pin="none"), "cannot read the token's PIN"),
        (token("object=nobody"), "found none"),
        (token("object=twin"), "found several"),
        (token(token="nobody"), "expected one token called nobody, found 0"),
        (token("object=ci").split("&")[0], "needs a PIN"),
        ("pkcs11:object=ci", "module-path"),
        ("pkcs11:object=ci?module-path=/none.so", "cannot load"),
        ("pkcs11:object=%zz", "two hex digits"),
        ("pkcs11:object=a;object=b", "twice"),
        ("pkcs11:token=team", "which key"),
        ("pkcs11:object=ci?pin-value=1234", "seen by others"),
        ("pkcs11:object=ci?pin-source=|cat", "module-path"),
        ("pkcs11:object=ci;type=public", "type=private"),
        (token().replace("file:", "|cat "), "programs are not started"),
        ("pkcs11:object=ci;color=red", "color=red"),
        ("pkcs11:object=ci?module-path=" + sys.executable, "load"),
    ):
        r = sign("f", "--key", uri, "-o", "e.json", rc=2)
        assert text in r.err and "1234" not in r.err.replace("pin-value=1234", ""), r


# ---------------------------------------------------------------- Vault


@pytest.fixture
def vault(work):
    with StandIn(work / "vault") as v:
        v.env = {
            "VAULT_ADDR": v.address,
            "VAULT_TOKEN": v.token,
            "VAULT_CLIENT_TIMEOUT": "60",
            "HOME": str(work),
            "no_proxy": "*",
        }
        yield v


def test_vault_signs(sign, verify, vault, work):
    (work / "f").write_bytes(b"hello\n")
    for kind in ("ecdsa-p256", "ecdsa-p384", "ecdsa-p521", "ed25519"):
        vault.add(kind, kind)
        (work / (kind + ".pub")).write_text(
            sign("--public-key", "--key", "vault:" + kind, env=vault.env).out
        )
        sign("f", "--key", "vault:" + kind, "-o", kind + ".json", env=vault.env)
        verify(kind + ".json", "--key", kind + ".pub", "f")
    vault.add("model", mount="teams/signing")
    sign(
        "f",
        "--key",
        "vault:teams/signing/model",
        "-o",
        "-",
        env={**vault.env, "VAULT_NAMESPACE": "research"},
    )
    assert vault.asked[-1][2]["X-Vault-Namespace"] == "research"
    (work / "token").write_text(vault.token + "\n")
    no_token = {**vault.env, "VAULT_TOKEN": None}
    sign(
        "f",
        "--key",
        "vault:ed25519",
        "-o",
        "-",
        env={**no_token, "VAULT_TOKEN_FILE": str(work / "token")},
    )
    (work / "token").rename(work / ".vault-token")
    sign("f", "--key", "vault:ed25519", "-o", "-", env=no_token)


def test_vault_rotation(sign, verify, vault, work):
    """The latest version signs; an older one can be named; each has its own public key and key id;
    a trust file takes both in their time.
    """
    (work / "f").write_bytes(b"hello\n")
    key = vault.add("ci")
    (work / "v1.pub").write_text(sign("--public-key", "--key", "vault:ci", env=vault.env).out)
    sign("f", "--key", "vault:ci", "-o", "old.json", env=vault.env)
    key.rotate()
    sign("f", "--key", "vault:ci", "-o", "new.json", env=vault.env)
    sign("f", "--key", "vault:ci?version=1", "-o", "again.json", env=vault.env)
    (work / "v2.pub").write_text(
        sign("--public-key", "--key", "vault:ci?version=2", env=vault.env).out
    )
    verify("old.json", "--key", "v1.pub", "f")
    verify("again.json", "--key", "v1.pub", "f")
    verify("new.json", "--key", "v1.pub", "f", rc=1)
    verify("new.json", "--key", "v2.pub", "f")
    day = lambda ago: (datetime.now(timezone.utc) - timedelta(days=ago)).strftime("%Y-%m-%d")
    (work / "trust.toml").write_text(
        f'[[trust]]\nneed = 1\nv1 = {{file = "v1.pub", until = "{day(30)}"}}\nv2 = {{file = "v2.pub", from = "{day(60)}"}}\n'
    )
    verify("new.json", "--trust", "trust.toml", "f")
    assert "expired" in verify("old.json", "--trust", "trust.toml", "f", rc=1).out
    verify("old.json", "--trust", "trust.toml", "--at", day(45), "f")
    assert (
        "no version 3"
        in sign("f", "--key", "vault:ci?version=3", "-o", "-", env=vault.env, rc=2).err
    )


def test_vault_trouble(sign, vault, work):
    (work / "f").write_bytes(b"hello\n")
    vault.add("ci")

    def refused(text, key="vault:ci", env=None):
        r = sign("f", "--key", key, "-o", "-", env={**vault.env, **(env or {})}, rc=2)
        assert text in r.err and vault.token not in r.err and r.out == "", r

    refused("permission denied", env={"VAULT_TOKEN": "hvs.other"})
    refused("answered 404", "vault:nobody")
    refused("no answer", env={"VAULT_ADDR": "http://127.0.0.1:1"})
    refused("expected where the Vault is", env={"VAULT_ADDR": None})
    refused("http is for this machine only", env={"VAULT_ADDR": "http://vault.example.org:8200"})
    refused("http is for this machine only", env={"VAULT_ADDR": "http://localhost.example.org"})
    refused(".vault-token", env={"VAULT_TOKEN": None})
    refused("line break", env={"VAULT_TOKEN": "a\nX-Evil: 1"})
    for spec in (
        "vault:",
        "vault:../ci",
        "vault:ci?version=0",
        "vault:ci?versions=1",
        "vault:ci key",
        "vault:/ci",
    ):
        refused("expected vault:NAME", spec)
    for part in ("/keys/", "/sign/"):
        for answer, text in (
            ((200, b"garbage"), "as a Vault answers"),
            ((200, b'{"data": 1}'), "as a Vault answers"),
            ((200, b"[" * 100000), "as a Vault answers"),
            ((500, b'{"errors": ["sealed"]}'), "sealed"),
            ((503, b"<html>"), "answered 503"),
            ((302, b"", ("Location", "http://127.0.0.1:1/")), "answered 302"),
            ((200, b" " * (2 << 20)), "an answer of more than"),
            (4, "no answer"),
        ):
            vault.answer = {part: answer}
            # openssl behind the stand-in may need long
            refused(text, env={"VAULT_CLIENT_TIMEOUT": "2"} if answer == 4 else None)
    vault.answer = {
        "/keys/": (
            200,
            b'{"data": {"type": "rsa-2048", "latest_version": 1, "keys": {"1": {"public_key": "no PEM"}}}}',
        )
    }
    refused("rsa-2048")
    vault.answer = {
        "/keys/": (
            200,
            b'{"data": {"type": "aes256-gcm96", "latest_version": 1, "keys": {"1": 1442851412}}}',
        )
    }
    refused("aes256-gcm96")
    for signature, text in (
        ("vault:v2:AAAA", "vault:v1:"),
        ("AAAA", "vault:v1:"),
        ("vault:v1:@", "vault:v1:"),
        ("vault:v1:MAYCAQECAQE=", "thrown away"),
    ):
        vault.answer = {"/sign/": (200, json.dumps({"data": {"signature": signature}}).encode())}
        refused(text)


def test_vault_s_certificate_is_verified(sign, vault, work):
    (work / "f").write_bytes(b"hello\n")
    vault.add("ci")
    openssl(
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-keyout",
        work / "tls.key",
        "-out",
        work / "tls.pem",
        "-subj",
        "/CN=127.0.0.1",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-days",
        "30",
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(str(work / "tls.pem"), str(work / "tls.key"))
    vault.server.socket = context.wrap_socket(vault.server.socket, server_side=True)
    env = {**vault.env, "VAULT_ADDR": vault.address.replace("http:", "https:")}
    assert "no answer" in sign("f", "--key", "vault:ci", "-o", "-", env=env, rc=2).err
    assert vault.asked == []
    sign("f", "--key", "vault:ci", "-o", "-", env={**env, "VAULT_CACERT": str(work / "tls.pem")})
    other = {
        **env,
        "VAULT_ADDR": env["VAULT_ADDR"].replace("127.0.0.1", "localhost"),
        "VAULT_CACERT": str(work / "tls.pem"),
    }
    assert "no answer" in sign("f", "--key", "vault:ci", "-o", "-", env=other, rc=2).err


# ---------------------------------------------------------------- runs

KEY, PUB = GOLDEN / "keys" / "ana.key", GOLDEN / "keys" / "ana.key.pub"


def run_of(twinrun, home, *command, **kw):
    before = set((home / "runs").glob("*")) if home.exists() else set()
    r = twinrun("record", "--", *map(str, command), **kw)
    assert r.rc == 0, r
    return (set((home / "runs").glob("*")) - before).pop()


def test_a_run_s_provenance(sign, verify, twinrun, home, work):
    """SLSA's fields, digests of git's own making, and each file of the run counts."""
    git = (
        lambda *a: subprocess.run(
            ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *a],
            cwd=str(work),
            check=True,
            stdout=subprocess.PIPE,
        )
        .stdout.decode()
        .strip()
    )
    (work / "job.py").write_text(
        "import numpy, sys\nnumpy.savez('w.npz', w=numpy.arange(6.0))\nprint(sys.argv[1:])\n"
    )
    (work / "config.json").write_text('{"lr": 0.1}')
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "x")
    (work / "job.py").write_text((work / "job.py").read_text() + "# changed\n")
    folder = run_of(
        twinrun,
        home,
        sys.executable,
        "job.py",
        "--config",
        "config.json",
        "--token=hunter2secret",
        cwd=str(work),
    )
    r = sign("last", "--key", KEY)
    path = folder / "run.dsse.json"
    assert str(path) in r.out
    said = statement(json.loads(path.read_text()))
    assert said["predicateType"] == "https://slsa.dev/provenance/v1"
    build, details = said["predicate"]["buildDefinition"], said["predicate"]["runDetails"]
    assert (
        set(build)
        == {"buildType", "externalParameters", "internalParameters", "resolvedDependencies"}
        and details["builder"]["id"]
    )
    assert build["externalParameters"]["argv"][:4] == [
        sys.executable,
        "job.py",
        "--config",
        "config.json",
    ]
    assert "hunter2secret" not in json.dumps(said)
    run = json.loads((folder / "run.json").read_text())
    assert details["metadata"]["invocationId"] == run["id"]
    assert details["metadata"]["startedOn"] <= details["metadata"]["finishedOn"] and details[
        "metadata"
    ]["startedOn"].endswith("Z")
    depends = {d["name"]: d["digest"] for d in build["resolvedDependencies"]}
    assert depends["code"] == {
        "gitCommit": git("rev-parse", "HEAD"),
        "gitTree": git("rev-parse", "HEAD^{tree}"),
    }
    assert (
        depends["diff"]["sha256"]
        == hashlib.sha256(
            subprocess.run(
                ["git", "diff", "--binary", "--full-index", "HEAD"],
                cwd=str(work),
                stdout=subprocess.PIPE,
            ).stdout
        ).hexdigest()
    )
    sha256 = lambda p: hashlib.sha256(p.read_bytes()).hexdigest()
    assert any(
        name.startswith("config ") and d["sha256"] == sha256(work / "config.json")
        for name, d in depends.items()
    )
    assert any(name.startswith("program ") for name in depends) and any(
        name.startswith("library ") and "libc.so" in name for name in depends
    )
    assert (
        build["internalParameters"]["environment"]["kernel"]
        and build["internalParameters"]["complete"] is True
    )
    subjects = {s["name"]: s["digest"] for s in said["subject"]}
    for name in ("run.json", "provenance.json", "stdout"):
        assert subjects["%s/%s" % (run["id"], name)] == {"sha256": sha256(folder / name)}
    assert (
        subjects[run["id"] + "/files/w.npz"]["sha256"] == sha256(work / "w.npz")
        and "twinrunContent1" in subjects[run["id"] + "/files/w.npz"]
    )
    verify(path, "--key", PUB, folder)
    (folder / "later").write_text("came after")
    verify(path, "--key", PUB, "last")
    moved = folder.rename(work / "elsewhere")
    verify(moved / "run.dsse.json", "--key", PUB, moved)
    for name in ("run.json", "provenance.json", "stdout"):
        data = (moved / name).read_bytes()
        (moved / name).write_bytes(data.replace(b"0.1", b"0.2") if b"0.1" in data else data + b" ")
        assert name in verify(moved / "run.dsse.json", "--key", PUB, moved, rc=1).out
        (moved / name).write_bytes(data)
    # Its files by themselves: the same bytes, the same tensors in other bytes, others.
    assert "/files/w.npz" in verify(moved / "run.dsse.json", "--key", PUB, "w.npz").out
    shutil.copy(work / "w.npz", work / "renamed.npz")
    verify(moved / "run.dsse.json", "--key", PUB, "renamed.npz")
    subprocess.run(
        [
            sys.executable,
            "-c",
            "import numpy; numpy.savez_compressed('c.npz', w=numpy.arange(6.0)); numpy.savez('d.npz', w=numpy.arange(7.0))",
        ],
        cwd=str(work),
        check=True,
    )
    assert sha256(work / "c.npz") != sha256(work / "w.npz")
    verify(moved / "run.dsse.json", "--key", PUB, "c.npz")
    verify(moved / "run.dsse.json", "--key", PUB, "d.npz", rc=1)
    verify(moved / "run.dsse.json", "--key", PUB, "w.npz", "d.npz", rc=1)


def test_reproduced(sign, verify, twinrun, build, home, work):
    trainer = [build / "workloads" / "trainer", "--ordered", "--steps", "5"]
    a, b, other = (
        run_of(twinrun, home, *trainer, *more, cwd=str(work)) for more in ([], [], ["--seed", "9"])
    )
    sign("--reproduced", a, b, "--key", KEY, "-o", "same.json")
    said = statement(json.loads((work / "same.json").read_text()))
    assert said["predicateType"] == "urn:twinrun:reproduced:1"
    assert (
        said["predicate"]["outcome"] == said["predicate"]["bitwise"] == "same"
        and said["predicate"]["steps"] == 5
    )
    ids = [json.loads((x / "run.json").read_text())["id"] for x in (a, b)]
    assert said["predicate"]["runs"] == ids
    values = [
        {
            d["twinrunValues1"]
            for s in said["subject"]
            for d in [s["digest"]]
            if s["name"].startswith(i + "/") and "twinrunValues1" in d
        }
        for i in ids
    ]
    assert values[0] == values[1] and len(values[0]) == 1
    verify("same.json", "--key", PUB, b, a)
    verify("same.json", "--key", PUB, a, rc=3)
    assert "another run" in verify("same.json", "--key", PUB, a, other, rc=1).out
    assert "another run" in verify("same.json", "--key", PUB, a, b, other, rc=1).out
    sign("--reproduced", a, other, "--key", KEY, "-o", "no.json", rc=1)
    sign("--reproduced", a, a, "--key", KEY, "-o", "no.json", rc=2)
    sign("--reproduced", a, "--key", KEY, "-o", "no.json", rc=2)
    assert (
        json.loads(
            sign("--reproduced", a, other, "--key", KEY, "-o", "no.json", "--json", rc=1).out
        )["outcome"]
        == "differ"
    )
    assert not (work / "no.json").exists()
    # One run's own statement does not pass for another's, however equal their values are.
    sign(a, "--key", KEY, "-o", "a.json")
    verify("a.json", "--key", PUB, a)
    verify("a.json", "--key", PUB, b, rc=1)
    trace = next((a / "ranks").glob("*.twt"))
    data = bytearray(trace.read_bytes())
    data[len(data) // 2] ^= 1
    trace.write_bytes(data)
    assert verify("a.json", "--key", PUB, a, rc=1).out.count("changed") >= 1


def test_a_run_without_provenance_is_not_signed(sign, twinrun, build, home, work):
    folder = run_of(
        twinrun, home, build / "workloads" / "trainer", "--ordered", "--steps", "2", cwd=str(work)
    )
    (folder / "provenance.json").unlink()
    assert "no provenance.json" in sign(folder, "--key", KEY, rc=2).err
    assert not (folder / "run.dsse.json").exists()


def test_in_toto_s_own_schema_takes_our_statements(signers, sign, twinrun, build, home, work):
    """The attestation framework's protobufs refuse fields that they do not know: Statement v1,
    SLSA's Provenance v1.
    """
    folders = [
        run_of(
            twinrun,
            home,
            build / "workloads" / "trainer",
            "--ordered",
            "--steps",
            "2",
            cwd=str(work),
        )
        for _ in range(2)
    ]
    sign(folders[0], "--key", KEY, "-o", "run.json")
    sign("--reproduced", *folders, "--key", KEY, "-o", "same.json")
    sign("run.json", "--key", KEY, "-o", "file.json")
    (work / "client.py").write_text("""
import base64, json, sys
from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
from in_toto_attestation.v1 import statement, statement_pb2
for path in sys.argv[1:]:
    payload = base64.b64decode(json.load(open(path))["payload"], validate=True)
    statement.Statement.copy_from_pb(json_format.Parse(payload, statement_pb2.Statement())).validate()
    said = json.loads(payload)
    if said["predicateType"] == "https://slsa.dev/provenance/v1":
        p = json_format.ParseDict(said["predicate"], provenance_pb2.Provenance())
        assert p.build_definition.resolved_dependencies and p.run_details.metadata.started_on.seconds > 0
""")
    subprocess.run(
        [signers, "client.py", "run.json", "same.json", "file.json"], cwd=str(work), check=True
    )
