# SPDX-License-Identifier: Apache-2.0
"""What mutants are made with: a copy of a run folder, and the two registries.

HARMFUL ones must never be called the same as the run they come from; HARMLESS ones must be. Each is
a function of a copy and a random generator that says what it changed, or None where it cannot.
"""

import hashlib
import json
import os
import shutil

from traces import Edited
from twinrun.trace import KINDS, UNOBSERVED

STATE, ORDER = KINDS.index("state"), KINDS.index("order")
HARMFUL, HARMLESS = {}, {}


def harmful(function):
    HARMFUL[function.__name__.replace("_", "-")] = function
    return function


def harmless(function):
    HARMLESS[function.__name__.replace("_", "-")] = function
    return function


class Copy:
    """A copy of a run folder. Files that no mutant touches are links to the original's."""

    def __init__(self, original, folder):
        self.folder = folder
        shutil.copytree(
            original, folder, copy_function=os.link, ignore=shutil.ignore_patterns("topology.xml")
        )

    def write(self, name, data):
        """A new file in place of the link."""
        path = self.folder / name
        if path.exists():
            path.unlink()
        path.write_bytes(data)

    @property
    def run(self):
        return json.loads((self.folder / "run.json").read_bytes())

    @run.setter
    def run(self, run):
        self.write("run.json", json.dumps(run, indent=1).encode())

    def traces(self):
        """Names of traces that hold something."""
        names = sorted(p.name for p in (self.folder / "ranks").glob("*.twt"))
        return ["ranks/" + n for n in names if (self.folder / "ranks" / n).stat().st_size > 1024]

    def pick(self, random):
        """(name, trace) of one that has records."""
        names = self.traces()
        random.shuffle(names)
        for name in names:
            trace = Edited.read(self.folder / name)
            if trace.records:
                return name, trace
        return None, None

    def stream(self, name, data):
        """Replaces what was printed, and what run.json says about it."""
        run = self.run
        run[name].update(
            bytes=len(data), stored_bytes=len(data), sha256=hashlib.sha256(data).hexdigest()
        )
        self.write(name, data)
        self.run = run

    def file(self, path, data):
        """Replaces a file that the job wrote, in the run folder's copy and in run.json."""
        run = self.run
        for f in run["files"]:
            if f["path"] == path:
                f.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
                if f.get("kept"):  # the copy of its text
                    self.write(f["kept"], data)
        self.write("work/" + path, data)
        self.run = run


def results(trace):
    """Indices of records whose contents are results: seen, no generators, no mere orders.

    Another order of parameters from which nothing follows is named, and is no difference.
    """
    kinds = {i: s.kind for i, s in trace.series.items()}
    return [
        i
        for i, r in enumerate(trace.records)
        if kinds[r.series] not in (STATE, ORDER) and not r.flags & UNOBSERVED
    ]


def save(copy, name, trace):
    copy.write(name, trace.sealed())


def where(trace, r):
    name = trace.strings.get(trace.series[r.series].name, b"").decode("utf-8", "replace")
    return "step %d, record %d, %s" % (r.step, r.seq, name)


def on_result(change):
    """A mutant that changes one record, chosen at random among results."""

    def mutant(copy, random):
        name, trace = copy.pick(random)
        choice = results(trace) if trace else []
        if not choice:
            return None
        i = random.choice(choice)
        said = where(trace, trace.records[i])
        if change(trace, i, random) is False:
            return None
        save(copy, name, trace)
        return "%s: %s" % (name, said)

    mutant.__name__ = change.__name__
    return mutant
