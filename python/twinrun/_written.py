# SPDX-License-Identifier: Apache-2.0
"""Files of text that a job wrote, as lines, for twinrun.recheck: what the clock experiment's
columns stand in. Members of JSON objects have no order and are sorted; a table's cells get their
names. A second opinion: it shares no code with src/compare.
"""

import re

from . import _lines
from ._recorded import Refuted, need

KEPT_MAX = 8 << 20
JSON = (".json", ".jsonl", ".ndjson", ".geojson", ".ipynb")
LOGS = re.compile(r"\.log$|\.log\.|\.out$|\.err$|tfevents|nohup")
STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
PLAIN = re.compile(rb"[^\s,\]}\[{:]+")
BLANKS = re.compile(rb"[ \t\r\n]*")


class NoJson(Exception):
    """What stands there is something else."""


class Json:
    """A text of JSON, read in order to be written again with its members sorted."""

    def __init__(self, text):
        self.text, self.at = text, 0

    def take(self, pattern):
        m = pattern.match(self.text, self.at)
        if not m:
            raise NoJson
        self.at = m.end()
        return m[0]

    def sign(self, *wanted):
        found = self.text[self.at : self.at + 1]
        if found not in wanted:
            raise NoJson
        self.at += 1
        return found

    def value(self):
        first = self.text[self.at : self.at + 1]
        if first == b'"':
            return self.take(STRING)
        if first not in (b"{", b"["):
            return self.take(PLAIN)
        self.at += 1
        last = b"}" if first == b"{" else b"]"
        blanks, items, gaps = self.take(BLANKS), [], []
        if self.text[self.at : self.at + 1] == last:
            self.at += 1
            return first + blanks + last
        while True:
            items.append(self.member() if first == b"{" else (b"", self.value()))
            gaps.append((blanks, self.take(BLANKS)))
            if self.sign(b",", last) == last:
                break
            blanks = self.take(BLANKS)
        items.sort(key=lambda item: item[0])
        return first + b",".join(a + x[1] + b for (a, b), x in zip(gaps, items)) + last

    def member(self):
        start = self.at
        key = self.take(STRING)
        self.take(BLANKS)
        self.sign(b":")
        self.take(BLANKS)
        return key[1:-1], self.text[start : self.at] + self.value()

    def whole(self):
        """One value, or one on each line."""
        out = [self.take(BLANKS)]
        while self.at < len(self.text):
            out += [self.value(), self.take(BLANKS)]
        return b"".join(out)


def sorted_members(text):
    try:
        return Json(text).whole()
    except (NoJson, RecursionError):
        return text


def cells(row, sep):
    cell, out, at = re.compile(rb'(?:"[^"]*"|[^"%s])*' % re.escape(sep)), [], 0
    while row and at <= len(row):
        out.append(cell.match(row, at)[0])
        at += len(out[-1]) + 1
    return out


def named_cells(text):
    """A table with a line of headings: "loss: 0.5 | time: 1.2" for each of its rows."""
    rows = re.split(rb"\r?\n", text)
    counts = {s: re.sub(rb'"[^"]*"', b"", rows[0]).count(s) for s in (b",", b";", b"\t", b"|")}
    sep = max(counts, key=counts.get)
    heads = cells(rows[0], sep)
    if any(_lines.NUMBER.fullmatch(h.decode("utf-8", "replace")) for h in heads):
        return text
    out = [rows[0]]
    for row in rows[1:]:
        found = cells(row, sep)
        names = [h + b": " if h else b"" for h in heads[: len(found)]]
        names += [b""] * (len(found) - len(names))
        out.append(b" | ".join(n + cell for n, cell in zip(names, found)))
    return b"\n".join(out)


def listed(run, name, own, first):
    """The entry of run.json: by its path, else by the path without the facts of its run. `name` is
    the first run's, whose facts are `first`."""
    files = run.files()
    if name in files:
        return files[name]
    wanted = _lines.masked(name.encode(), first)
    plain = [f for path, f in files.items() if _lines.masked(path.encode(), own) == wanted]
    need(len(plain) == 1, "the run wrote no %s", name)
    return plain[0]


def lines(run, name, own, first):
    f = listed(run, name, own, first)
    kept = f.get("kept")
    if not kept:
        raise Refuted("nothing was kept of %s" % name)
    with open(run.path(kept), "rb") as file:
        text = file.read(KEPT_MAX)
    path = f["path"].lower() if isinstance(f.get("path"), str) else name
    if path.endswith(JSON):
        text = sorted_members(text)
    elif path.endswith((".csv", ".tsv")):
        text = named_cells(text)
    if LOGS.search(path):
        return _lines.shown(text)
    found = [line.rstrip(b"\r ") for line in re.split(rb"\r\n|\r|\n", text)]
    return [line for line in found if line]
