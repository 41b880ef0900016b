# SPDX-License-Identifier: Apache-2.0
"""The table of processor time by file (spent_time.py) charges a test with what its processes use."""

import os
import re
import subprocess
import sys
from pathlib import Path

BUSY = """
import time, subprocess, sys
SPINS = "import time\\nwhile time.process_time() < .5: pass"
def test_busy():
    subprocess.run([sys.executable, "-c", SPINS], check=True)
"""
IDLE = "def test_idle():\n    pass\n"


def charged(folder, *options):
    here = str(Path(__file__).parent)
    (folder / "plugged.py").write_text(
        "from spent_time import SpentTime\n"
        "def pytest_configure(config):\n"
        "    config.pluginmanager.register(SpentTime())\n"
    )
    (folder / "test_busy.py").write_text(BUSY)
    (folder / "test_idle.py").write_text(IDLE)
    # neither options nor the worker of who runs this test: "-k" among them leaves no test to run
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "plugged", *options],
        cwd=folder,
        env={**env, "PYTHONPATH": os.pathsep.join((here, str(folder)))},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"exit {done.returncode}: {done.stdout}{done.stderr}"
    lines = re.findall(r"^ +([\d.]+) s (test_\w+)\.py$", done.stdout, re.M)
    return {name: float(seconds) for seconds, name in lines}


def test_time_of_children_is_charged_to_the_file(tmp_path):
    for options in ([], ["-n", "1"]):  # in this process, and in a worker's
        seconds = charged(tmp_path, *options)
        # the processor's clock decides, not the wall's
        assert 0.5 <= seconds["test_busy"] and seconds["test_idle"] < 0.5, seconds
