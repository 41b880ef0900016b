# SPDX-License-Identifier: Apache-2.0
"""The live page of `twinrun serve` as its tests look at it: a page in Chromium and all that it did
that it should not do.
"""

import os
import urllib.parse

from serve_helper import BUILD, PATIENCE

MS = PATIENCE * 1000
GONE = "Failed to load resource: the server responded with a status of 404 (Not Found)"
HOSTILE = [
    "<script>alert(1)</script>",
    "</title><img src=x onerror=alert(1)>",
    "\u202ereversed\u200b",
    "javascript:alert(1)",
    "x" * 1_000_000,
]


def screenshots():
    """The folder of the pictures that people look at."""
    folder = os.path.join(BUILD, "screenshots")
    os.makedirs(folder, exist_ok=True)
    return folder


class Live:
    """A page of a server, and everything it did that it should not do."""

    def __init__(self, browser, server, route="#/", width=1000, allowed=(), **how):
        self.wrong = []
        self.server = server
        self.page = browser.new_page(viewport={"width": width, "height": 800}, **how)
        self.page.set_default_timeout(MS)
        self.page.on("console", lambda m: m.text in allowed or self.wrong.append(m.text))
        self.page.on("pageerror", lambda e: self.wrong.append(f"error: {e}"))
        self.page.on("dialog", lambda d: (self.wrong.append("dialog"), d.dismiss()))
        self.page.on(
            "request",
            lambda r: r.url.startswith((server.where, "data:")) or self.wrong.append(r.url),
        )
        self.page.goto(server.where + route)
        self.page.wait_for_selector("html[data-shown]")

    def at(self, route):
        """The view of this route is shown."""
        self.page.wait_for_function("r => document.documentElement.dataset.shown === r", arg=route)

    def title(self):
        return self.page.locator("main h1").text_content()

    def fits(self):
        return self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    def done(self):
        self.page.close()
        assert not self.wrong


def rows(server, path, **query):
    answer = server.get(f"/api/v1/{path}?{urllib.parse.urlencode(query)}".rstrip("?")).json
    return answer[path]


def drawn(p, n=1):
    p.page.wait_for_function(
        "n => [...document.querySelectorAll('.draw')].filter(d => d.picture).length >= n", arg=n
    )


# What a screen reader would say nothing of, and text that is hard to read on what is behind it.
UNREADABLE = """() => {
    const out = [], seen = e => e.getClientRects().length && getComputedStyle(e).visibility !== 'hidden';
    const named = e => (e.getAttribute('aria-label') || e.textContent || '').trim() ||
        (e.labels && [...e.labels].some(l => l.textContent.trim()));
    for (const e of document.querySelectorAll('a, button, input, summary, canvas.map, [tabindex="0"]'))
        if (seen(e) && !named(e)) out.push('no name: ' + e.outerHTML.slice(0, 200));
    const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
    if (new Set(ids).size !== ids.length) out.push('an id stands twice');
    const levels = [...document.querySelectorAll('h1, h2, h3')].filter(seen).map(e => +e.tagName[1]);
    if (levels.filter(l => l === 1).length !== 1) out.push('not one h1');
    const rgb = t => t.match(/[\\d.]+/g).map(Number);
    const light = c => c.slice(0, 3).map(x => x / 255)
        .map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)
        .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = e => {
        for (; e; e = e.parentElement) {
            const c = rgb(getComputedStyle(e).backgroundColor);
            if (c.length === 3 || c[3] === 1) return c;
        }
        return [255, 255, 255];
    };
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const e = texts.currentNode.parentElement;
        if (!texts.currentNode.data.trim() || !seen(e) || e.closest('svg, noscript')) continue;
        const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))];
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < 4.5) out.push(contrast.toFixed(2) + ': ' + texts.currentNode.data.slice(0, 60));
    }
    return out;
}"""
