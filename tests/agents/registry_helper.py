# SPDX-License-Identifier: Apache-2.0
"""A registry with two keys that are trusted, for the tests of twinrun registry."""

import contextlib
import http.server
import threading

import pytest


@contextlib.contextmanager
def a_proxy():
    """.url; .asked: what it was asked for. It answers nothing but 502."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.server.asked.append(self.path)
            self.send_error(502)

        do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = do_CONNECT = do_GET

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked, server.url = [], f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Registry:
    """A registry with two keys, and a home that looks at it."""

    def __init__(self, work, twinrun, build):
        self.work, self.twinrun, self.build = work, twinrun, build
        self.folder = work / "R"
        self.home = work / "home"
        self.home.mkdir()
        self.env = {
            "TWINRUN_REGISTRY": str(self.folder),
            "TWINRUN_REGISTRY_TRUST": str(work / "trust.toml"),
            "TWINRUN_HOME": str(self.home),
        }
        for name in "ci", "ana":
            self.run("sign", "--new-key", f"{name}.key")
        self.trust('ci = {file = "ci.key.pub"}', 'ana = {file = "ana.key.pub"}')
        self.policy("[[promote]]", 'to = "canary"', "[[promote]]", 'to = "production"')

    def trust(self, *keys):
        (self.work / "trust.toml").write_text("[[trust]]\nneed = 1\n" + "\n".join(keys) + "\n")

    def policy(self, *lines):
        (self.work / "policy.toml").write_text("\n".join(lines) + "\n")

    def run(self, *args, rc=0, env=None):
        r = self.twinrun(
            *(a if isinstance(a, bytes) else str(a) for a in args),
            cwd=str(self.work),
            env={**self.env, **(env or {})},
        )
        assert rc is None or r.rc == rc, r
        return r

    def __call__(self, *args, rc=0, env=None):
        return self.run("registry", *args, rc=rc, env=env)

    def make(self, **options):
        self("init", "--key", "ci.key", "--policy", "policy.toml", **options)
        return self

    def add(self, model="resnet", content=b"weights", rc=0):
        (self.work / "model.pt").write_bytes(content)
        return self("add", model, "model.pt", "--key", "ci.key", rc=rc)

    def stages(self, home=None):
        """{version: stage} of the one model, from a home that has seen nothing."""
        env = {"TWINRUN_HOME": str(home or self.work / "nobody")}
        r = self("ls", "--json", env=env)
        return {v["version"]: v["stage"] for v in r.json["versions"]}

    def entries(self):
        return sorted((self.folder / "log").iterdir())

    def faults(self, rc=1, **options):
        return [f["what"] for f in self("verify", "--json", rc=rc, **options).json["faults"]]


@pytest.fixture
def registry(work, twinrun, build):
    return Registry(work, twinrun, build)


def in_production(registry, *contents):
    """These versions were promoted to production one after the other."""
    registry.make()
    for i, content in enumerate(contents):
        registry.add(content=content)
        registry("promote", f"resnet@{i + 1}", "--key", "ana.key", "--to", "production")
    return registry
