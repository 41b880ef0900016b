#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the figures of docs/internals/house.md: how the C code of each room reads, as a table in
Markdown. With folders as arguments: the same for each of them, to compare with other projects.

Columns: files; lines; lines over 100 columns; ?: that stand in another; functions, the median and
the 90th percentile of their lines; share of lines with a comment.
"""

import os
import re
import sys

from check_chains import TOKEN, chains

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOPS = ("agents", "cmd", "kernels", "src")
HEAD = "| room | files | lines | over 100 | ?: in ?: | functions | median | p90 | comments |"
NO_FUNCTION = re.compile(
    r"^(?:[#}{/ \t]|(?:static |const )*(?:struct|enum|union|typedef)\b[^()]*$)"
)


def room_of(path):
    parts = path.split(os.sep)
    return os.sep.join(parts[:2]) if parts[0] in ("agents", "src") else parts[0]


def function_lengths(lines):
    """Lines of each function: from its opening brace, alone or behind its head, to one in column 0."""
    begun = None
    for i, line in enumerate(lines):
        if line.startswith("{") or (line.rstrip().endswith(") {") and not NO_FUNCTION.match(line)):
            begun = i
        elif line.startswith("}") and begun is not None:
            yield i - begun + 1
            begun = None


def commented_lines(text):
    found, line = set(), 1
    for match in TOKEN.finditer(text):
        token = match.group()
        if token.startswith(("/*", "//")):
            found.update(range(line, line + token.count("\n") + 1))
        line += token.count("\n")
    return len(found)


def figures(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        text = f.read()
    lines = text.splitlines()
    return {
        "files": 1,
        "lines": len(lines),
        "wide": sum(len(x) > 100 for x in lines),
        "chains": len(chains(text)),
        "functions": list(function_lengths(lines)) if not path.endswith(".h") else [],
        "comments": commented_lines(text),
    }


def add(into, found):
    for key, value in found.items():
        into[key] = into[key] + value if key in into else value


def row(name, x):
    lengths = sorted(x["functions"]) or [0]
    return "| %s | %d | %d | %d | %d | %d | %d | %d | %.0f%% |" % (
        name,
        x["files"],
        x["lines"],
        x["wide"],
        x["chains"],
        len(x["functions"]),
        lengths[len(lengths) // 2],
        lengths[len(lengths) * 9 // 10],
        100 * x["comments"] / x["lines"],
    )


def main():
    folders = sys.argv[1:]
    tops = folders or [os.path.join(ROOT, top) for top in TOPS]
    rooms, everything = {}, {}
    for top in tops:
        for folder, _, names in os.walk(top):
            for name in names:
                if name.endswith((".c", ".h")):
                    path = os.path.join(folder, name)
                    found = figures(path)
                    room = top if folders else room_of(os.path.relpath(path, ROOT))
                    add(rooms.setdefault(room, {}), found)
                    add(everything, found)
    print(HEAD + "\n" + "|---" * HEAD.count(" | ") + "|---|")
    for room, found in sorted(rooms.items()) + ([] if folders else [("all", everything)]):
        print(row(room, found))


if __name__ == "__main__":
    main()
