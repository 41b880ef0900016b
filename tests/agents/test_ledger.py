# SPDX-License-Identifier: Apache-2.0
"""The ledger in PostgreSQL: a server of Debian's package in a temporary folder, reached by a socket
there. The C tests that run on SQLite run on it, too; then the commands use it, lose it in the
middle, and catch up.
"""

import glob
import json
import os
import pwd
import shutil
import sqlite3
import subprocess
import tempfile
import time

import pytest
from turn import FULL

BUILD = os.path.abspath(os.environ.get("TWINRUN_BUILD", "build"))
TWINRUN = os.path.join(BUILD, "cmd", "twinrun")
JOB = os.path.join(BUILD, "tests", "cli", "job")


def server_programs():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
    return os.path.dirname(found[-1]) if found else None


class Server:
    """initdb refuses root, so all of it runs as another user."""

    def __init__(self):
        self.bin = server_programs()
        self.dir = tempfile.mkdtemp(prefix="twinpg", dir="/tmp")
        self.user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        self.as_user = ["runuser", "-u", self.user, "--"] if os.geteuid() == 0 else []
        if os.geteuid() == 0:
            shutil.chown(self.dir, self.user)
        self.run(
            "initdb",
            "-D",
            self.dir + "/data",
            "-U",
            "ana",
            "--auth-local=scram-sha-256",
            "--auth-host=reject",
            "--pwfile=" + self.password_file(),
            "--no-sync",
            "--encoding=UTF8",
            "--locale=C",
        )
        self.url = f"postgresql://ana:s3cret@/postgres?host={self.dir}&port=5432"

    def password_file(self):
        path = self.dir + "/pw"
        with open(path, "w") as f:
            f.write("s3cret\n")
        if os.geteuid() == 0:
            shutil.chown(path, self.user)
        return path

    def run(self, program, *arguments):
        subprocess.run(
            self.as_user + [os.path.join(self.bin, program), *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=self.dir,
        )

    def start(self):
        self.run(
            "pg_ctl",
            "-D",
            self.dir + "/data",
            "-w",
            "-l",
            self.dir + "/log",
            "-o",
            f"-c listen_addresses= -c unix_socket_directories={self.dir} -c fsync=off -c max_connections=30",
            "start",
        )

    def stop(self):
        self.run("pg_ctl", "-D", self.dir + "/data", "-m", "immediate", "stop")


@pytest.fixture(scope="module")
def server():
    if not server_programs():
        if FULL:
            pytest.fail("no PostgreSQL server here: apt install postgresql")
        pytest.skip("no PostgreSQL server here: apt install postgresql")
    s = Server()
    s.start()
    yield s
    s.stop()
    shutil.rmtree(s.dir, ignore_errors=True)


def twinrun(home, *arguments, url=None, code=0):
    env = {k: v for k, v in os.environ.items() if k != "TWINRUN_LEDGER"}
    env["TWINRUN_HOME"] = str(home)
    if url:
        env["TWINRUN_LEDGER"] = url
    p = subprocess.run(
        [TWINRUN, *arguments],
        env=env,
        capture_output=True,
        text=True,
        cwd=os.path.dirname(str(home)),
    )
    assert code is None or p.returncode == code, p.stderr
    assert "s3cret" not in p.stdout + p.stderr
    return p


def listed(home, *arguments, url=None):
    return json.loads(twinrun(home, "ls", "--json", *arguments, url=url).stdout)["runs"]


@pytest.mark.parametrize(
    "name", ["test_ledger", "test_ledger_schema", "test_ledger_reading", "test_kept"]
)
def test_same_tests_as_on_sqlite(server, name):
    program = os.path.join(BUILD, "tests", "unit", name)
    p = subprocess.run(
        [program],
        env={**os.environ, "TW_LEDGER_TEST_URL": server.url},
        capture_output=True,
        text=True,
    )
    assert p.returncode == 0, p.stdout + p.stderr


def test_commands_on_postgresql(server, tmp_path):
    home = tmp_path / "home"
    other = tmp_path / "other" / "home"
    other.parent.mkdir()
    twinrun(home, "record", "-q", "--", JOB, "--steps", "3", url=server.url)
    twinrun(
        home, "check", "-q", "--", JOB, "--steps", "8", "--noise-at", "4", url=server.url, code=1
    )
    twinrun(other, "record", "-q", "--ledger", server.url, "--", JOB, "--steps", "2")
    assert not (home / "ledger.db").exists()
    rows = listed(home, url=server.url)
    assert [r["steps"] for r in rows] == [8, 8, 3]  # those of this home only
    assert len(listed(other, url=server.url)) == 1
    assert [r["steps"] for r in listed(home, "--outcome", "differ", url=server.url)] == [8, 8]
    assert "check: differ, step 4" in twinrun(home, "show", "last", url=server.url).stdout
    # The server goes away: the exit codes are the job's and the verdict's, and nothing is lost.
    server.stop()
    try:
        p = twinrun(home, "record", "-q", "--", "sh", "-c", "exit 7", url=server.url, code=7)
        assert "ledger was not written" in p.stderr
        p = twinrun(home, "check", "-q", "--", JOB, "--steps", "5", url=server.url)
        assert "SAME" in p.stdout
        p = twinrun(home, "ls", url=server.url)
        assert "from the run folders" in p.stderr and p.stdout.count("\n") == 8
        assert "run folders" in twinrun(home, "show", "last", url=server.url).stderr
    finally:
        server.start()
    rows = listed(home, url=server.url)
    assert len(rows) == 7 and rows[-1]["steps"] == 3
    # the comparison that it missed
    assert len(listed(home, "--outcome", "same", url=server.url)) == 3

    # Service levels, of this home and of all: what one database counts, the other does.
    def counts(*options, url):
        answer = json.loads(twinrun(home, "slo", "--json", *options, url=url, code=3).stdout)
        return [(r["indicator"], r["scope"], r["name"], r["counts"]) for r in answer["indicators"]]

    both = [counts(url=server.url), counts(url=None)]
    assert both[0] == both[1] and both[0][0][3] == {"good": 2, "bad": 1, "unknown": 0, "from": 3}
    assert len(counts("--all-homes", url=server.url)) > len(both[0])
    os.unlink(home / "ledger.db")
    # Nothing of the address is kept, in the home or in the database.
    for folder, _, names in os.walk(home):
        for name in names:
            with open(os.path.join(folder, name), "rb") as f:
                assert b"s3cret" not in f.read(), os.path.join(folder, name)
    dump = subprocess.run(
        [os.path.join(server.bin, "pg_dump"), server.url],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "s3cret" not in dump and "noise-at" in dump


def test_the_job_does_not_see_the_address(server, tmp_path):
    p = twinrun(
        tmp_path / "home",
        "record",
        "-q",
        "--",
        "sh",
        "-c",
        "env | grep -c TWINRUN_LEDGER",
        url=server.url,
        code=1,
    )
    assert p.stdout == "0\n"


def test_broken_ledgers_stop_nothing(tmp_path):
    home = tmp_path / "home"
    twinrun(home, "record", "-q", "--", JOB, "--steps", "2")
    for make in (lambda p: p.write_bytes(b"\0" * 5000), lambda p: p.mkdir(), lambda p: newer(p)):
        for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
            path = home / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        make(home / "ledger.db")
        p = twinrun(home, "record", "-q", "--", "sh", "-c", "exit 5", code=5)
        assert p.stderr.count("the ledger was not written") == 1
        p = twinrun(home, "ls", "-n", "3")
        assert "exit 5" in p.stdout and "the ledger cannot be read" in p.stderr
        twinrun(home, "check", "-q", "--", JOB, "--steps", "3")
    (home / "ledger.db").unlink()
    rows = listed(home)  # made anew of what there is
    assert [r["state"] for r in rows].count("exit 5") == 3 and len(rows) == 13
    assert len(listed(home, "--outcome", "same")) == 9


def newer(path):
    d = sqlite3.connect(path)
    d.execute("CREATE TABLE ledger_schema (version BIGINT, made_ns BIGINT)")
    d.execute("INSERT INTO ledger_schema VALUES (7, 0)")
    d.commit()
    d.close()


def test_removed_runs_are_still_known(tmp_path):
    home = tmp_path / "home"
    for steps in ("2", "3", "4"):
        twinrun(home, "record", "-q", "--", JOB, "--steps", steps)
    twinrun(home, "gc", "--keep", "1")
    rows = listed(home)
    assert [(r["steps"], r["gone"]) for r in rows] == [(4, False), (3, True), (2, True)]
    assert "folder removed" in twinrun(home, "ls").stdout
    shown = json.loads(twinrun(home, "show", rows[1]["id"][:8], "--json").stdout)
    assert shown["gone"] and shown["steps"] == 3
    # By hand, behind its back.
    shutil.rmtree(glob.glob(str(home / "runs" / "*"))[0])
    assert [r["gone"] for r in listed(home)] == [True] * 3
    d = sqlite3.connect(home / "ledger.db")
    # two versions of each: nothing was written over
    assert d.execute("SELECT COUNT(*) FROM runs").fetchone()[0] == 6


@pytest.mark.skipif(not FULL, reason="10,000 run folders: only with TWINRUN_FULL=1")
def test_ten_thousand_runs(tmp_path):
    """ls with a ledger against the folders alone."""
    home = tmp_path / "home"
    twinrun(home, "record", "-q", "--", JOB, "--steps", "2")
    first = glob.glob(str(home / "runs" / "*"))[0]
    with open(first + "/run.json") as f:
        run = json.load(f)
    trace = glob.glob(first + "/ranks/*.twt") or glob.glob(first + "/*/*.twt")
    for i in range(10000):
        run["id"] = f"{i + 1:032x}"
        run["start_realtime_ns"] -= 1000000
        folder = home / "runs" / f"2026-01-01T00-00-00Z-run-{run['id'][-8:]}"
        folder.mkdir()
        (folder / "run.json").write_text(json.dumps(run))
        place = folder / os.path.relpath(os.path.dirname(trace[0]), first)
        place.mkdir(parents=True)
        os.link(trace[0], place / os.path.basename(trace[0]))

    def timed(*arguments):
        begin = time.monotonic()
        twinrun(home, "ls", *arguments)
        return time.monotonic() - begin

    folders = timed("--ledger", "none")
    made = timed()
    known = min(timed() for _ in range(3))
    newest = min(timed("-n", "20") for _ in range(3))
    print(
        f"ls of 10,001 runs: folders {folders:.2f} s, making the ledger {made:.2f} s, ledger {known:.3f} s, the 20 newest {newest:.3f} s"
    )
    assert known < folders / 3


def test_serve_reads_postgresql_loses_it_and_finds_it_again(server, tmp_path):
    """Also: what it serves never holds the password, and its session cannot write."""
    from serve_helper import serving, until, value

    home = tmp_path / "home"
    twinrun(home, "record", "-q", "--", JOB, "--steps", "2", url=server.url)
    twinrun(
        home, "check", "-q", "--", JOB, "--steps", "3", "--noise-at", "1", url=server.url, code=1
    )
    env = {"TWINRUN_LEDGER": server.url}
    with serving(home, env=env) as s:
        run = s.get("/api/v1/runs?limit=1").json["runs"][0]
        assert s.get("/api/v1/runs/" + run["id"]).json["run"]["name"] == run["name"]
        verdicts = s.get("/api/v1/verdicts?outcome=differ").json["verdicts"]
        assert verdicts and run["id"] in [r["id"] for v in verdicts for r in v["runs"]]
        key = {"project": run["facts"]["project"], "outcome": "diverged"}
        before = value(s.metrics(), "twinrun_comparisons_total", **key)
        assert before >= 1
        twinrun(
            home,
            "check",
            "-q",
            "--",
            JOB,
            "--steps",
            "3",
            "--noise-at",
            "1",
            url=server.url,
            code=1,
        )
        until(lambda: value(s.metrics(), "twinrun_comparisons_total", **key) == before + 1)
        server.stop()
        try:
            until(lambda: s.get("/healthz").status == 503)
            assert s.get("/api/v1/runs").status == 503
            assert value(s.metrics(), "twinrun_comparisons_total", **key) == before + 1
        finally:
            server.start()
        until(lambda: s.get("/healthz").status == 200)
        until(lambda: s.get("/api/v1/runs").status == 200)
        pages = [
            s.get(p).text for p in ("/plain", "/metrics", "/api/v1/runs", "/api/v1/indicators")
        ]
        assert "s3cret" not in "".join(pages) + s.read_log()


def test_decisions_of_a_rollout_on_postgresql(server, tmp_path):
    """Each once, whoever asks: rollout list, service levels, and the database itself."""
    home, flag = tmp_path / "home", str(tmp_path / "flag")

    def rollout(verb, *words):
        done = twinrun(home, "rollout", verb, *words, "--flag", flag, "--json", url=server.url)
        return json.loads(done.stdout)

    first = rollout("start", "hash-seed", "--share", "50%")
    env = {**os.environ, "TWINRUN_ROLLOUT": flag, "TWINRUN_LEDGER": server.url,
           "TWINRUN_HOME": str(home)}  # fmt: skip
    for key in ("a", "b", "c", "d"):
        subprocess.run([TWINRUN, "record", "-q", "--", JOB, "--steps", "2"], cwd=tmp_path,
                       env={**env, "TWINRUN_ROLLOUT_KEY": key}, check=True)  # fmt: skip
    assert rollout("step")["decision"] == "held"
    assert rollout("stop")["in_ledger"] is True
    assert not (home / "ledger.db").exists()
    listed_there = rollout("list")["decisions"]
    assert [d["decision"] for d in listed_there] == ["started", "held", "stopped"]
    # other tests' runs are in this database too: whether a target is broken is theirs to say
    told = json.loads(twinrun(home, "slo", "--json", url=server.url, code=None).stdout)["rollouts"]
    (one,) = [r for r in told if r["rollout"] == first["rollout"]]
    assert (one["state"], one["sequence"]) == ("stopped", 3)
    assert sum(one["projects"][0][arm]["runs"] for arm in ("canary", "control")) == 4
    # what the server itself has, by its own client
    sql = (
        "select outcome from events "
        f"where kind = 'rollout' and subject like '{first['rollout']} %' order by time_ns"
    )
    rows = subprocess.run(
        [os.path.join(server.bin, "psql"), "-At", "-c", sql, server.url],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert rows.stdout.split() == ["started", "held", "stopped"]
