# SPDX-License-Identifier: Apache-2.0
"""Every way in which a job, a part of it or twinrun can end: nothing that was sealed is lost.

A job records until it ends (kill_job.c). In memory that outlives it, it tells how many steps and
records it has flushed, and, when it ends in an orderly way, how many there are in all: its trace
must be readable, intact, and have them. A few ends of each kind; 1,000 with TWINRUN_FULL=1, or as
many as TWINRUN_KILLS says. Every tenth job runs under `twinrun record`, the others in an
environment made by hand, which takes a tenth of the time.

The writer alone (tests/unit/trace_victim.c) is killed, too, and its disk is filled; and the last
block of a trace is cut, emptied and torn as a machine that loses its power may leave it.
"""

import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TWINRUN_BUILD", "build")).resolve()
TWINRUN, LIBRARY = BUILD / "cmd" / "twinrun", BUILD / "agents" / "libtwinrun.so"
VICTIM = BUILD / "tests" / "unit" / "trace_victim"
FULL = os.environ.get("TWINRUN_FULL", "") not in ("", "0")
KILLS = int(os.environ.get("TWINRUN_KILLS", "1000" if FULL else "6"))
pytestmark = pytest.mark.skipif(
    not (LIBRARY.exists() and VICTIM.exists()), reason="no %s: built with the unit tests" % VICTIM
)
PARENT, CHILD = 0, 1
PATIENCE_S = 30

# Kind -> (END of the job, its exit status).
BY_ITSELF = {
    "return": ("return", 0),
    "_exit": ("_exit", 0),
    "_Exit after vfork": ("vfork", 0),
    "quick_exit": ("quick", 0),
    "exec": ("exec", 0),
    "exit of a thread": ("thread", 0),
    "_exit in a handler": ("alarm", 0),
    "posix_spawn": ("spawn", 0),
    "SIGKILL by itself": ("raise", -signal.SIGKILL),
    "SIGSEGV": ("segv", -signal.SIGSEGV),
    "SIGBUS": ("bus", -signal.SIGBUS),
    "stack overflow": ("overflow", -signal.SIGSEGV),
    "abort": ("abort", -signal.SIGABRT),
    "out of memory": ("memory", -signal.SIGKILL),
    "child killed": ("child-killed", 0),
    "child's group killed": ("child-group", 0),
    "child leaves": ("child-leaves", 0),
}
SENT = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGXCPU")
WATCHER = ("SIGKILL", "SIGTERM", "SIGINT")
PYTHON = {
    "sys.exit": ("return", 0),
    "os._exit": ("os._exit", 0),
    "os._exit of a thread": ("thread", 0),
    "os.execv": ("execv", 0),
    "exception": ("raise", 1),
    "KeyboardInterrupt": ("interrupt", 130),
    "os.abort": ("abort", 128 + signal.SIGABRT),
    "SIGSEGV": ("segv", 128 + signal.SIGSEGV),
    "SIGKILL": ("killed", 128 + signal.SIGKILL),
}


@pytest.fixture(scope="module", autouse=True)
def signals_as_jobs_expect_them():
    """A shell's background ignores SIGINT and SIGQUIT, nohup SIGHUP; what the tests start would
    inherit it.
    """
    ignored = [
        s
        for s in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
        if signal.getsignal(s) == signal.SIG_IGN
    ]
    for number in ignored:
        signal.signal(number, signal.default_int_handler)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    out = tmp_path_factory.mktemp("kill") / "kill_job"
    source = Path(__file__).with_name("kill_job.c")
    library = LIBRARY.parent
    subprocess.run(
        ["cc", "-O1", "-I", str(ROOT / "include"), "-o", str(out), str(source)]
        + ["-L", str(library), "-ltwinrun", "-Wl,-rpath," + str(library), "-lpthread", "-ldl"],
        check=True,
    )
    return [str(out)]


class Line:
    """What one process of the job published."""

    def __init__(self, raw):
        self.pid, self.steps, self.sealed, self.whole = struct.unpack("<4Q", raw)


class Doomed:
    """One job that is to end: in `folder`, with `end` and a seed that decides when."""

    def __init__(self, job, folder, end, seed, launcher=False):
        self.folder, self.launcher, self.seed = folder, launcher, seed
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "ranks").mkdir(parents=True)
        self.published = folder / "published"
        self.published.write_bytes(bytes(64))
        argv = [*job, str(self.published), str(seed), end]
        if launcher:
            argv = [str(TWINRUN), "record", "-q", "--", *argv]
        self.process = subprocess.Popen(
            argv,
            env=self.environment(),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def environment(self):
        left_out = ("TWINRUN_", "LD_PRELOAD", "XDIST", "PYTEST")
        env = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
        if self.launcher:
            home = str(self.folder / "home")
            return {**env, "TWINRUN_HOME": home, "XDG_STATE_HOME": home + "-state"}
        return {
            **env,
            "LD_PRELOAD": str(LIBRARY),
            "TWINRUN_LIB": str(LIBRARY),
            "TWINRUN_RUN_DIR": str(self.folder),
            "TWINRUN_RUN_ID": "00112233445566778899aabbccddeeff",
        }

    def line(self, which):
        return Line(self.published.read_bytes()[32 * which : 32 * which + 32])

    def wait_until(self, reached):
        until = time.monotonic() + PATIENCE_S
        while not reached() and self.process.poll() is None and time.monotonic() < until:
            time.sleep(0.0005)

    def end(self):
        """Waits for the end; its status, as subprocess has it."""
        try:
            self.process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()
            raise AssertionError("seed %d: it did not end" % self.seed) from None
        return self.process.returncode

    def trace_of(self, pid):
        found = [
            p for p in self.folder.rglob("*.twt") if p.name.split(".")[1].split("-")[0] == str(pid)
        ]
        assert len(found) <= 1, found
        return found[0] if found else None

    def check(self):
        """Both processes' traces have what was published; how many steps were sealed in all."""
        sealed = 0
        for which in (PARENT, CHILD):
            line = self.line(which)
            wanted = max(line.sealed, line.whole)
            label = "seed %d, process %d of %s" % (self.seed, which, self.folder)
            trace = self.trace_of(line.pid)
            if wanted == 0 and trace is None:
                continue
            assert trace, "%s: %d records were sealed, there is no trace" % (label, wanted)
            steps, records, _ = looked_at(trace, label)
            assert steps >= line.steps, "%s: %d of %d steps" % (label, steps, line.steps)
            assert records >= wanted, "%s: %d of %d records" % (label, records, wanted)
            sealed += line.steps
        return sealed


def looked_at(trace, label):
    """(steps, records, bytes of a torn tail) of a trace, which is verified without its tail."""
    done = subprocess.run([str(VICTIM), "check", str(trace)], capture_output=True, text=True)
    assert done.returncode == 0, "%s: unreadable: %s" % (label, done.stderr)
    return tuple(map(int, done.stdout.split()))


def by_launcher(seed):
    return seed % 10 == 0 and TWINRUN.exists()


@pytest.mark.parametrize("kind", BY_ITSELF)
def test_the_job_ends_itself(kind, job, tmp_path):
    end, status = BY_ITSELF[kind]
    sealed = 0
    for seed in range(1, KILLS + 1):
        doomed = Doomed(job, tmp_path / "run", end, seed, by_launcher(seed))
        ended = doomed.end()
        right = 128 - status if doomed.launcher and status < 0 else status
        assert ended == right, "seed %d" % seed
        sealed += doomed.check() > 0
    assert sealed >= KILLS // 3, "the ends came too early to mean anything"


@pytest.mark.parametrize("kind", PYTHON)
def test_python_ends(kind, tmp_path):
    end, status = PYTHON[kind]
    job = [sys.executable, str(Path(__file__).with_name("kill_job.py"))]
    sealed = 0
    for seed in range(1, KILLS + 1):
        doomed = Doomed(job, tmp_path / "run", end, seed, launcher=True)
        assert doomed.end() == status, "seed %d" % seed
        sealed += doomed.check() > 0
    assert sealed >= KILLS // 3, "the ends came too early to mean anything"


@pytest.mark.parametrize("name", SENT)
def test_a_signal_ends_the_job(name, job, tmp_path):
    number = getattr(signal, name)
    sealed = 0
    for seed in range(1, KILLS + 1):
        doomed = Doomed(job, tmp_path / "run", "waits", seed, by_launcher(seed))
        doomed.wait_until(
            lambda: doomed.line(PARENT).pid and (seed % 2 or doomed.line(PARENT).steps)
        )
        time.sleep(random.Random(seed).random() * 0.03)
        os.kill(doomed.line(PARENT).pid, number)
        ended = doomed.end()
        assert ended == (128 + number if doomed.launcher else -number), "seed %d" % seed
        sealed += doomed.check() > 0
    assert sealed >= KILLS // 3, "the kills came too early to mean anything"


def test_the_first_thread_ends_and_the_others_are_killed(job, tmp_path):
    for seed in range(1, KILLS + 1):
        doomed = Doomed(job, tmp_path / "run", "main-thread", seed)
        doomed.wait_until(lambda: doomed.line(PARENT).steps)
        time.sleep(random.Random(seed).random() * 0.02)
        os.killpg(doomed.process.pid, signal.SIGKILL)
        assert doomed.end() == -signal.SIGKILL
        doomed.check()


@pytest.mark.parametrize("name", WATCHER)
def test_twinrun_itself_is_killed(name, job, tmp_path):
    """The job's trace has what was sealed before and after, and the run can be shown."""
    number = getattr(signal, name)
    for seed in range(1, KILLS + 1):
        doomed = Doomed(job, tmp_path / "run", "waits", seed, launcher=True)
        doomed.wait_until(lambda: doomed.line(PARENT).steps)
        time.sleep(random.Random(seed).random() * 0.03)
        doomed.process.send_signal(number)
        time.sleep(0.01)
        if number == signal.SIGKILL:  # the job does not notice, and goes on
            assert doomed.process.wait(PATIENCE_S) == -number
            before = doomed.line(PARENT).steps
            until = time.monotonic() + PATIENCE_S
            while doomed.line(PARENT).steps <= before and time.monotonic() < until:
                time.sleep(0.001)
            assert doomed.line(PARENT).steps > before, (
                "seed %d: the job stopped with twinrun" % seed
            )
            os.kill(doomed.line(PARENT).pid, signal.SIGKILL)
        doomed.end()
        assert doomed.check() > 0
        if seed <= 3:
            shown = subprocess.run(
                [str(TWINRUN), "show", "last"],
                env=doomed.environment(),
                capture_output=True,
                timeout=60,
            )
            assert shown.returncode in (0, 2) and shown.stdout, shown


# ---- the writer alone


def written(folder, seed):
    """Starts the writer alone."""
    folder.mkdir(exist_ok=True)
    published = folder / "published"
    for name in ("x.twt", "x.twt.new"):
        (folder / name).unlink(missing_ok=True)
    published.unlink(missing_ok=True)
    return subprocess.Popen([str(VICTIM), "run", str(folder / "x.twt"), str(published), str(seed)])


def published_by_writer(folder):
    raw = (folder / "published").read_bytes() if (folder / "published").exists() else b""
    return struct.unpack("<QQ", raw) if len(raw) == 16 else (0, 0)


def check_writer(folder, seed):
    """(steps that were sealed, bytes of the torn tail)"""
    steps, records = published_by_writer(folder)
    if not (folder / "x.twt").exists():
        assert steps == 0, "seed %d: %d steps were sealed, there is no trace" % (seed, steps)
        return 0, 0
    found_steps, found_records, tail = looked_at(folder / "x.twt", "seed %d" % seed)
    assert found_steps >= steps, "seed %d: %d of %d sealed steps" % (seed, found_steps, steps)
    assert found_records >= records, "seed %d: %d of %d records" % (seed, found_records, records)
    return steps, tail


def kill_writer(folder, seed, wait_s, late):
    """late: not before something was sealed."""
    writer = written(folder, seed)
    deadline = time.monotonic() + PATIENCE_S
    while late and published_by_writer(folder)[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(wait_s)
    os.kill(writer.pid, signal.SIGKILL)
    assert writer.wait() == -signal.SIGKILL
    return check_writer(folder, seed)


def test_the_writer_is_killed(tmp_path):
    rng = random.Random(20)
    sealed, torn = 0, 0
    kills = max(20, KILLS)
    for seed in range(kills):
        # From before the file exists to some hundred blocks in it.
        wait_s = rng.choice((0.002, 0.01, 0.05)) * rng.random() * 2
        steps, tail = kill_writer(tmp_path, seed, wait_s, late=seed % 2 == 1)
        sealed += steps > 0
        torn += tail > 0
    print("%d kills: %d after something was sealed, %d left a torn tail" % (kills, sealed, torn))
    assert sealed >= kills // 2, "the kills came too early to mean anything"


SMALL_DISK = """
import os, subprocess, sys
folder, room, *command = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%sk" % room, "none", folder + "/disk"], check=True)
subprocess.run(command, timeout=60)
subprocess.run(["cp", folder + "/disk/x.twt", folder + "/x.twt"])
"""


def test_the_disk_of_the_trace_is_full(tmp_path):
    """ENOSPC, wherever in a block it comes. The writer switches itself off and the job goes on."""
    alone = ["unshare", "-rm", sys.executable, "-c"]
    probe = "import subprocess, sys; sys.exit(subprocess.run('mount -t tmpfs none /mnt', shell=True).returncode)"
    if subprocess.run([*alone, probe], capture_output=True).returncode != 0:
        pytest.skip("no disk of its own can be had here: unshare -rm is not permitted")
    rng = random.Random(3)
    (tmp_path / "disk").mkdir()
    for seed in range(KILLS):
        for name in ("x.twt", "published"):
            (tmp_path / name).unlink(missing_ok=True)
        room = rng.choice((8, 64, 256, 1024))
        writer = [
            str(VICTIM),
            "fill",
            str(tmp_path / "disk/x.twt"),
            str(tmp_path / "published"),
            str(seed),
        ]
        subprocess.run([*alone, SMALL_DISK, str(tmp_path), str(room), *writer], check=True)
        assert (tmp_path / "published").stat().st_size == 16
        steps, _ = check_writer(tmp_path, seed)
        # Up to 256 KiB may be recorded before the first flush.
        assert steps > 0 or room <= 256, "nothing was sealed on a disk of %d KiB" % room


# ---- the power fails


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """(bytes of a trace whose writer was killed, [(end of a block, steps, records up to it)])."""
    sys.path.insert(0, str(ROOT / "python"))
    from twinrun.trace import Trace

    folder = tmp_path_factory.mktemp("sound")
    kill_writer(folder, 5, 0.02, late=True)
    whole = (folder / "x.twt").read_bytes()[:200_000]  # the reader in Python takes its time
    (folder / "part").write_bytes(whole)
    with Trace.open(str(folder / "part")) as trace:
        blocks = [(b.offset, b.steps, b.records_total) for b in trace.blocks()]
    ends = [offset for offset, _, _ in blocks[1:]]  # the last one may be cut
    return whole, [(end, steps, records) for end, (_, steps, records) in zip(ends, blocks)]


def torn(whole, start, end, how, rng):
    """The bytes up to `start`, and of those up to `end` what a disk without power may have kept."""
    kept = bytearray(whole[:end])
    if how == "cut":
        return bytes(kept[: rng.randrange(start, end)])
    for sector in range(start // 512, (end + 511) // 512):
        first = max(start, sector * 512)
        last = min(end, sector * 512 + 512)
        if how == "zeros" or rng.random() < 0.5:
            kept[first:last] = bytes(last - first) if how != "old" else rng.randbytes(last - first)
    return bytes(kept)


@pytest.mark.parametrize("how", ["cut", "zeros", "sectors", "old"])
def test_the_last_block_is_torn(how, sound, tmp_path):
    """cut: shorter. zeros: as long, empty. sectors: some are missing. old: what lay
    there before.
    """
    whole, blocks = sound
    rng = random.Random(how)
    trace = tmp_path / "x.twt"
    for i in range(KILLS):
        last = rng.randrange(1, len(blocks))
        before, steps, records = blocks[last - 1]
        trace.write_bytes(torn(whole, before, blocks[last][0], how, rng))
        found_steps, found_records, _ = looked_at(trace, "%s %d" % (how, i))
        assert found_steps >= steps and found_records >= records, (how, i, last)
