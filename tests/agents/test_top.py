# SPDX-License-Identifier: Apache-2.0
"""twinrun top: what it says of runs that go on, against folders written here by hand and against
real runs that wait for a file of the test; on a real pseudo-terminal, read by a small terminal of
this file that refuses every sequence it does not know.
"""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import unicodedata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = os.path.abspath(os.environ.get("TWINRUN_BUILD", ROOT / "build"))
TWINRUN = os.path.join(BUILD, "cmd", "twinrun")
pytestmark = pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN)
PATIENCE = float(os.environ.get("TWINRUN_PATIENCE", 300))  # seconds, for what must come
HOSTILE = "\x1b]0;evil\x07\x1b[31m\x9b31m\u202e\n::error::forged"
SLOTS = 64


def until(what, tell=lambda: ""):
    end = time.monotonic() + PATIENCE
    while True:
        found = what()
        if found:
            return found
        assert time.monotonic() < end, tell()
        time.sleep(0.05)


# ---- run folders by hand


def start_ticks(pid):
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[19])


def slot(pid, rank, steps, ranks_here=0, state=1):
    return struct.pack("<IiQQQQIII12x", pid, rank, steps, 3 * steps, 0, 0, state, 2, ranks_here)


class Home:
    """A home of runs whose launcher is this very process, so that they go on."""

    def __init__(self, folder):
        self.path = folder / "home"
        (self.path / "runs").mkdir(parents=True)
        self.n, self.start = 0, time.time_ns()

    def run(self, slots=(), label="", argv=("train",), **changes):
        self.n += 1
        run_id = f"{self.n:08x}" + "0" * 24
        folder = self.path / "runs" / f"2026-11-21T08-00-00Z-{label or 'run'}-{run_id[:8]}"
        folder.mkdir()
        pid = os.getpid()
        (folder / "run.json").write_text(
            json.dumps(
                {
                    "schema": "twinrun.run/1",
                    "id": run_id,
                    "label": label,
                    "argv": list(argv),
                    "cwd": "/",
                    "host": "here",
                    "launcher": {
                        "pid": pid,
                        "start_ticks": start_ticks(pid),
                        "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
                    },
                    "start_realtime_ns": self.start - self.n,  # the first one made is the newest
                    "start_monotonic_ns": 1,
                    "level": "tensors",
                    "max_steps": 0,
                    "agents": True,
                    "agent": {"load_s": 0.1},
                    "notes": [],
                    **changes,
                }
            )
        )
        self.progress(folder, slots)
        return folder

    @staticmethod
    def progress(folder, slots):
        data = b"".join(slots)
        (folder / "progress").write_bytes(data + b"\0" * (64 * SLOTS - len(data)))

    @staticmethod
    def reference(folder, step):
        (folder / "reference.json").write_text(
            json.dumps(
                {
                    "schema": "twinrun.reference/1",
                    "run": "f" * 32,
                    "folder": "first-run",
                    "diverged_step": step,
                }
            )
        )

    def top(self, *words, **env):
        done = subprocess.run(
            [TWINRUN, "top", "--home", self.path, *words],
            capture_output=True,
            env={**os.environ, "TERM": "dumb", "XDG_STATE_HOME": str(self.path / "state"), **env},
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done
        assert not done.stderr, done
        return done.stdout.decode()

    def json(self, *words):
        return json.loads(self.top("--once", "--json", *words))

    def one(self, *words):
        (run,) = self.json(*words)["runs"]
        return run


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


def test_nothing_goes_on(home):
    assert home.json()["runs"] == []
    assert "no run goes on" in home.top("--once")


def test_ranks_in_step(home):
    home.run([slot(11, 0, 17, 2), slot(12, 1, 16, 2)])
    run = home.one()
    assert (run["step"], run["state"], run["reference"]) == (16, "running", None)
    assert [(r["rank"], r["steps"], r["behind"]) for r in run["ranks"]] == [
        (0, 17, False),
        (1, 16, False),
    ]
    assert run["not_armed"] == {"count": 0, "ranks": []} and run["ranks_expected"] == 2
    assert "no reference" in home.top("--once")


def test_a_rank_is_behind(home):
    home.run([slot(11, 0, 120, 3), slot(12, 1, 106, 3), slot(13, 2, 119, 3)])
    run = home.one()
    assert [r["rank"] for r in run["ranks"] if r["behind"]] == [1] and run["step"] == 106
    assert "rank 1 behind" in home.top("--once")


def test_workers_of_a_rank_are_no_ranks(home):
    # a loader's worker carries the rank's number, and records less
    home.run([slot(11, 0, 50, 2), slot(12, 0, 3, 2), slot(13, 1, 50, 2)])
    run = home.one()
    assert [(r["rank"], r["steps"], r["behind"]) for r in run["ranks"]] == [
        (0, 50, False),
        (1, 50, False),
    ]


def test_a_rank_has_not_been_armed(home):
    home.run([slot(11, 0, 5, 3), slot(12, 2, 5, 3)])
    assert home.one()["not_armed"] == {"count": 1, "ranks": [1]}
    assert "1 not armed" in home.top("--once")


def test_which_rank_is_not_armed_is_not_guessed(home):
    # ranks of a second machine: which of them are here is not told
    home.run([slot(11, 4, 5, 3), slot(12, 6, 5, 3)])
    assert home.one()["not_armed"] == {"count": 1, "ranks": []}


def test_divergence_that_the_maker_tells(home):
    folder = home.run([slot(11, 0, 20)])
    home.reference(folder, None)
    assert home.one()["reference"] == {
        "run": "first-run",
        "compared": True,
        "diverged_step": None,
    }
    home.reference(folder, 17)
    assert home.one()["reference"]["diverged_step"] == 17
    assert "DIVERGED at 17" in home.top("--once")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "twinrun.reference/1"}', "\xff" * 99])
def test_a_broken_reference_is_none(home, text):
    folder = home.run([slot(11, 0, 20)])
    (folder / "reference.json").write_text(text)
    assert home.one()["reference"] is None


def table(rows, columns="steps\tcpu_ns\trss_bytes", pid=11):
    head = f"twinrun.telemetry/1\tprocess\telsewhere\t0\t1\t{pid}\tmain\nt_ns\t{columns}\n"
    return head + "".join("\t".join(map(str, r)) + "\n" for r in rows)


def test_telemetry(home):
    folder = home.run([slot(11, 0, 20)])
    (folder / "telemetry").mkdir()
    second = 10**9
    # the pace before the last second does not count, nor a last line that is cut off
    rows = [(i * second // 10, 5 * i, i * second // 20, 1000 + i) for i in range(2000)]
    rows += [(t + 200 * second, 10**4 + i, 10**11 + 2 * i * second // 10, 7 << 20) for i, t in
             enumerate(range(0, 2 * second, second // 10))]  # fmt: skip
    text = table(rows) + "9"
    assert len(text) > 4096 + 16384  # only the ends of it are read
    (folder / "telemetry" / "0.11").write_text(text)
    run = home.one()
    assert run["cpu"] == pytest.approx(2) and run["rss_bytes"] == 7 << 20
    assert run["steps_per_s"] == pytest.approx(10) and run["told_s_ago"] is None
    (folder / "telemetry" / "1.12").write_text(table([(0, 1, 0, 1 << 20), (second, 3, second, 9)]))
    run = home.one()
    assert run["cpu"] == pytest.approx(3) and run["rss_bytes"] == (7 << 20) + 9
    assert run["steps_per_s"] == pytest.approx(2)


@pytest.mark.parametrize(
    "text", ["", "x", table([("a", 1, 2, 3)]), table([(5, 1, 2, 3), (1, 1, 2, 3)]), "\0" * 30000]
)
def test_broken_telemetry_tells_nothing(home, text):
    folder = home.run([slot(11, 0, 20)])
    (folder / "telemetry").mkdir()
    (folder / "telemetry" / "0.11").write_text(text)
    run = home.one()
    assert run["cpu"] is None and run["rss_bytes"] is None


def test_broken_folders(home):
    good = home.run([slot(11, 0, 20)])
    for i, text in enumerate(["", "{", "[]", '{"schema": "twinrun.run/2"}', "\0" * 99]):
        folder = home.path / "runs" / f"broken-{i}"
        folder.mkdir()
        (folder / "run.json").write_text(text)
    (home.path / "runs" / "no-run").mkdir()
    (home.path / "runs" / "link").symlink_to("nowhere")
    cut = home.run()
    (cut / "progress").write_bytes(slot(11, 0, 7)[:30])
    (cut / "ranks").mkdir()
    (cut / "ranks" / "0.11.twt").write_bytes(os.urandom(999))
    os.mkfifo(home.run() / "reference.json")  # nothing waits for a writer
    without = home.run()
    (without / "progress").unlink()
    os.mkfifo(without / "progress")
    seen = home.json()
    assert seen["unreadable"] == 5 and len(seen["runs"]) == 4
    assert "5 run folders cannot be read" in home.top("--once")
    assert home.json("--against", good.name)["in_flight"] == 4


def test_names_are_harmless(home):
    home.run([slot(11, 0, 1)], label=HOSTILE, argv=["train", HOSTILE], cwd=HOSTILE)
    text = home.top("--once") + home.top("--once", "--json")
    for c in text:
        assert c == "\n" or unicodedata.category(c) not in ("Cc", "Cf"), repr(text)


def test_it_only_reads(home):
    folder = home.run([slot(11, 0, 1), slot(12, 1, 1)])
    (folder / "worlds").mkdir()
    (folder / "worlds" / "0.11").write_bytes(b"rank\t0\n")

    def tree():
        return sorted((str(p), p.stat().st_mtime_ns) for p in [home.path, *home.path.rglob("*")])

    before = tree()
    home.json()
    home.top("--once")
    assert tree() == before


# ---- as lines and objects, while things change


class Output:
    """A twinrun top whose lines are read as they come."""

    def __init__(self, home, *words):
        self.process = subprocess.Popen(
            [TWINRUN, "top", "--home", home.path, *words],
            stdout=subprocess.PIPE,
            env={**os.environ, "TERM": "dumb", "XDG_STATE_HOME": str(home.path / "state")},
        )

    def line(self):
        assert select.select([self.process.stdout], [], [], PATIENCE)[0]
        return self.process.stdout.readline().decode()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 0
        self.process.stdout.close()


def test_a_line_for_each_change(home):
    folder = home.run([slot(11, 0, 1)])
    top = Output(home)
    try:
        assert "running, step 1; rank 0 alone; no reference" in top.line()
        home.progress(folder, [slot(11, 0, 5, 2), slot(12, 1, 2, 2)])
        assert "rank 1 is behind (2 of 5 steps)" in top.line()
        home.progress(folder, [slot(11, 0, 6, 2), slot(12, 1, 6, 2)])
        assert "2 ranks in step" in top.line()
        home.reference(folder, 3)
        assert "diverged from first-run at step 3" in top.line()
        other = home.run([slot(13, 0, 9)])
        assert "running, step 9" in top.line()
        shutil.rmtree(other)  # it vanishes; the next line is about the other one
        home.progress(folder, [slot(11, 0, 9, 2), slot(12, 1, 6, 2)])
        line = top.line()
        while other.name in line:
            line = top.line()
        assert "rank 1 is behind (6 of 9 steps)" in line
    finally:
        top.end()


def test_an_object_for_each_look(home):
    folder = home.run([slot(11, 0, 1)])
    top = Output(home, "--json")
    try:
        assert json.loads(top.line())["runs"][0]["step"] == 1
        home.progress(folder, [slot(11, 0, 5)])
        until(lambda: json.loads(top.line())["runs"][0]["step"] == 5)
        run = json.loads((folder / "run.json").read_text())
        run["launcher"]["start_ticks"] += 1  # its launcher is gone
        (folder / "new").write_text(json.dumps(run))
        (folder / "new").rename(folder / "run.json")
        seen = until(lambda: [r for r in json.loads(top.line())["runs"] if not r["running"]])
        assert seen[0]["state"] == "interrupted"
        assert json.loads(top.line())["runs"] == []
    finally:
        top.end()


def test_a_thousand_runs(home):
    for i in range(1000):
        home.run([slot(11, 0, i)] if i % 2 else [], label="many")
    seen = home.json()
    assert seen["in_flight"] == 1000
    assert [r["step"] for r in seen["runs"]] == [i if i % 2 else 0 for i in range(1000)]
    assert len(home.top("--once").splitlines()) == 1002


# ---- on a terminal


class Terminal:
    """What a person sees: rows of characters. A sequence that top has no business to send fails."""

    KNOWN = re.compile(
        rb"\x1b\[(?:(?P<home>H)|(?P<line>K)|(?P<rest>J)|(?P<all>2J)|\?(?P<mode>1049|25|7)[hl]"
        rb"|(?P<colour>[0-9;]*)m)"
    )

    def __init__(self, home, columns, rows, *words, **env):
        self.size = columns, rows
        self.screen, self.row, self.column = {}, 0, 0
        self.left, self.colours, self.raw = False, 0, b""
        self.master, slave = pty.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.process = subprocess.Popen(
            [TWINRUN, "top", "--home", home.path, *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={
                **{k: v for k, v in os.environ.items() if k != "NO_COLOR"},
                "TERM": "xterm",
                "XDG_STATE_HOME": str(home.path / "state"),
                **env,
            },
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def resize(self, columns, rows):
        self.size = columns, rows
        self.screen = {}
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, keys):
        os.write(self.master, keys)

    def read(self):
        if select.select([self.master], [], [], 0.1)[0]:
            self.raw += os.read(self.master, 65536)
        while self.raw:
            if self.raw[:1] == b"\x1b":
                found = self.KNOWN.match(self.raw)
                if not found:
                    assert len(self.raw) < 12, f"unknown sequence: {self.raw[:40]!r}"
                    return  # the rest of it is still to come
                self.obey(found)
                self.raw = self.raw[found.end() :]
            else:
                n = self.raw.find(b"\x1b")
                self.write(self.raw[: n if n >= 0 else len(self.raw)].decode())
                self.raw = self.raw[n:] if n >= 0 else b""

    def obey(self, found):
        if found["home"]:
            self.row = self.column = 0
        elif found["line"]:
            self.screen[self.row] = self.screen.get(self.row, "")[: self.column]
        elif found["rest"] or found["all"]:
            self.screen = {r: t for r, t in self.screen.items() if r <= self.row and found["rest"]}
        elif found["mode"] == b"1049":
            self.left = found[0].endswith(b"l")
        elif found["colour"]:
            self.colours += 1

    def write(self, text):
        for c in text:
            if c == "\r":
                self.column = 0
            elif c == "\n":
                self.row += 1
            else:
                assert unicodedata.category(c) not in ("Cc", "Cf"), repr(text)
                assert self.column < self.size[0], (self.size, text)
                assert self.row < self.size[1], (self.size, text)
                line = self.screen.get(self.row, "").ljust(self.column)
                self.screen[self.row] = line[: self.column] + c + line[self.column + 1 :]
                self.column += 1

    def text(self):
        return "\n".join(self.screen.get(r, "").rstrip() for r in range(self.size[1]))

    def see(self, *parts):
        def seen():
            self.read()
            return all(p in self.text() for p in parts)

        until(seen, lambda: f"{parts} not in\n{self.text()}")
        return self.text()

    def end(self, keys=b"q"):
        if keys:
            self.send(keys)
        until(lambda: self.read() or self.process.poll() is not None)
        until(lambda: self.read() or self.left)
        assert self.process.returncode == 0
        assert termios.tcgetattr(self.slave) == self.before
        os.close(self.master)
        os.close(self.slave)


def test_keys_and_sizes(home):
    first = home.run([slot(11, 0, 3)], label="first", argv=["train", "--first", HOSTILE])
    home.run([slot(12, 0, 8, 2), slot(13, 1, 4, 2)], label="two")
    screen = Terminal(home, 40, 10)
    seen = screen.see("2 runs in flight", ">first-00000001", " two-00000002", "no reference")
    assert "rank 1 behind" in seen and first.name not in seen
    screen.resize(120, 20)
    screen.see(first.name, "STEPS/S", "MEMORY")
    screen.send(b"\x1b[B")
    screen.see(">2026-11-21T08-00-00Z-two")
    screen.send(b"\r")
    screen.see("rank 1 is behind (4 of 8 steps)", "RANK", "behind", "no telemetry")
    screen.resize(40, 30)
    screen.see("rank 1 is behind (4 of 8", "steps)")
    screen.send(b"\x1b")
    screen.see(">two-00000002")
    screen.send(b"k")
    screen.see(">first-00000001")
    screen.send(b"\n")
    screen.see("--first", "\\033]0;evil\\007")  # as a shell would read it
    assert screen.colours
    screen.end()


def test_no_colour(home):
    folder = home.run([slot(11, 0, 3)])
    home.reference(folder, 2)
    screen = Terminal(home, 80, 10, NO_COLOR="1")
    screen.see("DIVERGED at 2", ">run-00000001")
    assert screen.colours == 0
    screen.end()


def test_many_runs_on_a_small_screen(home):
    for _ in range(30):
        home.run()
    screen = Terminal(home, 60, 8)
    screen.see(">run-00000001")
    for i in range(2, 31):
        screen.send(b"j")
        screen.see(f">run-{i:08x}")
    screen.end(b"\x03")  # Ctrl-C


def test_a_signal_gives_the_terminal_back(home):
    screen = Terminal(home, 80, 10)
    screen.see("no run goes on")
    screen.process.terminate()
    screen.end(b"")


# ---- real runs

JOB = """
import array, os, time, twinrun
n = int(open("starts").read()) if os.path.exists("starts") else 0
open("starts", "w").write(str(n + 1))
for step in range(6):
    time.sleep(0.05)  # progress is told every 10 ms at most
    twinrun.record("loss", array.array("d", [step + (0.5 if n and step == 3 else 0)]))
    twinrun.step()
if n:
    open("waits", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.05)
"""


@pytest.fixture
def job(tmp_path, home):
    work = tmp_path / "work"
    work.mkdir()
    (work / "job.py").write_text(JOB)
    env = {**os.environ, "XDG_STATE_HOME": str(home.path / "state"), "TERM": "dumb"}
    started = []

    def start(*words):
        started.append(
            subprocess.Popen(
                [TWINRUN, *words, "--home", home.path, "--", sys.executable, "job.py"],
                cwd=work,
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        )
        return started[-1]

    yield start, work
    (work / "go").touch()
    for p in started:
        p.communicate(timeout=PATIENCE)


def test_check_tells_its_divergence_while_it_goes_on(home, job):
    start, work = job
    check = start("check", "-q", "--runs", "2")
    seen = until(lambda: [r for r in home.json()["runs"] if (r["reference"] or {}).get("run")])
    assert seen[0]["reference"]["run"].rpartition("-")[2] not in seen[0]["name"]
    seen = until(
        lambda: [
            r
            for r in home.json()["runs"]
            if (r["reference"] or {}).get("diverged_step") is not None
        ]
    )
    assert seen[0]["reference"]["diverged_step"] == 3
    assert check.poll() is None  # it goes on
    until(lambda: home.one()["step"] == 6)
    (work / "go").touch()
    check.communicate(timeout=PATIENCE)
    assert check.returncode == 1


def test_against_a_run(home, job):
    start, work = job
    first = start("record", "-q")
    first.communicate(timeout=PATIENCE)
    assert first.returncode == 0
    (reference,) = [p.name for p in (home.path / "runs").iterdir()]
    start("record", "-q")
    until(lambda: (work / "waits").exists())
    assert home.one()["reference"] is None  # nothing compares a lone run
    seen = until(lambda: (home.one("--against", reference)["reference"] or {}).get("diverged_step"))
    assert seen == 3
    run = home.one("--against", reference)
    assert run["reference"]["run"] == reference
    assert run["ranks"][0]["rank"] == 0 and run["ranks"][0]["recording"]
