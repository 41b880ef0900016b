#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on lines over 100 columns in C, Python, Markdown and the shell script `dev`.

What cannot be broken without a change of what it says may be longer: strings of Python, tables and
code of Markdown, and what stands between `clang-format off` and `clang-format on`.
"""

import io
import os
import re
import subprocess
import sys
import tokenize

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIMIT = 100


def in_python_strings(text):
    """The lines (from 1) that a string reaches beyond the limit in."""
    lines = text.split("\n")
    found = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.STRING:
            continue
        for line in range(token.start[0], token.end[0] + 1):
            ends = token.end[1] if line == token.end[0] else len(lines[line - 1])
            if ends >= LIMIT or len(lines[line - 1]) - ends <= 8:  # what closes the call behind it
                found.add(line)
    return found


def in_markdown_blocks(text):
    """The lines of tables, of fenced and of indented code."""
    found, fenced = set(), False
    for number, line in enumerate(text.split("\n"), 1):
        fence = line.lstrip().startswith(("```", "~~~"))
        fenced ^= fence
        if fenced or fence or line.startswith("    ") or line.lstrip().startswith("|"):
            found.add(number)
        if re.search(r"\]\(\S{60,}\)|`[^`]{60,}`|https?://\S{60,}", line):
            found.add(number)  # one link, or one command
    return found


def in_tables_of_c(text):
    found, off = set(), False
    for number, line in enumerate(text.split("\n"), 1):
        off = (off or "clang-format off" in line) and "clang-format on" not in line
        if off:
            found.add(number)
    return found


EXEMPT = {
    "": lambda text: set(),  # dev
    ".py": in_python_strings,
    ".md": in_markdown_blocks,
    ".c": in_tables_of_c,
    ".h": in_tables_of_c,
    ".cu": in_tables_of_c,
}


def main():
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    bad = count = 0
    for name in listed.stdout.decode().splitlines():
        path = os.path.join(ROOT, name)
        end = os.path.splitext(name)[1]
        if (
            end not in EXEMPT
            or (not end and name != "dev")
            or name.startswith("tests/golden/")
            or not os.path.exists(path)
        ):
            continue
        count += 1
        with open(path, encoding="utf-8") as f:
            text = f.read()
        wide = [n for n, line in enumerate(text.split("\n"), 1) if len(line) > LIMIT]
        if wide:
            exempt = EXEMPT[end](text)
            wide = [n for n in wide if n not in exempt]
        for number in wide:
            print(f"{name}:{number}: wider than {LIMIT} columns")
        bad += len(wide)
    print(f"widths: {count} files, {bad} lines over {LIMIT} columns")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
