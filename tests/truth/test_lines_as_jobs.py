# SPDX-License-Identifier: Apache-2.0
"""The corpus of log lines (lines/*.txt) as what whole runs printed.

Each line stands in the output of a recorded run, once as the first run printed it and once as the
second did; the facts of the runs (when, which processes, which host) are those of the corpus. Held
against each other as a check does it, lines that differ in their noise alone are the same, and
lines of which a result differs are not. Every claim of each verdict is rechecked.
"""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]

import pool  # noqa: E402
from mutant_tools import Copy  # noqa: E402
from test_claims import BUILD, recheck, recorded  # noqa: E402, F401
from test_recheck_lines import LABEL, RUNS, corpus, render  # noqa: E402


class Pair:
    """Two run folders that print what they are told."""

    def __init__(self, r, folder):
        self.runs = [Copy(run, folder / name) for run, name in zip((r.a, r.b), "ab")]
        self.env = pool.environment(folder / "home")
        for copy, facts in zip(self.runs, RUNS):
            own = copy.run["processes"][0]
            copy.run = {
                **copy.run,
                **facts,
                "processes": [{**own, **p} for p in facts["processes"]],
            }

    def verdict(self, first, second):
        for copy, text in zip(self.runs, (first, second)):
            copy.write("stdout", text + b"\n")
            run = copy.run
            size, digest = len(text) + 1, hashlib.sha256(text + b"\n").hexdigest()
            run["stdout"] |= {"bytes": size, "stored_bytes": size, "sha256": digest}
            copy.run = run
        done = subprocess.run(
            [BUILD / "cmd" / "twinrun", "diff", "--json", "--", *(c.folder for c in self.runs)],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stdout, done.stderr
        return json.loads(done.stdout)


def refuted(verdict):
    runs = [recheck.Run(d) for d in verdict["runs_dir"]]
    r = recheck.Recheck(verdict["claims"], runs, verdict)
    return [
        (c["claim"], text) for c in verdict["claims"] for s, text in [r.one(c)] if s == "refuted"
    ]


@pytest.mark.parametrize(
    "name", ["tuned.txt", "held.txt", "styles.txt", "lookalikes.txt", "unexplained.txt"]
)
def test_lines_as_jobs(recorded, tmp_path, name):  # noqa: F811
    pair = Pair(recorded("values"), tmp_path)
    reported, masked, wrong, noise, n = [], [], [], 0, 0
    for line in corpus(name):
        kinds = [m[1] for m in LABEL.finditer(line)]
        first = render(line, False)
        noise += kinds.count("n")
        if "n" in kinds:
            verdict = pair.verdict(first, render(line, True))
            wrong += refuted(verdict)
            if verdict["outcome"] != "same":
                reported.append(line)
        for i in range(kinds.count("r")):
            n += 1
            verdict = pair.verdict(first, render(line, bool(n % 2), i))
            wrong += refuted(verdict)
            if verdict["outcome"] == "same":
                masked.append((i, line))
    assert masked == []
    assert wrong == [], "\n".join(map(str, wrong))
    if name == "unexplained.txt":  # times in columns without a unit or a name: nothing says so
        assert len(reported) == 3
        return
    assert n > 45 and len(reported) <= 0.01 * noise, reported
