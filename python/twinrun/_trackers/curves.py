# SPDX-License-Identifier: Apache-2.0
"""Curves of runs that twinrun did not record: read from other tools, written as one file
(docs/import.md) that `twinrun significant` judges.
"""

import collections
import csv
import json
import math
import os

import common
import to_mlflow

SCHEMA = "twinrun.curves/1"
# What no tracker keeps in a form that could be relied on.
UNKNOWN = [
    "code and its version",
    "data",
    "seeds",
    "machine and libraries",
    "whether values were left out",
]
# Of runs and of points: more than any comparison of runs needs.
RUNS_MAX, POINTS_MAX = 10000, 5000000

# points: [(step, value)] in the order of the source; ended: in its words, None: it does not say.
Curve = collections.namedtuple("Curve", "name points ended parameters")


def run(request, wrote):
    """Reads the curves that are asked for, and writes the file."""
    metric, where = common.path_of(request["metric"]), common.path_of(request["source"])
    read = {"csv": _csv, "tensorboard": _tensorboard, "mlflow": _mlflow}[request["from"]]
    curves = list(read(where, metric, request))
    if not curves:
        raise common.Trouble("%s: expected runs with %s, found none" % (where, metric))
    runs = [_described(c, request["take"]) for c in curves]
    counted = sum(r["value"] is not None for r in runs)
    unknown = list(UNKNOWN)
    if any(c.ended is None for c in curves):
        unknown.append("how the runs ended")
    whole = {
        "schema": SCHEMA,
        "from": request["from"],
        "source": common.printable(where),
        "metric": common.printable(metric),
        "take": request["take"],
        "unknown": unknown,
        "runs": runs,
    }
    data = json.dumps(whole, indent=1, allow_nan=False) + "\n"
    out = common.path_of(request["out"])
    common.place(out, data.encode(), request["replace"])
    wrote("%s  runs: %d, with a value: %d" % (out, len(runs), counted))
    for r in runs:
        if r["left_out"]:
            wrote("left out  %s: %s" % (r["name"], r["left_out"]))
    wrote("not known  " + ", ".join(unknown))


def _number(value):
    return value if math.isfinite(value) else str(value)


def _described(curve, take):
    why, value = None, None
    finite = [v for _, v in curve.points if math.isfinite(v)]
    if curve.ended not in (None, "FINISHED"):
        why = "it ended as " + curve.ended
    elif not curve.points:
        why = "it has no value of this metric"
    elif len(finite) < len(curve.points) and take != "last":
        why = "one of its values is NaN or infinite"
    elif take == "last":
        # The last step's; of several values at one step the one that came last.
        value = max(enumerate(curve.points), key=lambda p: (p[1][0], p[0]))[1][1]
        if not math.isfinite(value):
            why, value = "its last value is NaN or infinite: this run diverged", None
    else:
        value = {"min": min, "max": max}[take](finite)
    return {
        "name": common.printable(curve.name),
        "ended": curve.ended,
        "value": value,
        "left_out": why,
        "parameters": curve.parameters,
        "points": [[step, _number(v)] for step, v in curve.points],
    }


def _csv(path, metric, request):
    """One run a file, or with --run-column one for each value in that column."""
    step_column, run_column = (common.path_of(request[k] or "") for k in ("step", "run"))
    found = {}
    try:
        with open(path, newline="", encoding="utf-8-sig") as f:
            rows = csv.DictReader(f, strict=True)
            head = rows.fieldnames or []
            for column in filter(None, (metric, step_column, run_column)):
                if column not in head:
                    raise common.Trouble(
                        "%s: expected a column %s in its first line, found %s"
                        % (path, column, ", ".join(head)[:300] or "nothing")
                    )
            for row in rows:
                name = row[run_column] if run_column else os.path.basename(path)
                points = found.setdefault(name or "", [])
                if not (row[metric] or "").strip():
                    continue  # trackers leave cells empty where a step has no such value
                at = row[step_column] if step_column else len(points)
                points.append((_step(path, rows.line_num, at), _cell(path, rows, row[metric])))
                if len(found) > RUNS_MAX or len(points) > POINTS_MAX:
                    raise common.Trouble("%s: more runs or values than are taken" % path)
    except OSError as error:
        raise common.Trouble("%s cannot be read: %s" % (path, error.strerror)) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise common.Trouble("%s: expected CSV in UTF-8: %s" % (path, error)) from None
    return [Curve(name, points, None, {}) for name, points in found.items()]


def _step(path, line, text):
    try:
        return int(float(text))
    except (TypeError, ValueError, OverflowError):
        raise common.Trouble(
            "%s: line %d: expected the number of a step, found %r" % (path, line, text)
        ) from None


def _cell(path, rows, text):
    try:
        return float(text)
    except ValueError:
        raise common.Trouble(
            "%s: line %d: expected a number, found %r" % (path, rows.line_num, text[:40])
        ) from None


def _tensorboard(folder, metric, request):
    """Each folder that holds event files is a run, as TensorBoard has it."""
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        from tensorboard.util import tensor_util
    except ImportError as error:
        raise common.Trouble(
            "expected a Python with tensorboard, found none (%s): pip install tensorboard, or name "
            "another interpreter with --python" % error
        ) from None
    if not os.path.isdir(folder):
        raise common.Trouble("expected a folder with event files, found none: %s" % folder)
    for place, folders, files in os.walk(folder):
        folders.sort()
        if not any("tfevents" in name for name in files):
            continue
        events = EventAccumulator(place, size_guidance={"scalars": 0, "tensors": 0})
        events.Reload()
        tags, points = events.Tags(), []
        if metric in tags["scalars"]:
            points = [(e.step, float(e.value)) for e in events.Scalars(metric)]
        elif metric in tags["tensors"]:
            about = events.SummaryMetadata(metric).plugin_data.plugin_name
            if about == "scalars":
                made = tensor_util.make_ndarray
                points = [(e.step, float(made(e.tensor_proto))) for e in events.Tensors(metric)]
        name = os.path.relpath(place, folder)
        yield Curve(os.path.basename(folder) if name == "." else name, points, None, {})


def _mlflow(url, metric, request):
    """The runs of one experiment, or those of them that the filter takes."""
    server = to_mlflow.Server(url)
    name = common.path_of(request["experiment"] or "Default")
    found = server.get("experiments/get-by-name", experiment_name=name)["experiment"]
    page, count = {}, 0
    while True:
        answer = server.post(
            "runs/search",
            experiment_ids=[found["experiment_id"]],
            filter=common.path_of(request["filter"] or ""),
            max_results=1000,
            run_view_type="ACTIVE_ONLY",
            order_by=["attribute.start_time ASC"],
            **page,
        )
        for one in answer.get("runs") or []:
            info, data = one["info"], one.get("data") or {}
            known = {m["key"] for m in data.get("metrics") or []}
            points = server.points(info["run_id"], metric) if metric in known else []
            parameters = {p["key"]: p["value"] for p in data.get("params") or []}
            yield Curve(info.get("run_name") or info["run_id"], points, info["status"], parameters)
            count += 1
        if not answer.get("next_page_token") or count >= RUNS_MAX:
            return
        page = {"page_token": answer["next_page_token"]}
