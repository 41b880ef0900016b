#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns CUDA's kernel<<<blocks, threads, shared, stream>>>(arguments) into C++: launches.py IN OUT.

A launch becomes grid_launch(blocks, threads, stream, [=] { kernel(arguments); }). All else stays,
lines keep their numbers.
"""

import re
import sys


def end_of(text, at):
    """Where the parenthesis that is open at `at` ends."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0:
            return i
    sys.exit(f"launches.py: a parenthesis is not closed: {text[at : at + 60]!r}")


def parts(text):
    """What stands between the commas of the outermost level."""
    depth, out = 0, [""]
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            out.append("")
        else:
            out[-1] += c
    return out


def converted(text):
    while launch := re.search(r"(\w+)<<<(.*?)>>>\(", text, re.DOTALL):
        end = end_of(text, launch.end() - 1)
        blocks, threads, shared, stream = parts(launch[2])
        if shared.strip() != "0":
            sys.exit(f"launches.py: {launch[1]}: shared memory of the launch is not emulated")
        call = f"{launch[1]}({text[launch.end() : end]})"
        text = (
            text[: launch.start()]
            + f"grid_launch({blocks},{threads},{stream}, [=] {{ {call}; }})"
            + text[end + 1 :]
        )
    return text


def main():
    source, out = sys.argv[1:]
    with open(source, encoding="utf-8") as f:
        text = f.read()
    with open(out, "w", encoding="utf-8") as f:
        f.write(f'#line 1 "{source}"\n' + converted(text))


main()
