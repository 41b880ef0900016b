# SPDX-License-Identifier: Apache-2.0
"""The runbooks (docs/runbooks/): what they say is printed by the job that they name.

Of each page the commands behind `$` are run, in their order, in a folder that holds its ghost as
train.py (./train in C). The lines below a command stand in its output in that order; `...` stands
for anything. A block without a command is the file that the text before it names.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import GHOSTS, ROOT, clean_environment

sys.path.insert(0, str(GHOSTS))
import suite  # noqa: E402

PAGES = sorted((ROOT / "docs" / "runbooks").glob("*.md"))
# One bit of the first weight, as a bad disk leaves it: the archive's own checksum is not asked.
DAMAGE = """
import sys, torch

state = torch.load(sys.argv[1])
weight = next(v for v in state["model"].values())
weight.view(torch.int32).view(-1)[0] ^= 1 << 22
torch.save(state, sys.argv[1])
"""


def blocks(text):
    """The indented blocks of a page, each with the text before it."""
    parts = re.split(r"((?:^    .*\n|^\n(?=    ))+)", text, flags=re.M)
    for before, block in zip(parts[::2], parts[1::2]):
        if block.strip():
            yield before, re.sub(r"^    ", "", block, flags=re.M).strip("\n") + "\n"


def commands(block):
    """(command, lines that it prints) of a block."""
    out = []
    for line in block.splitlines():
        if line.startswith("$ "):
            out.append((line[2:], []))
        elif line.strip():
            out[-1][1].append(line)
    return out


def squeezed(text):
    """Each line with one blank where it has several: columns are as wide as the run made them."""
    return [re.sub(r" +", " ", line.strip()) for line in text.splitlines()]


def check_shown(command, lines, printed):
    have = iter(squeezed(printed))
    for wanted in squeezed("\n".join(lines)):
        rule = re.compile(".*".join(map(re.escape, wanted.split("..."))))
        assert any(
            rule.match(line) for line in have
        ), f"$ {command}\nexpected a line like\n  {wanted}\nfound\n{printed}"


def stage(ghost, work, env):
    """The ghost as train.py, or compiled as ./train; with what lies beside it."""
    truth = suite.truths()[ghost]
    (work / "staged").mkdir()
    staged = suite.Staged(ghost, truth, "ghost", str(work / "staged"))
    shutil.copy(staged.program, work / ("train" if suite.is_c(ghost) else "train.py"))
    for extra in truth.get("files", []):
        shutil.copytree(GHOSTS / ghost / extra, work / extra)
    env.update(staged.env)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page, work, build, home, python):
    text = page.read_text()
    env = clean_environment({"TWINRUN_HOME": str(home)})
    env["PATH"] = f"{build / 'cmd'}:{Path(python).parent}:{env['PATH']}"
    stage(re.search(r"^Ghost: `(.+)`$", text, re.M)[1], work, env)
    (work / "damage.py").write_text(DAMAGE)
    ran = 0
    for before, block in blocks(text):
        if not block.startswith("$ "):
            (work / re.search(r"`([\w.]+\.toml)`", before)[1]).write_text(block)
            continue
        for command, lines in commands(block):
            done = subprocess.run(
                ["sh", "-c", command],
                cwd=work,
                env=env,
                capture_output=True,
                text=True,
                timeout=300,
            )
            assert done.returncode in (0, 1), (command, done.stdout, done.stderr)
            check_shown(command, lines, done.stdout)
            ran += 1
    assert ran >= 1


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "runbooks.md").read_text()
    assert [f"runbooks/{page.name}" in index for page in PAGES] == [True] * len(PAGES)
    assert len(PAGES) == 8
