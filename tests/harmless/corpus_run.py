# SPDX-License-Identifier: Apache-2.0
"""Runs one job of the corpus in one setting, alone or watched, and names what differs.

A setting is how the job is watched (`record` at a level, or `run --pin all`), where its output goes
and which limit of `ulimit` holds. What is observed of a run: the bytes that arrived in their order,
the exit status, every file of the working folder (name, mode, bytes) and the peak of memory. What a
process sees of itself (descriptors, signals, limits, environment) the jobs write into files
`seen-*` (corpus/seen.h, corpus/seen.py), and digests of numbers and generators into their output,
so that these are compared as well.
"""

import errno
import fcntl
import functools
import hashlib
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
ROOT = HERE.parents[1]
BUILD = os.path.abspath(os.environ.get("TWINRUN_BUILD", "build"))
TWINRUN = os.path.join(BUILD, "cmd", "twinrun")
PYTHON = os.environ.get("TWINRUN_TEST_PYTHON", sys.executable)
FULL = os.environ.get("TWINRUN_FULL", "") not in ("", "0")

WATCHED = {
    "steps": ["record", "-q", "--level", "steps"],
    "tensors": ["record", "-q"],
    "modules": ["record", "-q", "--level", "modules"],
    "ops": ["record", "-q", "--level", "ops"],
    "pins": ["run", "-q", "--pin", "all"],
}
OUTPUTS = ["pipe", "pipes", "file", "files", "terminal", "full", "closed"]
# In the units of setrlimit.
LIMITS = {
    "none": None,
    "f": "f=102400",
    "n": "n=64",
    "u": "u=4096",
    "v": "v=%d",
    "s": "s=2097152",
    "t": "t=%d",
    "c": "c=0",
    "l": "l=65536",
}
# For %d: what a job of that kind has natively, and room. A job that met its limit of processor time
# would end at another place each time.
ROOM = {
    "v": {"native": 1 << 30, "shell": 1 << 30, "python": 4 << 30, "torch": 64 << 30},
    "t": {"native": 1, "shell": 1, "python": 10, "torch": 600},
}
# How much more memory than alone a watched job may have at its peak, and how much twinrun's own
# process has, which the job's must not be confused with (docs/security.md states both).
OWN_KIB = 96 << 10
MEMORY_KIB = {"native": 16 << 10, "shell": 16 << 10, "python": 32 << 10, "torch": 160 << 10}
# what takes longer has not ended
PATIENCE_S = {"native": 60, "shell": 60, "python": 60, "torch": 300}


class Setting:
    """One point of the product: how watched, which output, which limit."""

    def __init__(self, watched, output="pipe", limit="none"):
        self.watched, self.output, self.limit = watched, output, limit

    def __repr__(self):
        return "%s-%s-%s" % (self.watched, self.output, self.limit)


@functools.lru_cache(maxsize=None)
def built():
    """The folder with the compiled jobs and the stage; each process of pytest makes its
    own once.
    """
    shared = os.environ.get("TWINRUN_TEST_SHARED") or os.environ.get("TMPDIR", "/tmp")
    folder = Path(shared) / ("corpus-%d" % os.getuid())
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for source in [CORPUS / "stage.c", *sorted((CORPUS / "native").glob("*.c"))]:
            program = folder / source.stem
            newest = max(source.stat().st_mtime, (CORPUS / "seen.h").stat().st_mtime)
            if program.exists() and program.stat().st_mtime > newest:
                continue
            libraries = ["-lpthread", "-lutil", "-lm", "-ldl", "-lrt"]
            if "<twin/twin.h>" in source.read_text():
                agents = BUILD + "/agents"
                libraries += [
                    "-I" + str(ROOT / "include"),
                    "-L" + agents,
                    "-ltwinrun",
                    "-Wl,-rpath," + agents,
                ]
            argv = ["cc", "-O1", "-o", str(program) + ".new", str(source), *libraries]
            subprocess.run(argv, check=True, timeout=120)
            os.rename(str(program) + ".new", program)
    return folder


def environment(home, work, kind, light=False):
    """The same for both runs; TWINRUN_HOME, too, so that the job's own environment is equal."""
    kept = (
        "TWINRUN_",
        "LD_PRELOAD",
        "PYTHON",
        "ASAN_OPTIONS",
        "XDIST",
        "PYTEST",
        "OMP_",
        "OPENBLAS",
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith(kept)}
    env.update(
        TWINRUN_HOME=str(home),
        PWD=str(work),
        XDG_STATE_HOME=str(home) + "-state",
        LC_ALL="C.UTF-8",
        PYTHONHASHSEED="0",
        TERM="dumb",
        PYTHONDONTWRITEBYTECODE="1",
        CORPUS=str(CORPUS),
        PYTHON=PYTHON,
        SOURCE=str(ROOT),
    )
    if kind == "torch":
        env["OMP_NUM_THREADS"] = "1"  # else two runs alone may differ
    if kind == "torch" and not FULL:
        site = "light_site" if light else "calm_site"
        env["PYTHONPATH"] = str(ROOT / "tests" / "agents" / site)
    return env


class Streams:
    """Where a run's output goes: what the job gets, and afterwards what arrived."""

    def __init__(self, kind, folder):
        self.kind, self.read_ends, self.given, self.options = kind, {}, [], []
        self.paths = {}
        if kind in ("pipe", "pipes", "full"):
            self.pipes(kind)
        elif kind in ("file", "files"):
            self.files(kind, folder)
        elif kind == "terminal":
            ours, theirs = pty.openpty()
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 41, 101, 0, 0))
            self.read_ends[ours] = "terminal"
            self.given, self.options = [theirs, theirs], ["-t"]
        else:
            null = os.open(os.devnull, os.O_WRONLY)
            self.given, self.options = [null, null], ["-c", "1", "-c", "2"]

    def pipes(self, kind):
        for name in ("stderr", "stdout") if kind == "pipes" else ("stderr",):
            ours, theirs = os.pipe()
            self.read_ends[ours] = name
            self.given.insert(0, theirs)
        if kind == "full":
            self.given.insert(0, os.open("/dev/full", os.O_WRONLY))
        elif kind == "pipe":
            self.given *= 2

    def files(self, kind, folder):
        for name in ("stdout", "stderr") if kind == "files" else ("stdout",):
            self.paths[name] = folder / ("log-" + name)
            self.paths[name].write_bytes(b"written before\n")
            flags = os.O_WRONLY | os.O_APPEND
            self.given.append(os.open(self.paths[name], flags))
        self.given = (self.given * 2)[:2]

    def collect(self, until):
        """Reads to the end of every stream; says whether that came in time."""
        for fd in set(self.given):
            os.close(fd)
        arrived = {name: b"" for name in self.read_ends.values()}
        left = dict(self.read_ends)
        while left:
            ready = select.select(list(left), [], [], max(0, until - time.monotonic()))[0]
            if not ready:
                break
            for fd in ready:
                part = b""
                try:
                    part = os.read(fd, 1 << 16)
                except OSError as e:
                    if e.errno != errno.EIO:  # of a terminal: its last writer is gone
                        raise
                arrived[left[fd]] += part
                if not part:
                    del left[fd]
        return arrived, not left

    def close(self):
        """Only when all has ended: a terminal that goes away ends who has it."""
        for fd in self.read_ends:
            os.close(fd)


def files_of(folder):
    """Name -> what can be told about it, of everything below the folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        what = ["%o" % about.st_mode]
        if path.is_symlink():
            what.append(os.readlink(path))
        elif path.is_file():
            content = path.read_bytes()
            text = content.decode("utf-8", "replace") if len(content) < 20000 else ""
            what += [str(len(content)), hashlib.sha256(content).hexdigest(), text]
        found[str(path.relative_to(folder))] = what
    return found


def watcher(job, setting):
    """The subcommand and options that watch the job in this setting."""
    if setting.watched != "pins":
        return WATCHED[setting.watched]
    *command, pins = WATCHED["pins"]
    return [*command, ",-".join([pins, *job.without])]


def observe(job, setting, folder, wrap=None, watched=False):
    """One run. wrap(argv) may put something around the job's own command: a broken watcher."""
    work, report, home = folder / "work", folder / "report", folder / "home"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(mode=0o755)
    report.unlink(missing_ok=True)
    if job.prepare:
        job.prepare(work)
    places = {"bin": built(), "corpus": CORPUS, "python": PYTHON, "root": ROOT, "build": BUILD}
    argv = [part.format(**places) for part in job.argv]
    if wrap:
        argv = wrap(argv)
    if watched:
        argv = [TWINRUN, *watcher(job, setting), "--", *argv]
    streams = Streams(setting.output, folder)
    limit = LIMITS[setting.limit]
    if limit:
        if setting.limit in ROOM:
            limit %= ROOM[setting.limit][job.kind]
        streams.options += ["-l", limit]
    source = folder / "input"
    source.write_bytes(job.stdin)
    with open(source if job.stdin else os.devnull, "rb") as stdin:
        stage = subprocess.Popen(
            [str(built() / "stage"), str(report), *streams.options, "--", *argv],
            stdin=stdin,
            stdout=streams.given[0],
            stderr=streams.given[1],
            cwd=work,
            env=environment(home, work, job.kind, job.light),
        )
    until = time.monotonic() + PATIENCE_S[job.kind]
    arrived, in_time = streams.collect(until)
    try:
        stage.wait(max(1, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        in_time = False
    if not in_time:
        end_all(stage)
    streams.close()
    for name, path in streams.paths.items():
        arrived[name] = path.read_bytes()
    code, peak = report.read_text().split() if report.exists() else ("did not end", 0)
    seen = {"status": code, "output": arrived, "files": files_of(work), "peak_kib": int(peak)}
    shutil.rmtree(home, ignore_errors=True)
    return seen


def end_all(stage):
    """Ends a stage that did not end in time, with the job's processes, which are its children."""
    children = Path("/proc/%d/task/%d/children" % (stage.pid, stage.pid))
    try:
        listed = children.read_text().split()
    except FileNotFoundError:  # it has ended since
        listed = []
    for pid in listed:
        try:
            os.killpg(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            pass
    stage.kill()
    stage.wait(10)


def first_difference(a, b):
    """The place where two strings of bytes part, with what stands there."""
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    near = slice(max(0, at - 60), at + 120)
    return "at byte %d (of %d, %d): alone %r, watched %r" % (at, len(a), len(b), a[near], b[near])


def lines_that_differ(a, b):
    a, b = a.splitlines(), b.splitlines()
    only_alone = [line for line in a if line not in b][:6]
    only_watched = [line for line in b if line not in a][:6]
    return "alone %s, watched %s" % (only_alone, only_watched)


def differences(job, setting, alone, watched, ignored=()):
    """Named differences between two observations; `ignored` are names that are noise natively."""
    found = {}
    by_design = job.pins == "shape" and setting.watched == "pins"
    if alone["status"] != watched["status"]:
        found["status"] = "alone %s, watched %s" % (alone["status"], watched["status"])
    for name in alone["output"]:
        a, b = alone["output"][name], watched["output"][name]
        if by_design:
            a, b = [b"%d lines" % part.count(b"\n") for part in (a, b)]
        if a != b:
            found["output " + name] = first_difference(a, b)
    for name in sorted(set(alone["files"]) | set(watched["files"])):
        a, b = alone["files"].get(name), watched["files"].get(name)
        if by_design and a and b:
            a, b = a[:1], b[:1]
        if a == b:
            continue
        if a is None or b is None:
            found["file " + name] = "only watched" if a is None else "only alone"
        elif a[0] != b[0]:
            found["file " + name] = "mode alone %s, watched %s" % (a[0], b[0])
        else:
            found["file " + name] = lines_that_differ(a[-1], b[-1])
    more = watched["peak_kib"] - alone["peak_kib"]
    if more > MEMORY_KIB[job.kind] and watched["peak_kib"] > OWN_KIB:
        found["memory"] = "%d KiB more than %d" % (more, alone["peak_kib"])
    return {name: what for name, what in found.items() if name not in ignored}


class Natively:
    """The runs without twinrun: two of each job, output and limit, kept; what they say of noise.

    Jobs that take seconds run once: an unwatched run that equals each of the watched ones has shown
    that the job is the same twice. The second one is made when they differ, and with --full.
    """

    def __init__(self):
        self.kept = {}

    def of(self, job, setting, folder, again=False):
        """The first run, and the names of what differs between it and the second."""
        key = (job.name, setting.output, setting.limit)
        if key not in self.kept:
            self.kept[key] = observe(job, setting, folder), None
        first, noise = self.kept[key]
        if noise is None and (again or FULL or not job.slow):
            noise = differences(
                job, Setting("tensors", setting.output), first, observe(job, setting, folder)
            )
            self.kept[key] = first, noise
        return first, noise or {}


def compare(job, setting, folder, natively, wrap=None):
    """Runs the job watched; returns (differences, noise of the job's own)."""
    alone, noise = natively.of(job, setting, folder)
    watched = observe(job, setting, folder, wrap, watched=True)
    found = differences(job, setting, alone, watched, noise)
    if found and job.slow:
        alone, noise = natively.of(job, setting, folder, again=True)
        found = differences(job, setting, alone, watched, noise)
    return found, noise
