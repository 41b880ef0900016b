# SPDX-License-Identifier: Apache-2.0
"""What every end-to-end test needs: the built twinrun, a Python with PyTorch, a scratch folder, and
no process left behind.

Environment: TWINRUN_BUILD (build folder, default ./build), TWINRUN_TEST_PYTHON (default: the Python
that runs pytest), TWINRUN_FULL=1 (also what takes minutes).
"""

import compileall
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import json_held
import pytest
from job_pool import once, pooled
from quick_clang import put_in_front
from spent_time import SpentTime
from turn import FULL, VARIABLE, turn

ROOT = Path(__file__).resolve().parents[2]
GHOSTS = ROOT / "ghosts"
LIGHT_SITE = Path(__file__).parent / "light_site"
CALM_SITE = Path(__file__).parent / "calm_site"
# What the fixture `calm` sets, for jobs whose environment a test makes by itself.
CALM = {} if FULL else {"PYTHONPATH": str(CALM_SITE)}
# Several tests at a time: a thread that spins while it waits takes a core from another job (that of
# OpenMP a quarter of all time). OpenBLAS's spin when NumPy is imported, for 2^26 ticks of the clock
# unless a smaller power is said; 4 is the least.
CALM_THREADS = {"OMP_WAIT_POLICY": "passive", "OPENBLAS_THREAD_TIMEOUT": "4"}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
# GNU readline, which pytest imports, sets them without a terminal: texts would be 80 columns wide.
for size in ("COLUMNS", "LINES"):
    os.environ.pop(size, None)
    os.unsetenv(size)


def pytest_configure(config):
    """In each process: signals as jobs expect them. Once, before xdist starts its workers: what
    they share.
    """
    # a shell's background; what the tests start would inherit it
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # nohup's; a shell cannot trap what was ignored when it started
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    # Two mpirun of Open MPI that make its folder in /tmp at once stop one another: each worker has
    # a place of its own. Short, since the path of a socket stands in it.
    config.openmpi = os.environ["OMPI_MCA_orte_tmpdir_base"] = tempfile.mkdtemp(prefix="ompi-")
    # by hand: a hook of this file would see the tests of its own folder alone
    config.pluginmanager.register(SpentTime(), "spent-time")
    if hasattr(config, "workerinput"):
        return
    # Jobs whose environment is not clean_environment's, and PyTorch in the workers themselves:
    # threads that spin while they wait take the processors from the other tests.
    for name, value in CALM_THREADS.items():
        os.environ.setdefault(name, value)
    turn()  # drawn here, for all workers
    shared = os.environ["TWINRUN_TEST_SHARED"] = tempfile.mkdtemp(prefix="twinrun-shared-")
    os.environ["PATH"] = put_in_front(os.path.join(shared, "bin"))
    # as installed: or each job under test would compile the agent anew
    compileall.compile_dir(ROOT / "python", quiet=2)


def pytest_collection_finish(session):
    """A test module that put the inside of our package on the path would hide PyTorch (there is a
    twinrun/torch) from each process that a later test spawns with this path.
    """
    inside = str(ROOT / "python" / "twinrun")
    assert inside not in sys.path, f"a test module put {inside} on sys.path; put its parent there"


def pytest_unconfigure(config):
    shutil.rmtree(config.openmpi, ignore_errors=True)
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ.pop("TWINRUN_TEST_SHARED"), ignore_errors=True)


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(
        f"of wide matrices the part of {VARIABLE}={turn()} (tests/agents/turn.py)"
    )


class Result:
    """How a command ended: rc, out, err (text), raw_out, raw_err (bytes)."""

    def __init__(self, argv, rc, out, err):
        self.argv, self.rc, self.raw_out, self.raw_err = argv, rc, out, err

    @property
    def out(self):
        return self.raw_out.decode("utf-8", "replace")

    @property
    def err(self):
        return self.raw_err.decode("utf-8", "replace")

    @property
    def json(self):
        """The one JSON object on stdout."""
        return json.loads(self.out)

    def _verdict(self):
        """What a verdict among stdout says in short. It comes first: pytest shows the two ends of a
        message, 240 characters.
        """
        try:
            verdict = self.json
            return f" {verdict['outcome']} {verdict['unseen'] or verdict['first'] or ''}"
        except (ValueError, KeyError, TypeError):
            return ""

    def __repr__(self):
        said = f"exit {self.rc}{self._verdict()}\n$ {' '.join(map(str, self.argv))}"
        return f"{said}\n--- stdout\n{self.out[-4000:]}\n--- stderr\n{self.err[-4000:]}"


def version():
    """Of this checkout: meson.build is the one place that says it."""
    return re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text()).group(1)


def clean_environment(extra=None):
    """The caller's environment without what would change the outcome of a test."""
    env = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith("TWINRUN_") and k not in ("PYTHONHASHSEED", "LD_PRELOAD", "COLUMNS")
    }
    env.update(
        NO_COLOR="1",
        PYTHONDONTWRITEBYTECODE="1",
        TERM="dumb",
        LC_ALL="C.UTF-8",
        **CALM_THREADS,
    )
    if "TWINRUN_TEST_SHARED" in os.environ:  # the key that redacts is not the developer's
        env["XDG_STATE_HOME"] = os.path.join(os.environ["TWINRUN_TEST_SHARED"], "state")
    env.update(extra or {})
    return {k: v for k, v in env.items() if v is not None}


@pytest.fixture(scope="session")
def build():
    folder = Path(os.environ.get("TWINRUN_BUILD", ROOT / "build")).resolve()
    if not os.access(folder / "cmd" / "twinrun", os.X_OK):
        pytest.fail(
            f"no twinrun in {folder}/cmd: build it first (./dev build), or name the build folder in TWINRUN_BUILD"
        )
    return folder


@once
def _torch_python():
    python = os.environ.get("TWINRUN_TEST_PYTHON", sys.executable)
    done = subprocess.run([python, "-c", "import torch"], capture_output=True, text=True)
    return python, "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


@pytest.fixture(scope="session")
def python():
    """A Python that can import torch."""
    program, why = _torch_python()
    if why:
        pytest.skip(f"{program} has no PyTorch: {why}")
    return program


@pytest.fixture
def light(monkeypatch):
    """Jobs of this test do without what PyTorch imports for its compiler and its exporter, and the
    rest is imported calmly (below): half of the time that they take to start, and two thirds where
    they have an optimizer; with --full they have it. Not for what is about PyTorch itself:
    test_torch_*, and the jobs that test_ghosts names.
    """
    if not FULL:
        monkeypatch.setenv("PYTHONPATH", str(LIGHT_SITE))


@pytest.fixture
def calm(monkeypatch):
    """Jobs of this test import PyTorch, all of it, while the garbage collector rests: a quarter of
    the time that they take to start and to end; with --full they do not. Not for what is about the
    collector.
    """
    for name, value in CALM.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def start(tmp_path):
    """start(argv, **popen arguments): a process in a session of its own that is killed, if need be,
    after the test.
    """
    started = []

    def launch(argv, **kwargs):
        kwargs.setdefault("cwd", tmp_path)
        kwargs.setdefault("stdout", subprocess.PIPE)
        kwargs.setdefault("stderr", subprocess.PIPE)
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen([str(a) for a in argv], start_new_session=True, **kwargs)
        started.append(process)
        return process

    yield launch
    for process in started:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        if process.poll() is None:
            process.wait(10)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                pipe.close()


@pytest.fixture
def run(start, tmp_path):
    """run(argv, cwd, env, timeout, stdin) -> Result. Fails the test when the command does not end
    in time.
    """

    def call(argv, cwd=None, env=None, timeout=600, stdin=None):
        process = start(
            argv,
            cwd=cwd or tmp_path,
            env=clean_environment(env),
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        )
        try:
            out, err = process.communicate(stdin, timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            pytest.fail(f"not done after {timeout} s: {Result(argv, None, out, err)}")
        done = Result(argv, process.returncode, out, err)
        faults = json_held.faults(done.out)
        assert not faults, f"not as its schema says: {faults} {done}"
        return done

    return call


@pytest.fixture
def home(tmp_path):
    """Where twinrun keeps its runs in this test: outside the job's working folder."""
    return tmp_path / "home"


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """Commands of a module run in a folder of its own: where other tests write at the same time (the
    build folder is below the checkout), a file that appears seems to be one that a run made.
    """
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("elsewhere"))
    yield
    os.chdir(before)


@pytest.fixture(scope="module")
def browser():
    """Chromium, without a window."""
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: ./dev test installs it"
    )
    if not CHROMIUM:
        pytest.skip("Chromium is not installed: ./dev test installs it")
    with api.sync_playwright() as p:
        b = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield b
        b.close()


@pytest.fixture
def work(tmp_path):
    """An empty working folder for the job."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def twinrun(build, run, home, work):
    """twinrun(subcommand and arguments..., cwd, env, timeout, stdin) -> Result."""

    def call(*args, cwd=None, env=None, timeout=600, stdin=None):
        env = {"TWINRUN_HOME": str(home), **(env or {})}
        done = run([build / "cmd" / "twinrun", *args], cwd or work, env, timeout, stdin)
        if args[0] == "check":
            recheck_last(home)
        return done

    return call


@pytest.fixture
def recorded_once(build):
    """recorded_once(command, env, number) -> (run folder, what it printed): a recording that serves
    all tests that ask for it, for reading (job_pool.pooled). For a command that needs nothing of
    the test's own folder. number: tells one recording of a command from another.
    """

    def call(command, env=None, number=0):
        def make(folder):
            watched = [build / "cmd" / "twinrun", "record", "--home", folder / "home", "--"]
            done = subprocess.run(
                [*watched, *command],
                cwd=folder,
                env=clean_environment(env),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=300,
            )
            assert done.returncode == 0, done
            (run,) = (folder / "home" / "runs").iterdir()
            return run, done.stdout

        return pooled(("recorded once", [str(c) for c in command], env, number), make)

    return call


def recheck_last(home):
    """Holds every claim of the check that has just ended against its recordings."""
    import sys

    sys.path.insert(0, str(ROOT / "python"))
    try:
        from twinrun import recheck
    finally:
        sys.path.pop(0)
    kept = sorted(home.glob("runs/*/verdict.json"), key=lambda p: p.stat().st_mtime)
    for path in kept[-1:]:
        try:
            results = recheck.recheck(str(path))
        except (recheck.Trouble, OSError):
            return  # its runs are elsewhere
        refuted = [r for r in results if r[0] == "refuted"]
        assert not refuted, f"claims of {path}: {refuted}"


@pytest.fixture
def script(work):
    """script(name, text) writes a file into the job's working folder."""

    def write(name, text):
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))
        return path

    return write


def library_python(python, run, *modules):
    """A Python in which the modules can be imported: the test's own, or one named in
    TWINRUN_HF_PYTHON or TWINRUN_TRACKERS_PYTHON.
    """
    others = (os.environ.get(f"TWINRUN_{name}_PYTHON") for name in ("HF", "TRACKERS"))
    for program in (*others, python):
        if program and run([program, "-c", "import " + ", ".join(modules)], timeout=120).rc == 0:
            return program
    pytest.skip(f"no Python with {' and '.join(modules)} (name one in TWINRUN_HF_PYTHON)")


def shell(argv):
    """The command as sh -c reads it."""
    import shlex

    return " ".join(shlex.quote(str(part)) for part in argv)


def alive(pid):
    """Is there such a process (zombies do not count)?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def marker_line(path, marker="# ORIGIN"):
    """Number of the one line that carries the marker, or None."""
    lines = [n for n, line in enumerate(Path(path).read_text().splitlines(), 1) if marker in line]
    assert len(lines) <= 1, f"{path}: marker {marker} on lines {lines}"
    return lines[0] if lines else None


def masked(text):
    """The text with every number replaced: what two runs of a nondeterministic job have
    in common.
    """
    return re.sub(rb"[-+]?\d+(\.\d+)?(e[-+]?\d+)?|nan|inf", b"#", text)


@pytest.fixture(scope="module")
def slurm():
    """A cluster of four nodes on this machine."""
    import slurm_here

    why = slurm_here.missing()
    if why:
        assert not FULL, why
        pytest.skip(why)
    cluster = slurm_here.started()
    yield cluster
    cluster.stop()
