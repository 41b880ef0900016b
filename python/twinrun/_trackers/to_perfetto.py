# SPDX-License-Identifier: Apache-2.0
"""A time line in the Trace Event Format, which ui.perfetto.dev and chrome://tracing open.

Each process of each run is a process there; steps are slices, collectives instants, losses
counters, and the first divergence an instant that reaches over the whole process.
"""

import json
import math

from common import place
from runs import text


def write(runs, path, request, wrote):
    begin = min((run.start_ns for run in runs), default=0)
    events = []
    number = 0
    for run in runs:
        for process in run.processes:
            number += 1
            events += _process(run, process, number, begin)
    whole = {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"producer": "twinrun", "begins_at_ns": str(begin)},
    }
    data = json.dumps(whole, separators=(",", ":"), allow_nan=False).encode()
    place(path, data, request["replace"])
    wrote("%s  %d events; processes: %d" % (path, len(events), number))


def _process(run, process, number, begin):
    def event(**fields):
        fields.setdefault("pid", number)
        fields.setdefault("tid", 1)
        return fields

    def micro(ns):
        return (ns - begin) / 1e3

    name = "%s, %s" % (run.name, process.name)
    yield event(ph="M", name="process_name", args={"name": name})
    yield event(ph="M", name="process_sort_index", args={"sort_index": number})
    yield event(ph="M", name="thread_name", args={"name": "steps"})
    yield event(ph="M", name="thread_name", tid=2, args={"name": "collectives"})
    for step, first, last in process.steps:
        yield event(
            ph="X",
            cat="step",
            name="step %d" % step,
            ts=micro(first),
            dur=(last - first) / 1e3,
            args={"step": step},
        )
    for step, what, ns in process.collectives:
        yield event(
            ph="i", cat="collective", name=what, tid=2, s="t", ts=micro(ns), args={"step": step}
        )
    for what, points in process.curves.items():
        for _, value, ns in points:
            if math.isfinite(value):  # JSON has no other numbers
                yield event(
                    ph="C", cat="loss", name=what, tid=0, ts=micro(ns), args={"value": value}
                )
    found = run.first_difference()
    if found and found[0] == process.rank and process.role in ("", "main"):
        at = [first for step, first, _ in process.steps if step == found[1]]
        at = at or [last for _, _, last in process.steps[-1:]] or [run.end_ns]
        yield event(
            ph="i",
            cat="divergence",
            name="first divergence: " + found[2],
            s="p",
            ts=micro(at[0]),
            args={"step": found[1], "rank": found[0], "verdict": text(run.verdict_path)},
        )
