# SPDX-License-Identifier: Apache-2.0
"""Keys that are elsewhere: `twinrun sign` with SoftHSM's tokens and with a stand-in for Vault."""

import json
import os
import ssl
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import pytest

from conftest import FULL
from sign_helper import sign, verify  # noqa: F401
from vault_stand_in import StandIn, openssl

SOFTHSM = "/usr/lib/softhsm/libsofthsm2.so"


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
