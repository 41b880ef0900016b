# SPDX-License-Identifier: Apache-2.0
"""`twinrun sign` and `verify` of files and models against other people's programs: openssl over the
PAE, the golden signature of the model_signing client; under TWINRUN_FULL the client itself and
securesystemslib. And each changed byte of a subject.
"""

import base64
import hashlib
import json
import os
import shutil
import subprocess

import pytest

from conftest import FULL
from sign_helper import GOLDEN, pae, sign, signers, statement, verify  # noqa: F401
from vault_stand_in import openssl


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
