# SPDX-License-Identifier: Apache-2.0
"""twinrun serve: searches for a cause as a timeline, against the journal that isolate left, read here
a second time; events while one goes on; journals that are damaged or made to do harm.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import time

import jsonschema
import pytest
from serve_helper import JOB, PATIENCE, TWINRUN, checked, serving, until

pytestmark = pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN)
PURPOSES = ["baseline", "reference", "contrast", "pins", "failing pin", "vote", "free"]


def isolate(home, **how):
    words = [TWINRUN, "isolate", "--home", str(home), "--", JOB, "--steps", "6", "--noise-at", "3"]
    return subprocess.Popen(
        words,
        env={**os.environ, "TWINRUN_LEDGER": ""},
        cwd=home.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **how,
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    home = tmp_path_factory.mktemp("search") / "home"
    assert isolate(home).wait(PATIENCE) == 1  # a cause was found
    return home


def journal(home):
    (name,) = os.listdir(home / "searches")
    return home / "searches" / name


def lines_of(home):
    return [json.loads(line) for line in (journal(home) / "log.jsonl").read_text().splitlines()]


def test_a_timeline_is_what_the_journal_says(made):
    lines = lines_of(made)
    factors = json.loads((journal(made) / "search.json").read_text())["factors"]
    with serving(made) as s:
        (row,) = s.get("/api/v1/searches").json["searches"]
        got = checked(s, "/api/v1/searches/" + row["id"], "timeline")
        by_name = checked(s, "/api/v1/searches/" + journal(made).name, "timeline")
        # the runs of the verdict are those of the tests
        runs = {r["id"][:16] for r in row["runs"]}
    assert got["verdict"] == row and by_name == {**got, "verdict": None}
    search = got["search"]
    assert search["id"] == journal(made).name and search["state"] == "ended"
    assert search["factors"] == factors and search["arms"] is None and search["unread"] == 0
    assert search["tests_all"] == len(search["tests"]) == len(lines) > 5
    assert JOB in search["command"] and "candidate factors" in search["plan"]
    assert {t["run"] for t in search["tests"]} >= runs
    for test, line in zip(search["tests"], lines):
        pinned = [f for i, f in enumerate(factors) if int(line["pinned"][0], 16) >> i & 1]
        assert test["number"] == line["number"] and test["run"] == line["run"]
        assert test["purpose"] == PURPOSES[line["purpose"]] and test["pinned"] == pinned
        assert test["parted"] == line["parted"] and test["ended"] == "well"
        assert test["step"] == (line["step"] if line["parted"] else None)
    found = {}
    for t in search["tests"]:
        found.setdefault((t["purpose"], tuple(t["pinned"])), []).append(t)
    assert len(found) == len(search["hypotheses"])
    for h in search["hypotheses"]:
        tests = found[h["purpose"], tuple(h["pinned"])]
        assert h["tests"] == len(tests) and h["parted"] == sum(t["parted"] for t in tests)
        assert (h["first"], h["last"]) == (tests[0]["number"], tests[-1]["number"])
        assert sorted(h["pinned"] + h["free"]) == sorted(factors) and h["failed"] == 0


def test_journals_that_are_damaged(made, tmp_path):
    shutil.copytree(made, tmp_path / "home")
    home = tmp_path / "home"
    log, whole = journal(home) / "log.jsonl", lines_of(made)
    secret = tmp_path / "secret"
    secret.write_text('{"factors": ["of another place"]}')
    with serving(home) as s:
        path = "/api/v1/searches/" + journal(home).name
        hostile = [
            b"", b"{}", b"[" * 100000, b"\xff\xfe", b"null", b'{"number": 1e99, "run": 5}',
            b'{"number": 1, "purpose": 99, "status": 0, "run": "0123456789abcdef"}',
            b'{"number": 1, "purpose": 0, "status": -1, "run": "0123456789abcdef"}',
            b'{"number": 1, "purpose": 0, "status": 0, "run": "../../../etc/pass"}',
        ]  # fmt: skip
        good = json.dumps(whole[0]).encode()
        strange = json.dumps({**whole[0], "layer": 99, "pinned": ["x", 5, None], "seconds": "s"})
        log.write_bytes(b"\n".join([*hostile, good, strange.encode(), good[:40]]))
        search = checked(s, path, "timeline")["search"]
        # what has no end yet is not counted at all
        assert search["unread"] == len(hostile) and search["tests_all"] == 2
        assert search["tests"][1]["layer"] is None and search["tests"][1]["pinned"] == []
        log.unlink()
        assert checked(s, path, "timeline")["search"]["tests"] == []
        os.mkfifo(log)  # nobody writes there
        assert checked(s, path, "timeline")["search"]["tests"] == []
        log.unlink()
        log.symlink_to(secret)
        assert checked(s, path, "timeline")["search"]["tests_all"] == 0
        what = journal(home) / "search.json"
        what.unlink()
        what.symlink_to(secret)
        assert s.get(path).status == 404 and "another place" not in s.get(path).text
        shutil.rmtree(home / "searches")
        assert s.get(path).status == 404
        (row,) = s.get("/api/v1/searches").json["searches"]
        assert checked(s, "/api/v1/searches/" + row["id"], "timeline")["search"] is None
        for name in ("0" * 32, "2026-11-26T07-04-32Z-9182"):
            assert s.get("/api/v1/searches/" + name).status == 404
        for name in ("..", "%2e%2e", "2026", "x" * 32, "2026-11-26T07-04-32Z-9182/../.."):
            assert s.get("/api/v1/searches/" + name).status == 404, name
        assert s.get(path + "?limit=1").status == 400


def test_a_journal_of_hostile_words(made, tmp_path):
    """Names are text; a line of a megabyte and a hypothesis for every test are bounded."""
    shutil.copytree(made, tmp_path / "home")
    home = tmp_path / "home"
    what, line = json.loads((journal(home) / "search.json").read_text()), lines_of(made)[0]
    evil = '<img src=x onerror="alert(1)">\n\x1b[31m\u202e' + "z" * (1 << 15)
    count = len(what["factors"])
    what["factors"][0] = "<script>alert(1)</script>\x1b[2J"
    what["argv"] = ["job", "<b>", evil[:5000]]
    (journal(home) / "search.json").write_text(json.dumps(what))
    (journal(home) / "plan.txt").write_text(evil)
    tests = [
        {**line, "number": i + 1, "pinned": ["%016x" % (i % (1 << min(count, 12)))]}
        for i in range(3000)
    ]
    with open(journal(home) / "log.jsonl", "w") as f:
        f.write(json.dumps({**line, "number": 1, "purpose": evil * 32}) + "\n")
        f.write('"' + "y" * (1 << 20) + '"\n')
        f.writelines(json.dumps(t) + "\n" for t in tests)
    with serving(home) as s:
        answer = s.get("/api/v1/searches/" + journal(home).name)
        search = checked(s, "/api/v1/searches/" + journal(home).name, "timeline")["search"]
        assert b"\x1b" not in answer.body and b"\\u001b" not in answer.body
        assert b"\\u202e" not in answer.body and answer.headers["X-Content-Type-Options"]
        assert answer.headers["Content-Type"] == "application/json"
        assert search["unread"] <= 2 and search["tests_all"] + search["unread"] == 3002
        assert len(search["tests"]) == 1000 and len(search["hypotheses"]) == 1000
        assert search["hypotheses"][5]["tests"] == 1
        assert all(len(f) < 5000 for f in search["factors"]) and len(search["plan"]) < 200000
        assert s.get("/healthz").status == 200


def test_events_of_a_search_that_goes_on(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    subprocess.run(
        [TWINRUN, "ls", "--home", str(home)], env={**os.environ, "TWINRUN_LEDGER": ""}, check=True
    )
    with serving(home) as s, socket.create_connection(("127.0.0.1", s.port), PATIENCE) as c:
        c.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        data, end = b"", time.monotonic() + PATIENCE
        job = isolate(home)
        try:
            while b'"state":"ended"' not in data:
                assert time.monotonic() < end, data
                data += c.recv(65536)
        finally:
            assert job.wait(PATIENCE) == 1  # a cause was found
        schema = s.get("/api/v1/schemas/event").json
        text = re.sub(rb"\r\n[0-9a-f]+\r\n", b"", data).decode()
        events = [json.loads(x) for x in re.findall(r"event: search\ndata: (.*)\n", text)]
        for e in events:
            jsonschema.validate(e, schema, jsonschema.Draft202012Validator)
        counts = [e["search"]["tests"] for e in events]
        assert counts == sorted(counts) and {e["search"]["id"] for e in events} == {
            journal(home).name
        }
        assert events[-1]["search"]["last"]["number"] == lines_of(home)[-1]["number"]
        assert until(lambda: s.get("/api/v1/searches").json["searches"])
