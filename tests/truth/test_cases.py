# SPDX-License-Identifier: Apache-2.0
"""Small jobs with the verdict that each must get, and why (cases/*.py)."""

import json
import os
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "cases"), str(HERE.parents[1] / "python")]

import field  # noqa: E402
import own  # noqa: E402
import pool  # noqa: E402
import shown  # noqa: E402
import stranger  # noqa: E402
from twinrun import recheck  # noqa: E402

BUILD = Path(os.environ.get("TWINRUN_BUILD", HERE.parents[1] / "build")).resolve()
CASES = field.CASES + own.CASES + shown.CASES + stranger.CASES


def check(case, folder):
    job, arms = case[3], dict(case[4]) if len(case) > 4 else {}
    here = arms.pop("here", False)
    folder.mkdir()
    work = folder / "work"
    work.mkdir()
    (folder / "job.py").write_text("from prelude import *\n\n" + textwrap.dedent(job))
    env = pool.environment(work if here else folder / "home")
    env.update(CASE_STATE=str(folder / "state"), PYTHONPATH=str(HERE / "cases"))
    command = [sys.executable, str(folder / "job.py")]
    argv = [BUILD / "cmd" / "twinrun", "check", "--json", "--no-zoom", *arms.get("options", [])]
    if arms:
        for arm in "ab":
            argv += ["--" + arm, shlex.join(command) + " " + arms[arm]]
    else:
        argv += ["--runs", "2", *([] if here else ["--fresh-dir"]), "--", *command]
    return subprocess.run(argv, cwd=work, env=env, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])
def test_case(case, tmp_path):
    name, expected, why = case[:3]
    done = check(case, tmp_path / "case")
    assert done.stdout.strip(), done
    v = json.loads(done.stdout)
    kept = tmp_path / "verdict.json"
    kept.write_text(done.stdout)
    refuted = [r for r in recheck.recheck(str(kept)) if r[0] == "refuted"] if v["runs_dir"] else []
    right = v["outcome"] == expected
    if expected.startswith("not "):
        right = v["outcome"] not in (expected[4:], "error")
    said = v["first"] or v["unseen"] or v["benign"]
    assert right, "%s, expected %s: %s\n%s\n%s" % (v["outcome"], expected, why, said, done.stderr)
    assert not refuted
