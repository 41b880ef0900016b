# SPDX-License-Identifier: Apache-2.0
"""What a process finds around itself, with twinrun and without.

Descriptors, signals, limits, masks, priorities, working folder, locks: a job that looks must see
what it sees alone. Threads and the environment are left out: the agent has one thread in a process
that records, and tells its own settings by variables TWINRUN_*.
"""

import json
import os
import shlex
import subprocess
import sys

import pytest

BUILD = os.environ.get("TWINRUN_BUILD", "build")
TWINRUN = os.path.abspath(os.path.join(BUILD, "cmd", "twinrun"))
pytestmark = pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN)

LOOK = """
import json, os, resource, signal, sys
def kind(fd):
    path = os.readlink("/proc/self/fd/%d" % fd)
    return path.split(":")[0]
def look():
    fds = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            fds[int(name)] = kind(int(name))
        except OSError:  # the listing's own
            pass
    mask = os.umask(0)
    os.umask(mask)
    status = dict(l.split(":\\t", 1) for l in open("/proc/self/status").read().splitlines())
    return {
        "descriptors": sorted(fds.items()),
        # 32 and 33 are the C library's, for processes with more than one thread
        "signals": [int(status[k], 16) & ~(3 << 31) for k in ("SigBlk", "SigIgn", "SigCgt")],
        "limits": [resource.getrlimit(i) for i in range(16)],
        "umask": mask,
        "folder": os.getcwd(),
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "processors": sorted(os.sched_getaffinity(0)),
        "policy": os.sched_getscheduler(0),
        "oom": open("/proc/self/oom_score_adj").read(),
        "session": os.getsid(0) == SESSION,
    }
"""
SESSION = "SESSION = int(sys.argv[1])\n"
RECORDS = """
import array, twinrun
for step in range(3):
    twinrun.record("weight:w", array.array("d", [step]))
    twinrun.step()
"""
END = "seen = json.dumps(look())\nopen(sys.argv[2], 'w').write(seen)\n"
SITUATIONS = {
    "plain": "exec {job}",
    "no-hangup": "trap '' HUP PIPE INT; exec {job}",
    "limits": "ulimit -f 2000; ulimit -n 128; ulimit -c 0; exec {job}",
    "umask": "umask 027; exec {job}",
    "nice": "exec nice -n 3 {job}",
    "descriptors": "exec 7</dev/zero 9>/dev/null; exec {job}",
    "closed": "exec {job} <&-",
}


@pytest.mark.parametrize("records", [False, True], ids=["silent", "recording"])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_what_a_process_finds(situation, records, tmp_path):
    script = tmp_path / "look.py"
    script.write_text(LOOK + SESSION + (RECORDS if records else "") + END)
    seen = []
    for watched in (False, True):
        out = tmp_path / ("watched" if watched else "alone")
        job = [sys.executable, str(script), str(os.getsid(0)), str(out)]
        argv = [TWINRUN, "record", "-q", "--", *job] if watched else job
        line = SITUATIONS[situation].format(job=" ".join(map(shlex.quote, argv)))
        done = subprocess.run(
            ["sh", "-c", line],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=tmp_path,
            env=dict(
                os.environ,
                TWINRUN_HOME=str(tmp_path / "home"),
                PYTHONPATH=os.path.join(os.path.dirname(__file__), "..", "..", "python"),
            ),
            timeout=120,
        )
        assert done.returncode == 0, done
        seen.append(json.loads(out.read_text()))
    if filtered():  # then the trace is a descriptor of the job, above 200 (src/trace/alone.c)
        ours = seen[1]["descriptors"]
        seen[1]["descriptors"] = [d for d in ours if not (d[0] >= 200 and d[1].endswith(".twt"))]
    for key in seen[0]:
        assert seen[1][key] == seen[0][key], key


CONFINED = """
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    struct sock_filter f[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
    struct sock_fprog p = {4, f};
    char *kept = malloc(100);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p))
        return 9;
    memset(kept, argc, 100);
    if (!strcmp(argv[1], "_exit"))
        _exit(6);
    if (!strcmp(argv[1], "quick_exit"))
        quick_exit(7);
    return 8;
}
"""


@pytest.mark.parametrize("end", ["_exit", "quick_exit", "return"])
def test_a_program_that_may_only_end(end, tmp_path):
    """Its filter kills for each system call but exit_group, so the agent must make none."""
    (tmp_path / "confined.c").write_text(CONFINED)
    subprocess.run(["cc", "-o", "confined", "confined.c"], cwd=tmp_path, check=True)
    ends = []
    for argv in (["./confined", end], [TWINRUN, "record", "-q", "--", "./confined", end]):
        env = dict(os.environ, TWINRUN_HOME=str(tmp_path / "home"))
        ends.append(subprocess.run(argv, cwd=tmp_path, env=env, timeout=60).returncode)
    assert ends[1] == ends[0] and ends[0] in (6, 7, 8)


def filtered():
    with open("/proc/self/status") as f:
        return "\nSeccomp:\t0\n" not in f.read()


def test_many_forks_write_little(tmp_path):
    """Each forked child announces itself; a long command line is written once, not for each."""
    code = (
        "import os\n"
        "for i in range(300):\n"
        "    p = os.fork()\n"
        "    p or os._exit(0)\n"
        "    os.waitpid(p, 0)\n"
    )
    subprocess.run(
        [TWINRUN, "record", "-q", "--", sys.executable, "-c", code, *["x" * 100] * 40],
        cwd=tmp_path,
        env=dict(os.environ, TWINRUN_HOME=str(tmp_path / "home")),
        check=True,
        timeout=120,
    )
    (folder,) = (tmp_path / "home" / "runs").iterdir()
    assert (folder / "processes").stat().st_size < 300 * 400 + 8192


@pytest.mark.parametrize("blocks", [0, 1, 8])
def test_limit_within_the_job(blocks, tmp_path):
    """The agent's own lines in the run folder are more than the job may write to one file."""
    job = "ulimit -f %d; for i in 1 2 3; do sh -c 'exit 3' || true; done; exec sh -c 'exit 4'"
    done = subprocess.run(
        [TWINRUN, "record", "-q", "--", "sh", "-c", job % blocks],
        cwd=tmp_path,
        env=dict(os.environ, TWINRUN_HOME=str(tmp_path / "home")),
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (4, b"", b"")
