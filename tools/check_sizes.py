#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on files over 1,500 lines and functions over 150 (the aim is 500 and 60, see
CONTRIBUTING.md).
"""

import ast
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FILE_LIMIT, FUNCTION_LIMIT = 1500, 150


def c_functions(lines):
    """Yields (name, first line, length). Relies on the house style: a function's braces stand in
    column 0.
    """
    start = None
    for i, line in enumerate(lines):
        if line.rstrip() == "{" and i:
            j = i - 1
            while j > 0 and not re.match(r"^[A-Za-z_]", lines[j]):
                j -= 1
            start = (lines[j].strip(), i)
        elif line.rstrip() == "}" and start:
            yield start[0], start[1] + 1, i - start[1] + 1
            start = None


def py_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def main():
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    bad = 0
    count = 0
    for name in listed.stdout.decode().splitlines():
        path = os.path.join(ROOT, name)
        if not name.endswith((".c", ".h", ".py", ".inc", ".cu", ".ts")) or not os.path.exists(path):
            continue
        count += 1
        with open(path, encoding="utf-8") as f:
            text = f.read()
        lines = text.splitlines()
        if len(lines) > FILE_LIMIT:
            print(f"{name}: {len(lines)} lines, limit {FILE_LIMIT}")
            bad += 1
        found = py_functions(text) if name.endswith(".py") else c_functions(lines)
        for function, line, length in found:
            if length > FUNCTION_LIMIT:
                print(f"{name}:{line}: {function[:60]} has {length} lines, limit {FUNCTION_LIMIT}")
                bad += 1
    print(f"sizes: {count} files, {bad} over the limits")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
