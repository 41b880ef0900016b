# SPDX-License-Identifier: Apache-2.0
"""A `twinrun serve` of a test: started, asked, ended; and metrics read by a parser of our own."""

import contextlib
import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import time
import urllib.request

from free_ports import free_port

BUILD = os.path.abspath(os.environ.get("TWINRUN_BUILD", "build"))
TWINRUN = os.path.join(BUILD, "cmd", "twinrun")
JOB = os.path.join(BUILD, "tests", "cli", "job")
PATIENCE = 60  # seconds: a slow machine is no finding


def until(what, seconds=PATIENCE, pause=0.05):
    """The first true value of what()."""
    end = time.monotonic() + seconds
    while True:
        value = what()
        if value:
            return value
        assert time.monotonic() < end, "it did not happen"
        time.sleep(pause)


def twinrun(home, *words, code=(0,)):
    """What a command of a home prints, which ends with one of these codes."""
    done = subprocess.run(
        [TWINRUN, *words],
        env={**os.environ, "TWINRUN_HOME": str(home), "TWINRUN_LEDGER": ""},
        cwd=home.parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode in code, done.stderr
    return done.stdout


def checked(s, path, schema):
    """An answer that is as its schema says, and has no field that the schema does not name."""
    import json_held
    import jsonschema  # here: the benches, which have this file too, may lack it

    answer = s.get(path)
    assert answer.status == 200, answer.text
    rules = s.get("/api/v1/schemas/" + schema).json
    jsonschema.Draft202012Validator.check_schema(rules)
    jsonschema.validate(answer.json, json_held.closed(rules), jsonschema.Draft202012Validator)
    return answer.json


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)


class Serve:
    def __init__(self, home, *options, env=None, listen="127.0.0.1:0"):
        words = [TWINRUN, "serve", "--home", str(home), *options]
        if listen:
            words += ["--listen", listen]
        self.log = ""
        self.process = subprocess.Popen(
            words, stderr=subprocess.PIPE, env={**os.environ, "TWINRUN_LEDGER": "", **(env or {})}
        )
        os.set_blocking(self.process.stderr.fileno(), False)
        try:
            self.said("listening on ")
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise
        self.where = re.search(r"listening on (\S+)", self.log).group(1)
        found = re.match(r"https?://(?:\[.*\]|[^/:]*):(\d+)/", self.where)
        self.port = int(found.group(1)) if found else None

    def read_log(self):
        with contextlib.suppress(BlockingIOError):
            self.log += (self.process.stderr.read() or b"").decode()
        return self.log

    def said(self, words):
        """Waits until the log has these words."""
        end = time.monotonic() + PATIENCE
        while words not in self.read_log():
            assert self.process.poll() is None, "serve ended: " + self.read_log()
            assert time.monotonic() < end, f"not said: {words}; but: {self.log}"
            select.select([self.process.stderr], [], [], 0.5)

    def connection(self):
        if self.port is None:
            return UnixConnection(self.where)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def get(self, path, method="GET", **headers):
        c = self.connection()
        try:
            c.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
            r = c.getresponse()
            return Answer(r.status, r.headers, r.read())
        finally:
            c.close()

    def raw(self, data):
        """What comes back for these bytes, until the server closes or has answered."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as s:
            answer = b""
            with contextlib.suppress(OSError):  # it may have closed before all was sent
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                while more := s.recv(65536):
                    answer += more
        return answer

    def metrics(self):
        return read_metrics(self.get("/metrics").text)

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        self.read_log()
        self.process.stderr.close()
        return code


@contextlib.contextmanager
def serving(home, *options, **more):
    s = Serve(home, *options, **more)
    try:
        yield s
    finally:
        code = s.stop()
    assert code == 0, s.log


LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"(?:,|$)')


def read_metrics(text):
    """{(name, (label, value), ...): number} of the text format; a line that is none fails."""
    out = {}
    for line in text.splitlines():
        if line.startswith("#"):
            assert re.match(r"# (HELP|TYPE|EOF)", line), line
            continue
        line = line.split(" # ")[0]
        found = re.fullmatch(r"([a-z_]+)(?:\{(.*)\})? (\S+)", line)
        assert found, line
        labels, at = [], 0
        inside = found.group(2) or ""
        while at < len(inside):
            label = LABEL.match(inside, at)
            assert label, line
            value = re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), label.group(2))
            labels.append((label.group(1), value))
            at = label.end()
        key = (found.group(1), *sorted(labels))
        assert key not in out, "twice: " + line
        out[key] = float(found.group(3))
    return out


def value(metrics, name, **labels):
    return metrics.get((name, *sorted(labels.items())))


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer else None


class Events:
    """A client of /api/v1/events."""

    def __init__(self, s, last=None):
        self.socket = socket.create_connection(("127.0.0.1", s.port), timeout=PATIENCE)
        line = f"Last-Event-ID: {last}\r\n" if last else ""
        self.socket.sendall(
            f"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n{line}\r\n".encode()
        )
        self.data = b""
        self.until(b": twinrun")

    def until(self, words):
        """Reads until these words came, and all of the event that they are of."""
        while not re.search(re.escape(words) + rb".*?\n\n", self.data, re.S):
            more = self.socket.recv(65536)
            assert more, "the server closed"
            self.data += more

    def events(self):
        text = re.sub(rb"\r\n[0-9a-f]+\r\n", b"", self.data).decode()
        return re.findall(r"id: (\S+)\nevent: (\S+)\ndata: (.*)\n", text)

    def close(self):
        self.socket.close()


@contextlib.contextmanager
def prometheus(folder, target, rules=("twinrun.rules.yml",)):
    """A real one, which scrapes each second, as a function that asks it; its data stay in folder."""
    (folder / "prometheus.yml").write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": rules,
                "scrape_configs": [
                    {"job_name": "twinrun", "static_configs": [{"targets": [target]}]}
                ],
            }
        )
    )
    done = subprocess.run(
        ["promtool", "check", "config", folder / "prometheus.yml"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    port = free_port()
    with open(folder / "prometheus.log", "w") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
            ]
            + [f"--web.listen-address=127.0.0.1:{port}", "--enable-feature=exemplar-storage"],
            stderr=log,
            stdout=log,
        )

    def ask(path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}", timeout=30) as r:
                return json.load(r)["data"]
        except OSError:
            return None

    try:
        until(lambda: ask("targets?state=active") or process.poll() is not None)
        yield ask
    finally:
        process.terminate()
        process.wait(60)
