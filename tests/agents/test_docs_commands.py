# SPDX-License-Identifier: Apache-2.0
"""Every block of commands in the pages is run by a test, or says beside it why not.

Run: runbooks and examples (test_runbooks.py, test_examples.py) and, here, what has a ghost
(`Ghost: ...`) in a page or in a section of it. A block may be shown again elsewhere: then its lines
stand in the page that is named, which is run. Of all blocks, run or not, the options exist.
"""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from conftest import FULL, ROOT, clean_environment
from pages import NOT_RUN, NOT_RUN_PAGE, SHOWN, blocks, follow, squeezed, stage

DOCS = sorted((ROOT / "docs").rglob("*.md")) + [ROOT / "README.md"]
GHOST = re.compile(r"^Ghost: `(.+)`$", re.M)
RUN_ELSEWHERE = [ROOT / "docs" / "runbooks", ROOT / "examples"]


def is_run(page):
    return any(folder in page.parents for folder in RUN_ELSEWHERE)


def sections():
    """(name, text) of each page or section that has a ghost and is not run elsewhere."""
    for page in DOCS:
        if is_run(page):
            continue
        text = page.read_text()
        parts = re.split(r"^(?=## )", text, flags=re.M)
        if GHOST.search(parts[0]):
            yield page.stem, text
            continue
        for part in parts[1:]:
            if GHOST.search(part):
                yield f"{page.stem}-{GHOST.search(part)[1]}", part


@pytest.mark.parametrize("name, text", list(sections()), ids=[name for name, _ in sections()])
def test_commands(name, text, work, build, home, python, light):
    if "-" in name and not FULL:
        pytest.skip("a case study: its ghost is run by test_ghosts, its page with TWINRUN_FULL=1")
    env = clean_environment({"TWINRUN_HOME": str(home)})
    env["PATH"] = f"{build / 'cmd'}:{Path(python).parent}:{env['PATH']}"
    stage(GHOST.search(text)[1], work, env)
    assert follow(text, work, env) >= 1


def unexplained(text, ghost=False):
    """The blocks of commands that nothing runs and nothing excuses."""
    if NOT_RUN_PAGE.search(text):
        return []
    return [
        block
        for before, block in blocks(text)
        if block.startswith("$ ") and not (ghost or SHOWN.search(before) or NOT_RUN.search(before))
    ]


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_is_run_or_says_why_not(page):
    if is_run(page):
        return
    for part in re.split(r"^(?=## )", page.read_text(), flags=re.M):
        whole = NOT_RUN_PAGE.search(page.read_text()) or GHOST.search(
            re.split(r"^## ", page.read_text(), flags=re.M)[0]
        )
        assert whole or unexplained(part, GHOST.search(part)) == []


def test_an_unexplained_block_is_found():
    assert unexplained("# A\n\n    $ twinrun ls\n") == ["$ twinrun ls\n"]
    assert unexplained("# A\n\n<!-- not run by a test: no reason -->\n\n    $ twinrun ls\n") == []


def shown():
    for page in DOCS:
        for before, block in blocks(page.read_text()):
            if SHOWN.search(before):
                yield page, SHOWN.search(before)[1], block


def test_what_is_shown_again_stands_in_a_page_that_is_run():
    ghosts = {ROOT / "docs" / "resume.md"}
    found = list(shown())
    assert len(found) > 10
    for page, source, block in found:
        assert is_run(ROOT / source) or ROOT / source in ghosts, (page, source)
        have = set(squeezed((ROOT / source).read_text()))
        for line in squeezed(block):
            assert line in have, f"{page}: not in {source}: {line}"


def said_commands(block):
    """The words of each call of twinrun in a block: after `$`, or the block's own lines."""
    for line in block.splitlines():
        line = re.sub(r"^\S*\$ ", "", line) if "$ " in line[:12] else line
        if not re.match(r"(\S+=\S+ )*twinrun [a-z]+( |$)", line):
            continue
        try:
            words = shlex.split(re.split(r" \|| >| <|  +#|   ", line)[0])
        except ValueError:  # goes on in the next line
            continue
        words = words[words.index("twinrun") + 1 :]
        yield words[: words.index("--")] if "--" in words else words


def test_options_in_pages_exist(build):
    program = build / "cmd" / "twinrun"
    texts, looked_at = {}, 0
    for page in DOCS + sorted((ROOT / "examples").glob("*/README.md")):
        for _, block in blocks(page.read_text()):
            for command, *words in said_commands(block):
                if command not in texts:
                    done = subprocess.run(
                        [program, "help", command], capture_output=True, text=True
                    )
                    texts[command] = done.stdout if done.returncode == 0 else ""
                assert texts[command] or command == "help", f"{page}: no command {command}"
                for word in words:
                    option = re.match(r"--[a-z][a-z-]*", word)
                    if option and command != "help":
                        looked_at += 1
                        assert re.search(
                            rf"{option[0]}\b(?!-)", texts[command]
                        ), f"{page}: twinrun {command} has no {option[0]}"
    assert looked_at > 100


def test_json_is_listed_for_every_command_that_has_it(build):
    program = build / "cmd" / "twinrun"
    page = (ROOT / "docs" / "json.md").read_text()
    listed = set(
        re.findall(r"`([a-z]+)(?: --env)?`", "".join(re.findall(r"^\| (.*?) \|", page, re.M)))
    )
    names = re.findall(
        r"^\.BR twinrun\\-(\S+) \(1\)",
        subprocess.run([program, "--man"], capture_output=True, text=True).stdout,
        re.M,
    )
    have = {
        name
        for name in names
        if re.search(
            r"^      --json\b",
            subprocess.run([program, "help", name], capture_output=True, text=True).stdout,
            re.M,
        )
    }
    assert have == listed
