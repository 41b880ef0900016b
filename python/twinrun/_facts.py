# SPDX-License-Identifier: Apache-2.0
"""Facts of a run for twinrun.recheck, and the forms in which they show in a printed line.

A form alone is not enough where the fact is known: a date of another year is no noise.
"""

import calendar
import math
import os
import re
import signal

DAY, ZONE, SLACK = 86400, 900, 2.0  # seconds; time zones differ by quarters of an hour
NUMBER = re.compile(
    r"(?:(?<![\w)\]])[-+])?(?<![\w.])(?<![A-Za-z_])"
    r"(?:0[xX][0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?[pP][-+]?\d+"
    r"|(?:\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)"
)
ALONE, END = r"(?<![0-9A-Za-z])(?<!\d\.)", r"(?![0-9A-Za-z])"
MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
TIME = (
    r"(?:(?:  | |T|_|-)\d{1,3}:\d\d(?::\d\d(?:[.,]\d+)?)?|[T_-]\d\d-\d\d(?:-\d\d)?"
    r"|[T_-](?:[01]\d|2[0-3])[0-5]\d(?:[0-5]\d)?(?![0-9A-Za-z]))"
    r"(?:Z|[+-]\d\d:?\d\d)?"
)
DATES = (
    r"(?P<y>\d{4})(?P<s>[-/_.])(?P<m>\d\d)(?P=s)(?P<d>\d\d)",
    r"(?P<m>\d\d)(?P<s>[-/_.])(?P<d>\d\d)(?P=s)(?P<y>\d{4})",
    r"(?P<y>\d{4})(?P<m>\d\d)(?P<d>\d\d)(?:\d{6})?",
)
RUN_NAME = r"(?:[-_][a-z0-9]{8}(?![0-9A-Za-z]))?"  # the random end of 20261122_120846-1a2b3c4d
DATES = [re.compile(ALONE + d + r"(?!\d)(?:%s)?%s" % (TIME, RUN_NAME)) for d in DATES]
# The folder of a time in the folder of its day: "2026-11-22/12-08-46", "20261122/120846".
IN_DAY = re.compile(
    r"/(?:(\d{1,3})-([0-5]\d)-([0-5]\d)(?!-\d)|(\d\d)([0-5]\d)([0-5]\d))(?![0-9A-Za-z])"
)
MONTH = "|".join(MONTHS)
NAMED = re.compile(
    ALONE + r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?"
    r"(?:(?P<d>\d\d?)[ -](?P<m>%s)|(?P<m2>%s) *(?P<d2>\d\d?))(?!\d)"
    r"(?P<t>%s)?(?:,?[ -](?P<y>\d{4})(?P<t2>%s)?)?" % (MONTH, MONTH, TIME, TIME)
)
CLOCK = re.compile(
    ALONE + r"(?<![@:])(?P<h>\d{1,3}):(?P<m>[0-5]\d)"
    r"(?::(?P<s>[0-5]\d)(?P<f>[.,]\d+)?)?(?![\d:])"
)
CLOCK_NAMES = "eta|time|elapsed|remaining|left|duration|took|runtime|walltime"
NAMED_CLOCK = re.compile(r"(?<![A-Za-z])(?:%s)[ :=('\"]*$" % CLOCK_NAMES, re.I)
EPOCH = re.compile(ALONE + r"(\d{10})(?:\d{3}|\d{6}|\d{9}|\.\d+)?(?!\d)")
GLOG = re.compile(
    ALONE + r"[IWEF](?P<m>\d\d)(?P<d>\d\d) "
    r"(?P<t>\d\d?:\d\d:\d\d(?!\d)(?:[.,]\d+)?|00:00:(?P<e>\d{10})\.\d+)"
    r"(?: +\d+(?= [^\s\]]+\]))?"
)
ADDRESS = re.compile(ALONE + r"0[xX](?P<x>[0-9a-fA-F]{4,16})" + END)
PLACE = re.compile(r"(?<![A-Za-z0-9_])(?:at|address|addr|pointer|ptr)[ :=(<]*$", re.I)
STACK = re.compile(ALONE + r"\d{14,15}(?![0-9A-Za-z.])")
HEX = "[0-9a-fA-F]"
UUID = re.compile(ALONE + r"X{8}-X{4}-[147]X{3}-X{4}-X{12}".replace("X", HEX) + END)
TEMPORARY = re.compile(
    r"(?:file://)?(?:/tmp|/var/tmp|/var/folders|/dev/shm)/[^\s\"'`<>,;()\[\]{}=]+"
)
RANDOM = re.compile(
    r"(?<=/)tmp(?:\w{8}|\w{6})(?!\w)"
    r"|(?<=[._-])(?=\w*(?:\d|(?<=\w)[A-Z]))(?:[^\W_]{8}|[^\W_]{6})(?!\w)"
)
PORT = re.compile(r"(?P<host>[\w.-]+|\]):(?P<p>\d{4,5})" + END)
# "tfevents.vm.8017.0" has many parts and is no number.
ID = re.compile(ALONE + r"(?:(?<=[A-Za-z]\.)\d{1,7}(?![0-9A-Za-z])|\d{1,7}(?![0-9A-Za-z]|\.\d))")
GLUED = re.compile(r"(?<=[A-Za-z])\d{4,7}" + END)
MEANT = re.compile(r"(?<![A-Za-z])(?:pid|tid|ppid|process|thread|worker)[ :=_(\[#-]*$", re.I)
RAY_ID = re.compile(r"(?<=ID: ')[0-9a-f]{26}000000(?=')")  # an actor's; behind it the job's number
RANK_CODE = re.compile(r"=   EXIT CODE: (\d{1,3})$")
UNKNOWN = re.compile(r"(?<=<)\?|\?[A-Za-z]+/s(?!\w)")


def is_address(value):
    """Where the address space of a program begins and ends, and where its memory is mapped."""
    if os.uname().machine == "aarch64":
        return value >> 40 in (0xFF, 0xAA) or value >> 32 == 0xFFFF
    return 0x7E0000000000 <= value <= 0x7FFFFFFFFFFF or 0x550000000000 <= value <= 0x56FFFFFFFFFF


def words_of(argv):
    for arg in argv:
        if isinstance(arg, str):
            yield from (w for w in re.split(r"[ \t\n;&|'\"]+", arg) if w)


def options(argv):
    """{(name, value)} of a command's options with numbers: "--workers 2", "--workers=2"."""
    out, name = set(), None
    for word in words_of(argv):
        is_value = re.match(r"[-.]?\d", word)
        if name and is_value:
            out.add((name, word))
        name = None
        dashed = re.match(r"-+([A-Za-z][^=]*)(?:=(.*))?$", word)
        m = dashed or re.match(r"([A-Za-z_]\w*)=(.*)$", word)
        if m and m[2] is None:
            name = m[1].replace("-", "_")
        elif m and re.match(r"[-.]?\d", m[2]):
            out.add((m[1].replace("-", "_"), m[2]))
    return out


def listed_ids(folder):
    """Processes that were gone before anybody could look: the list beside run.json knows them."""
    try:
        with open(os.path.join(folder, "processes"), "rb") as f:
            lines = f.read(1 << 20).split(b"\n")
    except OSError:
        return set()
    return {int(w) for line in lines for w in line.split()[:2] if re.fullmatch(rb"\d{1,9}", w)}


def shown_clock(run):
    """Where a pinned clock stood, in seconds since 1970; 0: the machine's; -1: it was shaken."""
    agents = run.get("factors")
    for key in ("agents", "TWINRUN_FACTORS"):
        agents = agents.get(key) if isinstance(agents, dict) else None
    shown = 0
    for part in agents.split(",") if isinstance(agents, str) else []:
        pin = re.match(r"clock=pin:(\d{1,12})", part)
        if pin:
            shown = int(pin[1])
        elif part.startswith("clock=") and not part.startswith("clock=audit"):
            shown = -1
    return shown


class Facts:
    """When a run was, its processes and threads, host, folders, and the options it was given."""

    def __init__(self, run, folder):
        def whole(value):
            return value if isinstance(value, int) and not isinstance(value, bool) else 0

        self.ids = set()
        for p in run.get("processes") or []:
            if isinstance(p, dict):
                self.ids |= {whole(p.get("pid")), whole(p.get("ppid"))}
        launcher = run.get("launcher")
        if isinstance(launcher, dict):
            self.ids.add(whole(launcher.get("pid")))
        self.ids.add(whole(run.get("launcher_pid")))
        self.ids |= listed_ids(folder)
        self.ids -= {0, 1}
        ids = run.get("ids")
        self.low, self.high = 1, 0
        if isinstance(ids, list) and len(ids) == 2 and whole(ids[0]) > 0:
            self.low, self.high = whole(ids[0]), whole(ids[1])
        wall = run.get("wall_s")
        self.wall = wall if isinstance(wall, (int, float)) and 0 < wall < 1e9 else math.inf
        length = self.wall if self.wall < math.inf else 0
        self.start = whole(run.get("start_realtime_ns")) / 1e9
        pinned = shown_clock(run)
        self.shaken = pinned < 0
        self.spans_s = [(self.start - DAY, self.start + length + DAY)]
        if self.shaken:  # a shaken clock: any of the years 2001 to 2033
            self.spans_s.append((1e9, 2e9))
        elif pinned > 0:
            self.start = pinned
            self.spans_s.append((pinned - DAY, pinned + length + DAY))
        self.host = run.get("host") if isinstance(run.get("host"), str) else ""
        fresh = run.get("fresh_names")
        fresh = fresh if isinstance(fresh, list) else []
        self.fresh = [f for f in fresh if isinstance(f, str) and f]
        own = [t for t in (folder, self.host) if isinstance(t, str) and len(t) > 1]
        own += [f for f in self.fresh if len(f) > 1]
        texts = "|".join(map(re.escape, sorted(own, key=len, reverse=True)))
        self.texts = re.compile("%s(?:%s)%s" % (ALONE, texts, END)) if texts else None
        code = whole(run.get("exit_code")) if run.get("outcome") == "exited" else 0
        self.exit_code = max(code, 0)
        argv = run.get("argv")
        self.options = options(argv if isinstance(argv, list) else [])

    # ---- is it a fact?

    def near(self, value):
        return value in self.ids or self.low <= value <= self.high

    def second(self, value):
        return any(a <= value <= b for a, b in self.spans_s)

    def day(self, year, month, day):
        if not (1 <= month <= 12 and 1 <= day <= 31):
            return False
        middle = [1970 + int((a + b) / 2 / (365.2425 * DAY)) for a, b in self.spans_s]
        years = [year] if year else [y + n for y in middle for n in (-1, 0, 1)]
        if not year and self.shaken:
            return True
        noons = [calendar.timegm((y, month, day, 12, 0, 0)) for y in years if 0 < y < 9999]
        return any(a - DAY / 2 <= n <= b + DAY / 2 for n in noons for a, b in self.spans_s)

    def clock(self, hour, minute, second):
        value = (hour * 60 + minute) * 60 + second
        if value <= self.wall + SLACK or self.shaken or self.wall == math.inf:
            return True
        first, last = self.start - SLACK, self.start + self.wall + SLACK
        return value + math.ceil((first - value) / ZONE) * ZONE <= last

    # ---- where facts stand in a line

    def spans(self, line):
        """[(from, to)] of the parts of a line that are facts of the run, in order."""
        rules = (
            self.own,
            self.dates,
            self.clocks,
            self.places,
            self.ends,
            self.processes,
            self.echoes,
        )
        known = [(a, number, b) for number, rule in enumerate(rules) for a, b in rule(line)]
        found, end = [], 0
        for a, _, b in sorted(known):  # the first one counts where two overlap
            if a >= end:
                found.append((a, b))
                end = b
        return found

    def own(self, line):
        if self.texts:
            yield from (m.span() for m in self.texts.finditer(line))
        for name in self.fresh:
            if name.startswith("version_"):  # Lightning's own word for it
                number = r"(?<=v_num=)%s(?!\w)" % re.escape(name[8:])
                yield from (m.span() for m in re.finditer(number, line))
        yield from (m.span() for m in UNKNOWN.finditer(line))

    def dates(self, line):
        for m in GLOG.finditer(line):
            fits = self.second(int(m["e"])) if m["e"] else self.day(0, int(m["m"]), int(m["d"]))
            if fits:
                yield m.span()
        for pattern in DATES:
            for m in pattern.finditer(line):
                year, month, day = int(m["y"]), int(m["m"]), int(m["d"])
                either = m.start("y") > m.start("m")  # "21-11-2026", "11/21/2026"
                if self.day(year, month, day) or (either and self.day(year, day, month)):
                    yield m.start(), self.end_of_time(line, m.end())
        for m in NAMED.finditer(line):
            month = MONTHS.index(m["m"] or m["m2"]) + 1
            if self.day(int(m["y"] or 0), month, int(m["d"] or m["d2"])):
                yield m.span()
        for m in EPOCH.finditer(line):
            if self.second(int(m[1])):
                yield m.span()

    def end_of_time(self, line, end):
        m = IN_DAY.match(line, end)
        return m.end() if m and self.clock(*(int(g) for g in m.groups() if g)) else end

    def clocks(self, line):
        for m in CLOCK.finditer(line):
            before, after = line[: m.start()], line[m.end() :]
            progress = before.endswith("<") or (before.endswith("[") and after[:1] in ("<", ","))
            progress |= re.match(r"<[\d?]", after) is not None
            progress |= m["s"] is not None and re.search("\\d \u2022 $", before) is not None
            if progress or NAMED_CLOCK.search(before):
                yield m.span()
            elif m["s"] is not None:
                if self.clock(int(m["h"]), int(m["m"]), int(m["s"])):
                    yield m.span()

    def places(self, line):
        yield from (m.span() for m in UUID.finditer(line))
        yield from (m.span() for m in RAY_ID.finditer(line))
        for m in TEMPORARY.finditer(line):
            for r in RANDOM.finditer(line, m.start(), m.end()):
                yield r.span()
        for m in ADDRESS.finditer(line):
            value = int(m["x"], 16)
            mapped = len(m["x"]) >= 9 and is_address(value) and value % 4 == 0
            if mapped or PLACE.search(line[: m.start()]):
                yield m.span()
        decimal = ((m.span(), int(m[0])) for m in STACK.finditer(line))
        yield from (span for span, value in decimal if is_address(value) and value % 16 == 0)
        for m in PORT.finditer(line):
            host = m["host"]
            numbers = re.fullmatch(r"[\d.]+", host) and host.count(".") == 3
            url = line[: m.start("host")].endswith("://")
            if numbers or url or host in ("]", "localhost", self.host):
                yield m.span("p")

    def ends(self, line):
        """The rank whose end MPICH's launcher was told of first: the one that died, whose code is
        its own, or one that it killed.
        """
        m = RANK_CODE.match(line)
        if m and self.exit_code and int(m[1]) in (self.exit_code, signal.SIGKILL):
            yield m.span(1)

    def processes(self, line):
        for m in ID.finditer(line):
            value, before = int(m[0]), line[: m.start()]
            bracket = before.endswith("[") and line.startswith("]", m.end())
            pair = re.search(r"(\d{1,7})[:/]$", before)
            ray = line.startswith("]", m.end()) and re.search(r" [DIWEF] (\d{1,7}) $", before)
            meant = bracket or MEANT.search(before) or (pair and self.near(int(pair[1])))
            of_ray = ray and int(ray[1]) in self.ids  # a thread: "E 8017 8123]"
            if value in self.ids or of_ray or (meant and self.near(value)):
                yield m.span()
        yield from (m.span() for m in GLUED.finditer(line) if int(m[0]) in self.ids)

    def echoes(self, line):
        """An arm may say what it was asked for: "workers=2", "'workers': 2"."""
        for name, value in self.options:
            pattern = r"(?<![\w])%s[ :='\"]+(%s)(?![\w.])" % (re.escape(name), re.escape(value))
            yield from (m.span(1) for m in re.finditer(pattern, line))
