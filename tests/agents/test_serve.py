# SPDX-License-Identifier: Apache-2.0
"""twinrun serve: metrics and JSON against what the database says, read here a second time; tokens
and sockets; events; a ledger that goes away. Requests that must not be answered are in
test_serve_requests.py, the file for node exporter in test_serve_textfile.py.
"""

import gzip
import json
import os
import re
import resource
import shutil
import socket
import sqlite3
import ssl
import stat
import subprocess
import time

import jsonschema
import pytest
from ledger_by_hand import Ledger, fresh_comparison, some_ledger
from serve_helper import (
    BUILD,
    PATIENCE,
    TWINRUN,
    Events,
    Serve,
    read_metrics,
    serving,
    status_of,
    until,
    value,
)

JOB = os.path.join(BUILD, "tests", "cli", "job")
pytestmark = [
    pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN),
    pytest.mark.usefixtures("elsewhere"),
]
HOUR = 3600 * 10**9
HOSTILE = [
    "<script>alert(1)</script>",
    'a"} 1\ntwinrun_ledger_up{x="',
    "back\\slash\\n",
    "\x1b[31mred\u202ereversed",
    "x" * 1_000_000,
    "</title><img src=x onerror=alert(1)>",
]


def schema_checker(s):
    schemas = {}

    def check(path, name, status=200):
        answer = s.get(path)
        assert answer.status == status, (path, answer.text)
        if name not in schemas:
            schemas[name] = s.get("/api/v1/schemas/" + name).json
            jsonschema.Draft202012Validator.check_schema(schemas[name])
        jsonschema.validate(answer.json, schemas[name], jsonschema.Draft202012Validator)
        return answer.json

    return check


def oracle(home):
    """Counts of a ledger by project, read with sqlite3 and counted here."""
    db = sqlite3.connect(os.path.join(home, "ledger.db"))
    facts = {}
    runs = db.execute(
        "SELECT r.id, f.project, f.inputs, f.ci, f.snapshots, f.deterministic, f.nondeterministic, "
        "r.state, r.wall_s FROM runs_now r LEFT JOIN facts f ON f.run_id = r.id"
    ).fetchall()
    out = {}

    def add(metric, project, label, n=1):
        key = ("twinrun_" + metric, project, label)
        out[key] = out.get(key, 0) + n

    for run in runs:
        facts[run[0]] = run
        project = run[1]
        add("snapshots_total", project, "match" if run[4] > 0 else "unknown")
        if run[5] == 1 and run[6] > 0:
            add("nondeterministic_ops_total", project, "other", run[6])
        if run[7] == "ok":
            add("training_duration_seconds_count", project, "")
            add("training_duration_seconds_sum", project, "", run[8])
    seen = set()
    for c in db.execute("SELECT id, outcome, repeats, verb FROM comparisons"):
        compared = db.execute(
            "SELECT run_id, agreed FROM compared WHERE comparison_id = ? ORDER BY place", c[:1]
        ).fetchall()
        last = facts[compared[-1][0]]
        word = {"same": "match", "differ": "diverged"}.get(c[1], c[1])
        add("comparisons_total", last[1], word)
        if last[3] and word != "inconclusive":
            add("ci_results_total", last[1], "pass" if word == "match" else "fail")
        for run, agreed in compared[1:]:
            if facts[run][2] != facts[compared[0][0]][2]:
                continue  # other inputs: another job
            word = {"agrees": "match", "differs": "diverged"}.get(agreed, "inconclusive")
            if (run, word) not in seen:
                add("repeated_runs_total", facts[run][1], word)
            seen.add((run, word))
    for kind, outcome, project in db.execute("SELECT kind, outcome, project FROM events"):
        if kind in ("rollback", "drill"):
            add("rollbacks_total", project, outcome)
        if kind == "artifact":
            add("artifacts_total", project, "true" if outcome == "verified" else "false")
        if kind == "snapshot":
            add("snapshots_total", project, outcome)
    db.close()
    return out


@pytest.mark.parametrize("seed", [1, 2])
def test_metrics_are_what_the_database_says(tmp_path, seed):
    home = some_ledger(tmp_path, seed).done()
    expected = oracle(home)
    with serving(home) as s:
        classic = s.get("/metrics")
        open_form = s.get("/metrics", Accept="application/openmetrics-text;version=1.0.0")
    metrics = read_metrics(classic.text)
    families = {key[0] for key in expected} | {"twinrun_ci_results_total"}
    found = {}
    for (name, *labels), n in metrics.items():
        labels = dict(labels)
        project = labels.pop("project", None)
        labels.pop("le", None)
        if name in families and n and "flaky" not in labels.values():
            found[name, project, next(iter(labels.values()), "")] = n
    assert found == pytest.approx(expected)
    # zeros are there from the start, of every outcome
    assert value(metrics, "twinrun_comparisons_total", project="p", outcome="error") == 0
    # the project is everywhere but on what is of the server itself; a run's id is no label
    own = r"twinrun_(build_info|ledger_up|snapshot_|names_left_out|event_clients)"
    for key in metrics:
        assert re.match(own, key[0]) or "project" in dict(key[1:]), key
        assert not any(re.search("[0-9a-f]{32}", v) for _, v in key[1:])
    assert classic.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert open_form.headers["Content-Type"].startswith("application/openmetrics-text")
    text = open_form.text
    assert text.endswith("\n# EOF\n") and text.count("# EOF") == 1
    changing = ("twinrun_snapshot_", "twinrun_build")
    same = [
        {k: v for k, v in m.items() if not k[0].startswith(changing)}
        for m in (metrics, read_metrics(text))
    ]
    assert same[0] == same[1]
    exemplars = re.findall(r' # \{run_id="([0-9a-f]{32})"\} \S+ \d+\.\d{3}$', text, re.M)
    assert exemplars and text.count("run_id") == len(exemplars)


def test_promtool_takes_the_metrics(tmp_path):
    if not shutil.which("promtool"):
        pytest.skip("no promtool here: apt install prometheus")
    home = some_ledger(tmp_path, 3, projects=[h[:1000] for h in HOSTILE]).done()
    with serving(home) as s:
        text = s.get("/metrics").text
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, text=True, capture_output=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_api_obeys_its_schemas(tmp_path):
    home = some_ledger(tmp_path, 4)
    bare = home.run(facts=False)
    home.db.execute("INSERT INTO artifacts VALUES (?, 'w.pt', 'aa', 'checkpoint', 5, 0)", (bare,))
    home.compare([bare, bare], ["agrees"], "isolated", verb="isolate", cause="threads")
    home = home.done()
    with serving(home) as s:
        check = schema_checker(s)
        names = [path.rsplit("/")[-1] for path in check("/api/v1/schemas", "schemas")["schemas"]]
        assert len(names) == 13
        check("/healthz", "health")
        check("/api/v1/runs?limit=1000", "runs")
        check("/api/v1/verdicts", "verdicts")
        searches = check("/api/v1/searches", "searches")["searches"]
        assert [x["cause"] for x in searches] == ["threads"]
        check("/api/v1/indicators", "indicators")
        one = check("/api/v1/runs/" + bare, "run")
        assert one["run"]["facts"] is None and one["artifacts"][0]["path"] == "w.pt"
        check("/api/v1/runs/" + "0" * 32, "error", status=404)
        check("/api/v1/runs?limit=x", "error", status=400)
        check("/nothing", "error", status=404)
        m1 = check("/api/v1/indicators?indicator=M1&scope=project&project=q", "indicators")
        assert [r["name"] for r in m1["indicators"]] == ["q"]
        whole = s.get("/api/v1/indicators").json["indicators"]
    cli = subprocess.run(
        [TWINRUN, "slo", "--home", home, "--json"],
        capture_output=True,
        env={**os.environ, "TWINRUN_LEDGER": ""},
    )
    said = json.loads(cli.stdout)["indicators"]
    key = lambda r: (r["indicator"], r["scope"], r["name"], r["subject"])  # noqa: E731
    assert [(key(r), r["counts"], r["state"]) for r in whole] == [
        (key(r), r["counts"], r["state"]) for r in said
    ]


def test_pages_and_filters(tmp_path):
    home = some_ledger(tmp_path, 5)
    path = home.done()
    db = sqlite3.connect(os.path.join(path, "ledger.db"))
    ids = [r[0] for r in db.execute("SELECT id FROM runs_now ORDER BY start_ns DESC, id DESC")]
    with serving(path) as s:
        found, place = [], ""
        while place is not None:
            page = s.get("/api/v1/runs?limit=17" + (place and "&before=" + place)).json
            found += [r["id"] for r in page["runs"]]
            place = page["next"]
            home.run(start=home.now)  # newer than every page that is still to come
            home.db.commit()
        assert found == ids
        for query, where in (
            ("project=q", "f.project = 'q'"),
            ("outcome=exit+1", "r.state = 'exit 1'"),
            ("since=100h", f"r.start_ns >= {time.time_ns() - 100 * HOUR}"),
            ("command=*t.p%3F", "1"),
            ("command=*%25*", "0"),
        ):
            rows = db.execute(
                "SELECT r.id FROM runs_now r LEFT JOIN facts f ON f.run_id = r.id WHERE "
                + where
                + " ORDER BY r.start_ns DESC, r.id DESC"
            ).fetchall()
            answer = s.get("/api/v1/runs?limit=1000&" + query).json
            assert [r["id"] for r in answer["runs"]] == [r[0] for r in rows], query
        differ = s.get("/api/v1/verdicts?limit=1000&outcome=differ&verb=diff").json["verdicts"]
        n = db.execute("SELECT COUNT(*) FROM comparisons WHERE outcome='differ' AND verb='diff'")
        assert len(differ) == n.fetchone()[0] > 0


def test_hostile_names_stay_names(tmp_path):
    home = Ledger(tmp_path)
    for name in HOSTILE:
        runs = [home.run(project=name, command=name, family=name, who=name) for _ in range(2)]
        home.compare(runs, ["differs"], "differ", command=name, layer=name)
    # the ledger's own functions escape what they write; this is one that somebody else wrote
    home = home.done()
    with serving(home) as s:
        metrics = s.metrics()
        check = schema_checker(s)
        check("/api/v1/runs", "runs")
        check("/api/v1/verdicts", "verdicts")
        check("/api/v1/indicators", "indicators")
        page = s.get("/plain")
        sizes = [len(s.get(p).body) for p in ("/plain", "/metrics", "/api/v1/verdicts")]
    projects = {dict(key[1:]).get("project") for key in metrics} - {None}
    assert len(projects) == len(HOSTILE)
    assert value(metrics, "twinrun_ledger_up") == 1
    assert sum(v for k, v in metrics.items() if ("outcome", "diverged") in k) == 2 * len(HOSTILE)
    text = page.text
    assert "<script" not in text and "<img" not in text and "\x1b" not in text
    assert "\u202e" not in text and "&lt;script&gt;alert(1)" in text
    assert "default-src 'none'" in text
    assert max(sizes) < 1_000_000


def test_numbers_never_fall(tmp_path):
    """What was found later of an older time changes judgements, and no counter goes back."""
    home = Ledger(tmp_path)
    runs = [home.run() for _ in range(4)]
    home.compare(runs, ["agrees"] * 3, "same", when=home.now - HOUR)
    path = home.done()
    with serving(path) as s:
        before = s.metrics()
        assert value(before, "twinrun_repeated_runs_total", project="p", outcome="match") == 3
        home.compare(runs[:2], ["differs"], "differ", when=home.now - 2 * HOUR)
        home.db.execute("DELETE FROM facts WHERE run_id = ?", (runs[3],))
        home.db.commit()
        key = dict(project="p", outcome="diverged")
        until(lambda: value(s.metrics(), "twinrun_comparisons_total", **key) == 1)
        after = s.metrics()
    for metric, n in before.items():
        if metric[0].endswith(("_total", "_bucket", "_count")):
            assert after[metric] >= n, metric


def test_a_new_project_begins_at_zero(tmp_path):
    home = Ledger(tmp_path)
    home.repeats(3, 1, project="old")
    path = home.done()
    with serving(path) as s:
        key = dict(project="old", outcome="diverged")
        assert value(s.metrics(), "twinrun_repeated_runs_total", **key) == 1
        home.repeats(0, 2, project="new")
        home.db.commit()
        key["project"] = "new"

        def first_seen():
            assert s.get("/metrics", method="HEAD").status == 200  # looks, and changes nothing
            return value(s.metrics(), "twinrun_repeated_runs_total", **key) is not None and "seen"

        # the first scrape that has it has zeros, the next one the numbers
        numbers = []
        until(
            lambda: numbers.append(value(s.metrics(), "twinrun_repeated_runs_total", **key))
            or numbers[-1]
        )
        assert [n for n in numbers if n is not None] == [0, 2]
        assert first_seen() == "seen"


# ---- who asks from elsewhere


def certificate(folder):
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
        + ["-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext"]
        + ["subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert],
        check=True,
        capture_output=True,
    )
    return str(cert), str(key)


def test_other_machines_need_a_token_and_tls(tmp_path):
    home = some_ledger(tmp_path / "home", 8).done()
    cert, key = certificate(tmp_path)
    secret = "s3cret-s3cret-s3cret"
    token = tmp_path / "token"
    token.write_text(secret + "\n")
    token.chmod(0o600)
    with_token, with_tls = ["--token-file", str(token)], ["--cert", cert, "--key", key]
    for options in ([], with_token, with_tls, ["--cert", cert]):
        done = subprocess.run(
            [TWINRUN, "serve", "--home", home, "--listen", "0.0.0.0:0", *options],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 2 and "--token-file" in done.stderr + "--token-file" * (
            options[:1] == ["--cert"] and len(options) == 2
        )
    with serving(home, *with_token, *with_tls, listen="0.0.0.0:0") as s:
        context = ssl.create_default_context(cafile=cert)

        def ask(authorization):
            with socket.create_connection(("127.0.0.1", s.port), timeout=PATIENCE) as c:
                with context.wrap_socket(c, server_hostname="localhost") as t:
                    line = f"Authorization: {authorization}\r\n" if authorization else ""
                    t.sendall(
                        b"GET /metrics HTTP/1.1\r\nHost: node7\r\n"
                        + line.encode()
                        + b"Connection: close\r\n\r\n"
                    )
                    answer = b""
                    while more := t.recv(65536):
                        answer += more
                    return answer

        for wrong in (
            None,
            "Bearer",
            "Bearer ",
            "Bearer " + secret[:-1],
            "Bearer " + secret + "x",
            "Basic " + secret,
            "Bearer " + "x" * 10000,
        ):
            answer = ask(wrong)
            assert status_of(answer) == 401 and b"WWW-Authenticate: Bearer" in answer
            assert b"twinrun_build" not in answer
        assert status_of(ask("Bearer " + secret)) == 200
        # without TLS nothing is answered
        assert b"twinrun_build" not in s.raw(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        with open(f"/proc/{s.process.pid}/cmdline", "rb") as f:
            assert secret.encode() not in f.read()
        assert secret not in s.read_log() and "bearer token" in s.log
    for text, mode in (("short", 0o600), (secret, 0o644), ("with blank " * 3, 0o600)):
        token.write_text(text)
        token.chmod(mode)
        done = subprocess.run(
            [TWINRUN, "serve", "--home", home, *with_token], capture_output=True, text=True
        )
        assert done.returncode == 2 and "token" in done.stderr and text not in done.stderr


DIST = os.path.join(os.path.dirname(__file__), "..", "..", "web", "live", "dist")


def test_files_of_the_live_page(tmp_path):
    home = some_ledger(tmp_path / "home", 7).done()
    token = tmp_path / "token"
    token.write_text("s3cret-s3cret-s3cret\n")
    token.chmod(0o600)
    assets = os.path.join(DIST, "assets")
    files = {"/": os.path.join(DIST, "index.html")}
    for name in os.listdir(assets) if os.path.isdir(assets) else []:
        files["/assets/" + name] = os.path.join(assets, name)
    with serving(home, "--token-file", str(token)) as s:
        for path, file in files.items():
            with open(file, "rb") as f:
                want = f.read()
            plain, packed = s.get(path), s.get(path, Accept_Encoding="br, gzip;q=0.5")
            assert (plain.status, plain.body) == (200, want)
            assert gzip.decompress(packed.body) == want and len(packed.body) < len(want)
            assert plain.headers["ETag"] != packed.headers["ETag"]
            for a in (plain, packed):
                h = a.headers
                assert int(h["Content-Length"]) == len(a.body) and h["Vary"] == "Accept-Encoding"
                assert h["X-Content-Type-Options"] == "nosniff"
                assert h["Referrer-Policy"] == "no-referrer"
                rules = h["Content-Security-Policy"].split("; ")
                assert rules[0] == "default-src 'none'" and "script-src 'self'" in rules
                assert "unsafe" not in h["Content-Security-Policy"]
                hashed = re.search(r"-[A-Za-z0-9_-]{8}\.[a-z]+$", path)
                assert ("immutable" in h["Cache-Control"]) == bool(hashed)
            again = s.get(path, If_None_Match='"x", W/' + plain.headers["ETag"])
            assert (again.status, again.body) == (304, b"")
            assert s.get(path, If_None_Match=packed.headers["ETag"]).status == 200
            assert s.get(path, Accept_Encoding="gzip;q=0, deflate").body == want
            head = s.get(path, "HEAD")
            assert (head.status, head.body) == (200, b"")
            assert int(head.headers["Content-Length"]) == len(want)
        names = ("", ".", "..", "%2e%2e", "../x", "..%2f..%2fetc%2fpasswd", "nothing.js", "a" * 70)
        for name in names:
            assert s.get("/assets/" + name).status == 404, name
        assert s.get("/?token=s3cret").status == 400
        # nothing but these files is there without the token
        for path in (
            "/plain",
            "/api/v1/runs",
            "/api/v1/events",
            "/metrics",
            "/healthz",
            "//",
            "/x",
        ):
            assert s.get(path).status == 401, path
        assert s.get("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors").status == 403


def test_a_unix_socket(tmp_path):
    home = some_ledger(tmp_path / "home", 9).done()
    path = tmp_path / "socket"
    with serving(home, "--unix", str(path), listen=None) as s:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert s.get("/healthz").json["ledger"] == "up"
        words = [TWINRUN, "serve", "--home", home, "--unix", str(path)]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 2 and "another server" in done.stderr
        assert s.get("/healthz").status == 200
    assert not path.exists()
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    with serving(home, "--unix", str(path), listen=None) as s:  # nobody listens on it
        assert s.get("/healthz").status == 200
    path.write_text("mine")
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 2 and path.read_text() == "mine"


# ---- events


def test_events_of_new_runs_and_verdicts(tmp_path):
    home = some_ledger(tmp_path, 11)
    path = home.done()
    with serving(path) as s:
        first = Events(s)
        runs = fresh_comparison(home)
        first.until(b"event: verdict")
        events = first.events()
        assert sorted(kind for _, kind, _ in events) == ["run", "run", "verdict"]
        schema = s.get("/api/v1/schemas/event").json
        for _, kind, data in events:
            jsonschema.validate(json.loads(data), schema, jsonschema.Draft202012Validator)
            if kind == "run":
                assert json.loads(data)["run"]["id"] in runs
        # who comes back gets what it missed, and nothing twice
        first.close()
        fresh_comparison(home)
        fresh = Events(s)
        fresh.until(b": twinrun")
        again = Events(s, last=events[0][0])
        again.until(b"event: verdict")
        until(
            lambda: value(s.metrics(), "twinrun_comparisons_total", project="p", outcome="diverged")
        )
        assert [e[0] for e in again.events()][:2] == [e[0] for e in events[1:]]
        strange = Events(s, last="ffff-1")
        strange.until(b"event: reset")
        for e in (fresh, again, strange):
            e.close()


def memory(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return int(re.search(r"Private_Dirty:\s+(\d+)", f.read()).group(1)) * 1024


def test_three_hundred_clients(tmp_path):
    home = some_ledger(tmp_path, 12)
    path = home.done()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1000:
        pytest.skip("fewer than 1,000 descriptors are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1000), hard))
    with serving(path) as s:
        s.metrics()
        before = memory(s.process.pid)
        clients = [Events(s) for _ in range(300)]
        fresh_comparison(home)
        for c in clients:
            c.until(b"event: verdict")
        grown = memory(s.process.pid) - before
        with open(f"/proc/{s.process.pid}/status") as f:
            threads = int(re.search(r"Threads:\s+(\d+)", f.read()).group(1))
        assert value(s.metrics(), "twinrun_event_clients") == 300
        for c in clients:
            c.close()
        until(lambda: value(s.metrics(), "twinrun_event_clients") == 0)
    print(f"300 clients: {grown / 2**20:.1f} MiB")
    assert grown <= 16 * 2**20
    assert threads == 5  # of these one has all clients


# ---- faults


def test_a_ledger_that_goes_and_comes_back(tmp_path):
    home = some_ledger(tmp_path / "home", 13)
    path = home.done()
    home.db.close()
    away = str(tmp_path / "away")
    with serving(path) as s:
        before = s.metrics()
        assert s.get("/api/v1/runs").status == 200
        os.rename(path, away)
        until(lambda: s.get("/healthz").status == 503)
        gone = s.metrics()
        assert value(gone, "twinrun_ledger_up") == 0
        assert value(before, "twinrun_ledger_up") == 1
        assert {k: v for k, v in gone.items() if k[0].endswith("_total")} == {
            k: v for k, v in before.items() if k[0].endswith("_total")
        }
        answer = s.get("/api/v1/runs")
        assert answer.status == 503 and path not in answer.text  # where it was is in the log alone
        assert "cannot be read" in s.get("/plain").text
        s.said("the ledger cannot be read: ")
        os.rename(away, path)
        until(lambda: s.get("/healthz").status == 200)
        s.said("the ledger can be read again")
        assert s.get("/api/v1/runs").status == 200
        # replaced by another one
        other = some_ledger(tmp_path / "other", 14, projects=("z",))
        other.done()
        other.db.close()
        os.rename(tmp_path / "other" / "ledger.db", os.path.join(path, "ledger.db"))
        for tail in ("-wal", "-shm"):
            if os.path.exists(os.path.join(path, "ledger.db" + tail)):
                os.remove(os.path.join(path, "ledger.db" + tail))
        key = dict(project="z", outcome="error")
        until(lambda: value(s.metrics(), "twinrun_comparisons_total", **key) is not None)
        assert s.log.count("the ledger cannot be read") <= 3


def test_a_run_folder_that_was_deleted(tmp_path):
    home = str(tmp_path / "home")
    env = {**os.environ, "TWINRUN_HOME": home, "TWINRUN_LEDGER": ""}
    subprocess.run([TWINRUN, "record", "-q", "--", JOB, "--steps", "2"], env=env, check=True)
    with serving(home) as s:
        run = s.get("/api/v1/runs").json["runs"][0]
        assert run["folder_removed"] is False
        shutil.rmtree(os.path.join(home, "runs", run["name"]))
        assert s.get("/api/v1/runs/" + run["id"]).status == 200
        subprocess.run([TWINRUN, "ls"], env=env, check=True, stdout=subprocess.DEVNULL)
        assert s.get("/api/v1/runs/" + run["id"]).json["run"]["folder_removed"] is True


def test_it_only_reads(tmp_path):
    home = some_ledger(tmp_path, 15)
    path = home.done()
    home.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    home.db.close()
    before = {n: open(os.path.join(path, n), "rb").read() for n in ["ledger.db"]}
    with serving(path) as s:
        for p in (
            "/",
            "/plain",
            "/metrics",
            "/api/v1/runs",
            "/api/v1/verdicts",
            "/api/v1/indicators",
        ):
            assert s.get(p).status == 200
    assert {n: open(os.path.join(path, n), "rb").read() for n in before} == before
    for words in (["--home", str(tmp_path / "none")], ["--ledger", "none"]):
        done = subprocess.run([TWINRUN, "serve", *words], capture_output=True, text=True)
        assert done.returncode == 2 and "ledger" in done.stderr
    assert not (tmp_path / "none").exists()


def test_a_port_that_is_taken(tmp_path):
    home = some_ledger(tmp_path, 16).done()
    with serving(home) as s:
        done = subprocess.run(
            [TWINRUN, "serve", "--home", home, "--listen", f"127.0.0.1:{s.port}"],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 2 and "cannot listen" in done.stderr
    for listen in ("8471", "localhost", "1.2.3:1", "[::1", "[::1]:x", "127.0.0.1:70000", ""):
        done = subprocess.run(
            [TWINRUN, "serve", "--home", home, "--listen", listen], capture_output=True, text=True
        )
        assert done.returncode == 2 and "--listen: expected" in done.stderr, listen


def test_interrupted_it_ends_well(tmp_path):
    home = some_ledger(tmp_path, 17).done()
    s = Serve(home)
    e = Events(s)
    held = socket.create_connection(("127.0.0.1", s.port))
    held.sendall(b"GET /")
    assert s.stop(2) == 0  # SIGINT
    e.close()
    held.close()
