# SPDX-License-Identifier: Apache-2.0
"""A stand-in for HashiCorp Vault, NOT a Vault: the two requests of its transit engine that twinrun
makes, as the documentation of the HTTP interface describes them
(developer.hashicorp.com/vault/api-docs/secret/transit). Keys are made and used by the openssl
program.
"""

import base64
import http.server
import json
import re
import subprocess
import tempfile
import threading
import time
from pathlib import Path


def openssl(*args, data=None):
    return subprocess.run(
        ["openssl", *map(str, args)],
        input=data,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        check=True,
    ).stdout


class Key:
    """Versions of a named key, from 1 on."""

    CURVES = {
        "ecdsa-p256": ("P-256", "sha2-256"),
        "ecdsa-p384": ("P-384", "sha2-384"),
        "ecdsa-p521": ("P-521", "sha2-512"),
    }

    def __init__(self, kind, folder):
        self.kind, self.folder, self.versions = kind, Path(folder), []

    def rotate(self):
        path = self.folder / ("key%d.pem" % (len(self.versions) + 1))
        kind = (
            ["-algorithm", "ED25519"]
            if self.kind == "ed25519"
            else ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:" + self.CURVES[self.kind][0]]
        )
        openssl("genpkey", *kind, "-out", path)
        self.versions.append(path)

    def public(self, version):
        if self.kind == "ed25519":  # the 32 bytes of the key, in base64
            return base64.b64encode(
                openssl("pkey", "-in", self.versions[version - 1], "-pubout", "-outform", "DER")[
                    -32:
                ]
            ).decode()
        return openssl("pkey", "-in", self.versions[version - 1], "-pubout").decode()

    def describe(self):
        return {
            "type": self.kind,
            "latest_version": len(self.versions),
            "min_available_version": 0,
            "min_decryption_version": 1,
            "supports_signing": True,
            "keys": {
                str(n): {
                    "creation_time": "2026-01-01T00:00:00Z",
                    "name": self.kind,
                    "public_key": self.public(n),
                }
                for n in range(1, len(self.versions) + 1)
            },
        }

    def sign(self, version, data, hash_name):
        path = self.versions[version - 1]
        with tempfile.NamedTemporaryFile(dir=self.folder) as f:
            f.write(data)
            f.flush()
            if self.kind == "ed25519":
                return openssl("pkeyutl", "-sign", "-rawin", "-inkey", path, "-in", f.name)
            assert hash_name == self.CURVES[self.kind][1]
            return openssl("dgst", "-" + hash_name.replace("sha2-", "sha"), "-sign", path, f.name)


class StandIn:
    """with StandIn(folder) as vault: vault.address, vault.keys[mount, name]; `answer` replaces an
    answer: (status, bytes), or seconds to stand still.
    """

    token = "hvs.secret"

    def __init__(self, folder):
        self.folder, self.keys, self.answer, self.asked = Path(folder), {}, {}, []

    def add(self, name, kind="ecdsa-p256", mount="transit"):
        folder = self.folder / (mount.replace("/", "_") + "-" + name)
        folder.mkdir(parents=True)
        self.keys[mount, name] = Key(kind, folder)
        self.keys[mount, name].rotate()
        return self.keys[mount, name]

    def respond(self, method, path, headers, body):
        self.asked.append((method, path, headers, body))
        for part, answer in self.answer.items():
            if part in path:
                return answer
        if headers.get("X-Vault-Token") != self.token or headers.get("X-Vault-Request") != "true":
            return 403, json.dumps({"errors": ["permission denied"]}).encode()
        found = re.fullmatch(r"/v1/(.+)/(keys|sign)/([^/]+)(?:/([^/]+))?", path)
        key = self.keys.get((found.group(1), found.group(3))) if found else None
        if not key:
            return 404, json.dumps({"errors": []}).encode()
        if found.group(2) == "keys":
            data = key.describe()
        else:
            wanted = json.loads(body)
            version = wanted.get("key_version") or len(key.versions)
            signature = key.sign(
                version, base64.b64decode(wanted["input"], validate=True), found.group(4)
            )
            data = {
                "signature": "vault:v%d:%s" % (version, base64.b64encode(signature).decode()),
                "key_version": version,
            }
        return 200, json.dumps(
            {
                "request_id": "1",
                "lease_id": "",
                "renewable": False,
                "lease_duration": 0,
                "data": data,
                "wrap_info": None,
                "warnings": None,
                "auth": None,
            }
        ).encode()

    def __enter__(self):
        stand_in = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                answer = stand_in.respond(self.command, self.path, self.headers, body)
                if isinstance(answer, (int, float)):
                    time.sleep(answer)
                    return
                self.send_response(answer[0])
                for name, value in answer[2:]:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer[1])))
                self.end_headers()
                self.wfile.write(answer[1])

            do_GET = do_POST = answer

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = "http://127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *args):
        self.server.shutdown()
        self.server.server_close()
