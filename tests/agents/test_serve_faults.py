# SPDX-License-Identifier: Apache-2.0
"""twinrun serve when much happens at once, and when what it stands on fails: a writer beside many
clients, ten thousand hostile names, clients that do not read, a full disk, a log that cannot be
written, a database and a Prometheus that restart.
"""

import json
import os
import random
import re
import shutil
import socket
import sqlite3
import subprocess
import threading

import pytest
from free_ports import free_port
from ledger_by_hand import Ledger, fresh_comparison, some_ledger
from serve_helper import (
    BUILD,
    PATIENCE,
    TWINRUN,
    Events,
    prometheus,
    read_metrics,
    serving,
    until,
    value,
)
from test_ledger import Server, server_programs
from test_ledger import twinrun as on_server

JOB = os.path.join(BUILD, "tests", "cli", "job")
pytestmark = pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN)
GROWS = ("_total", "_bucket", "_count")


def total(metrics, name, **labels):
    return sum(v for k, v in metrics.items() if k[0] == name and set(labels.items()) <= set(k[1:]))


# ---- many at once


class Client(threading.Thread):
    """Asks the same again and again on connections of its own; what went wrong is kept."""

    def __init__(self, s, path, check):
        super().__init__()
        self.s, self.path, self.check = s, path, check
        self.stop, self.wrong, self.answers = threading.Event(), None, 0

    def run(self):
        try:
            while not self.stop.is_set():
                answer = self.s.get(self.path)
                assert answer.status == 200, answer.text
                self.check(answer)
                self.answers += 1
        except BaseException as e:  # the main thread raises it
            self.wrong = e


class NeverFalls:
    def __init__(self):
        self.before = {}

    def __call__(self, answer):
        now = read_metrics(answer.text)
        for key, n in self.before.items():
            assert not key[0].endswith(GROWS) or now[key] >= n, key
        self.before = now


def test_many_clients_beside_a_writer(tmp_path):
    """No counter falls for any client, each client of events gets each event once and in order, and
    at the end all is shown. (Also what the thread sanitizer is run over by hand.)"""
    home = some_ledger(tmp_path, 21)
    path, pairs = home.done(), 10
    with serving(path) as s:
        before = total(s.metrics(), "twinrun_comparisons_total")
        listeners = [Events(s) for _ in range(12)]
        clients = [Client(s, "/metrics", NeverFalls()) for _ in range(4)]
        clients += [
            Client(s, "/api/v1/runs?limit=20", lambda a: a.json["runs"]),
            Client(s, "/api/v1/verdicts", lambda a: a.json["verdicts"]),
            Client(s, "/api/v1/indicators", lambda a: a.json),
            Client(s, "/plain", lambda a: a.text.index("</html>")),
        ]
        for c in clients:
            c.start()
        written = []
        try:
            for _ in range(pairs):
                written += fresh_comparison(home, project="new")
                shown = before + len(written) // 2
                until(lambda n=shown: total(s.metrics(), "twinrun_comparisons_total") == n)
        finally:
            for c in clients:
                c.stop.set()
            for c in clients:
                c.join()
        for c in clients:
            if c.wrong:
                raise c.wrong
            assert c.answers > 0, c.path
        for e in listeners:
            while len(e.events()) < 3 * pairs:
                more = e.socket.recv(65536)
                assert more
                e.data += more
            events = e.events()
            runs = [r for _, kind, data in events if kind == "run" for r in written if r in data]
            assert sorted(runs) == sorted(written)
            numbers = [int(i.split("-")[1]) for i, _, _ in events]
            assert numbers == list(range(numbers[0], numbers[0] + 3 * pairs))
            e.close()


def hostile(r, i):
    """A name that is no other one, of what breaks text, HTML, labels or lines; some are huge."""
    parts = [
        "<script>alert(1)</script>",
        '"} 1\n# TYPE x counter\nx{y="',
        "\\",
        "\\n",
        "\r\n",
        "\t",
    ]
    parts += ["\x1b[2J", "\x7f", "\u202e", "\u2028", "&amp;", "'; DROP TABLE runs; --", "%s%n", "é"]
    name = "".join(r.choice(parts) for _ in range(r.randrange(1, 6))) + str(i)
    return name * (1 + (1 << 20) // len(name)) if i % 2500 == 0 else name


def test_ten_thousand_hostile_names(tmp_path):
    """Each is a project, a family and who made a run. What is shown has an end, each line is one, and
    nothing that was counted is lost."""
    r = random.Random(22)
    home, n = Ledger(tmp_path), 10_000
    for i in range(n):
        name = hostile(r, i)
        home.run(project=name, command=name, family=name, who=name, state="ok")
    with serving(home.done()) as s:
        until(lambda: s.get("/metrics").status == 200)
        answer = s.get("/metrics")
        metrics = read_metrics(answer.text)
        if shutil.which("promtool"):
            done = subprocess.run(
                ["promtool", "check", "metrics"], input=answer.body, capture_output=True
            )
            assert done.returncode == 0, done.stdout + done.stderr
        sizes = {p: len(s.get(p).body) for p in ("/metrics", "/plain", "/api/v1/indicators")}
        runs = s.get("/api/v1/runs?limit=1000").json["runs"]
        page = s.get("/plain").text
    assert total(metrics, "twinrun_training_duration_seconds_count") == n
    assert len(runs) == 1000 and max(sizes.values()) < 32 << 20, sizes
    assert "<script>alert" not in page and not re.search("[\x1b\x7f\u202e\u2028]", page)
    projects = {dict(k[1:]).get("project") for k in metrics} - {None}
    assert not any(re.search("[\x00-\x1f\x7f\u202e\u2028]", p) for p in projects)


# ---- clients that do not read


def resident(s):
    with open(f"/proc/{s.process.pid}/status") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) * 1024


def test_clients_that_do_not_read(tmp_path):
    """They ask for much, over and over, and take nothing: others are answered, and memory has an
    end."""
    home = some_ledger(tmp_path, 23)
    for i in range(2000):
        home.run(project=f"p{i % 40}", command="python train.py --name " + "x" * 1000)
    path = home.done()
    one = b"GET /api/v1/runs?limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving(path) as s:
        s.metrics()
        before = resident(s)
        held = []
        for _ in range(30):
            c = socket.socket()
            c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            c.settimeout(PATIENCE)
            c.connect(("127.0.0.1", s.port))
            c.sendall(one * 8)
            held.append(c)
        for _ in range(20):
            assert s.get("/healthz").status == 200
            assert s.get("/api/v1/runs?limit=1").status == 200
        whole = len(s.get("/api/v1/runs?limit=1000").body)
        assert whole > 1_000_000
        # at most one answer is made for each of them, whatever else they sent
        assert resident(s) - before < 30 * 3 * whole
        for c in held:
            c.close()
        assert s.get("/healthz").status == 200


def private(s):
    with open(f"/proc/{s.process.pid}/smaps_rollup") as f:
        return int(re.search(r"Private_Dirty:\s+(\d+)", f.read()).group(1)) * 1024


@pytest.mark.parametrize("path", ["/api/v1/events", "/api/v1/runs?limit=3"])
def test_clients_that_leave(tmp_path, path):
    """In the middle of events, or before the answer is there: nothing of them stays."""
    home = some_ledger(tmp_path, 27).done()

    def leave(s, times):
        for _ in range(times):
            with socket.create_connection(("127.0.0.1", s.port), timeout=PATIENCE) as c:
                c.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                if "events" in path:
                    c.recv(100)
        until(lambda: value(s.metrics(), "twinrun_event_clients") == 0)
        # questions are answered in their order: those before this one have been
        assert s.get("/api/v1/runs?limit=3").status == 200

    grown = []
    with serving(home) as s:
        leave(s, 200)
        for _ in range(3):
            before = private(s)
            leave(s, 1500)
            grown.append(private(s) - before)
    # what waits at a time is more where the machine is busy, and stays the heap's; a leak comes
    # again each time
    assert min(grown) < 1 << 19, f"{grown} bytes stayed, of 1,500 clients each"


# ---- no room


def test_a_log_that_cannot_be_written(tmp_path):
    """stderr is a device that is full: whoever asks is answered all the same."""
    home = some_ledger(tmp_path / "home", 24).done()
    path = tmp_path / "socket"
    with open("/dev/full", "w") as full:
        process = subprocess.Popen(
            [TWINRUN, "serve", "--home", home, "--unix", str(path)],
            stderr=full,
            stdout=full,
            env={**os.environ, "TWINRUN_LEDGER": ""},
        )

    def asked(line):
        with socket.socket(socket.AF_UNIX) as c:
            c.settimeout(PATIENCE)
            c.connect(str(path))
            c.sendall(line + b"\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = b""
            while more := c.recv(65536):
                answer += more
        return answer

    try:
        until(lambda: path.exists() or process.poll() is not None)
        assert asked(b"GET /../x HTTP/1.1").startswith(b"HTTP/1.1 404")  # which is worth a line
        assert b"twinrun_build_info" in asked(b"GET /metrics HTTP/1.1")
    finally:
        process.terminate()
        code = process.wait(PATIENCE)
    assert code == 0


def small_disk(folder):
    """A file system of 256 KiB, or why there is none."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "twinrun-test", str(folder)],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        pytest.skip("no file system can be mounted here: " + done.stderr.strip())


def fill(disk):
    with open(disk / "filler", "wb", buffering=0) as f:
        with pytest.raises(OSError):
            while True:
                f.write(b"x" * 4096)


def textfile(home, folder):
    return subprocess.run(
        [TWINRUN, "serve", "--home", home, "--textfile", str(folder)],
        capture_output=True,
        text=True,
        env={**os.environ, "TWINRUN_LEDGER": ""},
    )


def test_a_disk_that_is_full(tmp_path):
    """The old file for node exporter stays whole, what is wrong is said, and with room again the
    next one is written."""
    home = some_ledger(tmp_path / "home", 25).done()
    disk = tmp_path / "disk"
    small_disk(disk)
    try:
        assert textfile(home, disk).returncode == 0
        text = (disk / "twinrun.prom").read_text()
        fill(disk)
        done = textfile(home, disk)
        assert done.returncode == 2 and "No space left" in done.stderr, done.stderr
        assert (disk / "twinrun.prom").read_text() == text
        assert sorted(os.listdir(disk)) == ["filler", "twinrun.prom"]
        (disk / "filler").unlink()
        assert textfile(home, disk).returncode == 0
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_ledger_on_a_full_disk(tmp_path):
    """What was written is served while nobody can write any more. A server that starts then says what
    is missing: SQLite needs a little room also for who only reads."""
    disk = tmp_path / "disk"
    made = some_ledger(tmp_path / "home", 26)
    made.done()
    made.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    made.db.close()
    small_disk(disk)
    try:
        shutil.copy(tmp_path / "home" / "ledger.db", disk / "ledger.db")
        with serving(disk) as s:
            before = total(s.metrics(), "twinrun_comparisons_total")
            fill(disk)
            writer = sqlite3.connect(disk / "ledger.db")
            with pytest.raises(sqlite3.OperationalError):
                writer.execute(
                    "INSERT INTO events SELECT hex(randomblob(16)), 0, 0, hex("
                    "zeroblob(300000)), '', '', '', '', '', ''"
                )
                writer.commit()
            writer.close()
            for path in ("/healthz", "/metrics", "/api/v1/runs", "/"):
                assert s.get(path).status == 200
            assert total(s.metrics(), "twinrun_comparisons_total") == before == 60
        for left in ("ledger.db-shm", "ledger.db-wal"):
            (disk / left).unlink(missing_ok=True)
        fill(disk)
        done = subprocess.run(
            [TWINRUN, "serve", "--home", str(disk), "--listen", "127.0.0.1:0"],
            capture_output=True,
            text=True,
            env={**os.environ, "TWINRUN_LEDGER": ""},
        )
        assert done.returncode == 2 and "is the disk full?" in done.stderr, done.stderr
        (disk / "filler").unlink()
        with serving(disk) as s:
            assert total(s.metrics(), "twinrun_comparisons_total") == 60
    finally:
        subprocess.run(["umount", str(disk)], check=True)


# ---- a database that restarts


def test_a_database_server_that_goes_and_comes_back(tmp_path):
    """PostgreSQL is killed and started again: what was known is shown meanwhile, what came is shown
    then, each client of events hears of it once, and nobody hears the password."""
    if not server_programs():
        pytest.skip("no PostgreSQL server here: apt install postgresql")
    home, server = tmp_path / "home", Server()
    server.start()
    running = True
    try:
        check = ["check", "-q", "--", JOB, "--steps", "3"]
        on_server(home, *check, url=server.url)
        with serving(home, env={"TWINRUN_LEDGER": server.url}) as s:
            events = Events(s)
            before = s.metrics()
            assert total(before, "twinrun_comparisons_total") == 1
            server.stop()
            running = False
            until(lambda: s.get("/healthz").status == 503)
            gone = s.metrics()
            assert total(gone, "twinrun_ledger_up") == 0
            assert {k: v for k, v in gone.items() if k[0].endswith(GROWS)} == {
                k: v for k, v in before.items() if k[0].endswith(GROWS)
            }
            assert s.get("/api/v1/incidents").json["incidents"] == []
            answer = s.get("/api/v1/runs")
            assert answer.status == 503 and "s3cret" not in answer.text
            assert server.dir not in answer.text  # where it was is in the log alone
            s.said("the ledger cannot be read: ")
            server.start()
            running = True
            on_server(home, *check, url=server.url)
            until(lambda: total(s.metrics(), "twinrun_comparisons_total") == 2)
            s.said("the ledger can be read again")
            assert s.get("/healthz").status == 200
            runs = {r["id"] for r in s.get("/api/v1/runs").json["runs"]}
            events.until(b"event: verdict")
            told = [json.loads(data) for _, _, data in events.events()]
            ids = [e["run"]["id"] for e in told if e["kind"] == "run"]
            assert len(set(ids)) == len(ids) == len(runs) // 2 and set(ids) < runs
            assert [e["kind"] for e in told].count("verdict") == 1
            assert s.log.count("the ledger cannot be read") == 1 and "s3cret" not in s.log
            events.close()
    finally:
        if running:
            server.stop()
        shutil.rmtree(server.dir, ignore_errors=True)


# ---- a Prometheus that restarts


@pytest.mark.skipif(not shutil.which("prometheus"), reason="apt install prometheus")
def test_a_prometheus_that_restarts(tmp_path):
    """And a server that does: what came meanwhile is there, and nothing is counted twice, by what
    Prometheus itself makes of it (resets, increase)."""
    home = Ledger(tmp_path / "home")
    home.repeats(3, 1)
    path, metric = home.done(), "twinrun_comparisons_total"

    def seen(ask, query):
        found = (ask("query?query=" + query) or {}).get("result")
        return float(found[0]["value"][1]) if found else None

    def total_is(ask, n):
        return until(lambda: seen(ask, f"sum({metric})") == n)

    listen = f"127.0.0.1:{free_port()}"
    with serving(path, listen=listen) as s:
        with prometheus(tmp_path, listen, ()) as ask:
            total_is(ask, 4)
        fresh_comparison(home)
        until(lambda: total(s.metrics(), metric) == 5)
        with prometheus(tmp_path, listen, ()) as ask:
            total_is(ask, 5)
            s.process.terminate()
            assert s.process.wait(PATIENCE) == 0
            fresh_comparison(home)
            until(lambda: seen(ask, "up") == 0)
            with serving(path, listen=listen) as again:
                total_is(ask, 6)
                assert total(again.metrics(), metric) == 6
                assert seen(ask, f"max(resets({metric}[10m]))") == 0
                last = f'{metric}{{outcome="diverged"}}'
                assert seen(ask, f"sum({last}%20-%20min_over_time({last}[10m]))") == 2
