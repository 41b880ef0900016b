# SPDX-License-Identifier: Apache-2.0
"""A registry with two keys that are trusted, for the tests of twinrun registry."""

import contextlib
import http.server
import os
import random
import signal
import subprocess
import threading
import time

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
        self.places = 0  # how often `elsewhere` was called
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

    def elsewhere(self):
        """From here on another registry, which is not there yet."""
        self.places += 1
        self.folder = self.work / f"R{self.places}"
        self.env["TWINRUN_REGISTRY"] = str(self.folder)

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


def goes_the_whole_way(remote):
    """Two versions come into production, and the first one comes back; it is no place for another
    registry.
    """
    in_production(remote, b"one", b"two")
    assert remote.stages() == {1: "retired", 2: "production"}
    remote("rollback", "resnet", "--into", "back.pt", "--key", "ana.key")
    assert (remote.work / "back.pt").read_bytes() == b"one"
    assert remote.stages() == {1: "production", 2: "retired"}
    assert "nothing is wrong" in remote("verify", "--contents").out
    r = remote("init", "--key", "ci.key", rc=2)
    assert "is a registry already" in r.err


def finds_damage(remote, store, where):
    """Its bytes come back damaged: from then on nobody promotes it or gets it, and verify says so.
    where: what stands in the address of a content."""

    def damaged(request):
        if request.method == "GET" and where in request.path:
            status, headers, body = store.ask(request)
            return (status, headers, b"\0" + body[1:]) if body == b"weights" else None
        return None

    remote.add(content=b"weights")
    store.rule = damaged
    r = remote("promote", "resnet", "--key", "ana.key", rc=1)
    assert "FAIL  contents" in r.out and "damaged" in r.out
    r = remote("get", "resnet@1", "--into", "x.pt", rc=2)
    assert "damaged" in r.err and not (remote.work / "x.pt").exists()
    assert "damaged" in remote("verify", "--contents", rc=1).out


# ---- several at once, and kills


def promotions_at_once(registry, count):
    """[(exit code, stderr)] of that many, each of another version."""
    for i in range(count):
        registry.add(content=b"%d" % i)
    procs = [
        subprocess.Popen(
            [str(registry.build / "cmd/twinrun"), "registry", "promote", f"resnet@{i + 1}"]
            + ["--key", "ana.key", "--to", "production"],
            cwd=registry.work,
            env={**os.environ, **registry.env, "TWINRUN_HOME": str(registry.work / f"h{i}")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for i in range(count)
    ]
    ends = [(p.communicate(timeout=300)[1], p.returncode) for p in procs]
    return [(rc, err) for err, rc in ends]


def one_log(registry, before, ends):
    """Whoever was told that he wrote has one entry, and nobody else has; nothing is forked."""
    won = [rc for rc, _ in ends if rc == 0]
    for rc, err in ends:
        assert rc == 0 or rc == 2 and b"somebody added entry" in err, (rc, err)
    nobody = {"TWINRUN_HOME": "/nonexistent"}
    log = registry("log", "--json", env=nobody).json["entries"]
    assert won and len(log) == before + len(won)
    stages = list(registry.stages().values())
    assert stages.count("production") == 1 and stages.count("retired") == len(won) - 1
    assert not registry.faults(rc=0, env=nobody) and not registry.faults(rc=0)


EACH_LOG = 20  # kills; then another registry, so that the logs stay short


class Kills:
    """Commands that are killed with SIGKILL at random moments, and what was seen after them."""

    def __init__(self, registry, count):
        self.registry, self.count = registry, count
        self.rng = random.Random(count)
        self.longest = 0  # seconds: one that nobody kills, and half as many again
        self.killed = self.done = self.brought = 0

    def measure(self, *words):
        begin = time.monotonic()
        self.registry(*words)
        self.longest = (time.monotonic() - begin) * 1.5

    def __call__(self, i, *words):
        """Its exit code. How long a call takes changes with the machine's other work: one is killed
        at once and one is not, whatever that is."""
        p = subprocess.Popen(
            [str(self.registry.build / "cmd/twinrun"), "registry", *words],
            cwd=self.registry.work,
            env={**os.environ, **self.registry.env},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        patience = {0: 0, 1: None}.get(i, self.rng.uniform(0, self.longest))
        try:
            _, err = p.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            p.send_signal(signal.SIGKILL)
            _, err = p.communicate()
        # of one that was killed behind its decision the next command makes an entry, and says so
        brought = p.returncode == 2 and b"somebody added entry" in err
        assert brought or p.returncode in (0, -signal.SIGKILL), (i, words, p.returncode, err)
        self.killed += p.returncode == -signal.SIGKILL
        self.brought += brought
        return p.returncode

    def is_whole(self):
        assert "nothing is wrong" in self.registry("verify", "--contents").out

    def end(self):
        self.is_whole()
        assert self.killed and self.done, (self.killed, self.done)
        assert self.count < 100 or self.done < self.count, (self.killed, self.done)
        print(
            f"{self.count} kills: {self.killed} in the middle, {self.done} had been done, "
            f"{self.brought} found the entry of one before"
        )


def kill_rollbacks(registry, count):
    """After each kill one version is in production, the old or the new one, and what was restored
    is whole."""
    kills = Kills(registry, count)
    contents = b"one" * 100000, b"two" * 100000
    into = registry.work / "back.pt"
    for i in range(count):
        if i % EACH_LOG == 0:
            if i:
                kills.is_whole()
                registry.elsewhere()
            in_production(registry, *contents)
            into.unlink(missing_ok=True)
            kills.measure("rollback", "resnet@1", "--into", "back.pt", "--key", "ana.key")
            now = 1
        want = 3 - now
        into.unlink(missing_ok=True)
        rc = kills(i, "rollback", f"resnet@{want}", "--into", "back.pt", "--key", "ana.key")
        stages = registry.stages()
        assert sorted(stages.values()) == ["production", "retired"], (i, stages)
        new = next(v for v, s in stages.items() if s == "production")
        assert rc != 0 or new == want, (i, rc)
        kills.done += new == want
        if into.exists():
            assert into.read_bytes() == contents[want - 1]
        now = new
    kills.end()


def kill_promotions(registry, count):
    """After each kill the candidate is in production, or the version that was there still is."""
    kills = Kills(registry, count)
    to = ("--to", "production", "--key", "ana.key")
    for i in range(count):
        if i % EACH_LOG == 0:
            if i:
                kills.is_whole()
                registry.elsewhere()
            in_production(registry, b"0")
            registry.add(content=b"1")
            kills.measure("promote", "resnet@2", *to)
            now, want = 2, 2
        if want == now:
            want += 1
            registry.add(content=b"%d" % want)
        rc = kills(i, "promote", f"resnet@{want}", *to)
        stages = registry.stages()
        retired = dict.fromkeys(range(1, now), "retired")
        old = {**retired, now: "production", want: "candidate"}
        new = {**retired, now: "retired", want: "production"}
        assert stages in (old, new), (i, stages)
        assert rc != 0 or stages == new, (i, rc)
        if stages == new:
            now = want
            kills.done += 1
    kills.end()
