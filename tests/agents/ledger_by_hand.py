# SPDX-License-Identifier: Apache-2.0
"""A home whose ledger a test fills by hand: runs, comparisons and events whose truth is known."""

import os
import random
import sqlite3
import subprocess
import time

BUILD = os.path.abspath(os.environ.get("TWINRUN_BUILD", "build"))
TWINRUN = os.path.join(BUILD, "cmd", "twinrun")
HOUR = 3600 * 10**9


class Ledger:
    """A home whose ledger is filled by hand; the tables are twinrun's own."""

    def __init__(self, home):
        self.home = str(home)
        os.makedirs(self.home, exist_ok=True)
        subprocess.run([TWINRUN, "ls", "--home", self.home], check=True, capture_output=True)
        self.db = sqlite3.connect(os.path.join(self.home, "ledger.db"))
        self.number = 0
        self.now = time.time_ns()

    def id(self):
        self.number += 1
        return "%032x" % self.number

    def run(
        self,
        start=None,
        command="python t.py",
        state="ok",
        wall=1.0,
        facts=True,
        project="p",
        family="",
        who="",
        sweep="",
        inputs="i",
        ci=0,
        snapshots=0,
        deterministic=-1,
        calls=-1,
        loss=None,
        host="h",
        steps=5,
    ):
        run = self.id()
        start = self.now - HOUR if start is None else start
        self.db.execute(
            "INSERT INTO runs VALUES (?,1,0,'','gone-'||?,'run',?,'[]',?,?,0,?,?,?,9,0,1,'')",
            (run, run, command, host, state, start, wall, steps),
        )
        if facts:
            self.db.execute(
                "INSERT INTO facts VALUES (?,0,?,?,?,?,?,?,?,?,?,?)",
                (
                    run,
                    project,
                    family,
                    who,
                    sweep,
                    inputs,
                    ci,
                    snapshots,
                    deterministic,
                    calls,
                    loss,
                ),
            )
        return run

    def compare(self, runs, agreed, outcome, verb="check", when=None, repeats=1, checks=None, **o):
        checks = checks or (-1, 0, 0, 0)
        comparison = self.id()
        self.db.execute(
            "INSERT INTO comparisons (id, recorded_ns, time_ns, verb, command, outcome, first, "
            "first_step, cause, layer, repeats, checkpoints, checkpoints_same, "
            "checkpoints_unknown, checkpoints_missing) VALUES (?,?,?,?,?,?,?,-1,?,?,?,?,?,?,?)",
            (
                comparison,
                o.get("recorded", 0),
                self.now - HOUR // 2 if when is None else when,
                verb,
                o.get("command", "python t.py"),
                outcome,
                o.get("first", ""),
                o.get("cause", ""),
                o.get("layer", ""),
                repeats,
                *checks,
            ),
        )
        for place, run in enumerate(runs):
            word = "" if place == 0 else agreed[place - 1]
            self.db.execute("INSERT INTO compared VALUES (?,?,?,?)", (comparison, place, run, word))

    def event(self, kind, outcome, when=None, project="p", subject="s", run=""):
        self.db.execute(
            "INSERT INTO events VALUES (?,0,?,?,?,?,?,'','',?)",
            (
                self.id(),
                self.now - HOUR // 2 if when is None else when,
                kind,
                outcome,
                subject,
                project,
                run,
            ),
        )

    def repeats(self, good, bad=0, unknown=0, **run):
        for agreed, n in (("agrees", good), ("differs", bad), ("unknown", unknown)):
            for _ in range(n):
                word = {"agrees": "same", "differs": "differ", "unknown": "inconclusive"}[agreed]
                self.compare([self.run(**run), self.run(**run)], [agreed], word, layer="forward")

    def done(self):
        self.db.commit()
        return self.home


# ---- the oracle


def some_ledger(home, seed, projects=("p", "q")):
    """Runs, comparisons and events of every kind, drawn."""
    r = random.Random(seed)
    home = Ledger(home)
    for _ in range(60):
        project = r.choice(projects)
        ci = r.random() < 0.3
        runs = [
            home.run(
                start=home.now - r.randrange(1, 40 * 24) * HOUR,
                project=project,
                wall=r.choice([0.5, 5.0, 59.0, 4000.0, 1e6]),
                inputs=r.choice("ab"),
                ci=ci,
                snapshots=r.choice([0, 0, 1]),
                deterministic=r.choice([-1, 0, 1]),
                calls=r.choice([-1, 0, 3]),
                state=r.choice(["ok", "ok", "exit 1"]),
            )
            for _ in range(r.choice([2, 3]))
        ]
        agreed = [r.choice(["agrees", "agrees", "differs", "unknown"]) for _ in runs[1:]]
        outcome = "differ" if "differs" in agreed else "same"
        if outcome == "same" and "unknown" in agreed:
            outcome = "inconclusive"
        home.compare(
            runs,
            agreed,
            outcome,
            verb=r.choice(["check", "diff"]),
            when=home.now - r.randrange(1, 40 * 24) * HOUR,
            layer="forward",
            checks=r.choice([None, (3, 2, 0, 1)]),
        )
    for kind, outcome in (
        ("rollback", "restored"),
        ("drill", "failed"),
        ("artifact", "verified"),
        ("artifact", "unsigned"),
        ("snapshot", "mismatch"),
    ):
        home.event(kind, outcome, project=r.choice(projects))
    return home


def fresh_comparison(home, **run):
    """As a command writes it just now."""
    now = time.time_ns()
    runs = [home.run(start=now, **run) for _ in range(2)]
    home.compare(runs, ["differs"], "differ", when=now)
    home.db.execute("UPDATE runs SET recorded_ns = ? WHERE id IN (?, ?)", (now, *runs))
    home.db.execute("UPDATE comparisons SET recorded_ns = ? WHERE time_ns = ?", (now, now))
    home.db.commit()
    return runs
