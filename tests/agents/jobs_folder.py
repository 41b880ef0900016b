# SPDX-License-Identifier: Apache-2.0
"""A folder in which twinrun records jobs, with its home: what tests of commands begin with that
look at runs of before, and ask the ledger.
"""

import json
import os
import pathlib
import sqlite3
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

BUILD = os.path.abspath(os.environ.get("TWINRUN_BUILD", "build"))
TWINRUN = os.path.join(BUILD, "cmd", "twinrun")


class JobsFolder:
    def __init__(self, folder, without=()):
        """without: what variables of ours begin with that the commands do not get."""
        self.folder = pathlib.Path(folder) / "jobs"
        self.folder.mkdir()
        self.home = self.folder / ".twinrun"
        hidden = ("TWINRUN_", "GIT_", *without)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}

    def twinrun(self, *words, **env):
        return subprocess.run(
            [TWINRUN, *map(str, words)],
            cwd=self.folder,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def runs(self):
        """Names of the runs' folders."""
        folder = self.home / "runs"
        return sorted(os.listdir(folder)) if folder.exists() else []

    def record_of(self, name):
        return json.loads((self.home / "runs" / name / "run.json").read_bytes())

    def ask(self, sql):
        with sqlite3.connect(self.home / "ledger.db") as db:
            return db.execute(sql).fetchall()

    def indicators(self):
        return json.loads(self.twinrun("slo", "--json").stdout)["indicators"]
