# SPDX-License-Identifier: Apache-2.0
"""The site of the pages (./dev docs): its menu has every page, man pages become pages, and in
Chromium nothing leaves the reader's machine. The build itself fails on a link that leads nowhere.
"""

import importlib.util
import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

SPEC = importlib.util.spec_from_file_location("docs_site", ROOT / "tools" / "docs_site.py")
docs_site = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(docs_site)

PYTHON = os.environ.get("TWINRUN_DOCS_PYTHON", "")
needs_sphinx = pytest.mark.skipif(
    not PYTHON, reason="TWINRUN_DOCS_PYTHON names no Python with Sphinx (./dev sets it)"
)
PAGES = ["index", "docs/commands/check", "docs/verdict", "examples/ten_minutes/README"]


def test_every_page_is_in_the_menu_once():
    top, below = docs_site.menus((ROOT / docs_site.MENU).read_text(), "docs")
    listed = [page for _, entries in top for _, page in entries]
    listed += [page for entries in below.values() for _, page in entries]
    assert sorted(listed) == sorted(set(listed))
    there = {str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")}
    there |= {str(page.relative_to(ROOT)) for page in (ROOT / "examples").rglob("README.md")}
    assert there - set(listed) == {docs_site.MENU}


def test_man_pages_become_pages(build, tmp_path):
    program = str(build / "cmd" / "twinrun")
    entries = docs_site.command_pages(program, tmp_path)
    assert len(entries) > 30
    for name, page in entries:
        text = (tmp_path / page).read_text()
        assert text.startswith(f"# twinrun {name}\n")
        help_text = subprocess.run(
            [program, "help", name], capture_output=True, text=True, check=True
        ).stdout
        for option in re.findall(r"^  (?:-\w,|   ) (--[a-z-]+)", help_text, re.M):
            assert re.search(rf"`[^`\n]*{option}\b[^`\n]*`\n: \S", text), (name, option)
        assert "## Exit status" in text and "## Examples" in text


def test_a_request_that_is_not_known_is_refused():
    with pytest.raises(SystemExit, match=r"not known here: \.RS"):
        docs_site.from_man(".SH DESCRIPTION\n.RS\n")


@needs_sphinx
def test_site(build, browser, tmp_path):
    program = build / "cmd" / "twinrun"
    done = subprocess.run(
        [PYTHON, ROOT / "tools/docs_site.py", program, tmp_path / "site"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "site" / "html"
    shots = Path(build) / "screenshots"
    shots.mkdir(exist_ok=True)
    for width in (1200, 400):
        wrong = []
        page = browser.new_page(viewport={"width": width, "height": 800})
        page.on("console", lambda m: wrong.append(f"console: {m.text}"))
        page.on("pageerror", lambda e: wrong.append(f"error: {e}"))
        page.on(
            "request",
            lambda r: r.url.startswith(f"file://{site}/") or wrong.append(f"request: {r.url}"),
        )
        for name in PAGES:
            page.goto(f"file://{site}/{name}.html")
            overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert overflow <= 0, (name, width, overflow)
            page.screenshot(path=shots / f"docs-{name.replace('/', '-')}-{width}.png")
        page.goto(f"file://{site}/search.html?q=isolate")
        page.wait_for_selector("#search-results li a")  # found without a server
        page.close()
        assert wrong == []
