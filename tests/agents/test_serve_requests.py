# SPDX-License-Identifier: Apache-2.0
"""twinrun serve: requests that must not be answered, and clients that hold on."""

import os
import shutil
import socket
import subprocess
import time

import pytest
from ledger_by_hand import some_ledger
from serve_helper import BUILD, PATIENCE, TWINRUN, serving, status_of

pytestmark = pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN)


def test_requests_that_are_refused(tmp_path):
    home = some_ledger(tmp_path, 6).done()
    get = "GET %s HTTP/1.1\r\nHost: localhost\r\n"
    with serving(home) as s:

        def ask(text):
            return s.raw(text.encode("latin-1"))

        for headers in (
            "Content-Length: 0\r\nContent-Length: 0\r\n",
            "Content-Length: 0\r\nContent-Length: 5\r\n",
            "Content-Length: 5\r\n",
            "Host: localhost\r\n",
            "Host: evil.example\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
        ):
            answer = ask(get % "/metrics" + headers + "\r\n")
            assert status_of(answer) in (400, None), (headers, answer)
            assert b"twinrun_build_info" not in answer
        assert status_of(ask("GET /metrics HTTP/1.1\r\n\r\n")) == 400
        assert status_of(ask("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n")) == 400
        assert (
            status_of(ask("GET http://localhost/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"))
            == 400
        )
        for headers in (
            "Origin: http://evil.example\r\n",
            "Origin: null\r\n",
            "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors\r\n",
        ):
            assert status_of(ask(get % "/api/v1/runs" + headers + "\r\n")) == 403
        link = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nConnection: close\r\n"
        assert status_of(ask(get % "/" + link + "\r\n")) == 200
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
            answer = s.get("/api/v1/runs", method=method)
            assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
        for path in (
            "/../../../etc/passwd",
            "/api/v1/runs/../../../../etc/passwd",
            "/api/v1/schemas/..%2f..%2fetc%2fpasswd",
            "/%2e%2e/%2e%2e/etc/passwd",
            "//etc/passwd",
            "/ledger.db",
            "/static/page.js",
        ):
            answer = ask(get % path + "Connection: close\r\n\r\n")
            assert status_of(answer) == 404 and b"root:" not in answer, path
        big = ask(get % "/metrics" + "X: " + "a" * 40000 + "\r\n\r\n")
        assert status_of(big) in (400, 413, 431, None)
        assert s.get("/healthz").status == 200
        head = s.get("/metrics", method="HEAD")
        assert (
            head.status == 200 and head.body == b"" and int(head.headers["Content-Length"]) > 1000
        )
        for name, wanted in (("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-store")):
            assert head.headers[name] == wanted
        assert "Access-Control-Allow-Origin" not in head.headers
        assert "a request was refused" in s.read_log()


def test_bytes_behind_an_unanswered_question(tmp_path):
    """Requests one behind the other on one connection: each is answered, or none is, and the server
    lives."""
    home = some_ledger(tmp_path, 7).done()
    one = b"GET /api/v1/runs?limit=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving(home) as s:
        for rubbish in (b"", b"rubbish\r\n\r\n", b"\0" * 70000):
            with socket.create_connection(("127.0.0.1", s.port), timeout=PATIENCE) as c:
                c.sendall(one * 3)
                try:
                    c.sendall(rubbish)
                    c.shutdown(socket.SHUT_WR)
                    while c.recv(65536):
                        pass
                except OSError:
                    pass
        assert s.get("/healthz").status == 200


def test_clients_that_hold_on(tmp_path):
    """A byte every now and then does not keep a connection, and others are answered meanwhile."""
    home = some_ledger(tmp_path, 10).done()
    with serving(home) as s:
        slow = [socket.create_connection(("127.0.0.1", s.port)) for _ in range(40)]
        for c in slow:
            c.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ")
            c.settimeout(0)
        alive = set(slow)
        end = time.monotonic() + PATIENCE
        while alive:
            assert time.monotonic() < end, f"{len(alive)} are still served"
            for c in list(alive):
                try:
                    c.send(b"a")
                    if c.recv(100) == b"":
                        alive.discard(c)
                except BlockingIOError:
                    pass
                except OSError:
                    alive.discard(c)
            assert s.get("/healthz").status == 200
            time.sleep(0.3)
        for c in slow:
            c.close()
        assert "took too long" in s.read_log()


@pytest.mark.skipif(not shutil.which("valgrind"), reason="apt install valgrind")
def test_a_token_is_compared_in_constant_time():
    """No branch and no address depends on the right one, whatever is guessed; and this test would
    see one (tests/unit/token_secret.c)."""
    program = os.path.join(BUILD, "tests", "unit", "token_secret")
    if not os.path.exists(program):
        pytest.skip("built without libevent, or with sanitizers, which valgrind cannot run")

    def faults(*words):
        done = subprocess.run(
            ["valgrind", "-q", "--error-exitcode=7", program, *words],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode in (0, 7), done.stderr
        return done.returncode == 7, done.stderr

    for guess in ("", "s3cret-s3cret-s3cret", "x" * 4000):
        found, said = faults(guess)
        assert not found, said
    found, said = faults("x", "broken")
    assert found and "depends on uninitialised value" in said
