# SPDX-License-Identifier: Apache-2.0
"""How twinrun.recheck holds the notes of `check --explain rounding` against the recordings.

What rounding allows is not worked out again. Looked up is that every recorded operation of B has
its verdict, that the sentences give these verdicts' counts and first finding, that what is called
equal has A's bytes, and that what is called beyond rounding has not. Written from
docs/internals/rounding.md and docs/format/verdict.md: it shares no code with the judge.
"""

import json
import os
import re
from collections import Counter

from ._notes import form
from ._recorded import NotHere, Refuted, items, need, number, printable

LINES_MAX = 256 << 20  # bytes of operations.jsonl
KEPT_MAX = 64 << 20  # of rounding.json
AT_ONCE = 1 << 20  # of two values that are compared
FOLDER = re.compile(r"rounding\.([0-9]{1,9})\.[0-9]{1,20}")
KINDS = ("equal", "rounding", "inside", "not known", "after", "beyond rounding")


def _file(run, name, most=None):
    """The path of a file of the run folder."""
    if not os.path.isfile(os.path.join(run.folder, name)):
        raise NotHere("%s is not here" % printable(name))
    path = run.path(name)
    if most is not None and os.path.getsize(path) > most:
        raise NotHere("%s has more than %d bytes" % (printable(name), most))
    return path


def _place(site):
    """Where an operation was called, as a note says it."""
    return printable(str(site).replace("\n", ", called at "))


def _parsed(text, what):
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Refuted("%s is no JSON" % what) from None


class _Process:
    """The operations that one process recorded: by their line in operations.jsonl."""

    def __init__(self, run, name):
        self.values = _file(run, "values/%s/values.bin" % name)
        self.size = os.path.getsize(self.values)
        self.calls, self.outs, self.end = {}, {}, None
        self.collectives = {}
        with open(_file(run, "values/%s/operations.jsonl" % name, LINES_MAX), "rb") as file:
            for at, text in enumerate(file, 1):
                self._take(at, _parsed(text, "a line of operations.jsonl"))
                if self.end is not None:
                    return

    def _take(self, at, line):
        need(isinstance(line, dict), "line %d is no operation", at)
        if "end" in line:
            self.end = line["end"]
        elif "arrived" in line:
            call = self.collectives.get(line["arrived"])
            need(call is not None, "line %d arrives from nowhere", at)
            self.outs[call][number(line, "slot")] = line.get("place")
        else:
            self.calls[at] = printable(str(line.get("op"))), _place(line.get("site"))
            self.outs[at] = dict(enumerate(items(line, "outs")))
            if "collective" in line:
                self.collectives[line["collective"]] = at

    def place(self, line, slot):
        """(type, where in values.bin, bytes) of what a call made; None: its values are not there."""
        place = self.outs.get(line, {}).get(slot)
        where = place.get("v") if isinstance(place, dict) else None
        if where is None:
            return None
        whole = (
            isinstance(where, list) and len(where) == 2 and all(isinstance(n, int) for n in where)
        )
        need(
            whole and 0 <= where[0] <= where[0] + where[1] <= self.size,
            "a value of line %d lies outside of values.bin",
            line,
        )
        return place.get("type"), where[0], where[1]


def _same(one, place, other, there):
    """Have two values the same type and bytes?"""
    if place[0] != there[0] or place[2] != there[2]:
        return False
    with open(one.values, "rb") as first, open(other.values, "rb") as second:
        for at in range(0, place[2], AT_ONCE):
            n = min(AT_ONCE, place[2] - at)
            if os.pread(first.fileno(), n, place[1] + at) != os.pread(
                second.fileno(), n, there[1] + at
            ):
                return False
    return True


class Explained:
    """Notes of --explain rounding, beside the others of _notes.Notes."""

    _explained = None

    def explained(self):
        """(the verdict's word, A's and B's processes by rank, rows), read once."""
        if self._explained is None:
            try:
                self._explained = self.read_explained(), None
            except (NotHere, Refuted) as why:
                self._explained = None, why
        found, why = self._explained
        if why is not None:
            raise why
        return found

    def read_explained(self):
        said = self.verdict.get("rounding")
        need(isinstance(said, dict), "the verdict has no field rounding")
        names = items(said, "runs")
        need(len(names) == 2, "it names %d runs", len(names))
        for name in names:
            plain = isinstance(name, str) and name and os.path.basename(name) == name
            if plain and not os.path.isdir(os.path.join(self.runs[0].folder, "..", name)):
                raise NotHere("%s is not here" % printable(name))
        runs = [self.beside(self.runs[0], name) for name in names]
        with open(_file(runs[1], "rounding.json", KEPT_MAX), "rb") as file:
            kept = _parsed(file.read(), "rounding.json")
        need(isinstance(kept, dict), "rounding.json is no object")
        rows = kept.pop("operations", None)
        need(isinstance(rows, list), "rounding.json lists no operations")
        for row in rows:
            need(isinstance(row, dict) and row.get("verdict") in KINDS, "a row is no verdict")
        told = {key: value for key, value in said.items() if key != "runs"}
        need(told == kept, "the verdict and rounding.json say different things")
        recorded = items(said, "recorded")
        need(len(recorded) == 2, "it names recordings of %d runs", len(recorded))
        arms = []
        for run, folders in zip(runs, recorded):
            arm = {}
            for name in folders if isinstance(folders, list) else ():
                m = FOLDER.fullmatch(name) if isinstance(name, str) else None
                need(m and int(m[1]) not in arm, "no name of a recording, or its rank has two")
                arm[int(m[1])] = _Process(run, name)
            need(arm, "a run has no recording")
            arms.append(arm)
        return said, arms[0], arms[1], rows

    @form(
        r"rounding or bug, first step: (.+); operations of B: (\d+) equal, (\d+) rounding, (\d+) "
        r"between values that A has, (\d+) not known, (\d+) behind the finding"
    )
    def rounding_counts(self, outcome, *figures):
        said, a, b, rows = self.explained()
        need(outcome == said.get("outcome"), "the verdict says %s", said.get("outcome"))
        if not rows:
            need(outcome == "not known" and not any(map(int, figures)), "no operation was judged")
            return
        found = Counter(row["verdict"] for row in rows)
        judged = {self.rounding_row(a, b, row) for row in rows}
        need(len(judged) == len(rows), "an operation was judged twice")
        for rank, process in b.items():
            for line in process.calls:
                made = process.outs[line]
                need(not made or (rank, line) in judged, "line %d of B was not judged", line)
        for kind, figure in zip(KINDS, figures):
            need(found[kind] == int(figure), "%d operations are %s", found[kind], kind)
        need(said.get("counts") == {kind: found[kind] for kind in KINDS}, "it counts otherwise")
        if found["beyond rounding"]:
            need(outcome in ("beyond rounding", "not known"), "an operation is beyond rounding")
        elif outcome != "not known":
            whole = all(p.end == "" for p in (*a.values(), *b.values()))
            need(whole and not said.get("notes"), "something was not seen")
            need(found["not known"] + found["after"] == 0, "operations are not known")
            need(outcome == ("rounding" if found["rounding"] else "equal"), "it is not %s", outcome)

    def rounding_row(self, a, b, row):
        """(rank, line) of the operation that a row judges."""
        rank, line = number(row, "rank"), number(row, "line")
        need(rank in b and line in b[rank].calls, "B recorded no line %d of rank %d", line, rank)
        given = printable(str(row.get("operation"))), _place(row.get("site"))
        need(b[rank].calls[line] == given, "line %d is %s at %s", line, *b[rank].calls[line])
        held = self.held_against(a, b, row)
        for slot, pair in held if row["verdict"] == "equal" else ():
            same = pair is None or _same(*pair)
            need(same, "line %d, output %d: A has other bytes", line, slot)
        return rank, line

    def held_against(self, a, b, row):
        """[(output, its value and A's, as _same takes them; None: no single value of A's)]

        Of all operations this much must be there. Their bytes are read where something is said of
        them."""
        mine, found = b[number(row, "rank")], []
        line, likes = number(row, "line"), {}
        for like in items(row, "like"):
            likes[number(like, "of")] = like
        for slot in mine.outs[line]:
            like = likes.get(slot)
            need(
                like is not None, "line %d: what output %d was held against is not said", line, slot
            )
            if "line" not in like:
                need(
                    like.get("what") in ("leaf", "part", "none"),
                    "line %d: held against what?",
                    line,
                )
                found.append((slot, None))
                continue
            other = a.get(number(like, "rank"))
            need(other is not None, "A has no rank %d", like["rank"])
            here = mine.place(line, slot)
            there = other.place(number(like, "line"), number(like, "slot"))
            need(here and there, "line %d: no value was recorded", line)
            found.append((slot, (mine, here, other, there)))
        return found

    @form(
        r"beyond rounding: (\S+) of B at (.*?)(?:, rank (\d+))?(?: \((\S+) times the bound\))?: (.*)"
    )
    def beyond_rounding(self, operation, site, rank, times, why):
        said, a, b, rows = self.explained()
        finding = said.get("finding")
        need(isinstance(finding, dict), "the verdict has no finding")
        given = tuple(printable(str(finding.get(k))) for k in ("operation", "why"))
        given = given[0], _place(finding.get("site")), given[1]
        need(given == (operation, site, why), "the finding is %s at %s: %s", *given)
        need(rank is None or int(rank) == finding.get("rank"), "it is of another rank")
        far = finding.get("times")
        small = far is None or isinstance(far, (int, float)) and -1e300 < far < 1e300
        need(small and times == (None if far is None else "%.3g" % far), "it is another distance")
        self.rounding_row(a, b, finding)
        first = [i for i, r in enumerate(rows) if r["verdict"] == "beyond rounding"]
        need(first, "no operation is beyond rounding")
        named = rows[first[0]]
        alike = all(named.get(k) == finding.get(k) for k in ("line", "rank"))
        need(alike, "another operation is the first beyond")
        early = rows[: first[0]]
        need(all(r["verdict"] != "after" for r in early), "the finding is not the first")
        pairs = [pair for _slot, pair in self.held_against(a, b, finding)]
        of_a = why.startswith("A ")  # A rounds too much: B may have the same bits
        same = pairs and all(pair is not None and _same(*pair) for pair in pairs)
        need(of_a or not same, "A has the same bytes")

    @form(r"in its place A has (\S+) at (.*)")
    def in_its_place(self, operation, site):
        said, a, _b, _rows = self.explained()
        calls = [call for process in a.values() for call in process.calls.values()]
        need((operation, site) in calls, "A recorded no such operation")
        finding = said.get("finding") or {}
        other = finding.get("instead_of") or finding.get("first_in_a") or {}
        named = printable(str(other.get("operation"))), _place(other.get("site"))
        need(named == (operation, site), "the finding names another one")

    @form(
        r"rounding: A has (\d+) ranks? and B (\d+): (\d+) operations of B were held against A's as "
        r"rows of a batch or parts of a loss; (\d+) add to a sum over the ranks and were judged by "
        r"what they lead to"
    )
    def rounding_ranks(self, of_a, of_b, held, added):
        said, a, b, _rows = self.explained()
        need((int(of_a), int(of_b)) == (len(a), len(b)), "they have %d and %d", len(a), len(b))
        ranks = said.get("ranks") or {}
        need(
            (int(held), int(added)) == (ranks.get("rows"), ranks.get("adds")),
            "it says other figures",
        )
