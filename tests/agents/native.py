# SPDX-License-Identifier: Apache-2.0
"""What the tests of the native agent share: the build folder, an armed run, the records that came
out of it.
"""

import json
import os
import struct
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TWINRUN_BUILD") or os.path.join(ROOT, "build"))
LIBRARY = os.path.join(BUILD, "agents", "libtwinrun.so")
JOB = os.path.join(BUILD, "tests", "agents", "native_job")
TRAINER = os.path.join(BUILD, "workloads", "trainer")
RUN_ID = "00112233445566778899aabbccddeeff"


def clean_environment():
    return {
        k: v
        for k, v in os.environ.items()
        if not k.startswith("TWINRUN_")
        and k not in ("LD_PRELOAD", "PYTHONPATH", "RANK", "WORLD_SIZE")
    }


class Run:
    """A run folder made by hand, as the launcher would, and a program started in it."""

    def __init__(self, folder, **settings):
        self.folder = str(folder)
        os.makedirs(os.path.join(self.folder, "ranks"), exist_ok=True)
        self.environment = clean_environment()
        self.environment.update(
            TWINRUN_RUN_DIR=self.folder, TWINRUN_RUN_ID=RUN_ID, TWINRUN_LIB=LIBRARY
        )
        self.environment.update({k: str(v) for k, v in settings.items()})

    def start(self, *argv, preload=False, timeout=300, **options):
        if preload:
            self.environment["LD_PRELOAD"] = LIBRARY
        return subprocess.run(
            argv, env=self.environment, capture_output=True, timeout=timeout, **options
        )

    def lines(self, name):
        try:
            with open(os.path.join(self.folder, name), encoding="utf-8", errors="replace") as f:
                return f.read().splitlines()
        except FileNotFoundError:
            return []

    def processes(self):
        """[(pid, ppid, kind, argv)], in the order of the file."""
        out = []
        for line in self.lines("processes"):
            pid, ppid, _, kind, *argv = line.split(" ", 4)
            out.append((int(pid), int(ppid), kind, argv[0] if argv else ""))
        return out

    def slots(self):
        with open(os.path.join(self.folder, "progress"), "rb") as f:
            data = f.read()
        assert len(data) == 64 * 64
        names = ("pid", "rank", "steps", "records", "dropped", "observer_ns", "state", "kind")
        rows = [dict(zip(names, struct.unpack_from("<IiQQQQII", data, 64 * i))) for i in range(64)]
        return [r for r in rows if r["pid"]]

    def traces(self, whole=True):
        """Every trace by role: {role: Trace}; a role that comes twice gets its file's name added.
        whole: nothing is cut or damaged.
        """
        out = {}
        for name in sorted(os.listdir(os.path.join(self.folder, "ranks"))):
            t = Trace(os.path.join(self.folder, "ranks", name))
            assert t.good or not whole, t.why
            out[
                t.header["role"] if t.header["role"] not in out else t.header["role"] + " " + name
            ] = t
        return out


class Trace:
    def __init__(self, path):
        self.path = path
        dump = subprocess.run(
            [os.path.join(BUILD, "tests", "agents", "trace_dump"), path],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert dump.returncode == 0, dump.stderr
        rows = [json.loads(line) for line in dump.stdout.splitlines()]
        self.header = rows[0]
        self.good, self.why = rows[-1]["good"], rows[-1]["why"]
        self.records = [r for r in rows if r["type"] == "record"]
        self.steps = [r for r in rows if r["type"] == "step"]
        self.notes = [(r["key"], r["value"]) for r in rows if r["type"] == "note"]


def bare(*argv, **options):
    """The same program with nothing of ours around it."""
    return subprocess.run(
        argv, env=clean_environment(), capture_output=True, timeout=300, **options
    )
