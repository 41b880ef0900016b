# SPDX-License-Identifier: Apache-2.0
"""twinrun.habits: what it finds in sources whose fault is known, and that it finds nothing once the
fault is mended; the forms in which editors, pre-commit and code scanning read it.
"""

import json
import os
import re
import subprocess
import sys

import pytest

from conftest import FULL, GHOSTS, ROOT, clean_environment

HABITS = ROOT / "python" / "twinrun" / "habits.py"
sys.path.insert(0, str(ROOT / "python"))
from twinrun import habits  # noqa: E402

TOOLS = os.environ.get("TWINRUN_HOOKS_PYTHON", "")

# A job that has the fault, what is found, and the job that has not.
PAIRS = [
    ("import random\nrandom.seed()", "entropy-seed", "import random\nrandom.seed(7)"),
    (
        "import numpy as np\nr = np.random.default_rng(None)",
        "entropy-seed",
        "import numpy as np\nr = np.random.default_rng(seed=7)",
    ),
    ("import torch\ntorch.seed()", "entropy-seed", "import torch\ntorch.manual_seed(0)"),
    (
        "from random import Random\nr = Random()",
        "entropy-seed",
        "class Random: pass\nr = Random()",  # another one
    ),
    (
        "import random, time as t\nnow = int(t.time())\nrandom.seed(now % 97)",
        "clock-seed",
        "import random, time as t\nnow = int(t.time())\nrandom.seed(7)\nprint(now)",
    ),
    (
        "import os, torch\ntorch.manual_seed(os.getpid())",
        "clock-seed",
        "import os, torch\ntorch.manual_seed(int(os.environ['SEED']))",
    ),
    (
        "import random\nrandom.seed(hash('a'))",
        "salted-hash",
        "import random, zlib\nrandom.seed(zlib.crc32(b'a'))",
    ),
    (
        "part = [n for n in names if hash(n) % 5]",
        "salted-hash",
        "class A:\n    def __hash__(self): return hash(self.n)",
    ),
    (
        "import random, torch\ntorch.manual_seed(0)\nrandom.shuffle(x)",
        "other-generator",
        "import random, torch\ntorch.manual_seed(0)\nrandom.seed(0)\nrandom.shuffle(x)",
    ),
    (
        "import numpy, torch\ntorch.manual_seed(0)\nx = numpy.random.rand(3)",
        "other-generator",
        "import numpy, torch\nfrom lightning import seed_everything\ntorch.manual_seed(0)\n"
        "seed_everything(0)\nx = numpy.random.rand(3)",
    ),
    (
        "import random, torch\nrandom.seed(0)\ntorch.randperm(3)",
        "other-generator",
        "import random, torch\nrandom.seed(0)\ntorch.randperm(3, generator=g)",
    ),
    (
        "w = set(text)\nd = {x: i for i, x in enumerate(w)}",
        "set-order",
        "w = sorted(set(text))\nd = {x: i for i, x in enumerate(w)}",
    ),
    ("x = list({a for a in b})", "set-order", "x = sorted(list({a for a in b}))"),
    ("x = ','.join(set(b))", "set-order", "x = ','.join(sorted(set(b)))"),
    (
        "import os\nfor f in os.listdir('d'): read(f)",
        "folder-order",
        "import os\nfor f in sorted(os.listdir('d')): read(f)",
    ),
    (
        "from glob import glob\nfiles = glob('*.npy')",
        "folder-order",
        "from glob import glob\nfiles = glob('*.npy')\nfiles.sort()",
    ),
    (
        "import glob\nx = [f for f in glob.glob('*')]",
        "folder-order",
        "import glob\n(x,) = glob.glob('*')\ny = 'a' in glob.glob('*') or not glob.glob('b')",
    ),
]


def rules(source):
    return [each.rule for each in habits.look("job.py", source)]


@pytest.mark.parametrize("faulty, rule, mended", PAIRS, ids=range(len(PAIRS)))
def test_a_fault_is_found_and_a_mended_one_is_not(faulty, rule, mended):
    assert rules(faulty) == [rule]
    assert rules(mended) == []


# Fixes that only a run can follow: of a number that is asked for (SEED = -1), and a time times 0.
NOT_FROM_THE_SOURCE = {"fresh-torch-seed", "launch-time-seed"}


def test_of_jobs_whose_cause_is_known_the_faults_are_found_and_nothing_when_they_are_mended():
    """The ghosts' own fixes, as they stand in their truth. What is found lies in the very lines
    that the fix changes.
    """
    found_in = set()
    for truth in sorted(GHOSTS.glob("*/truth.json")):
        job, fixes = truth.with_name("job.py"), json.loads(truth.read_text()).get("fix", [])
        twin = truth.with_name("twin.py")
        if not job.exists() or not (fixes or twin.exists()):
            continue
        if truth.parent.name in NOT_FROM_THE_SOURCE:
            continue
        text = twin.read_text() if twin.exists() else job.read_text()
        for before, after in fixes:
            text = text.replace(before, after)
        found = habits.look(str(job))
        if found:
            found_in.add(truth.parent.name)
            old, new = job.read_text().split("\n"), set(text.split("\n"))
            lines = {n for n, line in enumerate(old, 1) if line not in new}
            near = [each for each in found if {each.line, each.line - 1} & lines]
            assert near, (truth.parent.name, [str(each) for each in found])
        assert habits.look(str(job), text) == [], truth.parent.name
    assert found_in >= {"private-generator", "private-numpy", "vocabulary-order", "staged-shards"}


def test_a_comment_keeps_one_rule_of_one_line_silent():
    line = "import random\nrandom.seed()  # twinrun: allow %s"
    assert rules(line % "entropy-seed") == []
    assert rules(line % "clock-seed, entropy-seed") == []
    assert rules(line % "set-order") == ["entropy-seed"]
    assert rules((line % "entropy-seed") + "\nrandom.seed()") == ["entropy-seed"]


def run(*argv, rc, cwd, env=None, python=sys.executable):
    done = subprocess.run(
        [str(word) for word in (python, *argv)],
        cwd=cwd,
        env=clean_environment(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == rc, done.stdout
    return done.stdout


def test_from_the_command_line(tmp_path):
    """Text for people and editors, SARIF beside it; a file that is none of Python is trouble, and
    the others are looked at all the same.
    """
    (tmp_path / "good.py").write_text("import random\nrandom.seed(7)\nx = '\\d'\n")
    (tmp_path / "a b.py").write_text("import random\n\nrandom.seed()\n")
    (tmp_path / "none.py").write_text("def :\n")
    (tmp_path / "bytes.py").write_bytes(b"x = '\xff\0'\n")
    (tmp_path / "deep.py").write_text("(" * 9999 + ")" * 9999)
    assert run(HABITS, "good.py", rc=0, cwd=tmp_path) == ""
    said = run(HABITS, "good.py", "a b.py", "--sarif", "out.sarif", rc=1, cwd=tmp_path)
    assert said.startswith("a b.py:3:1: warning: random.seed: no seed is given")
    assert said.count("\n") == 1 and said.endswith("[entropy-seed]\n")
    log = json.loads((tmp_path / "out.sarif").read_text())
    (result,) = log["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "a%20b.py"
    assert place["region"] == {"startLine": 3, "startColumn": 1}
    rule = log["runs"][0]["tool"]["driver"]["rules"][result["ruleIndex"]]
    assert rule["id"] == result["ruleId"] == "entropy-seed"
    said = run(
        HABITS, "none.py", "bytes.py", "deep.py", "not there.py", "a b.py", rc=2, cwd=tmp_path
    )
    assert said.count("expected Python's source, found: ") == 4 and "[entropy-seed]" in said


def test_what_the_editor_is_told_to_look_for(tmp_path):
    """ci/vscode: its pattern meets what is printed (that of check: test_next.py)."""
    tasks = json.loads((ROOT / "ci/vscode/tasks.json").read_text())["tasks"]
    ours = tasks[1]["problemMatcher"]["pattern"]
    (tmp_path / "job.py").write_text("import random\nrandom.seed()\n")
    line = run(HABITS, tmp_path / "job.py", rc=1, cwd=tmp_path).rstrip("\n")
    met = re.match(ours["regexp"], line)
    assert met and met.group(ours["file"]) == str(tmp_path / "job.py")
    assert met.group(ours["line"], ours["column"], ours["code"]) == ("2", "1", "entropy-seed")


needs_tools = pytest.mark.skipif(
    not (FULL and TOOLS),
    reason="TWINRUN_HOOKS_PYTHON names no Python with pre-commit (./dev test --full makes one)",
)


@needs_tools
def test_sarif_is_what_its_models_say(tmp_path):
    """The models of sarif-pydantic, made of the published schema by others, take each field, and
    give back what was put in.
    """
    (tmp_path / "job.py").write_text("import random\nrandom.seed()\n")
    run(HABITS, "job.py", "--sarif", "out.sarif", rc=1, cwd=tmp_path)
    code = (
        "import json, sys, sarif_pydantic as s\n"
        "text = open('out.sarif').read()\n"
        "log = s.Sarif.model_validate_json(text, strict=False)\n"
        "back = json.loads(log.model_dump_json(by_alias=True, exclude_none=True))\n"
        "def part(a, b):\n"
        "    if isinstance(a, dict): return all(k in b and part(v, b[k]) for k, v in a.items())\n"
        "    if isinstance(a, list): return len(a) == len(b) and all(map(part, a, b))\n"
        "    return a == b\n"
        "assert part(json.loads(text), back), back\n"
        "print(log.runs[0].results[0].rule_id)\n"
    )
    assert run("-c", code, rc=0, cwd=tmp_path, python=TOOLS) == "entropy-seed\n"


@needs_tools
def test_pre_commit_runs_it(tmp_path):
    """The hook as pre-commit takes it out of a repository of git."""
    hooks = tmp_path / "hooks"
    (hooks / "python/twinrun").mkdir(parents=True)
    (hooks / ".pre-commit-hooks.yaml").write_bytes((ROOT / ".pre-commit-hooks.yaml").read_bytes())
    (hooks / "python/twinrun/habits.py").write_bytes(HABITS.read_bytes())
    (hooks / "python/twinrun/habits.py").chmod(HABITS.stat().st_mode)
    yours = tmp_path / "yours"
    yours.mkdir()
    (yours / "job.py").write_text("import random\nrandom.seed()\n")
    (yours / "notes.txt").write_text("random.seed()\n")
    for folder in (hooks, yours):
        git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.example")
        for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "x")):
            subprocess.run([*git, *words], cwd=folder, check=True)
    env = {"PRE_COMMIT_HOME": str(tmp_path / "cache")}
    ask = ("-m", "pre_commit", "try-repo", hooks, "twinrun-habits", "--all-files")
    said = run(*ask, rc=1, cwd=yours, env=env, python=TOOLS)
    assert "job.py:2:1: warning: random.seed" in said and "notes.txt" not in said
    (yours / "job.py").write_text("import random\nrandom.seed(7)\n")
    assert "Passed" in run(*ask, rc=0, cwd=yours, env=env, python=TOOLS)
