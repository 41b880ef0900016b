#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes JSON Schemas as the table of src/report/schemas.h: embed_schemas.py OUT.c SCHEMA.json...

A schema says itself which commands print what it describes, in "x-printed-by"."""

import json
import sys
from pathlib import Path


def main():
    out, files = sys.argv[1], sorted(map(Path, sys.argv[2:]))
    lines = ['#include "src/report/schemas.h"']
    rows = []
    for i, file in enumerate(files):
        text = file.read_bytes()
        text.decode("ascii")  # a char of C
        commands = ", ".join(json.loads(text)["x-printed-by"])
        lines.append(f"static const char text_{i}[] = {{")
        lines += ["".join(f"{b}," for b in text[k : k + 24]) for k in range(0, len(text), 24)]
        lines.append("0};")
        rows.append(f'    {{"{file.stem}", "{commands}", text_{i}}},')
    lines += ["const struct tw_schema tw_schemas[] = {", *rows, "    {0},", "};"]
    with open(out, "w", encoding="ascii") as f:
        f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
