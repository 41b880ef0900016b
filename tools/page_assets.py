#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes of web/ what src/report/page/html.c embeds: page_assets.py WEB OUT

page_style, page_boot: as they stand in every page; page_app: uPlot and our pictures, deflated, in
base64; page_still, page_policy: the content security policies of pages without and with scripts,
which name by SHA-256 what may run. Same input and zlib, same bytes.
"""

import base64
import hashlib
import os
import sys
import zlib

APP = ("vendor/uplot/uPlot.iife.min.js", "page.js", "overlay.js", "heatmap.js", "plot.js")


def read(web, name):
    with open(os.path.join(web, name), encoding="utf-8") as f:
        return f.read()


def sha256(text):
    return "'sha256-%s'" % base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def main(web, out):
    style = read(web, "vendor/uplot/uPlot.min.css").strip() + "\n" + read(web, "page.css")
    boot = read(web, "boot.js")
    uplot, *ours = (read(web, name) for name in APP)
    app = uplot + "\n(() => {\n'use strict';\n" + "\n".join(ours) + "\nstart();\n})();\n"
    assert "</" not in style and "</" not in boot, "an end tag inside of an element"
    still = "default-src 'none'; style-src %s; base-uri 'none'; form-action 'none'" % sha256(style)
    policy = "%s; script-src %s %s" % (still, sha256(boot), sha256(app))
    packed = base64.b64encode(zlib.compress(app.encode(), 9)).decode()
    files = {
        "page_style": style,
        "page_boot": boot,
        "page_app": packed,
        "page_still": still,
        "page_policy": policy,
        # no compiler lists what .incbin reads: this makes it compile again
        "page_assets.h": "/* %s */\n" % sha256(style + boot + app),
    }
    for name, text in files.items():
        with open(os.path.join(out, name), "w", encoding="utf-8", newline="") as f:
            f.write(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
