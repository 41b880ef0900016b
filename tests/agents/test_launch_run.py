# SPDX-License-Identifier: Apache-2.0
"""How a job starts, prints, reads and ends under the launcher; every expectation is what the same
command does alone.
"""

import fcntl
import hashlib
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time

import pytest
from launch_helper import (
    DRIVER,
    OUTCOMES,
    alive,
    children_cpu_s,
    compile_c,
    environment,
    finish,
    launch,
    start,
    wait_for,
)

pytestmark = pytest.mark.skipif(
    not DRIVER.exists(), reason="the launch driver is not built (set TWINRUN_BUILD)"
)


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("code", [0, 1, 3, 127, 255])
def test_exit_code(work, code):
    r = launch(work, ["sh", "-c", f"exit {code}"])
    assert (r.returncode, r.json["outcome"], r.json["exit_code"], r.json["signal"]) == (
        code,
        "exited",
        code,
        0,
    )
    assert r.report["outcome"] == "0" and r.json["message"] == ""


@pytest.mark.parametrize("name", ["TERM", "KILL", "SEGV", "INT", "PIPE"])
def test_job_killed_by_a_signal(work, name):
    number = getattr(signal, "SIG" + name)
    r = launch(work, ["sh", "-c", f"ulimit -c 0; kill -{name} $$"])
    assert (r.json["outcome"], r.json["signal"], r.json["exit_code"]) == (
        "signaled",
        number,
        128 + number,
    )


def test_missing_program(work):
    r = launch(work, ["no-such-program-here"])
    assert (r.json["outcome"], r.json["exit_code"]) == ("not-started", 127)
    path = os.environ["PATH"]
    folders = f"PATH ({path})" if len(path) <= 80 else f"the {path.count(':') + 1} folders of PATH"
    assert f"cannot run no-such-program-here: no such program in {folders}" in r.json["message"]
    r = launch(work, ["./nowhere/prog"])
    assert r.json["exit_code"] == 127 and "there is no such file" in r.json["message"]


def test_missing_program_that_lies_here(work):
    (work / "tool").write_text("#!/bin/sh\n")
    r = launch(work, ["tool"])
    assert r.json["outcome"] == "not-started" and "try ./tool" in r.json["message"]


def test_not_executable_and_folder(work):
    (work / "tool").write_text("#!/bin/sh\n")
    r = launch(work, ["./tool"])
    assert (r.json["outcome"], r.json["exit_code"]) == ("not-started", 126)
    assert "permission denied" in r.json["message"] and "chmod +x" in r.json["message"]
    r = launch(work, ["/tmp"])
    assert r.json["exit_code"] == 126 and "folder" in r.json["message"]


def test_missing_interpreter(work):
    tool = work / "tool"
    tool.write_text("#!/no/such/interpreter -x\n")
    tool.chmod(0o755)
    r = launch(work, ["./tool"])
    assert r.json["exit_code"] == 127 and "#!/no/such/interpreter -x" in r.json["message"]


def test_script_without_interpreter_line(work):
    tool = work / "tool"
    tool.write_text("echo shell $1; exit 9\n")
    tool.chmod(0o755)
    r = launch(work, ["./tool", "x"])
    assert r.returncode == 9 and r.stored("stdout") == b"shell x\n"


def test_program_of_another_machine(work):
    program = compile_c(
        work, "arm", "int main(void) { return 0; }\n", "-static", compiler="aarch64-linux-gnu-gcc"
    )
    if not program:
        (work / "arm").write_bytes(b"\x7fELF\2\1\1" + bytes(9) + b"\2\0\xb7\0" + bytes(100))
        (work / "arm").chmod(0o755)
    r = launch(work, ["./arm"])
    if r.json["outcome"] == "exited":
        pytest.skip("this machine runs it (binfmt)")
    assert (r.json["outcome"], r.json["exit_code"]) == ("not-started", 126) and "another" in r.json[
        "message"
    ]


def test_inherited_descriptors_reach_the_job(work):
    r, w = os.pipe()
    launch(work, ["bash", "-c", f"echo through >&{w}"], pass_fds=[w])
    os.close(w)
    assert os.read(r, 100) == b"through\n"
    os.close(r)


def test_file_size_limit_of_the_user(work):
    limited = [
        "bash",
        "-c",
        'ulimit -f 100; exec "$@"',
        "bash",
        str(DRIVER),
        "--show",
        "--report",
        str(work.parent / "report"),
        "--",
    ]
    p = subprocess.run(
        [*limited, "sh", "-c", "head -c 1000000 /dev/zero; exit 3"],
        cwd=work,
        env=environment(work),
        stdout=subprocess.PIPE,
    )
    assert p.returncode == 3 and len(p.stdout) == 1000000
    folder = dict(line.split("=", 1) for line in (work.parent / "report").read_text().splitlines())[
        "dir"
    ]
    run = json.load(open(folder + "/run.json"))
    assert (
        run["stdout"]["truncated"]
        and run["stdout"]["bytes"] == 1000000
        and any("stored only up to" in n for n in run["notes"])
    )


def test_job_that_removes_its_folder(work):
    (work / "inside").mkdir()
    r = launch(work / "inside", ["sh", "-c", "rmdir ../inside; exit 5"], env=environment(work))
    assert (
        r.returncode == 5
        and r.json["files_truncated"]
        and any("is not known" in n for n in r.json["notes"])
    )


def test_path_of_the_job_decides(work):
    (work / "bin").mkdir()
    tool = work / "bin" / "tool"
    tool.write_text("#!/bin/sh\necho found\n")
    tool.chmod(0o755)
    r = launch(work, ["tool"], "--env", f"PATH={work}/bin:/usr/bin:/bin")
    assert r.returncode == 0 and r.stored("stdout") == b"found\n"


def test_output_is_stored_and_hidden_unless_shown(work):
    job = ["sh", "-c", "printf 'out\\0\\377'; printf err >&2"]
    quiet = launch(work, job)
    shown = launch(work, job, "--show")
    assert (quiet.stdout, quiet.stderr) == (b"", b"")
    assert (shown.stdout, shown.stderr) == (b"out\0\xff", b"err")
    for r in (quiet, shown):
        assert r.stored("stdout") == b"out\0\xff" and r.stored("stderr") == b"err"
        assert r.json["stdout"]["sha256"] == hashlib.sha256(b"out\0\xff").hexdigest()
        assert r.json["stderr"] == {
            "bytes": 3,
            "stored_bytes": 3,
            "sha256": hashlib.sha256(b"err").hexdigest(),
            "truncated": False,
        }


def test_output_beyond_the_cap_passes_through_and_is_hashed(work):
    code = "import sys; b=bytes(range(256))*4096; [sys.stdout.buffer.write(b) for _ in range(200)]"
    r = launch(work, [sys.executable, "-c", code], "--show", "--cap", 1 << 20)
    whole = bytes(range(256)) * 4096 * 200
    assert r.stdout == whole and r.stored("stdout") == whole[: 1 << 20]
    assert r.json["stdout"] == {
        "bytes": len(whole),
        "stored_bytes": 1 << 20,
        "sha256": hashlib.sha256(whole).hexdigest(),
        "truncated": True,
    }


def test_much_output_is_fast_and_needs_little_memory(work):
    """Against the same bytes through `cat`: both move them once through a pipe."""
    job = ["sh", "-c", "head -c 1000000000 /dev/zero; grep VmHWM /proc/$PPID/status >memory"]
    begin = children_cpu_s()
    subprocess.run(["sh", "-c", "head -c 1000000000 /dev/zero | cat >/dev/null"], check=True)
    plain = children_cpu_s() - begin
    r = subprocess.run(
        [str(DRIVER), "--show", "--", *job],
        cwd=work,
        env=environment(work),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    ours = children_cpu_s() - begin - plain
    assert r.returncode == 0
    assert (
        int((work / "memory").read_text().split()[1]) < 32 << 10
    ), "the launcher holds the output in memory"
    assert ours < 5 * plain + 3, (ours, plain)


def test_reader_that_goes_away_does_not_end_the_job(work):
    p = start(
        work,
        [
            "sh",
            "-c",
            "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; echo done >finished; exit 4",
        ],
        "--show",
    )
    p.stdout.read(10)
    p.stdout.close()
    p.stdout = open(os.devnull, "rb")
    assert p.wait(30) == 4
    assert (work / "finished").exists()
    r = finish(p)
    assert r.stored("stdout").endswith(b"line 19999\n") and r.json["signal"] == 0


def test_slow_reader_slows_the_job_and_loses_nothing(work):
    p = start(work, ["sh", "-c", "head -c 20000000 /dev/zero"], "--show")
    time.sleep(1.0)
    assert p.poll() is None, "20 MB fit into no pipe: somebody dropped or buffered them"
    assert len(p.stdout.read()) == 20000000
    assert p.wait(60) == 0


def test_closed_standard_streams(work):
    for closed in ("0", "1", "2", "0 1 2"):
        fds = [int(c) for c in closed.split()]
        r = launch(
            work,
            ["sh", "-c", "echo a; echo b >&2; cat; ls /proc/self/fd"],
            preexec_fn=lambda fds=fds: [os.close(f) for f in fds],
        )
        assert r.returncode in (0, 1)
        assert r.stored("stdout").startswith(b"a\n") and r.stored("stderr").startswith(b"b\n")


def test_terminal_stays_a_terminal_when_shown(work):
    code = "import os,sys; print(os.isatty(1), os.isatty(2), os.get_terminal_size(1).columns); print('two')"
    master, slave = pty.openpty()
    fcntl.ioctl(
        slave,
        termios.TIOCSWINSZ,
        (40).to_bytes(2, "little") + (123).to_bytes(2, "little") + bytes(4),
    )
    report = work.parent / "report"
    p = subprocess.Popen(
        [str(DRIVER), "--show", "--report", str(report), "--", sys.executable, "-c", code],
        cwd=work,
        env=environment(work),
        stdin=slave,
        stdout=slave,
        stderr=subprocess.DEVNULL,
    )
    os.close(slave)
    seen = b""
    while True:
        try:
            chunk = os.read(master, 4096)
        except OSError:
            break
        if not chunk:
            break
        seen += chunk
    assert p.wait(60) == 0
    os.close(master)
    assert seen == b"True False 123\r\ntwo\r\n"
    folder = dict(line.split("=", 1) for line in report.read_text().splitlines())["dir"]
    assert (
        open(folder + "/stdout", "rb").read() == b"True False 123\ntwo\n"
    ), "stored as printed, without the terminal's CR"


def test_no_descriptor_and_no_signal_state_leaks(work):
    code = (
        "import os,signal; print(sorted(int(f) for f in os.listdir('/proc/self/fd'))[:-1]);"
        "print([l for l in open('/proc/self/status') if l.startswith(('SigBlk','SigIgn','SigCgt'))]); print(os.umask(0), os.nice(0), os.getpgrp())"
    )
    script = work / "show"
    (work / "show.py").write_text(code)
    script.write_text(f"#!/bin/sh\nexec {sys.executable} -S {work}/show.py\n")
    script.chmod(0o755)
    alone = subprocess.run(
        [str(script)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        restore_signals=True,
        cwd=work,
    )
    r = launch(work, ["./show"])
    assert r.stored("stdout") == alone.stdout and b"[0, 1, 2]" in alone.stdout


def test_ignored_signals_stay_ignored(work):
    def ignore():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    r = launch(work, ["grep", "SigIgn", "/proc/self/status"], preexec_fn=ignore)
    mask = int(r.stored("stdout").split()[1], 16)
    assert (
        launch(work, ["sh", "-c", "exit 6"], preexec_fn=ignore).returncode == 6
    ), "kept although our parent ignores SIGCHLD"
    assert mask >> (signal.SIGHUP - 1) & 1 and mask >> (signal.SIGCHLD - 1) & 1


# ---- stdin


def test_stdin_file_is_read_from_the_same_place_by_every_run(work):
    (work / "in").write_text("skipped\nfirst\nsecond\n")
    with open(work / "in", "rb", buffering=0) as f:
        f.seek(8)
        r = launch(work, ["cat"], "--runs", 3, "--show", "--spool", work.parent / "spool", stdin=f)
    assert r.stdout == b"first\nsecond\n" * 3


def test_stdin_pipe_is_given_to_every_run(work):
    data = os.urandom(1 << 20)
    r = launch(
        work, ["sha256sum"], "--runs", 3, "--show", "--spool", work.parent / "spool", input=data
    )
    assert r.stdout == (hashlib.sha256(data).hexdigest().encode() + b"  -\n") * 3


def test_stdin_pipe_read_only_in_part(work):
    data = b"".join(b"%06d\n" % i for i in range(100000))
    r = launch(
        work,
        ["sh", "-c", "head -n 2; exec <&-; sleep 0.1"],
        "--runs",
        2,
        "--show",
        "--spool",
        work.parent / "spool",
        input=data,
    )
    assert r.stdout == data[:14] * 2
    later = launch(work, ["cat"], "--show", "--spool", work.parent / "spool", input=b"")
    assert data.startswith(later.stdout) and len(later.stdout) >= 14


def test_open_but_silent_stdin_pipe_does_not_block(work):
    r, w = os.pipe()
    result = launch(work, ["true"], "--spool", work.parent / "spool", stdin=r, timeout=120)
    assert result.returncode == 0
    os.close(r), os.close(w)


def test_stdin_without_spool_is_inherited(work):
    r = launch(work, ["sh", "-c", "readlink /proc/self/fd/0; cat"], input=b"x")
    assert r.stored("stdout").endswith(b"x") and b"pipe" in r.stored("stdout")


# ---- ends and signals


def pid_in(path):
    wait_for(lambda: path.exists() and path.read_text().strip())
    return int(path.read_text())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_to_the_launcher_reaches_the_job(work, number):
    p = start(
        work,
        [
            "bash",
            "-c",
            "trap 'echo got >>log; exit 7' INT TERM HUP; echo $$ >pid; while :; do sleep 0.05; done",
        ],
    )
    job = pid_in(work / "pid")
    p.send_signal(number)
    r = finish(p)
    assert (work / "log").read_text() == "got\n"
    assert (r.json["outcome"], r.json["exit_code"]) == ("interrupted", 7)
    assert signal.Signals(number).name in r.json["message"] and not alive(job)


def test_stubborn_job_is_killed_after_the_grace_time(work):
    job = "trap '' INT TERM; setsid bash -c 'trap \"\" TERM; echo $$ >child; exec sleep 1000' & echo $$ >pid; while :; do sleep 0.05; done"
    p = start(work, ["bash", "-c", job])
    pids = [pid_in(work / "pid"), pid_in(work / "child")]
    begin = time.monotonic()
    p.send_signal(signal.SIGINT)
    r = finish(p)
    assert 4.5 < time.monotonic() - begin < 300
    assert r.json["outcome"] == "interrupted" and r.json["signal"] == signal.SIGKILL
    assert not any(map(alive, pids))


def test_second_ctrl_c_kills_at_once(work):
    p = start(
        work,
        [
            "bash",
            "-c",
            "trap 'echo got >>ints' INT; trap '' TERM; echo $$ >pid; while :; do sleep 0.05; done",
        ],
    )
    job = pid_in(work / "pid")
    p.send_signal(signal.SIGINT)
    wait_for((work / "ints").exists)
    begin = time.monotonic()
    time.sleep(0.6)  # at once it would be taken for the same one
    p.send_signal(signal.SIGINT)
    r = finish(p)
    assert time.monotonic() - begin < 4.5 and r.json["outcome"] == "interrupted" and not alive(job)


def test_ctrl_c_of_a_terminal_is_not_sent_twice(work):
    code = (
        "import signal,time,os\nn=0\ndef h(*a):\n global n\n n+=1\n"
        "signal.signal(signal.SIGINT,h)\nopen('pid','w').write(str(os.getpid()))\nend=time.time()+20\n"
        "while n==0 and time.time()<end: time.sleep(0.01)\ntime.sleep(0.5)\nopen('count','w').write(str(n))\n"
    )
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(work)
        os.execve(
            DRIVER,
            [
                str(DRIVER),
                "--report",
                str(work.parent / "report"),
                "--",
                sys.executable,
                "-c",
                code,
            ],
            environment(work),
        )
    pid_in(work / "pid")
    time.sleep(0.1)
    os.write(master, b"\x03")
    while True:
        try:
            if not os.read(master, 1024):
                break
        except OSError:
            break
    os.waitpid(pid, 0)
    os.close(master)
    assert (work / "count").read_text() == "1"


def test_asked_to_stop(work):
    p = start(work, ["bash", "-c", "echo $$ >pid; sleep 1000 & wait"], "--stop-after", 3)
    r = finish(p)
    assert (
        r.json["outcome"] == "stopped"
        and r.json["signal"] == signal.SIGTERM
        and "enough" in r.json["message"]
    )
    assert not alive(int((work / "pid").read_text()))


def test_what_a_stopped_job_complains_about_is_not_its_output(work):
    job = "trap 'echo complaint; echo complaint >&2; exit 1' TERM; echo line; while :; do sleep 0.05; done"
    r = launch(work, ["bash", "-c", job], "--show", "--stop-after", 3)
    assert (r.json["outcome"], r.stdout, r.stderr, r.stored("stdout")) == (
        "stopped",
        b"line\n",
        b"",
        b"line\n",
    )


def test_killed_launcher_leaves_a_readable_run(work):
    env = environment(work)
    p = start(work, ["bash", "-c", "echo out; echo $$ >pid; exec sleep 1000"], env=env)
    job = pid_in(work / "pid")
    p.kill()
    p.wait()
    try:
        (folder,) = (work.parent / "work-home" / "runs").iterdir()
        run = json.loads((folder / "run.json").read_text())
        assert (
            "outcome" not in run and run["schema"] == "twinrun.run/1" and run["argv"][0] == "bash"
        )
        assert alive(job), "a watcher that dies leaves the job alone"
    finally:
        os.kill(job, signal.SIGKILL)


# ---- processes


def test_daemon_does_not_hold_the_run(work):
    job = "setsid bash -c 'echo $$ >daemon; while :; do sleep 0.2; echo chatter; done' & while [ ! -s daemon ]; do sleep 0.01; done; sleep 0.2; echo main; exit 3"
    r = launch(work, ["bash", "-c", job], "--show")  # whose time is limited
    assert r.returncode == 3
    daemon = pid_in(work / "daemon")
    assert [p["outlived"] for p in r.json["processes"] if p["pid"] == daemon] == [True]
    assert any(str(daemon) in n for n in r.json["notes"])
    try:
        os.kill(daemon, signal.SIGKILL)
    except ProcessLookupError:
        pass  # SIGPIPE was faster, as the note says it may be


def test_quiet_daemon_lives_on_and_is_not_the_next_runs(work):
    job = "setsid sleep 30 >/dev/null 2>&1 </dev/null & echo $! >>daemons"
    r = launch(work, ["bash", "-c", job], "--runs", 2)
    first, second = map(int, (work / "daemons").read_text().split())
    assert alive(first) and alive(second)
    assert [p["pid"] for p in r.json["processes"] if p["outlived"]] == [second]
    for pid in (first, second):
        os.kill(pid, signal.SIGKILL)


def test_fork_storm(work):
    source = """
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) { for (int i = 0; i < 3000; i++) { pid_t p = fork(); if (p == 0) { if (fork() == 0) _exit(0); _exit(0); } if (i % 2) waitpid(p, NULL, 0); }
  while (wait(NULL) > 0) ; return 11; }
"""
    program = compile_c(work, "storm", source)
    assert program, "no C compiler"
    r = launch(work, [str(program)])
    assert r.returncode == 11 and r.json["outcome"] == "exited"
    # zombies would stay
    wait_for(
        lambda: "storm"
        not in subprocess.run(["ps", "-eo", "stat,comm"], capture_output=True, text=True).stdout
    )


def test_arguments_and_names_that_are_not_utf8(work):
    odd = b"caf\xe9\x01"
    (work / "caf").write_text("")
    r = launch(work, ["sh", "-c", 'echo "$1" >"$1"; cat "$1"', "sh", odd])
    assert r.stored("stdout") == odd + b"\n"
    assert bytes.fromhex(r.json["argv"][-1]["hex"]) == odd
    (file,) = [f for f in r.json["files"] if isinstance(f["path"], dict)]
    assert (
        bytes.fromhex(file["path"]["hex"]) == odd
        and file["sha256"] == hashlib.sha256(odd + b"\n").hexdigest()
    )


# ---- the home


def test_home_that_cannot_be_written(work, tmp_path):
    (tmp_path / "blocked").write_text("a file, not a folder")
    r = launch(work, ["true"], env=environment(work, TWINRUN_HOME=str(tmp_path / "blocked")))
    assert r.returncode == 97 and b"error -3" in r.stderr and b"TWINRUN_HOME" in r.stderr
    r = launch(work, ["true"], env=environment(work, TWINRUN_HOME="/proc/nowhere"))
    assert r.returncode == 97 and b"error -3" in r.stderr and b"TWINRUN_HOME" in r.stderr


def test_full_home_is_said_before_the_job_starts(work):
    if not os.access("/dev/full", os.W_OK) or os.geteuid() != 0:
        pytest.skip("needs to mount a small tmpfs")
    small = work.parent / "small"
    small.mkdir()
    if (
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(small)], capture_output=True
        ).returncode
        != 0
    ):
        pytest.skip("cannot mount a tmpfs here")
    try:
        (small / "fill").write_bytes(b"x" * (1 << 20))
        r = launch(work, ["touch", "started"], env=environment(work, TWINRUN_HOME=str(small)))
        assert (
            r.returncode == 97 and b"TWINRUN_HOME" in r.stderr and not (work / "started").exists()
        )
        (small / "fill").unlink()
        # Full while the job prints: the job ends as it would, what was stored is a prefix.
        r = launch(
            work,
            ["sh", "-c", "head -c 3000000 /dev/zero; exit 5"],
            env=environment(work, TWINRUN_HOME=str(small)),
        )
        assert (
            r.returncode == 5
            and r.json["exit_code"] == 5
            and r.json["stdout"]["truncated"]
            and r.json["stdout"]["bytes"] == 3000000
        )
        assert any("stored only up to" in n for n in r.json["notes"])
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_many_at_once_in_one_folder(work):
    env = environment(work)
    running = [
        subprocess.Popen([str(DRIVER), "--label", "x", "--", "true"], cwd=work, env=env)
        for _ in range(12)
    ]
    assert [p.wait(60) for p in running] == [0] * 12
    folders = list((work.parent / "work-home" / "runs").iterdir())
    assert len(folders) == 12 and all(
        json.loads((f / "run.json").read_text())["outcome"] == "exited" for f in folders
    )


def test_secrets_are_not_kept(work):
    env = environment(
        work,
        OMP_NUM_THREADS="2",
        WANDB_API_KEY="hunter2",
        TORCH_TOKEN="hunter2",
        CUDA_SECRET="hunter2",
    )
    r = launch(work, ["true"], env=env)
    assert (
        r.json["env"]["OMP_NUM_THREADS"] == "2"
        and "hunter2" not in (r.dir / "run.json").read_text()
    )


def test_outcome_names_agree_with_the_enum(work):
    r = launch(work, ["true"])
    assert OUTCOMES[int(r.report["outcome"])] == r.json["outcome"]
