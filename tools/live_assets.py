#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes of web/live/dist what src/serve/live.c serves: live_assets.py DIST OUT.c DEPFILE

A table of index.html and the files of assets/: the bytes as they are, the bytes gzip-compressed
where that is shorter, the type, and a tag that the bytes alone decide. Same input and zlib, same
bytes.
"""

import gzip
import hashlib
import os
import re
import sys

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
}
# src/serve/query.c takes these names and no others
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,61}")
# Vite puts a digest of the bytes into the name: such a file never changes
FOREVER = re.compile(r"-[A-Za-z0-9_-]{8}\.[a-z0-9]+$")


def array(name, data):
    rows = ("".join("%d," % b for b in data[i : i + 24]) for i in range(0, len(data), 24))
    return "static const unsigned char %s[] = {\n%s\n};\n" % (name, "\n".join(rows) or "0")


def main(dist, out, depfile):
    assets = os.path.join(dist, "assets")
    names = sorted(os.listdir(assets)) if os.path.isdir(assets) else []
    paths = [os.path.join(dist, "index.html")] + [os.path.join(assets, n) for n in names]
    arrays, rows = [], []
    for i, path in enumerate(paths):
        name = names[i - 1] if i else ""
        kind = TYPES.get(os.path.splitext(path)[1])
        assert kind, "a type that is not served: " + path
        assert i == 0 or NAME.fullmatch(name), "a name that is not served: " + path
        with open(path, "rb") as f:
            data = f.read()
        packed = gzip.compress(data, 9, mtime=0)
        packed = packed if len(packed) < len(data) else b""
        arrays += [array("raw%d" % i, data), array("packed%d" % i, packed)]
        tag = hashlib.sha256(data).hexdigest()[:32]
        forever = "true" if FOREVER.search(name) else "false"
        row = (name, kind, tag, i, len(data), i, len(packed), forever)
        rows.append('    {"%s", "%s", "%s", raw%d, %d, packed%d, %d, %s},\n' % row)
    with open(out, "w", encoding="ascii") as f:
        f.write('#include "live.h"\n' + "".join(arrays))
        f.write("const struct serve_file serve_files[] = {\n" + "".join(rows) + "};\n")
        f.write("const size_t serve_file_count = %d;\n" % len(rows))
    with open(depfile, "w", encoding="utf-8") as f:
        f.write("%s: %s\n" % (out, " ".join(p.replace(" ", "\\ ") for p in paths)))


if __name__ == "__main__":
    main(*sys.argv[1:])
