# SPDX-License-Identifier: Apache-2.0
"""twinrun serve: comparisons of the live page, of runs that were really made. What a heatmap must
show is known from the job: which tensors it has, and from which step on they are others.
"""

import base64
import concurrent.futures
import contextlib
import json
import os
import shutil
import signal
import sqlite3
import struct
import time

import pytest
from serve_helper import JOB, PATIENCE, TWINRUN, checked, serving, twinrun, until

pytestmark = pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN)
NONE, EQUAL, DIFFERS, VALUES, NOT_FINITE = 0, 1, 4, 16, 65535


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A home with one verdict on three runs (of two commands); the ids of its runs."""
    home = tmp_path_factory.mktemp("compared") / "home"
    for noise in ([], [], ["--noise-at", "5"]):
        twinrun(home, "record", "-q", "--", JOB, "--steps", "12", *noise)
    runs = sorted(os.listdir(home / "runs"), key=lambda n: start(home / "runs" / n))
    twinrun(home, "diff", *runs, code=(1,))
    return home


def start(folder):
    return json.loads((folder / "run.json").read_text())["start_realtime_ns"]


def verdict_id(s):
    return s.get("/api/v1/verdicts").json["verdicts"][0]["id"]


def cells_of(part):
    raw = base64.b64decode(part["cells"], validate=True)
    wide = len(part["columns"])
    codes = struct.unpack("<%dH" % (len(raw) // 2), raw)
    assert len(codes) == wide * len(part["rows"])
    return [codes[i * wide : (i + 1) * wide] for i in range(len(part["rows"]))]


def test_a_comparison_is_what_the_job_did(made):
    with serving(made) as s:
        path = "/api/v1/comparisons/" + verdict_id(s)
        got = checked(s, path, "compared")
        now, heat = got["compared"], got["heatmap"]
        assert got["other"] == 2 and [r["place"] for r in got["runs"]] == [0, 1, 2]
        assert now["verdict"]["outcome"] == got["verdict"]["outcome"] == "differ"
        assert (
            now["verdict"]["first"]["step"] == 5 and now["verdict"]["first"]["kind"] == "gradient"
        )
        assert [c["first"] for c in heat["columns"]] == list(range(12))
        assert all(c["steps"] == 1 for c in heat["columns"])
        codes = dict(zip([r["name"] + "/" + r["kind"] for r in heat["rows"]], cells_of(heat)))
        (gradient,) = [k for k in codes if k.endswith("/gradient")]
        assert set(codes[gradient][:5]) == {EQUAL}
        # by how much is known in steps that have a sketch; in the others it is not, nor equal
        assert all(c == DIFFERS or VALUES <= c < NOT_FINITE for c in codes[gradient][5:])
        assert any(c >= VALUES for line in codes.values() for c in line[5:])
        for row, line in zip(heat["rows"], cells_of(heat)):
            differing = [i for i, c in enumerate(line) if c >= DIFFERS]
            assert row["first"] == (differing[0] if differing else None)
            assert row["differ"] == bool(differing) and row["tensors"] == 1
        row, column = heat["mark"]
        assert column == 5 and heat["rows"][row]["kind"] == "gradient"
        # runs 1 and 2 are one class, run 3 leaves it
        assert now["classes"][0]["runs"] == [0, 1] and now["classes"][1]["runs"] == [2]
        assert now["classes"][1]["step"] == 5
        assert now["survival"]["runs"] == 3 and now["survival"]["left"] == [[5, 1]]
        fan = now["fan"]
        (line,) = [x for x in fan["lines"] if x["group"] == "gradients"]
        assert line["median"][:5] == ["equal"] * 5
        assert all(x == "unknown" or x > 0 for x in line["median"][5:])
        # the pair that is equal
        same = checked(s, path + "?other=1", "compared")
        assert same["compared"]["verdict"]["outcome"] in ("same", "inconclusive")
        assert {c for line in cells_of(same["heatmap"]) for c in line} <= {NONE, EQUAL}
        assert same["heatmap"]["mark"] is None and same["compared"]["fan"]["lines"] == []
        # nothing of it leads anywhere
        text = s.get(path).text
        assert str(made) not in text and "job.c" not in text and "/runs/" not in text


def test_a_view_of_it(made):
    with serving(made) as s:
        path = "/api/v1/comparisons/" + verdict_id(s)
        whole = checked(s, path, "compared")["heatmap"]
        lines = cells_of(whole)
        for rows, columns in ((1, 1), (2, 3), (512, 5)):
            small = checked(s, f"{path}?rows={rows}&columns={columns}", "compared")["heatmap"]
            high, wide = min(rows, len(lines)), min(columns, 12)
            assert (len(small["rows"]), len(small["columns"])) == (high, wide)
            for y, line in enumerate(cells_of(small)):
                for x, code in enumerate(line):
                    want = [
                        lines[r][c]
                        for r in range(y * len(lines) // high, (y + 1) * len(lines) // high)
                        for c in range(x * 12 // wide, (x + 1) * 12 // wide)
                    ]
                    assert code == max(want)
            assert sum(c["steps"] for c in small["columns"]) == 12
            assert sum(r["tensors"] for r in small["rows"]) == len(lines)
        part = checked(s, path + "?from=4&to=6&tensor=*/gradient/*", "compared")["heatmap"]
        assert [c["first"] for c in part["columns"]] == [4, 5, 6]
        assert {r["kind"] for r in part["rows"]} == {"gradient"}
        assert part["tensors_here"] == len(part["rows"]) < part["tensors"]
        none = checked(s, path + "?tensor=%2e%2e%2f%3cscript%3e", "compared")["heatmap"]
        assert none["rows"] == none["columns"] == [] and none["cells"] == ""
        assert checked(s, path + "?from=100", "compared")["heatmap"]["columns"] == []
        for wrong in (
            "rows=0", "rows=513", "columns=513", "columns=-1", "from=x", "to=4294967296",
            "other=0", "rows=1&rows=1", "tensor=", "tensor=%ff", "limit=3",
        ):  # fmt: skip
            assert s.get(path + "?" + wrong).status == 400, wrong
        assert s.get(path + "?other=3").status == 409
        for name in ("0" * 32,):
            assert s.get("/api/v1/comparisons/" + name).status == 404
        for name in ("", "..", "x", "0" * 31, "0" * 33, "..%2f..%2fetc%2fpasswd"):
            assert s.get("/api/v1/comparisons/" + name).status == 404, name


def copy_of(made, tmp_path):
    shutil.copytree(made, tmp_path / "home", symlinks=True)
    return tmp_path / "home"


def folders(s, home):
    """The folder of each run of the verdict, in its order."""
    ids = [r["id"] for r in s.get("/api/v1/verdicts").json["verdicts"][0]["runs"]]
    by_id = {
        json.loads((home / "runs" / n / "run.json").read_text())["id"]: home / "runs" / n
        for n in os.listdir(home / "runs")
    }
    return [by_id[i] for i in ids]


def test_folders_that_are_gone_or_others(made, tmp_path):
    home = copy_of(made, tmp_path)
    with serving(home) as s:
        path = "/api/v1/comparisons/" + verdict_id(s)
        lies = folders(s, home)
        shutil.move(lies[1], tmp_path / "kept")
        got = checked(s, path, "compared")  # the third against the first, without the second
        assert [r["folder"] for r in got["runs"]] == [True, False, True]
        assert [r["place"] for r in got["runs"]] == [0, None, 1]
        gone = s.get(path + "?other=1")
        assert gone.status == 410 and gone.json["schema"] == "twinrun.error/1"
        assert str(tmp_path) not in gone.text
        # a link is no run folder, wherever it leads; nor is a folder with another run in it
        os.symlink(tmp_path / "kept", lies[1])
        assert s.get(path + "?other=1").status == 410
        os.unlink(lies[1])
        shutil.copytree(lies[2], lies[1])
        assert s.get(path + "?other=1").status == 410
        shutil.rmtree(lies[1])
        # damaged: an answer, and the server lives
        for name in os.listdir(lies[2]):
            if name.endswith(".twt"):
                (lies[2] / name).write_bytes(os.urandom(100000))
        (lies[2] / "run.json").touch()  # its traces are another matter of date
        assert s.get(path).status in (200, 503)
        shutil.rmtree(lies[2])
        assert s.get(path).status == 410
        assert s.get("/healthz").status == 200


def test_a_ledger_that_names_other_places(made, tmp_path):
    home = copy_of(made, tmp_path)
    db = sqlite3.connect(home / "ledger.db")
    triggers = [t for (t,) in db.execute("SELECT name FROM sqlite_master WHERE type='trigger'")]
    for t in triggers:
        db.execute(f"DROP TRIGGER {t}")
    for column, value in (("name", "../../kept"), ("name", "."), ("home", "host:/etc")):
        copy = tmp_path / ("h" + str(time.monotonic_ns()))
        db.commit()
        shutil.copytree(home, copy)
        other = sqlite3.connect(copy / "ledger.db")
        table = "runs"
        assert other.execute(f"UPDATE {table} SET {column} = ?", (value,)).rowcount
        other.commit()
        other.close()
        with serving(copy) as s:
            answer = s.get("/api/v1/comparisons/" + verdict_id(s))
            assert answer.status == 410, (column, value, answer.text)


def test_many_ask_at_once(made):
    """Eight clients, one comparison: all get the same, and no process is left."""
    with serving(made) as s:
        path = "/api/v1/comparisons/" + verdict_id(s)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda i: s.get(path), range(8)))
        assert {a.status for a in answers} == {200} and len({a.body for a in answers}) == 1
        for task in os.listdir(f"/proc/{s.process.pid}/task"):
            with open(f"/proc/{s.process.pid}/task/{task}/children") as f:
                assert f.read() == ""


def children(s):
    found = []
    for task in os.listdir(f"/proc/{s.process.pid}/task"):
        with contextlib.suppress(FileNotFoundError):
            with open(f"/proc/{s.process.pid}/task/{task}/children") as f:
                found += map(int, f.read().split())
    return found


def state_of(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rsplit(")", 1)[1].split()[0]


@contextlib.contextmanager
def stopped_while_comparing(s, path, run):
    """Asks, and stops the process that compares before it is done: its pid, and what will be
    answered. Its end may come first; then the run is another one (by its date), and it is tried
    again.
    """
    end = time.monotonic() + PATIENCE
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        while True:
            assert time.monotonic() < end, "no process was met"
            (run / "run.json").touch()
            asked = pool.submit(s.get, path)
            while not (found := children(s)) and not asked.done():
                pass
            with contextlib.suppress(IndexError, ProcessLookupError, FileNotFoundError):
                os.kill(found[0], signal.SIGSTOP)
                while (state := state_of(found[0])) not in "TZ":
                    pass
                if state == "T":
                    break
            asked.result()
        try:
            yield found[0], asked
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(found[0], signal.SIGCONT)


def test_a_comparison_that_is_ended_from_outside(made, tmp_path):
    home = copy_of(made, tmp_path)
    with serving(home) as s:
        path = "/api/v1/comparisons/" + verdict_id(s)
        run = folders(s, home)[2]
        with stopped_while_comparing(s, path, run) as (pid, asked):
            os.kill(pid, signal.SIGKILL)
            answer = asked.result(PATIENCE)
        assert answer.status == 503 and "ended from outside" in answer.json["error"]
        s.said("were not compared: the comparison reached a limit")
        s.said("(ended by signal 9)")
        assert str(tmp_path) not in s.log.split("listening")[1]
        # remembered for a minute: who asks again costs nothing; another state of the runs is asked
        assert s.get(path).status == 503 and children(s) == []
        (run / "run.json").touch()
        assert checked(s, path, "compared")["compared"]["verdict"]["outcome"] == "differ"


def test_the_ledger_goes_while_runs_are_compared(made, tmp_path):
    home = copy_of(made, tmp_path)
    with serving(home) as s:
        path = "/api/v1/comparisons/" + verdict_id(s)
        before = s.get("/api/v1/verdicts").json
        with stopped_while_comparing(s, path, folders(s, home)[2]) as (pid, asked):
            os.rename(home / "ledger.db", tmp_path / "away")
            assert until(lambda: s.get("/healthz").status == 503)
            s.said("the ledger cannot be read")
            assert s.get(path).status == 503 and s.get("/api/v1/verdicts").status == 503
            os.kill(pid, signal.SIGCONT)
            # what was asked before is answered: it needs the ledger no more
            assert asked.result(PATIENCE).status == 200
            os.rename(tmp_path / "away", home / "ledger.db")
            assert until(lambda: s.get("/healthz").status == 200)
        s.said("the ledger can be read again")
        assert s.get("/api/v1/verdicts").json == before
        assert checked(s, path, "compared")["verdict"] == before["verdicts"][0]


def test_a_folder_that_goes_while_it_is_compared(made, tmp_path):
    home = copy_of(made, tmp_path)
    with serving(home) as s:
        path = "/api/v1/comparisons/" + verdict_id(s)
        run = folders(s, home)[2]
        with stopped_while_comparing(s, path, run) as (pid, asked):
            for trace in (run / "ranks").glob("*.twt"):
                os.truncate(trace, 0)  # what is mapped ends there
            shutil.rmtree(run)
            os.kill(pid, signal.SIGCONT)
            # it had read all, or something of it, or nothing
            assert asked.result(PATIENCE).status in (200, 410, 503)
        gone = s.get(path)
        assert gone.status == 410 and "gone" in gone.json["error"]
        s.said("the folder of a run is gone")
        assert s.get(path + "?other=1").status == 200  # the others are still there
        assert s.get("/healthz").status == 200
