# SPDX-License-Identifier: Apache-2.0
"""/api/v1/incidents, which is kept with the snapshot, against an oracle that walks the whole ledger
anew by the rules of src/serve/incidents.h: over drawn ledgers that grow while the server runs.
"""

import os
import random
import sqlite3
import time

import pytest
from ledger_by_hand import HOUR, Ledger
from serve_helper import TWINRUN, serving, until
from test_serve_incidents import told

pytestmark = pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN)
MINUTE = HOUR // 60
ISOLATED = ("isolated", "isolated (main cause)")
LASTS, COOL_DOWN = 24 * HOUR, HOUR
# What somebody may have written into a ledger, and how it is shown: escaped once.
PIECES = [
    ("train", "train"),
    ("<b>&", "<b>&"),
    ("\x1b[31m", "\\x1b[31m"),
    ("\n", "\\x0a"),
    ("\u202e", "\\xe2\\x80\\xae"),
    ("é", "é"),
    ("\\xe2", "\\x5cxe2"),
    ("\\ ", "\\ "),
    ('"%s', '"%s'),
]


def name(r):
    parts = [r.choice(PIECES) for _ in range(r.randrange(1, 4))]
    return tuple("".join(p[i] for p in parts) for i in (0, 1))


class Oracle:
    """Knows nothing of what was told before: it reads all of the ledger's rows each time."""

    def __init__(self, home, shown):
        db = sqlite3.connect(os.path.join(home, "ledger.db"))
        db.row_factory = sqlite3.Row
        self.shown = lambda text: shown.get(text, text)
        self.start = {}
        for r in db.execute("SELECT id, start_ns FROM runs ORDER BY version"):
            self.start[r["id"]] = r["start_ns"]
        self.project = {r["run_id"]: r["project"] for r in db.execute("SELECT * FROM facts")}
        self.comparisons = []
        for c in db.execute("SELECT * FROM comparisons ORDER BY time_ns"):
            rows = db.execute("SELECT * FROM compared WHERE comparison_id=? ORDER BY place", [c[0]])
            self.comparisons.append((c, [(r["run_id"], r["agreed"]) for r in rows]))
        db.close()

    def job(self, run, command):
        recorded = run in self.start
        return (self.project.get(run, "") if recorded else "", command)

    def begun(self):
        """What may be an incident: time, run, unproven, comparison, reference, others."""
        for c, runs in self.comparisons:
            if c["verb"] == "isolate" or len(runs) < 2:
                continue
            said = [r for r, agreed in runs[1:] if agreed == "differs"]
            if c["outcome"] == "differ":
                for r in said or [runs[-1][0]]:
                    yield c["time_ns"], r, False, c, runs[0][0], 0 if said else len(runs) - 2
            elif c["outcome"] == "inconclusive" and c["repeats"]:
                for r, agreed in runs[1:]:
                    if agreed != "agrees":
                        yield c["time_ns"], r, True, c, runs[0][0], 0

    def agreed(self, job, begin):
        """When the job agreed again: by runs that all began after the incident."""
        for c, runs in self.comparisons:
            if c["verb"] == "isolate" or c["outcome"] not in ("same", "within-tolerance"):
                continue
            if not c["repeats"] or c["time_ns"] <= begin or len(runs) < 2:
                continue
            if all(
                agreed == "agrees"
                and self.start.get(r, begin) > begin
                and self.job(r, c["command"]) == job
                for r, agreed in runs[1:]
            ):
                return c["time_ns"]
        return None

    def cause(self, job, begin):
        found = [
            c["cause"]
            for c, runs in self.comparisons
            if c["verb"] == "isolate"
            and c["outcome"] in ISOLATED
            and self.job(runs[0][0] if runs else "", c["command"]) == job
            and c["cause"]
            and c["time_ns"] > begin
        ]
        return found[-1] if found else ""

    def incidents(self, now):
        kept, last = [], {}
        for begin, run, unproven, *rest in self.begun():
            if begin <= now - 2 * LASTS:
                continue
            before = last.get((run, unproven))
            last[run, unproven] = begin
            if before is None or begin - before >= LASTS:
                kept.append((begin, run, unproven, *rest))
        out, paged = [], {}
        for begin, run, unproven, c, reference, others in kept:
            job = self.job(run, c["command"])
            page = bool(c["repeats"]) and not unproven
            before = paged.get(job)
            if page:
                paged[job] = begin
                page = before is None or begin - before >= COOL_DOWN
            if begin <= now - LASTS:
                continue
            agreed = self.agreed(job, begin)
            out.append(
                {
                    "run": run,
                    "reference": reference,
                    "kind": "unproven" if unproven else "diverged",
                    "severity": "page" if page else "ticket",
                    "state": "open" if agreed is None else "agreed",
                    "project": self.shown(job[0]) or "unknown",
                    "command": self.shown(c["command"]),
                    "verb": c["verb"],
                    "layer": c["layer"],
                    "first": self.shown(c["first"]),
                    "cause": self.shown(self.cause(job, begin)),
                    "host": "h" if run in self.start else "",
                    "repeats": bool(c["repeats"]),
                    "others": others,
                    "start_ns": begin,
                    "end_ns": begin + LASTS if agreed is None else agreed,
                }
            )
        return out[::-1]


class Drawn:
    """A ledger that grows by what is drawn; no two comparisons have one time."""

    def __init__(self, home, seed):
        self.r, self.h = random.Random(seed), Ledger(home)
        self.names = [name(self.r) for _ in range(3)]
        self.shown = dict(self.names)
        self.runs, self.times = [], set()

    def time(self):
        """Half a minute off whole ones, so that no rule's bound is near."""
        while True:
            ago = self.r.randrange(1, 60 * 60) * MINUTE + MINUTE // 2
            if ago not in self.times:
                self.times.add(ago)
                return self.h.now - ago

    def run(self, command):
        r = self.r
        if self.runs and r.random() < 0.3:
            return r.choice(self.runs)
        if r.random() < 0.12:
            return self.h.id()  # of another home: the ledger has no record of it
        start = self.h.now - r.randrange(0, 60 * 60) * MINUTE
        facts = r.random() < 0.9
        run = self.h.run(start=start, command=command, project=self.name(), facts=facts)
        self.runs.append(run)
        return run

    def name(self):
        text, shown = self.r.choice(self.names)
        self.shown[text] = shown
        return text

    def grow(self, n, recorded=0):
        r = self.r
        for _ in range(n):
            command = self.name()
            runs = [self.run(command) for _ in range(r.choice([2, 2, 3]))]
            words = [r.choice(["agrees", "agrees", "differs", "unknown", ""]) for _ in runs[1:]]
            outcome = r.choice(["differ", "inconclusive", "same", "same", "within-tolerance"])
            if outcome in ("same", "within-tolerance") and r.random() < 0.8:
                words = ["agrees"] * len(words)
            verb = r.choice(["check", "check", "diff", "diff", "isolate"])
            if verb == "isolate":
                outcome = r.choice([*ISOLATED, "unexplained"])
            self.h.compare(
                runs,
                words,
                outcome,
                verb=verb,
                when=self.time(),
                repeats=r.choice([0, 1, 1]),
                command=command,
                cause=self.name() if verb == "isolate" else "",
                first=self.name(),
                layer=r.choice(["", "forward"]),
                recorded=recorded,
            )
        if recorded:
            self.h.db.execute("UPDATE runs SET recorded_ns=? WHERE recorded_ns=0", (recorded,))
            self.h.db.execute("UPDATE facts SET recorded_ns=? WHERE recorded_ns=0", (recorded,))
        self.h.done()


@pytest.mark.parametrize("seed", range(4))
def test_they_are_those_of_a_walk(tmp_path, seed):
    d = Drawn(tmp_path / "home", seed)
    d.grow(300, recorded=1)
    seen = []

    def of_since(ns):
        answer = s.get("/api/v1/incidents").json
        return answer["until_ns"] > ns and answer

    with serving(d.h.home) as s:
        for step in range(5):
            # the last one is of a clock that is far behind: no look finds it by its time
            if step:
                d.grow(20, recorded=2 if step == 4 else time.time_ns())
            written = time.time_ns() if step else 0
            answer = until(lambda ns=written: of_since(ns))
            want = Oracle(d.h.home, d.shown).incidents(answer["until_ns"])
            assert answer["incidents"] == want
            seen += want
    assert len(seen) > 100
    assert {(i["kind"], i["severity"], i["state"]) for i in seen} == {
        ("diverged", "page", "open"),
        ("diverged", "page", "agreed"),
        ("diverged", "ticket", "open"),
        ("diverged", "ticket", "agreed"),
        ("unproven", "ticket", "open"),
        ("unproven", "ticket", "agreed"),
    }
    assert any(i["cause"] for i in seen) and any(i["others"] for i in seen)
    assert any(i["project"] == "unknown" for i in seen) and any(not i["host"] for i in seen)


def test_names_are_escaped_once(tmp_path):
    """To who asks, and to an Alertmanager."""
    for text, shown in PIECES:
        h = Ledger(tmp_path / shown.encode().hex())
        run = h.run(project=text)
        h.compare([h.run(), run], ["differs"], "differ", command=text, first=text, layer=text)
        with serving(h.done()) as s:
            (got,) = s.get("/api/v1/incidents").json["incidents"]
        assert [got[k] for k in ("project", "command", "first", "layer")] == [shown] * 4
        alert = told(h.home)[run]
        assert alert["labels"]["project"] == alert["labels"]["layer"] == shown
        assert alert["annotations"]["summary"] == f"{shown}: run {run[:8]} diverged: {shown}"
