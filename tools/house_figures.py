#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the figures of docs/internals/house.md: what each room of C code holds, as a table in
Markdown.

Columns: files, lines, lines over 100 and over 120 columns, ?: that stand in another, functions.
"""

import os

from check_chains import chains

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOPS = ("agents", "cmd", "kernels", "src")


def room_of(path):
    parts = path.split(os.sep)
    return os.sep.join(parts[:2]) if parts[0] in ("agents", "src") else parts[0]


def figures(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as f:
        text = f.read()
    lines = text.splitlines()
    functions = sum(line == "{" for line in lines) if path.endswith(".c") else 0
    return (
        1,
        len(lines),
        sum(len(x) > 100 for x in lines),
        sum(len(x) > 120 for x in lines),
        len(chains(text)),
        functions,
    )


def main():
    rooms = {}
    for top in TOPS:
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in names:
                if name.endswith((".c", ".h")):
                    path = os.path.relpath(os.path.join(folder, name), ROOT)
                    before = rooms.get(room_of(path), (0,) * 6)
                    rooms[room_of(path)] = tuple(map(sum, zip(before, figures(path))))
    print(
        "| room | files | lines | over 100 | over 120 | chained ?: | functions |\n|---|---|---|---|---|---|---|"
    )
    for room, found in sorted(rooms.items()) + [("all", tuple(map(sum, zip(*rooms.values()))))]:
        print("| %s | %s |" % (room, " | ".join(map(str, found))))


if __name__ == "__main__":
    main()
