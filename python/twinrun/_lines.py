# SPDX-License-Identifier: Apache-2.0
"""Printed lines for twinrun.recheck: which differences between two runs' lines are noise.

The rules of docs/verdict.md decide, and no list of words that may stand anywhere: a part of a line
is noise when it is a fact of its own run (_facts.py), when a unit of time, of a rate or of memory
stands at it or in its label, or when the head of its label is a word for one. All else is a result.
A second opinion: it shares no code with src/compare.
"""

import re
from collections import Counter, namedtuple

from ._facts import NUMBER, Facts
from ._own_time import CELL, rate_of_run, thing_of_machine, time_of_run

# a line without counterpart, and whether the other run says the same with other numbers
Left = namedtuple("Left", "text numbers")


def words(text):
    return frozenset(text.split())


SECONDS = words("s sec secs second seconds min minute h hr hour ms")
TIMES = words(
    "s sec secs second seconds ms msec msecs millisecond milliseconds us usec microseconds ns nsec"
    " nanoseconds min mins minute minutes h hr hrs hour hours \u00b5s \u03bcs"
)
# Behind a blank, or in brackets, these may be other words: "0.9 min over 3 seeds", "(h)".
DOUBTFUL = words("min h second minute hour millisecond")
SIZES = words("kb mb gb tb kib mib gib tib bytes")
OPERATIONS = words("flops mflops gflops tflops pflops mflop gflop tflop fps qps")
# Of what a simulation computes: "3.2 m/s", "12 J/s".
MOTION = words("m km cm mm rad deg kg g n l ml j kj mol")

TIME_HEADS = words(
    "time times elapsed duration durations took walltime wallclock wall runtime latency uptime"
    " cputime seconds secs sec milliseconds timestamp ms"
)
RATE_HEADS = words("throughput mfu hfu wps") | OPERATIONS
MEMORY_HEADS = words("memory mem rss vram ram maxrss")
MEMORY = MEMORY_HEADS | words("allocated reserved cached gpu heap memallocated")
OPEN_HEADS = words("speed dt overhead load")  # speeds or results: check says that it is not known
# What follows the thing itself in its name: "time avg", "Time taken", "mem usage".
ATTRIBUTES = words(
    "avg average mean std stddev median total sum max min peak taken spent used usage is was of in"
    " so far about approx approximately now cur current last for the s sec secs ms us ns h mb gb kb"
    " mib gib"
)
SIMULATED = re.compile(r"\b(?:dt|cycle|timestep|t_end|dtime)\b", re.I)

UNIT = re.compile(
    r"(?P<gap>[ ]{0,3}|-)(?P<open>\(?)"
    r"(?P<unit>(?:[\u00b5\u03bc]s|[A-Za-z]+)(?:/[A-Za-z]+)*|/[A-Za-z]+)(?![A-Za-z0-9_])"
    r"(?P<close>\)?)"
)
PART = r"\d+(?:\.\d+)?(?:[dhms]|ms|us|ns)"
IN_PARTS = re.compile(PART + r"(?: ?" + PART + r")+(?![A-Za-z0-9_])")  # "1m 23s", "2h05m"
# "took 3 iterations": things by their number; in "time 3 steps: 7" the word names the next number
THINGS = re.compile(r" (?P<thing>[A-Za-z]{2,}[A-RT-Za-rt-z]s)(?![A-Za-z])(?! *[:=]| +[-.]?\d)")
COUNTED = re.compile(r" (?:epoch|step|iter|iteration|batch|rank|round|fold) [\d/]+$", re.I)
NAMED = re.compile(r"(?:[A-Za-z_0-9][\w./-]*  ?){0,5}[A-Za-z_0-9][\w./-]*$")
HUMPS = re.compile(r"[A-Z]?[a-z\u00b5]+|[A-Z]+(?![a-z])|[A-Z]")
HEADING = re.compile(r"times? \(m?s\) \|")
TIMERS = re.compile(r"\.{5,}: \((?=[0-9., ]+\))")
WITH_MORE = re.compile(r" *(?:\((?:avg)?|\+/?-|\u00b1|/|,|\u2026|\([a-z ]+\) *\() *")


def unit_kind(unit, gap, opened):
    """What a unit says: "time", "rate", "size", or None when it is another word."""
    first, *rest = unit.split("/")
    low = first.lower() if first != "M" else first
    if rest:
        per_second = any(p.lower() in SECONDS for p in rest) and low not in MOTION
        simulated = low in ("tau", "fs", "ps") and rest == ["day"]  # of molecular dynamics
        return "rate" if per_second or simulated or (low in TIMES and first) else None
    if low in TIMES:
        return None if gap and not opened and low in DOUBTFUL else "time"
    if low in OPERATIONS:
        return "rate"
    return "size" if low in SIZES or first == "B" else None


def unit_behind(line, end):
    """(kind, where it ends) of the unit behind a number."""
    if line.startswith("%", end):
        return "percent", end + 1
    m = UNIT.match(line, end)
    if not m or (m["open"] and not (m["close"] and m["gap"])):
        return None, end
    kind = unit_kind(m["unit"], m["gap"], m["open"])
    stop = m.end("close") if m["open"] else m.end("unit")
    if kind and m["gap"] and not m["open"]:
        if re.match(r" *[:=]", line[stop:]):
            return None, end  # "lr: 0.01  img/s: 1234": the label of the next number
        if kind != "rate" and re.match(r" +[-.]?\d", line[stop:]):
            return None, end
        if m["gap"] == "-" and kind != "time":
            return None, end
    return kind, stop


class Label:
    """The words before a number that name it: their parts, the last one first."""

    def __init__(self, line, at):
        text = line[:at].rstrip(" \t:='\"(>~[")
        self.unit, self.rate, self.rate_of, self.parts = "", False, "", []
        self.measured = False  # the nearest word is a number itself: "Time 1.2s (1.3s)"
        bracket = re.search(r" *\(([^()]*)\)$", text)
        if bracket:
            self.unit, text = bracket[1], text[: bracket.start()]
        text = COUNTED.sub("", text) if len(text) < at else text
        named = NAMED.search(text[-200:])
        for word in reversed(named[0].split() if named else []):
            if not re.search("[A-Za-z]", word) or NUMBER.fullmatch(word):
                break
            word = word.lstrip("-/.")
            self.measured |= not self.parts and word[:1].isdigit()
            self.take(word)

    def take(self, word):
        if "/" in word:
            upper, lower = word.rsplit("/", 1)
            before = re.split("[^A-Za-z]", upper)[-1].lower()
            below = re.match("[A-Za-z]*", lower)[0].lower()
            self.rate |= below in SECONDS and before not in MOTION
            self.rate |= before in TIMES and below != "s"
            self.rate_of = before + "/" + below
        self.parts += [p.lower() for p in reversed(HUMPS.findall(word)) if len(p) < 24]

    def head(self):
        parts = self.parts
        if "per" in parts[1:]:  # "time per iteration": the time
            parts = parts[len(parts) - parts[::-1].index("per") :]
        while len(parts) > 1 and parts[0] in ATTRIBUTES:
            parts = parts[1:]
        return parts[0] if parts else ""

    def per_second(self):
        """The thing of "samples_per_second"; None where the label is no such name."""
        for i, (p, after) in enumerate(zip(self.parts, self.parts[1:])):
            if i > 0 and p == "per" and self.parts[i - 1] in SECONDS and after not in MOTION:
                return after
        return None

    def memory(self):
        return bool(MEMORY & set(self.parts))


def has_word(line, *names):
    return re.search(r"(?<![\w])(?:%s)(?![\w])" % "|".join(names), line, re.I) is not None


def named_noise(line, at, label):
    """Does its label alone say that a number is a time, a rate or an amount of memory?"""
    heading = HEADING.search(line, 0, at)
    timers = TIMERS.search(line)
    if heading or (timers and timers.end() <= at):
        return True
    head, unit = label.head(), label.unit.lower()
    is_unit = re.fullmatch(r"[^\W\d_]+(/[A-Za-z]+)*", unit)
    kind = unit_kind(label.unit, "", True) if is_unit else None
    if not label.parts:
        return False
    if kind == "rate":
        return rate_of_run(label, label.unit)
    if kind == "time" and (unit not in DOUBTFUL or head in TIME_HEADS):
        return time_of_run(line, at, label, unit)
    if kind == "size":
        return label.memory()
    if label.per_second():
        return thing_of_machine(label.per_second())
    if label.rate:
        return rate_of_run(label, label.rate_of)
    if head in TIME_HEADS:
        return not SIMULATED.search(line) and time_of_run(line, at, label, "")
    if head in RATE_HEADS or head in MEMORY_HEADS or head == "port":
        return True
    if head in ("utilization", "util") and {"gpu", "cpu"} & set(label.parts):
        return True
    if head in ("allocated", "reserved", "cached") and has_word(line, "memory", "mem"):
        return True
    if head == "ups" and has_word(line, "wps"):  # updates, beside words, per second
        return True
    return label.parts == ["data"] and has_word(line, "time")


def named_in_cell(line, at, label):
    """A table's cell has its name in the cell before: "| period | 0.5 s |"."""
    if label.parts:
        return label
    before = CELL.sub("", line[:at])
    return Label(before, len(before)) if before else label


def counts_things(line, m, head):
    """Is it a whole number of things, whose name stands behind it, where a time would stand?"""
    behind = THINGS.match(line, m.end())
    return bool(
        behind
        and m[0].isdigit()
        and head in TIME_HEADS
        and not unit_kind(behind["thing"], "", True)
    )


def speeds(line, taken):
    """Spans of what the grammar of speeds calls noise; `taken` are those of facts."""
    last = None  # where a number ended that its label made noise: more of the same meter may follow
    at = 0
    while True:
        m = NUMBER.search(line, at)
        if not m:
            return
        covered = next((b for a, b in taken if a < m.end() and m.start() < b), None)
        if covered is not None:
            at, last = max(covered, m.start() + 1), None
            continue
        start, end = m.span()
        if "x" in m[0].lower():  # every bit of a number: no clock is printed like that
            at, last = end, None
            continue
        whole = IN_PARTS.match(line, start)
        kind, stop = unit_behind(line, end)
        label = Label(line, start)
        if whole:
            if time_of_run(line, start, named_in_cell(line, start, label), ""):
                yield start, whole.end()
            at, last = whole.end(), None
            continue
        things = counts_things(line, m, label.head())
        by_label = not things and named_noise(line, start, label)
        more = last is not None and WITH_MORE.fullmatch(line, last, start)
        if more and more[0].strip() == ",":  # a list in brackets, or of a label and a comma
            more = re.search(r"[(\[][-+0-9., ]*$|, [-+0-9.]+$", line[:last])
        at, last = end, None
        if kind in ("time", "rate"):
            unit = line[end:stop].strip(" -()")
            if kind == "rate":
                own = rate_of_run(label, unit)
            else:
                own = time_of_run(line, start, named_in_cell(line, start, label), unit)
            if own:
                yield start, stop
            at = stop
        elif kind == "size":
            at = stop
            if by_label or label.memory():
                yield start, stop
        elif by_label or (more and not things):
            at = stop if kind == "percent" else end
            last = at
            yield start, at


def placed(data):
    """(place, line) of the lines that a terminal would show in the end: of one that overwrites
    itself, the last. The place is that in the text, from 1; empty lines count.
    """
    out = []
    for place, line in enumerate(data.split(b"\n"), 1):
        line = line.rstrip(b"\r ")
        line = line[line.rfind(b"\r") + 1 :]
        if line:
            out.append((place, line))
    return out


def shown(data):
    """The same lines alone."""
    return [line for _place, line in placed(data)]


def facts(run, folder):
    """What is known of a run itself, from its run.json."""
    return Facts(run, folder)


COLOURS = re.compile("\033\\[[0-9;?]*[ -~]?")


def masked(line, own):
    """The line with its noise as "~", and without the blanks that only align it."""
    text = COLOURS.sub("", line.decode("utf-8", "surrogateescape")).replace("\0", " ")
    taken = own.spans(text)
    spans = sorted([*taken, *speeds(text, taken)])
    out, at = [], 0
    for a, b in spans:
        if b <= at:
            continue
        out += [text[at : max(a, at)], "~"]
        at = b
    text = re.sub(r"~(?:\s*~)*", "~", "".join(out) + text[at:])
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r"(?<![\w~#]) | (?![\w~#+.-])", "", text)


def skeleton(line):
    return re.sub(r"(?<![A-Za-z_])%s" % NUMBER.pattern, "#", line)


def unexplained(a, b, facts_a, facts_b, more=lambda text: text):
    """Lines of one run that the other has not, neither byte for byte nor with noise masked."""
    only_a, only_b = Counter(a) - Counter(b), Counter(b) - Counter(a)
    x = Counter(more(masked(line, facts_a)) for line in only_a.elements())
    y = Counter(more(masked(line, facts_b)) for line in only_b.elements())
    left_a, left_b = x - y, y - x
    says_a, says_b = ({skeleton(line) for line in left} for left in (left_a, left_b))
    return [Left(line, skeleton(line) in says_b) for line in left_a] + [
        Left(line, False) for line in left_b if skeleton(line) not in says_a
    ]
