#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails where C code prints around src/report/put.h: foreign text would reach a terminal as it is.

Every word of a command goes through tw_put, tw_put_to, tw_put_lines or tw_say, which write out
what a terminal obeys, what turns text around and what breaks a line (src/base/printable.c).
A room (src/) prints only to a FILE that its caller gave, and only with put.h: it may not even name
stdout or stderr, so that a command decides where words go and a test can read them.
A line with the comment `exact bytes:` and a reason may write: what a user asks for byte by byte.
"""

import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# The printing functions themselves, and what only writes words of the option tables.
MAY_PRINT = {"src/report/put.c", "cmd/say.c", "cmd/terminal.c", "cmd/help.c", "cmd/completion.c"}
PRINTS = re.compile(
    r"(?<![\w.>\"])(?:(?:v?printf|puts|putchar|putchar_unlocked|perror|psignal|vdprintf|dprintf)\s*\("
    r"|(?:v?fprintf|json_dumpf|fflush_unlocked)\s*\((?:[^;]*\b(?:stdout|stderr|out)\b)"
    r"|(?:fputs|fwrite|fputc|putc)\s*\([^;]*\b(?:stdout|stderr|out)\s*\)"
    r"|(?:tw_write_all|write|json_dumpfd)\s*\([^;]*\bSTD(?:OUT|ERR)_FILENO\b)"
)
# What a room may not write at all: the names of the streams, and what prints to any file.
ROOM_PRINTS = re.compile(
    r"\b(?:stdout|stderr|STDOUT_FILENO|STDERR_FILENO)\b"
    r"|(?<![\w.>])(?:v?fprintf|fputs|fputc|putc|fwrite|json_dumpf)\s*\("
)
COMMENT = re.compile(r"/\*.*?\*/", re.S)
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def main():
    bad = count = 0
    names = glob.glob("cmd/*.c", root_dir=ROOT) + glob.glob(
        "src/**/*.c", root_dir=ROOT, recursive=True
    )
    for name in sorted(names):
        if name in MAY_PRINT:
            continue
        count += 1
        with open(os.path.join(ROOT, name), encoding="utf-8") as f:
            text = f.read()
        code = "\n".join(STRING.sub('""', line) for line in text.split("\n"))
        code = COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), code).split("\n")
        lines = text.split("\n")
        for number, line in enumerate(lines, 1):
            words = code[number - 1]
            breach = PRINTS.search(words) or (name.startswith("src/") and ROOM_PRINTS.search(words))
            said = "exact bytes:" in line or (number > 1 and "/* exact bytes:" in lines[number - 2])
            if breach and not said:
                print(f"{name}:{number}: prints around src/report/put.h: {line.strip()[:80]}")
                bad += 1
    print(f"printing: {count} files, {bad} places that print around src/report/put.h")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
