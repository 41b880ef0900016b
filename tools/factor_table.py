#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of factors into docs/factors.md, or checks that it stands there.

    twinrun factors --json | tools/factor_table.py [--check]

The table is the one in src/isolate/factor_rows.c, as the program tells it. Exit 1 with --check
where the page shows another.
"""

import json
import os
import sys

PAGE = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs", "factors.md"
)
BEGIN = "<!-- factors: written by tools/factor_table.py from the table in src/isolate/factor_rows.c -->\n"
END = "<!-- end of factors -->\n"


def table(factors):
    lines = [
        "| id | layer | applied by | what varies | pin | variation |",
        "|---|---|---|---|---|---|",
    ]
    for f in factors:
        if f["pin"] or f["vary"]:
            cells = (
                "`%s`" % f["id"],
                f["layer"],
                f["how"],
                f["title"],
                f["pin"] or "-",
                f["vary"] or "-",
            )
            lines.append("| %s |" % " | ".join(cells))
    return "\n".join(lines) + "\n"


def main():
    factors = json.load(sys.stdin)["factors"]
    wanted = table(factors)
    with open(PAGE, encoding="utf-8") as f:
        page = f.read()
    head, rest = page.split(BEGIN)
    shown, tail = rest.split(END)
    if "--check" in sys.argv[1:]:
        # an old processor: its row tells of this machine
        if any(f["id"] == "isa" and not f["vary"] for f in factors):
            shown, wanted = (
                "".join(line for line in text.splitlines(True) if "`isa`" not in line)
                for text in (shown, wanted)
            )
        if shown != wanted:
            print(
                "docs/factors.md shows another table: twinrun factors --json | tools/factor_table.py",
                file=sys.stderr,
            )
        return int(shown != wanted)
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write(head + BEGIN + wanted + END + tail)
    return 0


if __name__ == "__main__":
    sys.exit(main())
