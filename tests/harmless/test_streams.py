# SPDX-License-Identifier: Apache-2.0
"""A job's output and exit status, with twinrun and without.

Each job runs twice, alone and under `twinrun record`, into each kind of output that a user gives
it: files, one file, pipes, a pipe whose reader goes away, terminals, a full disk, a limit of the
file's size. The bytes that arrive, their order and the exit status must be the same.
"""

import os
import pty
import resource
import select
import shlex
import signal
import subprocess
import sys

import pytest

BUILD = os.environ.get("TWINRUN_BUILD", "build")
TWINRUN = os.path.abspath(os.path.join(BUILD, "cmd", "twinrun"))
pytestmark = pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN)

PYTHON = shlex.quote(sys.executable)
# What the two streams of a job say, and in which order, is what a user's log has.
BOTH = "for i in 1 2 3 4 5 6 7 8; do echo out $i; echo err $i >&2; done"
JOBS = {
    "both": BOTH,
    "status": BOTH + "; exit 7",
    "killed": BOTH + "; kill -9 $$",
    "silent": "exit 3",
    "no-newline": "printf out; printf err >&2",
    "bytes": r"printf 'a\000b\377\033[1m\r\n'",
    "children": "(" + BOTH + ") & wait; " + BOTH,
    "much": "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i + 1)); done",
    "python": PYTHON + " -u -c 'import sys\n"
    "for i in range(50): print(i); print(-i, file=sys.stderr)'",
    "python-buffered": PYTHON + " -c 'print(\"x\" * 30000)'",
    "closes": "exec >&-; echo err >&2",
    "c-tool": "seq 1 5000",
}
WITHOUT_TIME = {"LC_ALL": "C"}


def command(job, watched, *options):
    argv = ["sh", "-c", JOBS.get(job, job)]
    return [TWINRUN, "record", "-q", *options, "--", *argv] if watched else argv


def environment(tmp_path):
    return dict(os.environ, TWINRUN_HOME=str(tmp_path / "home"), **WITHOUT_TIME)


def run(argv, tmp_path, stdout, stderr, limit=None):
    def before():
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        env=environment(tmp_path),
        cwd=tmp_path,
        preexec_fn=before,
        timeout=120,
    )
    return done


def status(code):
    """As a shell sees it: `record` of a job that was killed ends with 128 + signal."""
    return 128 - code if code < 0 else code


def one_file(argv, tmp_path, flags=0):
    path = tmp_path / "log"
    path.write_bytes(b"before\n")
    fd = os.open(path, os.O_WRONLY | (flags or os.O_TRUNC))
    code = run(argv, tmp_path, fd, fd).returncode
    os.close(fd)
    return status(code), path.read_bytes()


def two_files(argv, tmp_path):
    with open(tmp_path / "out", "wb") as out, open(tmp_path / "err", "wb") as err:
        code = run(argv, tmp_path, out, err).returncode
    return status(code), (tmp_path / "out").read_bytes(), (tmp_path / "err").read_bytes()


def appended(argv, tmp_path):
    return one_file(argv, tmp_path, os.O_APPEND)


def one_pipe(argv, tmp_path):
    done = run(argv, tmp_path, subprocess.PIPE, subprocess.STDOUT)
    return status(done.returncode), done.stdout


def two_pipes(argv, tmp_path):
    done = run(argv, tmp_path, subprocess.PIPE, subprocess.PIPE)
    return status(done.returncode), done.stdout, done.stderr


def terminal(argv, tmp_path):
    """Both streams on one terminal, read to its end."""
    ours, theirs = pty.openpty()
    job = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=environment(tmp_path),
        cwd=tmp_path,
    )
    os.close(theirs)
    seen = b""
    while select.select([ours], [], [], 60)[0]:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # the last writer is gone
            break
        if not part:
            break
        seen += part
    os.close(ours)
    return status(job.wait(60)), seen


OUTPUTS = [one_file, two_files, appended, one_pipe, two_pipes, terminal]


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("output", OUTPUTS, ids=lambda o: o.__name__)
def test_bytes_order_and_status(output, job, tmp_path):
    assert output(command(job, True), tmp_path) == output(command(job, False), tmp_path)


def kept(tmp_path):
    (folder,) = (tmp_path / "home" / "runs").iterdir()
    return (folder / "stdout").read_bytes(), (folder / "stderr").read_bytes()


def test_the_copy_is_what_arrived(tmp_path):
    code, log = one_file(command("both", True), tmp_path)
    assert kept(tmp_path) == (log, b"") and code == 0


def test_the_copy_begins_where_the_job_did(tmp_path):
    _code, log = appended(command("both", True), tmp_path)
    assert log.startswith(b"before\n") and kept(tmp_path)[0] == log[len(b"before\n") :]


def test_the_copy_of_two_files(tmp_path):
    _code, out, err = two_files(command("both", True), tmp_path)
    assert kept(tmp_path) == (out, err)


@pytest.mark.parametrize("job", ["both", "much", "python", "python-buffered", "c-tool"])
def test_full_disk(job, tmp_path):
    """What the job sees of a full disk is its own affair: exit 1 alone and exit 1 under twinrun."""
    ends = []
    for watched in (False, True):
        with open("/dev/full", "wb") as full:
            done = run(command(job, watched), tmp_path, full, subprocess.PIPE)
        ends.append((status(done.returncode), done.stderr))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("job", ["yes", "seq 1 100000000", PYTHON + " -c 'while True: print(1)'"])
def test_a_reader_that_goes_away(job, tmp_path):
    ends = []
    for watched in (False, True):
        writer = subprocess.Popen(
            command(job, watched),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(tmp_path),
            cwd=tmp_path,
            preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL),
        )
        first = writer.stdout.readline()
        writer.stdout.close()
        ends.append((first, status(writer.wait(60))))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("limit", [0, 512, 10240])
@pytest.mark.parametrize("job", ["both", "much", "python-buffered", "c-tool"])
def test_limit_of_file_sizes(job, limit, tmp_path):
    """`ulimit -f`: twinrun's own files, which the limit holds for as well, must not show."""
    ends = []
    for watched in (False, True):
        path = tmp_path / "log"
        with open(path, "wb") as log:
            done = run(command(job, watched), tmp_path, log, subprocess.DEVNULL, limit)
        ends.append((status(done.returncode), path.read_bytes()))
    assert ends[0] == ends[1]


def test_closed_output(tmp_path):
    ends = []
    for watched in (False, True):
        argv = command(BOTH + "; exit 5", watched)
        shell = " ".join(map(shlex.quote, argv)) + " >&- 2>&-"
        ends.append(status(run(["sh", "-c", shell], tmp_path, None, None).returncode))
    assert ends[0] == ends[1]


def test_check_is_not_cut_short_by_its_reader(tmp_path):
    """`check` compares what its runs printed: that nobody reads along must not end them."""
    job = "i=0; while [ $i -lt 30000 ]; do echo line; i=$((i + 1)); done"
    argv = [TWINRUN, "check", "--runs", "2", "--show-output", "--", "sh", "-c", job]
    shell = " ".join(map(shlex.quote, argv)) + " 2>&1 | head -1"
    run(["sh", "-c", shell], tmp_path, subprocess.DEVNULL, subprocess.DEVNULL)
    sizes = {p.stat().st_size for p in (tmp_path / "home" / "runs").glob("*/stdout")}
    assert sizes == {5 * 30000}
