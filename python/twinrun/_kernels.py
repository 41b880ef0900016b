# SPDX-License-Identifier: Apache-2.0
"""How twinrun.recheck holds what a verdict says of kernels on GPUs against the recordings.

Written from docs/internals/cupti.md: the traces below kernels/ of a run folder.
"""

import os
import re
from collections import Counter

from ._notes import form
from ._recorded import NotHere, Refuted, need
from ._roles import moved_ranks
from .trace import PHASES, Trace, TraceError

KERNEL = PHASES.index("kernel")
MAIN = "main thread"
PRIME = (1 << 61) - 1
BASE = 0x13A5F09B6D2E471B % PRIME
NAME_MOST, BEFORE, APART = 160, 12, 48


def printable(text):
    return "".join(c if " " <= c <= "~" and c != ";" else "_" for c in text)


def short_name(name):
    """Function and namespaces of a mangled name, else the name itself, as sentences have it."""
    parts, at = [], 2
    nested = name.startswith("_ZN")
    at += nested
    found = name.startswith("_Z")
    while found:
        number = re.match(r"\d+", name[at:])
        n = int(number.group()) if number else 0
        start = at + len(number.group()) if number else at
        if not n or start + n > len(name):
            found = bool(parts)
            break
        part = name[start : start + n]
        parts.append("(anonymous namespace)" if re.match("_GLOBAL__N_.", part) else part)
        at = start + n
        if not nested:
            break
    short = "::".join(parts)
    if found and len(short) + 6 <= NAME_MOST + 1:
        return printable(short + ("<...>" if name[at : at + 1] == "I" else ""))
    return printable(name if len(name) <= NAME_MOST else name[: NAME_MOST - 3] + "...")


def said(kernel, other=None):
    name, shape = kernel
    short = short_name(name)
    if other is None or (short, shape) != (short_name(other[0]), other[1]) or name == other[0]:
        return "%s (%s)" % (short, shape)
    at = len(os.path.commonprefix([name, other[0]]))
    at = max(at - BEFORE, 0)
    more = "..." if len(name) > at + APART else ""
    return "%s [...%s%s] (%s)" % (short, printable(name[at : at + APART]), more, shape)


def count(text):
    return int(text.replace(",", ""))


class Launched:
    """What one run launched: threads {(rank, role, thread): {step: (digest, count)}}, listed
    {digest: [(name, shape)]}, modules, and what is missing.
    """

    def __init__(self, run, k, moved):
        self.threads, self.listed, self.modules, self.lost = {}, {}, Counter(), 0
        self.unseen = False
        twice, places, folder = set(), {}, os.path.join(run.folder, "kernels")
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            if not name.endswith(".twt"):
                continue
            try:
                t = Trace.open(run.path("kernels/" + name))
            except (TraceError, OSError) as e:
                raise NotHere("%s of run %s cannot be read: %s" % (name, k, e))
            notes = dict(t.notes)
            self.lost += t.info.dropped + t.info.lost + int(notes.get(b"kernels.lost", b"0"))
            self.lost += b"kernels.stopped" in notes
            own = {}
            for r in t.records():
                self._take(t, r, own, places, moved)
            twice |= set(own) & set(self.threads)
            self.threads.update(own)
        self.threads = {key: t for key, t in self.threads.items() if key not in twice}
        for digest, at in places.items():
            self.listed[digest] = [at.get(i) for i in range(max(at) + 1)]

    def _take(self, t, r, own, places, moved):
        s, y = t.series[r.series], t.layouts[r.layout]
        site = t.string(s.site) if s.phase == KERNEL else ""
        if site == "sequence":
            rank = moved.get(t.info.rank, t.info.rank)
            key = rank, t.info.role, t.string(s.scope)
            own.setdefault(key, {})[r.digest[1]] = r.digest[0], y.shape[0]
        elif site == "launch":
            places.setdefault(r.digest[0], {})[r.digest[1]] = t.string(s.name), t.string(s.op)
        elif site == "module":
            self.unseen |= r.digest == (0, 0)
            self.modules[r.digest[0], y.shape[0]] += 1

    def kernels(self, step):
        """The launches of a sequence, or None where they are not all listed."""
        digest, n = step
        listed = self.listed.get(digest, [])[:n]
        return listed if len(listed) == n and None not in listed else None

    @staticmethod
    def altogether(steps):
        digest = total = 0
        for _, (one, n) in sorted(steps.items()):
            digest = (digest * pow(BASE, n, PRIME) + one) % PRIME
            total += n
        return digest, total


def pairs_of(a, b):
    """[(key in a, key in b)] of threads that are held against each other."""
    pairs, left_a, left_b = [], list(a.threads), list(b.threads)

    def take(x, y):
        pairs.append((x, y))
        left_a.remove(x)
        left_b.remove(y)

    for x in list(left_a):
        for y in list(left_b):
            if x[:2] != y[:2] or (x[2] == MAIN) != (y[2] == MAIN):
                continue
            if x[2] == MAIN or a.altogether(a.threads[x]) == b.altogether(b.threads[y]):
                take(x, y)
                break
    for process in {x[:2] for x in left_a}:
        one = [x for x in left_a if x[:2] == process]
        other = [y for y in left_b if y[:2] == process]
        if len(one) == len(other) == 1 and MAIN not in (one[0][2], other[0][2]):
            take(one[0], other[0])
    return pairs


def steps_of(a, b):
    """[(step, rank, key, of a, of b)] that were compared, of all threads; nothing: (0, 0)."""
    found = []
    for x, y in pairs_of(a, b):
        one, other = a.threads[x], b.threads[y]
        if a.altogether(one) == b.altogether(other):
            found += [(s, x[0], x, v, v) for s, v in one.items()]
            continue
        last = min(max(one), max(other)) + (max(one) == max(other))
        for s in sorted(set(one) | set(other)):
            if s < last:
                found.append((s, x[0], x, one.get(s, (0, 0)), other.get(s, (0, 0))))
    return found


def told(a, b, one, other, j, k):
    """What differs between two steps, in the words of the verdict."""
    n, m = ("{:,}".format(s[1]) for s in (one, other))
    if not one[1] or not other[1]:
        n, m = (x if x != "0" else "none" for x in (n, m))
        return "launched %s in run %s and %s in run %s" % (n, j, m, k)
    counts = "launched %s in run %s and %s in run %s" % (n, j, m, k)
    x, y = a.kernels(one), b.kernels(other)
    if x is None or y is None or x == y:
        return counts + ", which are not the same; they are not listed"
    i = len(os.path.commonprefix([x, y]))
    if i == min(len(x), len(y)):
        longer, run = (y, k) if len(y) > len(x) else (x, j)
        return "%s, the same up to launch %d of run %s, %s" % (counts, i + 1, run, said(longer[i]))
    if Counter(x) == Counter(y):
        counts = "launched the same %s in another order" % n
    return "%s: launch %d is %s in run %s and %s in run %s" % (
        (counts, i + 1, said(x[i], y[i]), j, said(y[i], x[i]), k)
    )


class Kernels:
    """Beside the notes of _notes.Notes."""

    def launched(self, j, k):
        a = Launched(self.run_named(j), j, {})
        b = Launched(self.run_named(k), k, moved_ranks(self.run_named(j), self.run_named(k)))
        need(not a.lost and not b.lost, "launches were lost: which ones is not known")
        return a, b

    @form(
        r"other kernels on a GPU: step (\d+) of rank (-?\d+) \(([^)]*)\) (launched .*?in run (\d+) "
        r".*in run (\d+).*); launches differ in ([\d,]+) of the ([\d,]+) steps of a thread that were "
        r"compared(.*)"
    )
    def other_kernels(self, step, rank, thread, what, _, __, n, m, more):
        j, k = (str(self.runs.index(r) + 1) for r in self.runs[:2])
        a, b = self.launched(j, k)
        steps = steps_of(a, b)
        need(len(steps) == count(m), "%d steps can be compared", len(steps))
        differing = [s for s in steps if s[3] != s[4]]
        need(len(differing) == count(n), "%d steps differ", len(differing))
        first = min(s[:2] for s in differing)
        need(first == (int(step), int(rank)), "the first is step %d of rank %d", *first)
        for s in differing:
            if s[:2] == first and s[2][2] == thread:
                expected = told(a, b, s[3], s[4], j, k)
                need(what == expected, "it %s", expected)
                return
        raise Refuted("what %s launched there is the same" % thread)

    @form(
        r"the same kernels were launched on a GPU in run (\d+) and run (\d+), in the same order, "
        r"([\d,]+) of them in the ([\d,]+) steps of a thread that were compared(?:; of the machine "
        r"code that was loaded, (\d+) modules? of run \d+ and (\d+) of run \d+ have no equal in the "
        r"other)?(.*)"
    )
    def same_kernels(self, j, k, n, m, p, q, more):
        a, b = self.launched(j, k)
        steps = steps_of(a, b)
        need(all(s[3] == s[4] for s in steps), "some differ")
        need(len(steps) == count(m), "%d steps can be compared", len(steps))
        total = sum(s[3][1] for s in steps)
        need(total == count(n), "%d launches can be compared", total)
        if p:
            need(not a.unseen and not b.unseen, "some machine code was not digested")
            one = sum((a.modules - b.modules).values())
            other = sum((b.modules - a.modules).values())
            need((one, other) == (int(p), int(q)), "they are %d and %d", one, other)

    @form(r"kernels on a GPU were not compared: they were recorded in run (\d+) alone")
    def kernels_in_one(self, k):
        has = [self.has_kernels(r) for r in self.runs[:2]]
        need(sorted(has) == [False, True], "%s", "both have them" if all(has) else "none has them")
        need(has.index(True) + 1 == int(k), "it was in the other one")

    @staticmethod
    def has_kernels(run):
        folder = os.path.join(run.folder, "kernels")
        return os.path.isdir(folder) and any(n.endswith(".twt") for n in os.listdir(folder))
