# SPDX-License-Identifier: Apache-2.0
"""libtwinrun.so as a file: what it asks of the host, what it gives, what an unwatched
call costs.
"""

import os
import re
import subprocess

import pytest
from native import BUILD, LIBRARY


def symbols(file=LIBRARY):
    return subprocess.run(
        ["objdump", "-T", file], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize(
    "file, oldest",
    [
        ("agents/libtwinrun.so", (2, 17)),
        ("agents/libtwinrun_hot.so", (2, 17)),
        ("agents/libtwinrun_mpi.so", (2, 17)),
        ("src/numerics/libtwinnumerics.so", (2, 17)),
        ("cmd/twinrun", (2, 28)),
        ("workloads/trainer", (2, 28)),
    ],
)
def test_no_symbol_newer_than_an_old_glibc(file, oldest):
    found = symbols(os.path.join(BUILD, file))
    versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", found)}
    assert versions and max(versions) <= oldest, sorted(versions)
    assert "GLIBC_PRIVATE" not in found


def test_needs_libc_only():
    dynamic = subprocess.run(
        ["objdump", "-p", LIBRARY], capture_output=True, text=True, check=True
    ).stdout
    needed = set(re.findall(r"NEEDED\s+(\S+)", dynamic))
    assert needed <= {"libc.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-aarch64.so.1"}, needed


def test_gives_only_what_it_should():
    given = {
        line.split()[-1]
        for line in symbols().splitlines()
        if re.search(r"\s\.(text|data|bss|rodata)\s", line)
    }
    interposed = {
        "_exit",
        "_Exit",
        "execve",
        "execv",
        "execvp",
        "execvpe",
        "execl",
        "execlp",
        "execle",
        "fexecve",
        "prctl",
    }
    assert interposed <= given
    # what a run may pin or audit (docs/internals/libc-agent.md); allocation and locks are in
    # libtwinrun_hot.so
    interposed |= {
        "getrandom",
        "getentropy",
        "arc4random",
        "arc4random_uniform",
        "arc4random_buf",
        "syscall",
        "_ZNSt13random_device9_M_getvalEv",
        "open",
        "open64",
        "openat",
        "openat64",
        "__open_2",
        "__open64_2",
        "__openat_2",
        "__openat64_2",
        "fopen",
        "fopen64",
        "creat",
        "creat64",
        "freopen",
        "freopen64",
        "rename",
        "renameat",
        "renameat2",
        "link",
        "linkat",
        "read",
        "__read_chk",
        "fread",
        "fread_unlocked",
        "__fread_chk",
        "clock_gettime",
        "gettimeofday",
        "time",
        "timespec_get",
        "clock",
        "times",
        "getrusage",
        "timerfd_settime",
        "sem_timedwait",
        "sem_clockwait",
        "pthread_cond_timedwait",
        "pthread_cond_clockwait",
        "pthread_mutex_timedlock",
        "pthread_rwlock_timedrdlock",
        "pthread_rwlock_timedwrlock",
        "clock_nanosleep",
        "readdir",
        "readdir64",
        "readdir_r",
        "readdir64_r",
        "closedir",
        "rewinddir",
        "seekdir",
        "telldir",
        "scandir",
        "scandir64",
        "pthread_create",
        "system",
        "popen",
        "posix_spawn",
        "posix_spawnp",
    }
    alerts = {n for n in given if n.startswith("_ZN2at7Context21alertNotDeterministic")}
    assert len(alerts) == 2
    assert {n for n in given if not n.startswith(("twin_", "tw_agent_"))} == interposed | alerts | {
        "tw_hot_plan",
        "InitializeInjection",  # what the CUDA driver calls (docs/internals/cupti.md)
    }


def test_an_unwatched_call_is_cheap():
    out = subprocess.run(
        [f"{BUILD}/bench/bench_agent_noop"], capture_output=True, text=True, check=True
    ).stdout
    rows = {name: float(value) for name, value, _ in (line.split() for line in out.splitlines())}
    assert rows["noop_record"] < 25 and rows["noop_step"] < 25  # ns; about 2 on an idle machine
