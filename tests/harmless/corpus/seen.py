# SPDX-License-Identifier: Apache-2.0
"""What a Python process finds around itself, written into the file seen-NAME (see seen.h).

Besides descriptors, signals, limits and environment: the interpreter's hooks, filters, paths,
modules that nobody imported, threads, recursion limit, and the state of its generators.
"""

import os
import sys

OURS = ("TWINRUN_", "LD_PRELOAD", "ASAN_OPTIONS", "PYTHONPATH", "PYTHONHASHSEED")


def descriptors():
    found = []
    for fd in range(1024):
        try:
            path = "terminal" if os.isatty(fd) else os.readlink("/proc/self/fd/%d" % fd)
        except OSError:
            continue
        found.append("descriptor %d %s %s" % (fd, path.split(":")[0], os.get_inheritable(fd)))
    return found


def kind_of(handler):
    return handler if isinstance(handler, int) else type(handler).__name__


def interpreter():
    import gc
    import signal
    import threading
    import warnings

    hooks = (sys.excepthook, sys.displayhook, sys.unraisablehook, threading.excepthook)
    return [
        "hooks %s" % [getattr(h, "__module__", None) for h in hooks],
        "traces %s %s" % (sys.gettrace(), sys.getprofile()),
        "warnings %s" % warnings.filters,
        "path %s" % [p for p in sys.path if "twinrun" not in p],
        "argv %s flags %s" % (sys.argv[1:], sys.flags),
        "threads %d recursion %d" % (threading.active_count(), sys.getrecursionlimit()),
        "interval %s collector %s"
        % (sys.getswitchinterval(), (gc.isenabled(), gc.get_threshold())),
        "signals %s" % [(s, kind_of(signal.getsignal(s))) for s in range(1, 32)],
        "main %s" % sorted(k for k in vars(sys.modules["__main__"]) if not k.startswith("__")),
        "streams %s"
        % [(f.line_buffering, f.encoding, f.errors) for f in (sys.stdout, sys.stderr) if f],
    ]


def generators():
    """The state of every generator that is loaded, as a digest."""
    import hashlib

    states = []
    if "random" in sys.modules:
        states.append(sys.modules["random"].getstate())
    if "numpy" in sys.modules:
        name, keys, place, *rest = sys.modules["numpy"].random.get_state()
        states.append((name, keys.tobytes(), place, rest))
    if "torch" in sys.modules:
        states.append(sys.modules["torch"].get_rng_state().numpy().tobytes())
    return hashlib.sha256(repr(states).encode()).hexdigest()[:16]


def look(name):
    held = os.environ.get("TWINRUN_HELD", "").split(",")
    lines = descriptors() + interpreter()
    for k, v in sorted(os.environ.items()):
        if not k.startswith(OURS) and k not in held:
            lines.append("variable %s=%s" % (k, v))
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(("SigBlk", "SigIgn", "SigCgt")):
                lines.append("%s %x" % (line[:6], int(line.split()[1], 16) & ~(3 << 31)))
    with open("seen-" + name, "w") as out:
        out.write("\n".join(lines) + "\n")
