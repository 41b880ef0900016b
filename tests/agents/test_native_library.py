# SPDX-License-Identifier: Apache-2.0
"""libtwinrun.so as a file: what it asks of the host, what it gives, what an unwatched call costs."""
import re
import subprocess

from native import BUILD, LIBRARY

OLDEST = (2, 17)


def symbols():
    return subprocess.run(["objdump", "-T", LIBRARY], capture_output=True, text=True, check=True).stdout


def test_no_symbol_newer_than_glibc_2_17():
    versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", symbols())}
    assert versions and max(versions) <= OLDEST, sorted(versions)
    assert "GLIBC_PRIVATE" not in symbols()


def test_needs_libc_only():
    dynamic = subprocess.run(["objdump", "-p", LIBRARY], capture_output=True, text=True, check=True).stdout
    needed = set(re.findall(r"NEEDED\s+(\S+)", dynamic))
    assert needed <= {"libc.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-aarch64.so.1"}, needed


def test_gives_only_what_it_should():
    given = {line.split()[-1] for line in symbols().splitlines() if re.search(r"\s\.(text|data|bss|rodata)\s", line)}
    interposed = {"_exit", "_Exit", "execve", "execv", "execvp", "execvpe", "execl", "execlp", "execle", "fexecve"}
    assert interposed <= given
    alerts = {n for n in given if n.startswith("_ZN2at7Context21alertNotDeterministic")}
    assert len(alerts) == 2
    assert {n for n in given if not n.startswith(("twin_", "tw_agent_"))} == interposed | alerts


def test_an_unwatched_call_is_cheap():
    out = subprocess.run([f"{BUILD}/bench/bench_agent_noop"], capture_output=True, text=True, check=True).stdout
    rows = {name: float(value) for name, value, _ in (line.split() for line in out.splitlines())}
    assert rows["noop_record"] < 25 and rows["noop_step"] < 25  # ns; about 2 on an idle machine
