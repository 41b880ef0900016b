# SPDX-License-Identifier: Apache-2.0
"""Printed lines for twinrun.recheck: which differences between two runs' lines are noise.

Facts of the runs and units of time explain them. A second opinion: written from docs/verdict.md,
not from src/compare.
"""

import re
from collections import Counter, namedtuple

Left = namedtuple(
    "Left", "text numbers"
)  # a line without counterpart, and whether the other run says the same with other numbers
NUMBER = re.compile(rb"[-+]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?")
UNIT = (
    rb"(?:[kKMGT]?i?B|[munp\xc2\xb5]*s|min|mins|h|hrs?|hours?|sec(?:ond)?s?|ms|msec|minutes?|days?"
    rb"|Hz|[kMG]Hz|fps|[MGTP]?FLOPS?|[a-z]*/(?:s|sec|second|min|step|it|iter|batch|epoch))"
)
CLOCK = re.compile(rb"\d{1,4}[-/]\d{1,2}[-/]\d{1,4}|\d{1,3}:\d\d(?::\d\d)?(?:[.,]\d+)?")
WITH_UNIT = re.compile(rb"[-+]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?\s?" + UNIT + rb"(?![A-Za-z0-9_])")
LABELLED = re.compile(
    rb"((?:time|elapsed|took|duration|eta|runtime|latency|speed|throughput|wall|pid|port|memory|mem"
    rb"|rss|second|seconds|tok/s|it/s|img/s|fps|mfu|data|uptime|timestamp|ms|sec|secs|flops)"
    rb"['\"]?\s*(?:\([a-z/]+\))?\s*[:=]?\s*\(?\s*)"
    rb"[-+]?\d+(?:\.\d+)?(?:\s*\(\s*\d+(?:\.\d+)?\s*\))?",
    re.I,
)
IN_BRACKETS = re.compile(
    rb"(\((?:s|ms|us|sec|seconds|MB|MiB|GB|GiB)\)\s*[:=]?\s*)[-+]?\d+(?:\.\d+)?"
)
ADDRESS = re.compile(rb"0x[0-9a-fA-F]{6,16}")
IN_PARTS = re.compile(rb"(?<![0-9.])(?:\d+(?:\.\d+)?(?:d|h|m|s|ms) ?){2,}(?![A-Za-z0-9_])")  # 1m 23s
STACK = re.compile(rb"(?<!\d)1[34]\d{13}(?!\d)")  # of a thread, where Linux puts it, in decimal


def shown(data):
    """The lines that a terminal would show in the end: of one that overwrites itself, the last."""
    out = []
    for line in data.split(b"\n"):
        line = line.rstrip(b"\r ")
        line = line[line.rfind(b"\r") + 1 :]
        if line:
            out.append(line)
    return out


def facts(run, folder):
    """Tokens that a run owns: its process ids, host, folders."""
    own = set()
    for p in run.get("processes") or []:
        own.update(
            str(p[k])
            for k in ("pid", "ppid")
            if isinstance(p, dict) and isinstance(p.get(k), int) and p[k] > 1
        )
    launcher = run.get("launcher") or {}
    own.update(str(launcher[k]) for k in ("pid",) if isinstance(launcher.get(k), int))
    for key in ("host", "cwd", "launched_from"):
        if isinstance(run.get(key), str) and len(run[key]) > 2:
            own.add(run[key])
    own.add(folder)
    try:
        with open(folder + "/processes", "rb") as f:
            for line in f.read(1 << 20).split(b"\n"):
                own.update(w.decode() for w in line.split()[:2] if w.isdigit())
    except OSError:
        pass
    start = run.get("start_realtime_ns")
    begin = start / 1e9 if isinstance(start, int) else 0
    return (
        sorted((f.encode("utf-8", "surrogateescape") for f in own), key=len, reverse=True),
        begin,
        run.get("wall_s") or 0,
    )


def masked(line, own):
    tokens, begin, wall = own
    for fact in tokens:
        if fact in line:
            line = re.sub(rb"(?<![0-9A-Za-z])" + re.escape(fact) + rb"(?![0-9A-Za-z])", b"~", line)

    def epoch(m):
        try:
            seconds = float(m.group()[:10])
        except ValueError:
            return m.group()
        return b"~" if abs(seconds - begin) < 40 * 86400 + wall else m.group()

    line = re.sub(rb"(?<!\d)\d{10}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?(?!\d)", epoch, line)
    line = re.sub(rb"/(?:tmp|var/tmp|dev/shm|proc)/[^\s\"',;()\[\]{}]+", b"~", line)
    for pattern in (ADDRESS, STACK, CLOCK, IN_PARTS, WITH_UNIT):
        line = pattern.sub(b"~", line)
    line = LABELLED.sub(rb"\1~", line)
    line = IN_BRACKETS.sub(rb"\1~", line)
    return re.sub(rb"\s+", b" ", re.sub(rb"~+", b"~", line)).strip()


def unexplained(a, b, facts_a, facts_b):
    """Lines of one run that the other has not, neither byte for byte nor with noise masked."""
    only_a, only_b = Counter(a) - Counter(b), Counter(b) - Counter(a)
    x, y = Counter(masked(l, facts_a) for l in only_a.elements()), Counter(
        masked(l, facts_b) for l in only_b.elements()
    )
    left_a, left_b = x - y, y - x
    skeleton_b = {NUMBER.sub(b"#", l) for l in left_b}
    return [Left(l, NUMBER.sub(b"#", l) in skeleton_b) for l in left_a] + [
        Left(l, False)
        for l in left_b
        if NUMBER.sub(b"#", l) not in {NUMBER.sub(b"#", m) for m in left_a}
    ]
