#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on links between pages that lead nowhere: a file that is not there, a heading that no page
has. Links to other hosts are not followed."""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def prose(text):
    """Without fenced code, and without code in the line: both may look like links."""
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(text):
    """The names that GitHub gives the headings: those that come again are numbered."""
    found, seen = set(), {}
    for heading in re.findall(
        r"^#+ +(.*?) *#*$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M
    ):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        again = seen[name] = seen.get(name, -1) + 1
        found.add(f"{name}-{again}" if again else name)
    return found


def faults(page, text, pages):
    for target in re.findall(r"\]\(<?([^)\s>]+)>?\)", prose(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(os.path.join(ROOT, file)):
            yield f"{target}: no such file"
        elif anchor and file in pages and anchor not in anchors(pages[file]):
            yield f"{target}: {file} has no such heading"


def main():
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.md"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    pages = {}
    for name in listed.stdout.decode().splitlines():
        path = os.path.join(ROOT, name)
        if os.path.exists(path) and not name.startswith("tests/golden/"):
            with open(path, encoding="utf-8") as f:
                pages[name] = f.read()
    bad = 0
    for page, text in pages.items():
        for fault in faults(page, text, pages):
            print(f"{page}: {fault}")
            bad += 1
    print(f"links: {len(pages)} pages, {bad} links that lead nowhere")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
