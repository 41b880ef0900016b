# SPDX-License-Identifier: Apache-2.0
"""A recorded run, as the exports look at it: its folder, and what its traces hold."""

import json
import os

from common import path_of, printable

# A file of ours is not larger: a foreign one does not fill the memory.
FILE_MAX = 256 << 20


def read_json(path):
    """An object, or {} where there is none that can be read."""
    try:
        if os.path.getsize(path) > FILE_MAX:
            return {}
        with open(path, encoding="utf-8") as f:
            found = json.load(f)
        return found if isinstance(found, dict) else {}
    except (OSError, ValueError, RecursionError):
        return {}


def text(value):
    """A byte string of run.json, printable: it is text, or {"hex": ...}."""
    return "" if value is None else printable(path_of(value))


class Process:
    """One process of a run: `curves` are its losses, name -> [(step, value, ns since 1970)];
    `steps` [(step, first ns, last ns)]; `collectives` [(step, name, ns)].
    """

    def __init__(self, facts):
        start = facts["start_ns"]
        self.rank, self.pid, self.role = facts["rank"], facts["pid"], facts["role"]
        self.dropped, self.more_collectives = facts["dropped"], facts["more_collectives"]
        self.curves = {
            name: [(step, float(value), start + ns) for step, value, ns in points]
            for name, points in facts["curves"].items()
        }
        self.steps = [(step, start + a, start + b) for step, a, b in facts["steps"]]
        self.collectives = [(step, name, start + ns) for step, name, ns in facts["collectives"]]

    @property
    def name(self):
        return "rank %d" % self.rank + ("" if self.role in ("", "main") else " " + self.role)


class Run:
    def __init__(self, facts):
        self.folder = path_of(facts["dir"])
        self.name = printable(os.path.basename(self.folder))
        self.info = read_json(os.path.join(self.folder, "run.json"))
        self.provenance = read_json(os.path.join(self.folder, "provenance.json"))
        self.id = str(self.info.get("id", ""))
        self.processes = [Process(p) for p in facts["processes"]]
        self.unread = facts["unread"]
        self.start_ns = int(self.info.get("start_realtime_ns") or 0)
        ends = [ns for p in self.processes for _, _, ns in p.steps]
        wall = int(1e9 * (self.info.get("wall_s") or 0))
        self.end_ns = max([self.start_ns + wall, *ends])
        self.command = " ".join(text(a) for a in self.info.get("argv", []))
        self.project = text((self.info.get("belongs") or {}).get("project"))
        self.verdict_path, self.verdict, self.place = self._find_verdict()

    def _find_verdict(self):
        """The newest verdict that names this run: it lies in the folder of the last run of its
        check. (path, object, the how-manieth run this one is from 0).
        """
        found = []
        runs = os.path.dirname(self.folder)
        for name in os.listdir(runs):
            path = os.path.join(runs, name, "verdict.json")
            # Names begin with the time: a check's last run is not older than this one.
            if name[:20] < self.name[:20] or not os.path.isfile(path):
                continue
            verdict = read_json(path)
            named = [os.path.basename(str(d)) for d in verdict.get("runs_dir") or []]
            if self.name in named:
                found.append((os.path.getmtime(path), path, verdict, named.index(self.name)))
        return max(found, key=lambda f: f[0])[1:] if found else (None, {}, None)

    @property
    def succeeded(self):
        return self.info.get("outcome") == "exited" and self.info.get("exit_code") == 0

    @property
    def ending(self):
        """How the run ended, in words."""
        outcome = self.info.get("outcome")
        if outcome is None:
            return "cut off, or still running"
        words = "%s, exit code %s" % (outcome, self.info.get("exit_code"))
        message = text(self.info.get("message"))
        return words + (": " + message if message else "")

    def first_difference(self):
        """(rank, step in this run, words) of what its verdict names first, or None. Nothing for a
        run that agrees with the first one, or that left it at another step than the one named.
        """
        first = self.verdict.get("first") or {}
        if not first or not isinstance(first.get("step"), int):
            return None
        for c in self.verdict.get("classes") or [] if self.place else ():
            if self.place in c["runs"] and 0 in c["runs"]:
                return None
            if self.place in c["runs"] and c["parts_at_step"] not in (None, first["step"]):
                return None
        detail = first.get("detail") or {}
        step = first["step"] if not self.place else detail.get("step_b", first["step"])
        what = "%s/%s %s" % (first.get("phase"), first.get("kind"), text(first.get("name")))
        return first.get("rank", 0), step, "%s (%s)" % (what, first.get("role"))

    def curves(self):
        """All losses: [(name, points)]. Of ranks but the first the name says whose it is."""
        for process in self.processes:
            for name, points in process.curves.items():
                whose = "" if process.name == "rank 0" else process.name + "/"
                yield whose + name, points

    def parameters(self):
        """What the run was given: name -> text, none of them empty."""
        belongs = self.info.get("belongs") or {}
        code = self.provenance.get("code") or {}
        found = {
            "command": self.command,
            "cwd": text(self.info.get("cwd")),
            "host": text(self.info.get("host")),
            "processor": text((self.info.get("machine") or {}).get("cpu")),
            "label": text(self.info.get("label")),
            "level": text(self.info.get("level")),
            "family": text(belongs.get("family")),
            "sweep": text(belongs.get("sweep")),
            "commit": text(code.get("commit")),
        }
        for name, value in sorted((self.info.get("env") or {}).items()):
            if name not in ("PATH", "LD_PRELOAD", "PYTHONPATH", "TWINRUN_HOME"):
                found["env/" + text(name)] = text(value)
        return {k: v for k, v in found.items() if v}

    def data(self):
        """What was verified before the start: [(folder, digest)]."""
        return [(text(d.get("folder")), str(d.get("root"))) for d in self.info.get("data") or []]

    def files(self):
        """What the run wrote: [(absolute path, SHA-256 or "")]."""
        cwd = text(self.info.get("cwd"))
        return [
            (os.path.join(cwd, text(f.get("path"))), str(f.get("sha256") or ""))
            for f in self.info.get("files") or []
        ]

    def tags(self):
        """What came of it: name -> text."""
        found = {
            "twinrun.id": self.id,
            "twinrun.folder": text(self.folder),
            "twinrun.end": self.ending,
        }
        if self.verdict:
            found["twinrun.verdict"] = str(self.verdict.get("outcome"))
            first = self.first_difference()
            if first:
                found["twinrun.first"] = "rank %d, step %d, %s" % first
        if self.unread:
            found["twinrun.unread"] = ", ".join(self.unread)
        dropped = sum(p.dropped for p in self.processes)
        if dropped:
            found["twinrun.dropped"] = str(dropped)
        return found
