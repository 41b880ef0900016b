#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails where one ?: stands in another: a reader takes one decision a line.

An `if`, a `switch` or a small function with early returns says the same and can be read at once.
"""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOPS = ("agents", "cmd", "kernels", "src")
TOKEN = re.compile(
    r"""/\*.*?\*/ | //[^\n]* | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | \w+ | .""",
    re.S | re.X,
)


def chains(text):
    """The lines (from 1) on which a ?: begins that is an operand of another, also in brackets."""
    found, line = [], 1
    open_here = [0]  # for each bracket that is open: ?: of the expression at hand
    for match in TOKEN.finditer(text):
        token = match.group()
        line += token.count("\n")
        if token in "([{":
            open_here.append(0)
        elif token in ")]}":
            if len(open_here) > 1:
                open_here.pop()
        elif token in ",;":
            open_here[-1] = 0
        elif token == "?":
            if any(open_here):
                found.append(line)
            open_here[-1] += 1
        if token in "{;":
            open_here = [0 if token == "{" else n for n in open_here]
    return found


def sources():
    for top in TOPS:
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in sorted(names):
                if name.endswith((".c", ".h", ".cu", ".cuh")):
                    yield os.path.relpath(os.path.join(folder, name), ROOT)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as f:
        return f.read()


def main():
    bad = count = 0
    for path in sources():
        count += 1
        for line in chains(read(path)):
            print(f"{path}:{line}: one ?: in another")
            bad += 1
    print(f"chains: {count} files, {bad} of ?: in another")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
