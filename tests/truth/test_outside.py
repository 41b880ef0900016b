# SPDX-License-Identifier: Apache-2.0
"""Results that a job writes outside of the folder in which it was started, where its
command says.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

import test_clock  # noqa: E402
from test_clock import BUILD, pool  # noqa: E402

JOB = """
import random, sys
import numpy as np
import twinrun
from pathlib import Path

out, kind = Path(sys.argv[1].removeprefix("--out=")), sys.argv[2]
for step in range(3):
    x = np.float64([step])
    twinrun.record("input", x)
    twinrun.record("weights", x * 2)
    twinrun.step()
out.mkdir(parents=True, exist_ok=True)
r = random.SystemRandom().random()
if kind == "metrics":
    (out / "metrics.json").write_text('{"accuracy": %.6f}' % r)
elif kind == "array":
    np.save(out / "model.npy", np.float64([r]))
elif kind == "deep":
    (out / "a" / "b").mkdir(parents=True, exist_ok=True)
    (out / "a" / "b" / "result.csv").write_text("loss\\n%.6f\\n" % r)
elif kind == "log":
    with (out / "log.txt").open("a") as f:
        f.write("final accuracy 0.5 took %.3f s\\n" % r)
elif kind == "equal":
    np.save(out / "model.npy", np.float64([0.5]))
    (out / "log.txt").write_text("took %.3f s\\n" % r)
"""


def check(tmp_path, *words):
    work = tmp_path / "work"
    work.mkdir()
    (work / "job.py").write_text(JOB)
    env = pool.environment(tmp_path / "home")
    argv = [BUILD / "cmd" / "twinrun", "check", "--runs", "2", "--json", "--"]
    done = subprocess.run([*argv, *words], cwd=work, env=env, capture_output=True, text=True)
    assert done.stdout, done.stderr
    verdict = json.loads(done.stdout)
    runs = [test_clock.recheck.Run(d) for d in verdict["runs_dir"]]
    assert not test_clock.refuted(verdict, runs)
    return verdict


@pytest.mark.parametrize("kind", ["metrics", "array", "deep"])
def test_results_elsewhere_count(tmp_path, kind):
    out = tmp_path / "elsewhere" / "run7"
    verdict = check(tmp_path, sys.executable, "job.py", "--out=%s" % out, kind)
    assert verdict["outcome"] == "differ", verdict
    assert verdict["first"]["detail"]["type"] == "file"
    assert str(out) in verdict["first"]["detail"]["text"]


def test_a_shell_command_names_places_too(tmp_path):
    out = tmp_path / "elsewhere"
    command = "%s job.py %s array" % (sys.executable, out)
    assert check(tmp_path, "sh", "-c", command)["outcome"] == "differ"
    command = "%s job.py ../beside/x metrics" % sys.executable
    (tmp_path / "again").mkdir()
    assert check(tmp_path / "again", "sh", "-c", command)["outcome"] == "differ"


def test_equal_results_elsewhere(tmp_path):
    old = tmp_path / "elsewhere"
    old.mkdir()
    (old / "data.npy").write_bytes(b"what was there before")
    os.utime(old / "data.npy", (1e9, 1e9))
    time.sleep(0.1)
    verdict = check(tmp_path, sys.executable, "job.py", str(old), "equal")
    assert verdict["outcome"] == "same", verdict
    assert "data.npy" not in json.dumps(verdict)


def test_a_log_that_grows(tmp_path):
    verdict = check(tmp_path, sys.executable, "job.py", str(tmp_path / "logs"), "log")
    assert verdict["outcome"] == "same", verdict
