#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails where code that runs inside of the user's job asserts at run time.

Asserts are on in the product (b_ndebug is false), and one that fails aborts the process: in ours
that is what we want, in the user's job it would be the watcher that kills the watched. There an
error is counted and said (CONTRIBUTING.md), and only _Static_assert may stand.
"""

import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# The agents' library and what is linked into it, and the libraries that a job loads by itself.
INSIDE = [
    "include/**/*.h",
    "agents/**/*.[ch]",
    "kernels/**/*.[ch]",
    "kernels/**/*.cu",
    "src/base/*.[ch]",
    "src/fingerprint/*.[ch]",
    "src/numerics/*.[ch]",
    "src/mpi/*.[ch]",
    "src/mpiabi/*.[ch]",
]
# Of the trace format the half that writes; the readers run in our own processes.
TRACE_READERS = {"batch.c", "dict.c", "entries.c", "holes.c", "places.c", "reader.c", "reader.h"}
TRACE_READERS |= {"search.c", "verify.c"}
OF_PROGRAMS = {"src/base/oldprogram.c"}  # what no library is linked with
ASSERTS = re.compile(r"(?<![\w])(?:assert|abort)\s*\(|#\s*include\s*<assert\.h>")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def inside_of_jobs():
    for pattern in INSIDE:
        yield from glob.glob(pattern, root_dir=ROOT, recursive=True)
    for name in glob.glob("src/trace/*.[ch]", root_dir=ROOT):
        if os.path.basename(name) not in TRACE_READERS:
            yield name


def main():
    bad = count = 0
    for name in sorted(set(inside_of_jobs()) - OF_PROGRAMS):
        count += 1
        with open(os.path.join(ROOT, name), encoding="utf-8") as f:
            text = STRING.sub('""', f.read())
        code = COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
        for number, line in enumerate(code.split("\n"), 1):
            if ASSERTS.search(line):
                print(f"{name}:{number}: aborts the user's job: {line.strip()[:80]}")
                bad += 1
    print(f"asserts: {count} files that run inside of a job, {bad} places that could abort it")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
