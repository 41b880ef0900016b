# SPDX-License-Identifier: Apache-2.0
"""A program that is watched at each of its system calls, and killed at one of them (ptrace)."""

import ctypes
import os
import signal

TRACEME, SYSCALL, SETOPTIONS = 0, 24, 0x4200
SYSGOOD, EXITKILL = 1, 0x100000
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def start(argv, cwd, env):
    """The child, stopped before its first instruction; None: it may not be watched."""
    child = os.fork()
    if child == 0:
        try:
            null = os.open(os.devnull, os.O_RDWR)
            for to in (0, 1, 2):
                os.dup2(null, to)
            os.chdir(cwd)
            if libc.ptrace(TRACEME, 0, None, None) == 0:
                os.execve(argv[0], argv, env)
        finally:
            os._exit(126)
    _, status = os.waitpid(child, 0)
    if not os.WIFSTOPPED(status):
        return None
    libc.ptrace(SETOPTIONS, child, None, SYSGOOD | EXITKILL)
    return child


def run(argv, cwd, env, kill_at=0):
    """How many system calls its first thread made, and its exit code (negative: of a signal). It is
    killed where it is about to make that of number kill_at; 0: it runs to its end. (None, None): it
    may not be watched."""
    child = start(argv, cwd, env)
    if child is None:
        return None, None
    stops, deliver = 0, 0
    while True:
        libc.ptrace(SYSCALL, child, None, deliver)
        _, status = os.waitpid(child, 0)
        if not os.WIFSTOPPED(status):
            return (stops + 1) // 2, os.waitstatus_to_exitcode(status)
        sig, deliver = os.WSTOPSIG(status), 0
        if sig != signal.SIGTRAP | 0x80:
            deliver = sig
            continue
        stops += 1  # each call stops twice: where it begins and where it ends
        if kill_at and stops == 2 * kill_at - 1:
            os.kill(child, signal.SIGKILL)
