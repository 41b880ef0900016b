#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the live page of `twinrun serve` takes in Debian's Chromium over a ledger of 10,000 runs: the
size of its files as they are sent, the time to the first paint, and to search the list of runs.

Bars: 200 KB compressed, first paint 1 s, a search 100 ms.

Usage: page.py [--quick]; prints rows `name value unit`.
"""

import os
import pathlib
import statistics
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "agents"))
from conftest import CHROMIUM  # noqa: E402
from ledger_by_hand import Ledger  # noqa: E402
from serve_helper import PATIENCE, serving  # noqa: E402
from test_live_page import DIST  # noqa: E402

RUNS, PAINTS = 10_000, 10
QUERIES = ["t77", "P13 t1", "t9999.py", "no such", "p", "is:unknown", ""]
PAINTED = "performance.getEntriesByName('first-contentful-paint').map(e => e.startTime)"

FILLED = """() => new Promise(done => {
    const look = () => 'shown' in document.documentElement.dataset
        ? done(performance.now()) : requestAnimationFrame(look);
    look();
})"""


def sizes(server):
    paths = ["/"] + ["/assets/" + name for name in sorted(os.listdir(os.path.join(DIST, "assets")))]
    answers = [server.get(path, Accept_Encoding="gzip") for path in paths]
    if any(a.status != 200 for a in answers):
        sys.exit("page: a file of the page is not served")
    return sum(len(a.body) for a in answers)


def paint(browser, server):
    """Milliseconds to the first text, and until the overview is filled, in a browser that has nothing
    of the page in its cache."""
    page = browser.new_context().new_page()
    page.goto(server.where)
    page.wait_for_function(f"() => {PAINTED}.length", timeout=PATIENCE * 1000)
    (ms,) = page.evaluate(PAINTED)
    filled = page.evaluate(FILLED)
    page.context.close()
    return ms, filled


def searches(browser, server, rounds):
    page = browser.new_page()
    page.goto(server.where + "#/runs")
    page.wait_for_function(
        "n => document.querySelector('#found')?.textContent === n",
        arg=f"{RUNS:,} runs.",
        timeout=PATIENCE * 1000,
    )
    times = []
    for _ in range(rounds):
        for query in QUERIES:
            page.fill("#find", query)
            times.append(float(page.get_attribute(".list", "data-ms")))
    page.close()
    return times


def main():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sys.exit("page: needs playwright: ./dev bench installs it")
    if not CHROMIUM:
        sys.exit("page: needs Chromium: ./dev bench installs it")
    few = "--quick" in sys.argv
    with tempfile.TemporaryDirectory(prefix="twinrun-bench-") as folder:
        ledger = Ledger(pathlib.Path(folder))
        for i in range(RUNS):
            ledger.run(
                start=ledger.now - i * 10**9, command=f"python t{i}.py", project=f"p{i % 97}"
            )
        with serving(ledger.done()) as server, sync_playwright() as p:
            print(f"page_files_compressed {sizes(server)} bytes")
            browser = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            paints = [paint(browser, server) for _ in range(3 if few else PAINTS)]
            for name, times in zip(("first_paint", "overview"), zip(*paints)):
                print(f"page_{name}_median {statistics.median(times):.0f} ms")
                print(f"page_{name}_most {max(times):.0f} ms")
            times = searches(browser, server, 2 if few else 10)
            print(f"page_search_{RUNS}_runs_median {statistics.median(times):.1f} ms")
            print(f"page_search_{RUNS}_runs_most {max(times):.1f} ms")
            browser.close()


if __name__ == "__main__":
    main()
