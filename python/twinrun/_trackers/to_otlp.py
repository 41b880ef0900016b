# SPDX-License-Identifier: Apache-2.0
"""Runs as traces of OpenTelemetry: OTLP in its JSON form. A run is a span, its steps are spans
below it; the first divergence is an event of the step's.

Ids follow from the run's own, so that the same export again gives the same spans.
"""

import hashlib
import json

from common import checked_url, is_url, place, send
from runs import text

# Spans of one request: collectors refuse what is larger than 4 MiB by default.
BATCH = 4000


def write(runs, target, request, wrote):
    if not is_url(target):
        data = json.dumps({"resourceSpans": [_resource(r, list(_spans(r))) for r in runs]})
        place(target, data.encode(), request["replace"])
        wrote("%s  runs: %d" % (target, len(runs)))
        return
    url = checked_url(target)
    if url.count("/") == 2:
        url += "/v1/traces"
    count = 0
    for run in runs:
        spans = list(_spans(run))
        for i in range(0, len(spans), BATCH):
            data = json.dumps({"resourceSpans": [_resource(run, spans[i : i + BATCH])]})
            send("POST", url, data.encode(), {"Content-Type": "application/json"})
        count += len(spans)
    wrote("%s  %d spans; runs: %d" % (url, count, len(runs)))


def _value(value):
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"stringValue": str(value)}


def _attributes(values):
    return [{"key": k, "value": _value(v)} for k, v in values.items()]


def _resource(run, spans):
    about = {"service.name": run.project or "twinrun", "host.name": text(run.info.get("host"))}
    return {
        "resource": {"attributes": _attributes(about)},
        "scopeSpans": [{"scope": {"name": "twinrun"}, "spans": spans}],
    }


def _id(*parts):
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]


def _spans(run):
    root = _id(run.id)

    def span(name, ident, begin, end, values, **more):
        return {
            "traceId": run.id,
            "spanId": ident,
            "name": name,
            "kind": 1,
            "startTimeUnixNano": str(begin),
            "endTimeUnixNano": str(end),
            "attributes": _attributes(values),
            **more,
        }

    status = {"code": 1} if run.succeeded else {"code": 2, "message": run.ending}
    values = {**run.parameters(), **run.tags()}
    yield span(run.command or run.name, root, run.start_ns, run.end_ns, values, status=status)
    found = run.first_difference()
    for process in run.processes:
        for step, first, last in process.steps:
            here = found and (found[0], found[1]) == (process.rank, step)
            events = [
                {
                    "timeUnixNano": str(first),
                    "name": "first divergence",
                    "attributes": _attributes({"twinrun.first": found[2]}),
                }
            ] if here and process.role in ("", "main") else []  # fmt: skip
            yield span(
                "step",
                _id(run.id, process.rank, process.role, process.pid, step),
                first,
                last,
                {"twinrun.step": step, "twinrun.rank": process.rank, "twinrun.role": process.role},
                parentSpanId=root,
                events=events,
            )
