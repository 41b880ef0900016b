#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a file as a C array: embed.py IN OUT NAME makes `const unsigned char NAME[]` and `const
size_t NAME_bytes`.

IN `-` stands for a file that could not be made: an array of no bytes.
"""

import sys

source, out, name = sys.argv[1:]
data = b""
if source != "-":
    with open(source, "rb") as f:
        data = f.read()
with open(out, "w", encoding="ascii") as f:
    f.write(
        "#include <stddef.h>\nextern const unsigned char %s[];\nextern const size_t %s_bytes;\n"
        % (name, name)
    )
    f.write("_Alignas(64) const unsigned char %s[] = {\n" % name)
    for i in range(0, len(data) or 1, 24):
        f.write("".join("%d," % b for b in data[i : i + 24] or b"\0") + "\n")
    f.write("};\nconst size_t %s_bytes = %d;\n" % (name, len(data)))
