# SPDX-License-Identifier: Apache-2.0
"""Pages with commands, held against what the commands print (docs/, examples/).

The lines below a command stand in its output in that order; `...` stands for anything. A block
without a command is the file that the text before it names.
"""

import re
import shutil
import subprocess
import sys

from conftest import GHOSTS

sys.path.insert(0, str(GHOSTS))
import suite  # noqa: E402

# Before a block: the page whose commands print these lines; why the commands are not run by a test.
SHOWN = re.compile(r"<!-- shown in (\S+) -->\s*\Z")
NOT_RUN = re.compile(r"<!-- not run by a test: ([^>]+) -->\s*\Z")
# The same for all blocks of a page.
NOT_RUN_PAGE = re.compile(r"<!-- the commands of this page are not run by a\s+test: ([^>]+) -->")


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


def follow(text, folder, env, timeout=600):
    """Runs a page's commands in `folder`, in their order. Returns how many there were."""
    ran = 0
    for before, block in blocks(text):
        if SHOWN.search(before) or NOT_RUN.search(before):
            continue
        if not block.startswith("$ "):
            (folder / re.search(r"`([\w.]+\.toml)`", before)[1]).write_text(block)
            continue
        for command, lines in commands(block):
            done = subprocess.run(
                ["sh", "-c", command],
                cwd=folder,
                env=env,
                capture_output=True,
                text=True,
                timeout=timeout,
            )
            # inconclusive (3) is an answer too: the lines that are shown say which one is meant
            assert done.returncode in (0, 1, 3), (command, done.stdout, done.stderr)
            check_shown(command, lines, done.stdout)
            ran += 1
    return ran
