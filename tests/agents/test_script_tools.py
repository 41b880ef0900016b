# SPDX-License-Identifier: Apache-2.0
"""Functions of scripts are watched beside other tools that watch Python code: coverage.py,
cProfile, pdb, and whatever takes the same place in sys.monitoring. Each shows what it shows alone,
and a verdict tells what was not seen. From Python 3.12 on (TWINRUN_NEWER_PYTHON).
"""

import subprocess

import pytest
from native import clean_environment
from newer_python import MARKS, PYTHON
from test_script_end import check

pytestmark = MARKS

OWN = """
import os
import numpy as np

def inner(x):
    if x.sum() > 1:
        x = x + 1
    elif x.sum() < 0:
        x = x - 1
    return x * 2

def main():
    total = 0.0
    for i in range(5):
        total += float(inner(np.full(3, i)).sum()) + CHANGE
    return total
"""

COVERAGE = """
import sys
import numpy, coverage

def run():
    watch = coverage.Coverage(data_file=None, include=["*own.py"])
    watch.start()
    import own
    own.main()
    print(sys.monitoring.get_tool(sys.monitoring.COVERAGE_ID), 'sysmon')
    watch.stop()
    watch.report(show_missing=True)

run()
"""

PROFILE = """
import cProfile, pstats
import own

def run():
    watch = cProfile.Profile()
    print(watch.runcall(own.main))
    counted = pstats.Stats(watch).stats.items  # times, which are nobody's result
    print(sorted((place[2], counts[:2]) for place, counts in counted()))

run()
"""

PDB = """
import io, pdb, sys
import own

def run():
    said = io.StringIO("b own.inner\\nc\\np x\\nbt\\nn\\ncl 1\\nr\\nc\\n")
    pdb.Pdb(stdin=said, stdout=sys.stdout, nosigint=True, readrc=False).runcall(own.main)

run()
"""

TAKES = """
import sys
import own

seen = []

def saw(code, offset):
    seen.append(code.co_name)

def run():
    tools = sys.monitoring
    own.main()
    for place in range(6):
        tools.use_tool_id(place, "mine")
        tools.register_callback(place, tools.events.PY_START, saw)
        tools.set_events(place, tools.events.PY_START)
    own.main()
    for place in range(6):
        tools.set_events(place, 0)
        tools.free_tool_id(place)
    try:
        tools.use_tool_id(7, "mine")
    except ValueError as error:
        print(error, tools.use_tool_id.__name__)
    print(len(seen), sorted(set(seen)))

run()
"""

FIRST = """
import sys
for place in PLACES:
    sys.monitoring.use_tool_id(place, "first")
import own
own.main()
print([sys.monitoring.get_tool(place) for place in PLACES])
"""
LOST = "what functions of own.py computed and did not leave in its variables (%s)"
LEFT = LOST % "not watched from where another tool took its place in sys.monitoring on"
NO_PLACE = LOST % "other tools have its places in sys.monitoring"

# name -> (script, what the tool shows in both, what the verdict tells as unseen; "": nothing is)
TOOLS = {
    "coverage": (COVERAGE, "sysmon", "what watch (coverage.control.Coverage) holds"),
    "profile": (PROFILE, "('inner', (5, 5))", ""),
    "pdb": (PDB, "-> if x.sum() > 1:", ""),
    "took our place": (TAKES, "'inner'", LEFT),
    "one place is taken": (FIRST.replace("PLACES", "[4]"), "['first']", ""),
    "no place is left": (FIRST.replace("PLACES", "[3, 4]"), "['first', 'first']", NO_PLACE),
}


def need(name, monkeypatch):
    monkeypatch.setenv("COVERAGE_CORE", "sysmon")
    if name == "coverage" and subprocess.call(
        [PYTHON, "-c", "import coverage"], stderr=subprocess.DEVNULL
    ):
        pytest.skip("no coverage.py in TWINRUN_NEWER_PYTHON")


def check_beside(folder, name, change):
    (folder / "own.py").write_text(OWN.replace("CHANGE", change))
    (folder / "s.py").write_text(TOOLS[name][0])
    return check(folder, "", PYTHON, "s.py")


@pytest.mark.parametrize("name", TOOLS)
def test_both_tools_work(name, tmp_path, monkeypatch):
    need(name, monkeypatch)
    _, shown, unseen = TOOLS[name]
    code, verdict = check_beside(tmp_path, name, "0")
    told = dict(cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=120)
    alone = subprocess.run([PYTHON, "s.py"], **told)
    assert alone.returncode == 0 and shown in alone.stdout and not alone.stderr, alone
    assert code == (3 if unseen else 0), (verdict["first"], verdict["unseen"])
    assert any(unseen in text for text in verdict["unseen"] or [""]), verdict["unseen"]
    shown_in_runs = sorted((tmp_path / ".twinrun").glob("runs/*/stdout"))
    assert [path.read_text() for path in shown_in_runs] == [alone.stdout] * 2


@pytest.mark.parametrize("name", ["coverage", "profile", "pdb", "one place is taken"])
def test_beside_another_tool_a_difference_is_found(name, tmp_path, monkeypatch):
    need(name, monkeypatch)
    code, verdict = check_beside(tmp_path, name, "int.from_bytes(os.urandom(4), 'big') * 1e-9")
    assert (code, verdict["first"]["name"]) == (1, "total"), verdict
    assert verdict["first"]["source"][0] == "own.py:15 in main", verdict
