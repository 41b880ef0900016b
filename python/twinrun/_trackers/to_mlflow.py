# SPDX-License-Identifier: Apache-2.0
"""Runs told to an MLflow server, through its REST API: any Python can do that, while MLflow's own
client is an installation of 850 MB.

A run is known by its tag `twinrun.id`. What the server has already is not told again; the last tag
that is set, `twinrun.exported`, says that all has been told, and of which contents.
"""

import base64
import hashlib
import json
import math
import os
import re
import urllib.parse

from common import Refused, Trouble, checked_url, send
from runs import text

# What one call of log-batch may hold (the server refuses more).
METRICS, PARAMS, TAGS = 800, 100, 100
# Lengths that the server takes.
KEY, PARAM, TAG = 250, 6000, 8000
DIGEST = 36
PAGE = 10000


class Server:
    def __init__(self, url):
        self.url = checked_url(url)
        self.headers = {"Content-Type": "application/json"}
        token = os.environ.get("MLFLOW_TRACKING_TOKEN")
        user = os.environ.get("MLFLOW_TRACKING_USERNAME")
        if token:
            self.headers["Authorization"] = "Bearer " + token
        elif user:
            words = "%s:%s" % (user, os.environ.get("MLFLOW_TRACKING_PASSWORD", ""))
            self.headers["Authorization"] = "Basic " + base64.b64encode(words.encode()).decode()

    def _call(self, method, path, data=None):
        body = send(method, "%s/api/2.0/mlflow/%s" % (self.url, path), data, self.headers)
        try:
            found = json.loads(body or b"{}")
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise Trouble(
                "expected MLflow at %s, found an answer that is no JSON: is this the server's "
                "address, without a path behind it?" % self.url
            )
        return found

    def get(self, path, **values):
        return self._call("GET", path + "?" + urllib.parse.urlencode(values))

    def post(self, path, **values):
        return self._call("POST", path, json.dumps(values).encode())

    def experiment(self, name):
        """The id of the experiment, which is made when missing."""
        try:
            found = self.get("experiments/get-by-name", experiment_name=name)["experiment"]
        except Refused as error:
            if error.status != 404:
                raise
            try:
                return self.post("experiments/create", name=name)["experiment_id"]
            except Refused as again:
                if "RESOURCE_ALREADY_EXISTS" not in again.body:
                    raise
                # Another export made it between the two questions.
                found = self.get("experiments/get-by-name", experiment_name=name)["experiment"]
        if found.get("lifecycle_stage") == "deleted":
            raise Trouble(
                "the experiment %s was deleted on the server: restore it, or name another one with "
                "--experiment" % name
            )
        return found["experiment_id"]

    def find(self, experiment, ident):
        """The run with this tag, or None."""
        found = self.post(
            "runs/search",
            experiment_ids=[experiment],
            filter="tags.`twinrun.id` = '%s'" % ident,
            max_results=1,
            run_view_type="ACTIVE_ONLY",
        )
        return (found.get("runs") or [None])[0]

    def history(self, ident, key):
        """What it has of one metric, as the server's objects."""
        page = {}
        while True:
            found = self.get(
                "metrics/get-history", run_id=ident, metric_key=key, max_results=PAGE, **page
            )
            yield from found.get("metrics") or []
            if not found.get("next_page_token"):
                return
            page = {"page_token": found["next_page_token"]}

    def points(self, ident, key):
        """The same by step, then by time: [(step, value)]."""
        found = [
            (int(m.get("step", 0)), int(m["timestamp"]), float(m["value"]))
            for m in self.history(ident, key)
        ]
        return [(step, value) for step, _, value in sorted(found, key=lambda p: p[:2])]


def _seen(value):
    """A value as it is compared: one NaN is another, and what has no number is what MLflow makes of
    it.
    """
    value = float(value)
    if math.isnan(value):
        return "NaN"
    return max(-LARGEST, min(LARGEST, value))


# MLflow keeps infinities as these.
LARGEST = 1.7976931348623157e308


def _key(name):
    """The name as a key that MLflow takes; one that had to be changed stays unlike others."""
    key = re.sub(r"[^\w./: -]", "_", name, flags=re.ASCII)
    # MLflow also refuses what a path would change.
    if key != name or len(key) > KEY or os.path.normpath(key) != key or key.startswith(("/", ".")):
        mark = hashlib.sha256(name.encode()).hexdigest()[:8]
        key = "%s.%s" % (key.strip("/.")[: KEY - 20].replace("..", "__").replace("//", "/_"), mark)
    return key


def _metrics(run):
    """What the server is to have: key -> [(step, milliseconds, value)], in order."""
    found = {}
    for name, points in run.curves():
        found[_key(name)] = [(step, ns // 10**6, value) for step, value, ns in points]
    return found


def _contents(run):
    """All that is told of a run, for one digest over it."""
    verdict = b""
    if run.verdict_path:
        with open(run.verdict_path, "rb") as f:
            verdict = f.read()
    params = {_key(k): v[:PARAM] for k, v in run.parameters().items()}
    tags = {_key(k): v[:TAG] for k, v in run.tags().items()}
    tags["mlflow.source.name"] = run.command[:TAG]
    commit = run.parameters().get("commit")
    if commit:
        tags["mlflow.source.git.commit"] = commit
    for i, (_, digest) in enumerate(run.data()):
        tags["twinrun.data.%d" % i] = digest
    metrics = _metrics(run)
    whole = [params, tags, metrics, run.data(), hashlib.sha256(verdict).hexdigest(), run.ending]
    digest = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()
    return params, tags, metrics, verdict, digest


def write(runs, url, request, wrote):
    server = Server(url)
    experiments = {}
    for run in runs:
        name = text(request["experiment"]) or run.project or "twinrun"
        if name not in experiments:
            experiments[name] = server.experiment(name)
        wrote("%s  %s" % (run.name, _write_run(server, experiments[name], run)))


def _write_run(server, experiment, run):
    params, tags, metrics, verdict, digest = _contents(run)
    there = server.find(experiment, run.id)
    if there:
        had = {t["key"]: t["value"] for t in there["data"].get("tags") or []}
        if had.get("twinrun.exported") == digest:
            return "is there already, run %s" % there["info"]["run_id"]
    else:
        there = server.post(
            "runs/create",
            experiment_id=experiment,
            start_time=run.start_ns // 10**6,
            run_name=run.name,
            tags=[{"key": "twinrun.id", "value": run.id}],
        )["run"]
    ident = there["info"]["run_id"]
    had = {p["key"] for p in there["data"].get("params") or []}
    _batches(server, ident, "params", PARAMS, [_pair(k, params[k]) for k in params if k not in had])
    known = {m["key"] for m in there["data"].get("metrics") or []}
    new = []
    for key, points in metrics.items():
        history = {
            (int(m.get("step", 0)), int(m["timestamp"]), _seen(m["value"]))
            for m in (server.history(ident, key) if key in known else ())
        }
        new += [
            {"key": key, "value": _number(v), "timestamp": ms, "step": step}
            for step, ms, v in points
            if (step, ms, _seen(v)) not in history
        ]
    _batches(server, ident, "metrics", METRICS, new)
    if run.data():
        server.post("runs/log-inputs", run_id=ident, datasets=[_dataset(d) for d in run.data()])
    left = _store(server, there["info"].get("artifact_uri", ""), verdict)
    _batches(server, ident, "tags", TAGS, [_pair(k, v) for k, v in tags.items()])
    if "outcome" in run.info:
        killed = run.info.get("outcome") in ("stopped", "interrupted", "signaled")
        status = "FINISHED" if run.succeeded else "KILLED" if killed else "FAILED"
        server.post("runs/update", run_id=ident, status=status, end_time=run.end_ns // 10**6)
    server.post("runs/set-tag", run_id=ident, key="twinrun.exported", value=digest)
    return "run %s: %d losses, %d parameters%s" % (ident, len(new), len(params), left)


def _pair(key, value):
    return {"key": key, "value": value}


def _number(value):
    """As protobuf's JSON writes what JSON has no number for."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _batches(server, ident, kind, size, items):
    for i in range(0, len(items), size):
        server.post("runs/log-batch", run_id=ident, **{kind: items[i : i + size]})


def _dataset(data):
    folder, digest = data
    name = os.path.basename(folder.rstrip("/")) or "/"
    source = json.dumps({"uri": folder})
    # The digest is cut to what MLflow takes; the whole one is a tag.
    about = {"name": name, "digest": digest[:DIGEST], "source_type": "local", "source": source}
    return {"dataset": about, "tags": []}


def _store(server, place, verdict):
    """Puts the verdict among the run's artifacts; what is to be said where it could not."""
    if not verdict:
        return ""
    if not place.startswith("mlflow-artifacts:"):
        where = place.split(":")[0] or "?"
        return (
            "; no verdict.json, since artifacts go to a store that the server does not pass on (%s)"
            % where
        )
    path = urllib.parse.urlsplit(place).path.strip("/")
    url = "%s/api/2.0/mlflow-artifacts/artifacts/%s/verdict.json" % (
        server.url,
        urllib.parse.quote(path),
    )
    send("PUT", url, verdict, {**server.headers, "Content-Type": "application/json"})
    return ", verdict"
