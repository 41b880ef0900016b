# SPDX-License-Identifier: Apache-2.0
"""Incidents of `twinrun serve --alertmanager`: told to the real Alertmanager, with the routes that
`twinrun slo` writes for it, of runs that were really made to diverge; and the rules by which an
incident begins, pages and ends, of ledgers whose truth is known.
"""

import contextlib
import http.server
import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest
from free_ports import free_port
from ledger_by_hand import HOUR, Ledger
from serve_helper import BUILD, TWINRUN, Serve, serving, until

JOB = os.path.join(BUILD, "tests", "cli", "job")
MINUTE = HOUR // 60
REAL = shutil.which("prometheus-alertmanager") and shutil.which("amtool")
pytestmark = [
    pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN),
    pytest.mark.usefixtures("elsewhere"),
]
real = pytest.mark.skipif(not REAL, reason="apt install prometheus-alertmanager")


class StandIn(http.server.ThreadingHTTPServer):
    """Takes alerts as an Alertmanager does, and keeps what it was sent."""

    daemon_threads = True

    def __init__(self, status=200, wait=None, tls=None):
        self.posts, self.tokens, self.status, self.wait = [], [], status, wait
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.server_port}"
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.path == "/api/v2/alerts", self.path
        if self.server.wait:
            self.server.wait.wait(60)
        self.server.tokens.append(self.headers["Authorization"])
        self.server.posts.append(json.loads(body.decode("utf-8", "strict")))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words):
        pass


@contextlib.contextmanager
def stand_in(**more):
    s = StandIn(**more)
    try:
        yield s
    finally:
        s.shutdown()
        s.server_close()


def told(home, *options, at_least=1):
    """The alerts of the first post, by run."""
    with stand_in() as a, serving(home, "--alertmanager", a.url, *options):
        until(lambda: a.posts)
        alerts = [x for p in a.posts for x in p]
    assert len(alerts) >= at_least
    return {x["labels"]["run_id"]: x for x in alerts}


def ends(alert):
    """Is it told as ended?"""
    day, rest = alert["endsAt"].split(".")
    return time.mktime(time.strptime(day + "UTC", "%Y-%m-%dT%H:%M:%S%Z")) - time.timezone < (
        time.time()
    )


# ---- the rules


def test_what_pages(tmp_path):
    """Repeats page, and anything else is a ticket; one page for each job within the cool-down."""
    h = Ledger(tmp_path / "home")
    now = h.now

    def diverged(minutes, command="a", project="p", repeats=1, n=1):
        runs = [h.run(project=project, command=command) for _ in range(n + 1)]
        h.compare(
            runs,
            ["differs"] * n,
            "differ",
            when=now - minutes * MINUTE,
            repeats=repeats,
            command=command,
            layer="forward",
        )
        return runs[1:]

    (first,) = diverged(200)
    (second,) = diverged(170)  # 30 minutes behind the first
    (third,) = diverged(60)  # the cool-down is over
    (other_job,) = diverged(59, command="b")
    (other_project,) = diverged(58, project="q")
    (arm,) = diverged(57, command="c", repeats=0)
    two = diverged(56, command="d", n=2)
    (old,) = diverged(25 * 60, command="e")
    alerts = told(h.done(), at_least=8)
    severity = {run: a["labels"]["severity"] for run, a in alerts.items()}
    assert severity == {
        first: "page",
        second: "ticket",
        third: "page",
        other_job: "page",
        other_project: "page",
        arm: "ticket",
        two[0]: "page",
        two[1]: "ticket",
    }
    assert old not in alerts
    assert not any(ends(a) for a in alerts.values())
    assert "not known to be repeats" in alerts[arm]["annotations"]["description"]
    a = alerts[first]
    assert a["labels"] == {
        "alertname": "TwinrunRunDiverged",
        "source": "twinrun-event",
        "project": "p",
        "run_id": first,
        "command_id": alerts[second]["labels"]["command_id"],
        "severity": "page",
        "layer": "forward",
    }
    assert alerts[other_job]["labels"]["command_id"] != a["labels"]["command_id"]
    assert a["annotations"]["next"].startswith("twinrun diff ")
    assert a["generatorURL"].endswith("/api/v1/runs/" + first)
    # no cool-down: each pages; the labels of the others stay what they were
    again = told(tmp_path / "home", "--cool-down", "0")
    assert [r for r, a in again.items() if a["labels"]["severity"] == "ticket"] == [arm]
    # and an incident of an hour has no more of what is older
    assert first not in told(tmp_path / "home", "--incident-hours", "1")


def test_a_run_that_is_compared_again_is_one_incident(tmp_path):
    h = Ledger(tmp_path / "home")
    a, b = h.run(), h.run()
    for minutes, layer in ((50, "forward"), (20, "backward")):
        h.compare([a, b], ["differs"], "differ", when=h.now - minutes * MINUTE, layer=layer)
    with stand_in() as am, serving(h.done(), "--alertmanager", am.url):
        until(lambda: am.posts)
        assert [x["labels"]["layer"] for x in am.posts[0]] == ["forward"]


def test_what_cannot_be_told(tmp_path):
    """Repeats without enough evidence are tickets of their own, and no divergence; nor is it an
    end of one, or the begin of a cool-down. One that is found to differ later is both."""
    h = Ledger(tmp_path / "home")
    a, b, c, d = (h.run() for _ in range(4))
    ago = lambda minutes: h.now - minutes * MINUTE  # noqa: E731
    h.compare([a, b, c], ["unknown", "agrees"], "inconclusive", when=ago(50))
    h.compare([a, d], ["unknown"], "inconclusive", when=ago(45), repeats=0)  # nobody asked that
    h.compare([a, b], ["differs"], "differ", when=ago(40))
    h.compare([a, d], [""], "inconclusive", when=ago(35))
    with stand_in() as am, serving(h.done(), "--alertmanager", am.url):
        until(lambda: am.posts)
        found = {(x["labels"]["alertname"], x["labels"]["run_id"]): x for x in am.posts[0]}
    assert {k: x["labels"]["severity"] for k, x in found.items()} == {
        ("TwinrunRunUnproven", b): "ticket",
        ("TwinrunRunDiverged", b): "page",
        ("TwinrunRunUnproven", d): "ticket",
    }
    assert not any(ends(x) for x in found.values())
    for (name, _), x in found.items():
        said = " ".join(x["annotations"].values())
        assert ("diverged" in said) == (name == "TwinrunRunDiverged"), said
    # once the job agrees that is over, too
    h = Ledger(tmp_path / "again")
    a, b = h.run(), h.run()
    h.compare([a, b], ["unknown"], "inconclusive", when=h.now - 30 * MINUTE)
    late = [h.run(start=h.now - 20 * MINUTE) for _ in range(2)]
    h.compare(late, ["agrees"], "same", when=h.now - 10 * MINUTE)
    assert ends(told(h.done())[b])


# What does not end an incident: each of these was once enough for a wrong rule.
@pytest.mark.parametrize(
    "change",
    [
        {"command": "other"},
        {"project": "other"},
        {"repeats": 0},
        {"agreed": "unknown"},
        {"agreed": ""},
        {"outcome": "inconclusive"},
        {"runs": -5},  # runs that were made before the divergence agree: it is not over
        {"when": 40},  # an older comparison
        {"verb": "isolate"},
    ],
)
def test_what_does_not_end_an_incident(tmp_path, change):
    assert not ends(ended(tmp_path, **change))


def test_what_ends_an_incident(tmp_path):
    assert ends(ended(tmp_path))
    assert ends(ended(tmp_path / "tolerance", outcome="within-tolerance"))


def ended(folder, **change):
    """The alert of a divergence half an hour ago, with a comparison behind it."""
    h = Ledger(folder / "home")
    a, b = h.run(), h.run()
    h.compare([a, b], ["differs"], "differ", when=h.now - 30 * MINUTE)
    where = {k: change[k] for k in ("command", "project") if k in change}
    start = h.now - (30 - change.get("runs", 5)) * MINUTE
    runs = [h.run(start=start, **where), h.run(start=start, **where)]
    h.compare(
        runs,
        [change.get("agreed", "agrees")],
        change.get("outcome", "same"),
        when=h.now - change.get("when", 10) * MINUTE,
        repeats=change.get("repeats", 1),
        verb=change.get("verb", "check"),
        **({"command": change["command"]} if "command" in change else {}),
    )
    return told(h.done())[b]


def test_no_run_is_named_that_is_not_said_to_differ(tmp_path):
    h = Ledger(tmp_path / "home")
    runs = [h.run() for _ in range(3)]
    h.compare(runs, ["unknown", "unknown"], "differ")
    (alert,) = told(h.done()).values()
    assert alert["labels"]["run_id"] == runs[2]
    assert "which of its runs differs is not said" in alert["annotations"]["description"]


def test_hostile_names(tmp_path):
    """Labels stay UTF-8 and short, whatever a ledger holds."""
    h = Ledger(tmp_path / "home")
    for name in ("\x1b[31m\u202e", "x" * 5000, 'a"b\\c\n', "\ud7ff\U0001f600", ""):
        h.compare(
            [h.run(), h.run(project=name, command=name * 9)],
            ["differs"],
            "differ",
            layer=name[:40],
            cause=name,
            command=name * 9,
        )
    h.compare([h.run(), "../../x"], ["differs"], "differ")  # no id: no incident
    alerts = told(h.done(), at_least=5)
    assert len(alerts) == 5
    for a in alerts.values():
        for text in [*a["labels"].values(), *a["annotations"].values()]:
            assert len(text) < 9000 and "\x1b" not in text and "\n" not in text
    assert {a["labels"]["project"] for a in alerts.values()} >= {"unknown"}


def test_a_flood_is_bounded(tmp_path):
    h = Ledger(tmp_path / "home")
    for i in range(1100):
        h.compare([h.run(), h.run()], ["differs"], "differ", when=h.now - (2000 - i) * 10**9)
    with stand_in() as a, serving(h.done(), "--alertmanager", a.url) as s:
        until(lambda: sum(len(p) for p in a.posts) >= 1000)
        s.said("100 runs that diverged are left out")
        assert max(len(p) for p in a.posts) <= 64


# ---- who is told


def test_an_alertmanager_that_does_not_answer(tmp_path):
    """serve answers all the while, ends at once, and says once that nobody is told."""
    h = Ledger(tmp_path / "home")
    h.repeats(0, 1)
    never = threading.Event()
    with stand_in(wait=never) as a:
        s = Serve(h.done(), "--alertmanager", a.url)
        try:
            for _ in range(20):
                assert s.get("/metrics").status == 200
        finally:
            assert s.stop() == 0
            never.set()
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with serving(h.home, "--alertmanager", f"http://127.0.0.1:{nobody.getsockname()[1]}") as s:
            s.said("Alertmanager is not told of incidents")
            assert s.get("/healthz").status == 200
    with stand_in(status=400) as a, serving(h.home, "--alertmanager", a.url) as s:
        s.said("expected status 200, found 400")
        a.status = 200
        s.said("Alertmanager is told of incidents again")
        assert s.log.count("is not told") == 1


@pytest.mark.parametrize(
    "answer",
    [b"", b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", b"\0" * 9999],
)
def test_what_is_no_alertmanager(tmp_path, answer):
    """Something else answers at that port, or breaks off: said once, asked again, never fatal."""
    h = Ledger(tmp_path / "home")
    h.repeats(0, 1)
    asked = []

    def talk(listener):
        while True:
            try:
                c, _ = listener.accept()
            except OSError:
                return
            with c:
                asked.append(c.recv(1 << 16))
                c.sendall(answer)

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        threading.Thread(target=talk, args=(listener,), daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with serving(h.done(), "--alertmanager", url) as s:
            s.said("Alertmanager is not told of incidents")
            until(lambda: len(asked) >= 2)
            assert s.get("/healthz").status == 200 and s.log.count("is not told") == 1


def test_tls(tmp_path):
    """Its certificate is held against --alertmanager-ca, and nobody is told who has another."""
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    words += ["-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=localhost"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    h = Ledger(tmp_path / "home")
    h.repeats(0, 1)
    h.done()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    with stand_in(tls=context) as a:
        with serving(h.home, "--alertmanager", a.url) as s:
            s.said("Alertmanager is not told of incidents")
            assert not a.posts
        with serving(h.home, "--alertmanager", a.url, "--alertmanager-ca", tmp_path / "cert.pem"):
            until(lambda: a.posts)


def test_token(tmp_path):
    h = Ledger(tmp_path / "home")
    h.repeats(0, 1)
    token = tmp_path / "token"
    token.write_text("a-token-of-a-test\n")
    with stand_in() as a, serving(
        h.done(), "--alertmanager", a.url, "--alertmanager-token-file", str(token)
    ):
        until(lambda: a.tokens)
        assert a.tokens[0] == "Bearer a-token-of-a-test"


@pytest.mark.parametrize(
    "words, said",
    [
        (["--alertmanager", "ftp://x"], "expected http://HOST:PORT"),
        (["--alertmanager", "http://u:p@x"], "without a password"),
        (["--alertmanager", "http://x:9", "--alertmanager-token-file", "TOKEN"], "https://"),
        (["--alertmanager", "http://127.0.0.1:9", "--alertmanager-token-file", "no"], "no"),
        (["--cool-down", "5"], "--alertmanager beside them"),
        (["--incident-hours", "0", "--alertmanager", "http://x"], "incident-hours"),
        (["--textfile", ".", "--alertmanager", "http://x"], "--textfile"),
    ],
)
def test_bad_use(tmp_path, words, said):
    h = Ledger(tmp_path / "home")
    h.done()
    (tmp_path / "token").write_text("a-token-of-a-test\n")
    words = [str(tmp_path / "token") if w == "TOKEN" else w for w in words]
    done = subprocess.run(
        [TWINRUN, "serve", "--home", h.home, "--unix", str(tmp_path / "s"), *words]
        if "--textfile" not in words
        else [TWINRUN, "serve", "--home", h.home, *words],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2 and said in done.stderr.replace("\n", " "), done.stderr


# ---- the real one


def routes(folder):
    done = subprocess.run(
        [TWINRUN, "slo", "--alertmanager-config", str(folder)], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder / "twinrun.alertmanager.yml"


@real
def test_routes_by_amtool(tmp_path):
    path = routes(tmp_path)
    done = subprocess.run(["amtool", "check-config", path], capture_output=True, text=True)
    assert done.returncode == 0 and "1 inhibit rules" in done.stdout, done.stdout + done.stderr

    def receiver(*labels):
        words = ["amtool", "config", "routes", "test", f"--config.file={path}", *labels]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()

    for source in ("twinrun", "twinrun-event"):
        assert receiver(f"source={source}", "severity=page") == "twinrun-page"
        assert receiver(f"source={source}", "severity=ticket") == "twinrun-ticket"


class Alertmanager:
    def __init__(self, folder, config, port=None):
        port = port or free_port()
        self.port, self.url = port, f"http://127.0.0.1:{port}"
        with open(folder / "alertmanager.log", "a") as log:
            self.process = subprocess.Popen(
                [
                    "prometheus-alertmanager",
                    f"--config.file={config}",
                    f"--storage.path={folder}/alertmanager",
                    f"--web.listen-address=127.0.0.1:{port}",
                    "--cluster.listen-address=",
                ],
                stdout=log,
                stderr=log,
            )
        until(lambda: self.ask("status") or self.process.poll() is not None)

    def ask(self, path):
        try:
            with urllib.request.urlopen(f"{self.url}/api/v2/{path}", timeout=30) as r:
                return json.load(r)
        except (OSError, urllib.error.URLError):
            return None

    def alerts(self):
        found = self.ask("alerts?active=true&inhibited=true&silenced=true") or []
        return {a["labels"]["run_id"]: a for a in found if "run_id" in a["labels"]}

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def run_check(home, *job):
    env = {**os.environ, "TWINRUN_HOME": str(home), "TWINRUN_LEDGER": "", "TWINRUN_PROJECT": "shop"}
    words = [TWINRUN, "check", "-q", "--", *job]
    return subprocess.run(words, env=env, stdout=subprocess.DEVNULL, timeout=120).returncode


@real
def test_what_is_inhibited(tmp_path):
    """A ticket is, by a page of the same command in the same project, and by nothing else."""
    h = Ledger(tmp_path / "home")

    def diverged(minutes, command="a", project="p", repeats=1):
        runs = [h.run(project=project, command=command) for _ in range(2)]
        when = h.now - minutes * MINUTE
        h.compare(runs, ["differs"], "differ", when=when, repeats=repeats, command=command)
        return runs[1]

    page = diverged(50)
    same = diverged(40)
    arm = diverged(30, repeats=0)
    others = [diverged(30, command="b", repeats=0), diverged(30, project="q", repeats=0)]
    am = Alertmanager(tmp_path, routes(tmp_path))
    try:
        with serving(h.done(), "--alertmanager", am.url):
            found = until(lambda: (x := am.alerts()) and len(x) == 5 and x)
            severity = {run: a["labels"]["severity"] for run, a in found.items()}
            assert severity == {page: "page", **{r: "ticket" for r in (same, arm, *others)}}
            by = [found[page]["fingerprint"]]
            # inhibitions are judged when a group is told, some seconds later
            inhibited = lambda r: am.alerts()[r]["status"]["inhibitedBy"]  # noqa: E731
            until(lambda: inhibited(same) == by and inhibited(arm) == by)
            state = lambda r: am.alerts()[r]["status"]["state"]  # noqa: E731
            until(lambda: all(state(r) == "active" for r in (page, *others)))
            assert not any(inhibited(r) for r in (page, *others))
    finally:
        am.stop()


@real
def test_incidents_of_the_real_alertmanager(tmp_path):
    """Runs that diverge fire, grouped by run, the second one inhibited by the page of the first; a
    serve that is started again and an Alertmanager that was gone change nothing; and once the job
    agrees, all are resolved. The job diverges until a file says that it is mended."""
    home, mended, train = tmp_path / "home", tmp_path / "mended", tmp_path / "train.sh"
    train.write_text(
        f'noise="--noise-at 2"\n[ ! -e {mended} ] || noise=\nexec {JOB} --steps 5 $noise\n'
    )
    job = ["sh", str(train)]
    config = routes(tmp_path)
    am = Alertmanager(tmp_path, config)
    assert run_check(home, *job) == 1
    try:
        with serving(home, "--alertmanager", am.url):
            (first,) = until(am.alerts)
            a = am.alerts()[first]
            assert a["labels"]["severity"] == "page" and a["labels"]["project"] == "shop"
            assert [r["name"] for r in a["receivers"]] == ["twinrun-page"]
            assert run_check(home, *job) == 1
            both = until(lambda: (x := am.alerts()) and len(x) == 2 and x)
            (second,) = set(both) - {first}
            assert both[second]["labels"]["severity"] == "ticket"
            # inhibitions are judged when a group is told, some seconds later
            until(lambda: am.alerts()[second]["status"]["inhibitedBy"])
            assert am.alerts()[second]["status"]["inhibitedBy"] == [both[first]["fingerprint"]]
            groups = am.ask("alerts/groups")
            assert sorted(g["labels"]["run_id"] for g in groups) == sorted([first, second])
        # serve is started again: the same alerts, by their fingerprints
        with serving(home, "--alertmanager", am.url) as s:
            before = {r: (a["fingerprint"], a["startsAt"]) for r, a in both.items()}
            until(lambda: am.alerts()[first]["updatedAt"] != both[first]["updatedAt"])
            now = {r: (a["fingerprint"], a["startsAt"]) for r, a in am.alerts().items()}
            assert now == before
            # Alertmanager goes away, with all that it knew; the next request finds nobody
            am.stop()
            shutil.rmtree(tmp_path / "alertmanager")
            assert run_check(home, JOB, "--steps", "5", "--noise-at", "3") == 1
            s.said("Alertmanager is not told of incidents")
            am = Alertmanager(tmp_path, config, am.port)
            until(lambda: len(am.alerts()) == 3)
            s.said("Alertmanager is told of incidents again")
            mended.touch()
            assert run_check(home, *job) == 0
            until(lambda: len(am.alerts()) == 1)
            (left,) = am.alerts()
            assert left not in (first, second)
    finally:
        am.stop()
