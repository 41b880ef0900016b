# SPDX-License-Identifier: Apache-2.0
"""twinrun serve --pushgateway: the results of CI, at a real Pushgateway of Prometheus."""

import contextlib
import http.server
import os
import shutil
import subprocess
import threading
import urllib.error
import urllib.request

import pytest
from free_ports import free_port
from ledger_by_hand import some_ledger
from serve_helper import JOB, TWINRUN, read_metrics, serving, until

pytestmark = pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN)
FAMILY = "twinrun_ci_results_total"
real = pytest.mark.skipif(
    not shutil.which("prometheus-pushgateway"), reason="apt install prometheus-pushgateway"
)


def push(home, url, *options):
    return subprocess.run(
        [TWINRUN, "serve", "--home", home, "--pushgateway", url, *options],
        capture_output=True,
        text=True,
        env={**os.environ, "TWINRUN_LEDGER": ""},
    )


@contextlib.contextmanager
def pushgateway(folder):
    url = f"http://127.0.0.1:{free_port()}"
    with open(folder / "pushgateway.log", "w") as log:
        process = subprocess.Popen(
            [
                "prometheus-pushgateway",
                "--web.listen-address=" + url[len("http://") :],
                f"--persistence.file={folder}/pushed",  # Debian's has a file of the machine
            ],
            stdout=log,
            stderr=log,
            cwd=folder,
        )

    def is_ready():
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(url + "/-/ready", timeout=5).status == 200

    try:
        until(is_ready)
        yield url
    finally:
        process.terminate()
        process.wait()


def metrics_of(url):
    with urllib.request.urlopen(url + "/metrics", timeout=30) as answer:
        return answer.read().decode()


def results(text):
    """{(project, outcome): number} of a text of metrics."""
    found = {}
    lines = [line for line in text.splitlines() if line.startswith(FAMILY)]
    for (_name, *labels), value in read_metrics("\n".join(lines)).items():
        labels = dict(labels)
        found[labels["project"], labels["outcome"]] = value
    return found


def with_any(found):
    """Those of projects that have a result."""
    some = {project for (project, _outcome), value in found.items() if value}
    return {key: value for key, value in found.items() if key[0] in some}


@real
def test_what_is_served_is_pushed(tmp_path):
    home = some_ledger(tmp_path / "home", 18).done()
    with serving(home) as s:
        served = with_any(results(s.get("/metrics").text))
    assert served
    with pushgateway(tmp_path) as url:
        done = push(home, url)
        assert done.returncode == 0, done.stderr
        projects = len({project for project, _outcome in served})
        assert f"results of CI of {projects} project" in done.stderr
        text = metrics_of(url)
        assert results(text) == served
        ours = [line for line in text.splitlines() if line.startswith("twinrun_")]
        assert {line.split("{")[0] for line in ours} == {FAMILY}, "nothing but results of CI"
        assert not any("run_id" in line for line in ours)


@real
def test_a_push_takes_the_place_of_the_last_one(tmp_path):
    home = tmp_path / "home"
    env = {**os.environ, "TWINRUN_LEDGER": "", "TWINRUN_HOME": str(home), "CI": "true"}
    env["TWINRUN_PROJECT"] = 'team/"näme" \\ +?'  # what neither a path nor a label holds as it is
    with pushgateway(tmp_path) as url:
        done = push(home, url)
        assert done.returncode == 2, "there is no ledger yet"
        for turn, options in enumerate((["--steps", "3"], ["--steps", "3", "--noise"])):
            subprocess.run(
                [TWINRUN, "check", "--runs", "2", "--no-zoom", "--", JOB, *options],
                env=env,
                cwd=tmp_path,
                capture_output=True,
            )
            assert push(home, url).returncode == 0
            found = results(metrics_of(url))
            assert len({project for project, _outcome in found}) == 1
            assert sum(n for (_p, outcome), n in found.items() if outcome != "flaky") == turn + 1


def test_a_gateway_that_refuses_or_is_not_there(tmp_path):
    home = some_ledger(tmp_path / "home", 18).done()
    seen = []

    class Refuses(http.server.BaseHTTPRequestHandler):
        def do_PUT(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append((self.path, self.headers["Authorization"], body))
            self.send_response(400)
            self.end_headers()
            self.wfile.write(b"no \x1b[31mroom")

        def log_message(self, *_words):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Refuses)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/below/"
        token = tmp_path / "token"
        token.write_text("a-token\n")
        done = push(home, url, "--pushgateway-token-file", token)
        assert done.returncode == 2
        assert "expected status 200, found 400" in done.stderr and "\x1b" not in done.stderr
        assert len(seen) == 1, "it goes no further"
        path, authorization, body = seen[0]
        assert path.startswith("/below/metrics/job/twinrun/project@base64/")
        assert authorization == "Bearer a-token"
        assert body.decode().count(FAMILY + "{") == 3
    finally:
        server.shutdown()
        server.server_close()
    done = push(home, f"http://127.0.0.1:{free_port()}")
    assert done.returncode == 2 and "0 projects were pushed" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["ftp://host"],
        ["http://user:secret@host"],
        ["http://example.org", "--pushgateway-token-file", "token"],
        ["http://host", "--textfile", "."],
        ["http://host", "--listen", "127.0.0.1:0"],
        ["http://host", "--alertmanager", "http://host"],
    ],
    ids=" ".join,
)
def test_what_is_no_gateway_is_refused(tmp_path, words):
    home = some_ledger(tmp_path / "home", 3).done()
    done = push(home, *words)
    assert done.returncode == 2 and "expected" in done.stderr
    assert "secret" not in done.stderr or words[0] in done.stderr
