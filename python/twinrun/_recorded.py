# SPDX-License-Identifier: Apache-2.0
"""What twinrun.recheck reads: run folders and traces, record by record, and how two steps differ.

Written from docs/format: it shares no code with the comparison. What is read comes from strangers:
sizes are capped, and no path leads out of a run folder.
"""

import fnmatch
import json
import os
import re
from collections import Counter, defaultdict, namedtuple

from . import _lines
from .trace import (
    KINDS,
    OFFSET,
    PART,
    PHASES,
    UNOBSERVED,
    UNORDERED,
    Series,
    Trace,
    TraceError,
    prefix_window,
)

JSON_MAX = 64 << 20  # bytes of run.json
TRACE_MAX = 1 << 30  # bytes of a trace
STREAM_MAX = 256 << 20  # bytes of a printed stream
WORLD_MAX = 4 << 20  # bytes of what a process said of its surroundings
STATE, WEIGHT, ORDER = KINDS.index("state"), KINDS.index("weight"), KINDS.index("order")
MOMENT, GRADIENT = KINDS.index("moment"), KINDS.index("gradient")
INIT, OPTIMIZER, RNG = map(PHASES.index, ("init", "optimizer", "rng"))
COLLECTIVE = PHASES.index("collective")
WRITTEN = PHASES.index("forward"), PHASES.index("backward")  # phases of weights that a line wrote
# what one of two arms may do in between: evaluate, save, look
INSERTABLE = tuple(
    KINDS.index(k)
    for k in ("state", "batch", "indices", "activation", "loss", "file", "value", "in", "out")
)


def is_given_back(key):
    """Is it what a jitted function gave back, and a class says what that is to the job? No
    optimizer that is seen made it.
    """
    return key[0] == OPTIMIZER and bool(key[3]) and key[2].startswith(key[3] + ": ")


class NotHere(Exception):
    """What a sentence speaks of is not here to be looked up, for a reason that need not be a lie."""


class Refuted(Exception):
    """A claim does not hold; the text says why."""


class Trouble(Exception):
    """The verdict or a run cannot be read at all."""


def need(condition, why, *values):
    """Refutes the claim at hand unless the condition holds."""
    if not condition:
        raise Refuted(why % values if values else why)


def number(claim, *path, least=0, most=1 << 63):
    """A whole number of a claim, checked: claims are a stranger's."""
    value = claim
    for key in path:
        inside = isinstance(value, dict) and key in value
        if not inside and not (
            isinstance(value, list) and isinstance(key, int) and key < len(value)
        ):
            raise Refuted("the claim has no %s" % ".".join(map(str, path)))
        value = value[key]
    need(
        isinstance(value, int) and not isinstance(value, bool) and least <= value <= most,
        "%s is no number from %d to %d",
        ".".join(map(str, path)),
        least,
        most,
    )
    return value


def word(claim, key):
    need(isinstance(claim.get(key), str), "the claim has no text %s", key)
    return claim[key]


def items(claim, key):
    need(isinstance(claim.get(key), list), "the claim has no list %s", key)
    return claim[key]


# Controls, separators, what Unicode calls Default_Ignorable_Code_Point, annotations, and what XML
# forbids.
_HIDDEN = [
    (0x00, 0x1F), (0x7F, 0x9F), (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160),
    (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F),
    (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB),
    (0xFFFE, 0xFFFF), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
]  # fmt: skip
_LIKE_OURS = re.compile(r"\\(?=x[0-9a-fA-F]{2})")


def printable(text, again=False):
    """A name as verdicts show it: what is no UTF-8, and what obeys, turns or hides, as \\xNN, byte
    by byte.

    A \\xNN that was in the name becomes \\x5cxNN; `again`: of a sentence that was escaped already,
    it stays.
    """
    out = []
    for c in text if again else _LIKE_OURS.sub(r"\\x5c", text):
        if any(low <= ord(c) <= high for low, high in _HIDDEN) or 0xD800 <= ord(c) <= 0xDFFF:
            out.extend("\\x%02x" % b for b in c.encode("utf-8", _lone(c)))
        else:
            out.append(c)
    return "".join(out)


def _lone(c):
    return "surrogateescape" if 0xDC80 <= ord(c) <= 0xDCFF else "surrogatepass"


# ---- a run and its traces

Row = namedtuple(
    "Row",
    "step seq key thread content digest flags op links unread occurrence stats sketch skipped",
)


class Steps:
    """The records of one trace by step; keys and contents mean the same in every trace."""

    def __init__(self, path):
        if os.path.getsize(path) > TRACE_MAX:
            raise Refuted("%s has more than %d bytes" % (path, TRACE_MAX))
        with open(path, "rb") as f:
            self.trace = t = Trace(f.read(), os.path.basename(path))
        self.info = t.info
        self.cut = not t.info.closed  # its end came from outside
        self.rows, self.ends = defaultdict(list), {}
        names = {i: t.string(i) for i in t.strings}
        for e in t.events():
            if not hasattr(e, "seq"):
                self.ends[e.step] = e
                continue
            s = t.series.get(e.series) or Series(0, 0, 0, 0, 0, 0, 0)
            layout = t.layouts.get(e.layout)
            unread = bool(e.flags & UNOBSERVED)
            key = (
                s.phase,
                s.kind,
                names.get(s.name, ""),
                names.get(s.scope, ""),
                names.get(s.role, ""),
            )
            shape = (layout.dtype,) + tuple(layout.shape) if layout else None
            offset = e.global_offset if e.flags & OFFSET else None
            digest = None if unread else e.digest
            self.rows[e.step].append(
                Row(
                    e.step,
                    e.seq,
                    key,
                    e.thread,
                    (shape, offset, digest),
                    e.digest,
                    e.flags,
                    names.get(s.op, ""),
                    e.links or (),
                    unread,
                    e.occurrence,
                    e.stats,
                    e.sketch,
                    e.skipped,
                )
            )
        for rows in self.rows.values():
            rows.sort(key=lambda r: r.seq)
        # prefix hash over so many steps: at the end of each, and in the header of each good block
        self.prefix = {step + 1: e.prefix for step, e in self.ends.items()}
        for block in t.blocks():
            self.prefix.setdefault(block.steps, block.prefix)
        self._faults = None

    @property
    def faults(self):
        """What is damaged in the file, as far as the reader's own proof goes."""
        if self._faults is None:
            try:
                self._faults = self.trace.verify()
            except (TraceError, KeyError, IndexError, ValueError) as e:
                self._faults = ["%s" % e]
        return self._faults

    def at(self, step, seq):
        for r in self.rows.get(step, ()):
            if r.seq == seq:
                return r
        raise Refuted("%s has no record %d in step %d" % (self.trace.name, seq, step))

    def complete(self, step):
        """Are the details of all records of a finished step there?"""
        end = self.ends.get(step)
        return end is not None and end.dropped == 0 and end.records == len(self.rows.get(step, ()))


class Run:
    """A run folder: run.json, its traces and streams, read when they are asked for."""

    def __init__(self, folder):
        self.folder = os.path.realpath(folder)
        self._steps = {}
        try:
            with open(os.path.join(self.folder, "run.json"), "rb") as f:
                self.json = json.loads(f.read(JSON_MAX))
        except (OSError, ValueError) as e:
            raise Trouble("%s is no run folder: %s" % (folder, e))
        if not isinstance(self.json, dict):
            raise Trouble("%s: run.json is no object" % folder)

    def path(self, name):
        """A file of the run folder. A name that leads out of it is refused."""
        need(isinstance(name, str) and name and "\0" not in name, "no file name")
        path = os.path.realpath(os.path.join(self.folder, name))
        need(path.startswith(self.folder + os.sep), "%s leads out of the run folder", name)
        need(os.path.isfile(path), "%s is not in the run folder", name)
        return path

    def steps(self, name):
        if name not in self._steps:
            try:
                self._steps[name] = Steps(self.path(name))
            except (TraceError, OSError) as e:
                raise Refuted("%s cannot be read: %s" % (name, e))
            self._without_own_names(self._steps[name])
            self._steps[name].cut |= self.stopped() or self.json.get("outcome") == "signaled"
        return self._steps[name]

    def _without_own_names(self, steps):
        """Paths that ranks handed on stand in names of records: what a run is called is left out."""
        own = None
        for rows in steps.rows.values():
            for i, r in enumerate(rows):
                phase, kind, name, scope, role = r.key
                if phase == COLLECTIVE and ": /" in name:
                    own = own or _lines.facts(self.json, self.folder)
                    name = _lines.masked(name.encode("utf-8", "surrogateescape"), own)
                    rows[i] = r._replace(key=(phase, kind, name, scope, role))

    def readable(self, name):
        """The steps of a trace; None where it cannot be read at all."""
        try:
            return self.steps(name)
        except Refuted:
            return None

    def traces(self):
        folder = os.path.join(self.folder, "ranks")
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        return ["ranks/" + n for n in names if n.endswith(".twt")]

    def threads(self, name):
        """How many threads of PyTorch the process of this trace told, each time that it did; []: none
        that can be told to be its own.
        """
        own = os.path.basename(name)[: -len(".twt")]
        if "-" in own or "ranks/%s-2.twt" % own in self.traces():
            return []  # one number of a process, two programs
        try:
            path = self.path("worlds/" + own)
            need(os.path.getsize(path) <= WORLD_MAX, "%s has more than %d bytes", path, WORLD_MAX)
            with open(path, "rb") as f:
                text = f.read()
        except Refuted:
            return []
        found = re.findall(rb"^setting\tthreads ([1-9][0-9]{0,6})$", text, re.M)
        return [n for n in map(int, found) if n <= 1 << 20]

    def stream(self, name):
        """Lines of stdout or stderr as a terminal shows them in the end, without empty ones."""
        return _lines.shown(self.printed(name))

    def places(self, name):
        """The places of these lines in what was printed, from 1, empty ones counted."""
        return [place for place, _line in _lines.placed(self.printed(name))]

    def printed(self, name):
        """The bytes of stdout or stderr."""
        if name == "stdout and stderr":  # of one run they were one, of the other they were two
            out = self.printed("stdout")
            return (
                out + (b"\n" if out and not out.endswith(b"\n") else b"") + self.printed("stderr")
            )
        path = os.path.join(self.folder, name)
        if name not in ("stdout", "stderr") or not os.path.isfile(path):
            return b""
        need(os.path.getsize(path) <= STREAM_MAX, "%s has more than %d bytes", name, STREAM_MAX)
        with open(path, "rb") as f:
            return f.read()

    def failed(self):
        outcome = self.json.get("outcome")
        return outcome in ("not-started", "signaled") or (
            outcome == "exited" and self.json.get("exit_code") != 0
        )

    def stopped(self):
        return self.json.get("outcome") in (None, "stopped", "interrupted")

    def files(self):
        listed = self.json.get("files")
        good = (
            [f for f in listed if isinstance(f, dict) and isinstance(f.get("path"), str)]
            if isinstance(listed, list)
            else []
        )
        return {printable(f["path"]): f for f in good}


# ---- two steps side by side

Difference = namedtuple("Difference", "type a b")  # type: value, only-a, only-b, unread


def unlike_threads(mine, theirs):
    """What two processes told of their threads, each ((first, last)); None: the same, or one of them
    told nothing. Where one did not tell at its end, the beginnings are compared.
    """
    if not mine or not theirs:
        return None
    if min(len(mine), len(theirs)) < 2:
        mine, theirs = mine[:1], theirs[:1]
    numbers = (mine[0], mine[-1]), (theirs[0], theirs[-1])
    return numbers if numbers[0] != numbers[1] else None


def differences(rows_a, rows_b, any_order=False):
    """What differs between two steps: of each key the n-th record is held against the n-th.

    Threads that record under one key take turns as they like: each one keeps its own sequence.
    any_order: nor that, which is said of a comparison that could not tell.
    """
    by_key = {}
    for side, rows in enumerate((rows_a, rows_b)):
        for r in rows:
            by_key.setdefault(r.key, ([], []))[side].append(r)
    out = []
    for xs, ys in by_key.values():
        shared = len({r.thread for r in xs}) > 1 or len({r.thread for r in ys}) > 1
        if shared and (same_sequences(xs, ys) or (any_order and contents(xs) == contents(ys))):
            continue
        if len(xs) != len(ys):
            alone = without_counterpart(xs, ys)
            if alone is not None:
                kind = "only-a" if len(xs) > len(ys) else "only-b"
                out.extend(
                    Difference(kind, *((r, None) if kind == "only-a" else (None, r))) for r in alone
                )
                continue
        for x, y in zip(xs, ys):
            if x.content != y.content:
                out.append(Difference("unread" if x.unread != y.unread else "value", x, y))
        out.extend(Difference("only-a", x, None) for x in xs[len(ys) :])
        out.extend(Difference("only-b", None, y) for y in ys[len(xs) :])
    return out


def without_counterpart(xs, ys):
    """The records that the longer of two lists has besides those of the shorter, which it has in
    their order; None when it has not."""
    longer, shorter = (xs, ys) if len(xs) > len(ys) else (ys, xs)
    alone, at = [], 0
    for r in longer:
        if at < len(shorter) and shorter[at].content == r.content:
            at += 1
        else:
            alone.append(r)
    return alone if at == len(shorter) else None


def contents(rows):
    return Counter(r.content for r in rows)


def sequences(rows):
    """What each thread recorded, in its order, whichever number it has."""
    by_thread = {}
    for r in rows:
        by_thread.setdefault(r.thread, []).append(r.content)
    return Counter(map(tuple, by_thread.values()))


def same_sequences(xs, ys):
    return sequences(xs) == sequences(ys)


def moves(steps, step, name):
    """Did anybody draw from a generator in this step, as far as its recorded states show?"""
    before = [r for r in steps.rows.get(step - 1, ()) if r.key[1] == STATE and r.key[2] == name]
    last = before[-1] if before else None
    for r in steps.rows.get(step, ()):
        if r.key[1] != STATE or r.key[2] != name:
            continue
        if r.op or (last and last.digest != r.digest):
            return True
        last = r
    return False


def moved_from_start(steps, step, r):
    """Of the state with which the agent found a generator: the next of it, if user code had moved it
    until then; else None.
    """
    if r.key[0] != INIT or r.key[3] or r.op:
        return None
    rows = [q for q in steps.rows.get(step, ()) if q.key[1] == STATE and q.key[2] == r.key[2]]
    after = [q for q in rows if q.seq > r.seq][:1]
    by_code = [q for q in after if q.key[0] == RNG and q.op == "user code" and q.thread == r.thread]
    return by_code[0] if by_code and not by_code[0].unread else None


def set_again(d, x, y, step_a, step_b, rules):
    """Are two runs' first states of a generator others, and the next ones equal, as all else is that
    the step recorded, but for what the other rules leave out?
    """
    one, other = moved_from_start(x, step_a, d.a), moved_from_start(y, step_b, d.b)
    if one is None or other is None:
        return False
    rows = x.rows.get(step_a, ()), y.rows.get(step_b, ())
    others = [e for e in differences(*rows) if (e.a or e.b).key[1] != STATE]
    left = [e for e in others if not rules.allows(e, x, y, step_a, step_b)]
    return not left and one.content == other.content and one.digest == other.digest


def tensor_of(key):
    """The key without the [first:end] of a part."""
    return key[:2] + (key[2].rpartition("[")[0],) + key[3:]


def part_elsewhere(d, x, y, step_a, step_b):
    """Does the run that lacks this part of a large tensor have other parts of it in this step?"""
    r, rows = (d.a, y.rows.get(step_b, ())) if d.a else (d.b, x.rows.get(step_a, ()))
    return bool(r.flags & PART) and any(
        q.flags & PART and q.key != r.key and tensor_of(q.key) == tensor_of(r.key) for q in rows
    )


PART_OF = re.compile(r"\[[0-9]+:[0-9]+\]$")


WORDS = {
    "idle-generators",
    "set-generators",
    "insertions",
    "only-weights",
    "with-gradients",
    "with-moments",
    "parts-of-ranks",
    "ranks-by-role",
    "steps-of-threads",
    "threads-cut",
    "order-of-threads",
    "unread",
    "dropped",
    "parts-in-turns",
    "order-of-parameters",
}


def names_of(r):
    """What a pattern may call a record."""
    phase, kind, name = r.key[:3]
    before = "%s/%s/" % (
        PHASES[phase] if phase < len(PHASES) else "?",
        KINDS[kind] if kind < len(KINDS) else "?",
    )
    whole = PART_OF.sub("", name)  # a pattern that names a large tensor means its parts, too
    return name, whole, before + name, before + whole


# --ignore 'number:FIRST-LAST:GLOB': single floating-point numbers in steps of the first run
NUMBER = re.compile(r"number:([0-9]{1,10})(?:-([0-9]{1,10}))?:(.+)", re.S)
FLOATS = {6, 7, 10, 13}  # f16, bf16, f32, f64


def is_number(r):
    """Is the record one floating-point number, of a tensor that has no more?"""
    shape = r.content[0]
    one = shape and shape[0] in FLOATS and all(n == 1 for n in shape[1:])
    return bool(one) and not r.unread and not r.flags & PART


class Rules:
    """Which records a claim of equality may leave out. Only what the claim names is left out."""

    def __init__(self, claim):
        given = items(claim, "rules") if "rules" in claim else []
        self.words = {r for r in given if isinstance(r, str)}
        need(self.words <= WORDS, "nobody knows the rule %s", ", ".join(sorted(self.words - WORDS)))
        self.ignore = [
            r["ignore"] for r in given if isinstance(r, dict) and isinstance(r.get("ignore"), str)
        ]

        read = [NUMBER.fullmatch(p) for p in self.ignore]
        self.numbers = [(int(m[1]), int(m[2] or m[1]), m[3]) for m in read if m]
        self.ignore_names = [p for p in self.ignore if not p.startswith("number:")]

    def leaves_number(self, d):
        """Is it a pair of single numbers that the claim leaves out?"""
        if d.type != "value" or not is_number(d.a) or d.a.content[:2] != d.b.content[:2]:
            return False
        of_step = [p for low, high, p in self.numbers if low <= d.a.step <= high]
        return any(fnmatch.fnmatchcase(n, p) for n in names_of(d.a) for p in of_step)

    def between_worlds(self, key):
        """Is it what is compared between other numbers of ranks?"""
        phase, kind = key[:2]
        if is_given_back(key):
            return False
        if kind == WEIGHT:
            return phase == OPTIMIZER
        word = {MOMENT: "with-moments", GRADIENT: "with-gradients"}.get(kind)
        return word in self.words

    def ignores(self, r):
        return any(fnmatch.fnmatchcase(n, p) for n in names_of(r) for p in self.ignore_names)

    def allows(self, d, x, y, step_a, step_b):
        phase, kind, name = (d.a or d.b).key[:3]
        if self.ignores(d.a or d.b):
            return True
        if self.leaves_number(d):
            return True
        if "order-of-parameters" in self.words and kind == ORDER and d.type == "value":
            return True
        if "parts-in-turns" in self.words and d.type in ("only-a", "only-b"):
            if part_elsewhere(d, x, y, step_a, step_b):
                return True
        if "only-weights" in self.words and not self.between_worlds((d.a or d.b).key):
            return True
        if "insertions" in self.words:
            may_be = (kind in INSERTABLE and phase != INIT) or (kind == WEIGHT and phase in WRITTEN)
            inserted = d.type in ("only-a", "only-b") and may_be
            return inserted or kind == STATE
        if d.type == "unread" and "unread" in self.words:
            return True
        if kind != STATE or d.type != "value":
            return False
        if "set-generators" in self.words and set_again(d, x, y, step_a, step_b, self):
            return True
        idle = not moves(x, step_a, name) and not moves(y, step_b, name)
        return idle and "idle-generators" in self.words


def say(d):
    r = d.a or d.b
    what = "%s/%s %s" % (PHASES[r.key[0]], KINDS[r.key[1]], printable(r.key[2]))
    where = {
        "value": "differs",
        "unread": "was read in one run only",
        "only-a": "is only in the first",
        "only-b": "is only in the second",
    }
    return "%s (record %d) %s" % (what, r.seq, where[d.type])


def equal_step(x, y, step_a, step_b, rules):
    """Refutes unless two steps hold equal records.

    Where details were dropped the sums of the step decide.
    """
    end_a, end_b = x.ends.get(step_a), y.ends.get(step_b)
    need(end_a and end_b, "step %d is not finished, or lies in damaged bytes", step_a)
    readable = not x.trace.faults and not y.trace.faults  # else names may be missing
    if readable and x.complete(step_a) and y.complete(step_b):
        any_order = "order-of-threads" in rules.words
        for d in differences(x.rows.get(step_a, ()), y.rows.get(step_b, ()), any_order):
            need(rules.allows(d, x, y, step_a, step_b), "step %d: %s", step_a, say(d))
        return
    if "dropped" in rules.words:
        return
    need(
        end_a.phases == end_b.phases and end_a.records == end_b.records,
        "step %d: the sums over its records differ",
        step_a,
    )


def by_window(x, y, first, steps, shift):
    """Steps in damaged bytes: the prefix hashes around the hole decide."""

    def window(s, at):
        need(at == 0 or at in s.prefix, "the step before %d is not readable", at)
        need(at + steps in s.prefix, "step %d is not readable", at + steps - 1)
        return prefix_window(s.prefix[at + steps], s.prefix[at] if at else 0, steps)

    need(
        window(x, first) == window(y, first + shift),
        "the hashes of steps %d to %d differ",
        first,
        first + steps - 1,
    )


def streams(steps):
    """What was recorded under each key over all steps, numbers of optimizers aside; no generators.

    Which step a record fell into is a matter of schedule where threads train at once.
    """
    out = defaultdict(list)
    for step in sorted(steps.rows):
        for r in steps.rows[step]:
            if r.key[1] != STATE:
                phase, kind, name, scope, role = r.key
                if kind == ORDER:  # "parameters of SGD#2[0]"
                    name = re.sub(r"#[0-9]+(?=\[|$)", "", name)
                head, mark, tail = scope.rpartition("#")
                plain = head if mark and tail.isdigit() else scope
                out[phase, kind, name, plain, role].append(r)
    return out


def inside(rows):
    """For each place between two rows: is a thread between its first and its last row there?"""
    first, last = {}, {}
    for i, r in enumerate(rows):
        first.setdefault(r.thread, i)
        last[r.thread] = i
    return [any(first[t] < i <= last[t] for t in first) for i in range(len(rows) + 1)]


def same_stream(xs, ys, any_order):
    """One key over the whole run: the same sequence, or threads that took turns in another way.

    Where no thread is under way in either run the two are cut; between cuts each thread's own
    sequence must be there.
    """
    if [r.content for r in xs] == [r.content for r in ys]:
        return True
    shared = len({r.thread for r in xs}) > 1 or len({r.thread for r in ys}) > 1
    if contents(xs) != contents(ys) or not (shared or all(r.flags & UNORDERED for r in xs + ys)):
        return False
    if any_order or not shared:
        return True
    busy = [p or q for p, q in zip(inside(xs), inside(ys))]
    cuts = [i for i, b in enumerate(busy) if not b]
    return all(same_sequences(xs[p:q], ys[p:q]) for p, q in zip(cuts, cuts[1:]))


def same_streams(x, y, any_order):
    mine, theirs = streams(x), streams(y)
    if set(mine) != set(theirs):
        return False
    return all(same_stream(mine[k], theirs[k], any_order) for k in mine)


def same_beginnings(x, y):
    """Of runs that were ended: each thread's records are equal as far as both go, and one goes on
    only where the other was cut.
    """
    if not (x.cut or y.cut):
        return False
    mine, theirs = streams(x), streams(y)
    for rows in (*mine.values(), *theirs.values()):
        if len({r.thread for r in rows}) > 1:
            return False
    for key in mine.keys() | theirs.keys():
        rows, others = mine.get(key, ()), theirs.get(key, ())
        lacks = (len(rows) < len(others) and not x.cut) or (len(others) < len(rows) and not y.cut)
        if lacks or any(r.content != q.content for r, q in zip(rows, others)):
            return False
    return True
