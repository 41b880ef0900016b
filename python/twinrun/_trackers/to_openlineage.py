# SPDX-License-Identifier: Apache-2.0
"""Runs as events of OpenLineage (specification 2-0-2): one where it began, one where it ended. The
data that were verified before the start go in, the files that the run wrote come out, each with its
digest as its version.
"""

import datetime
import json
import uuid

from common import checked_url, is_url, place, send

PRODUCER = "https://pypi.org/project/twinrun/"
SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
VERSION = (
    "https://openlineage.io/spec/facets/1-0-1/DatasetVersionDatasetFacet.json"
    "#/$defs/DatasetVersionDatasetFacet"
)
ERROR = (
    "https://openlineage.io/spec/facets/1-0-1/ErrorMessageRunFacet.json#/$defs/ErrorMessageRunFacet"
)
# What every facet has; the verdict is a facet of our own.
FACET = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunFacet"


def write(runs, target, request, wrote):
    events = [event for run in runs for event in _events(run)]
    if is_url(target):
        url = checked_url(target)
        if url.count("/") == 2:
            url += "/api/v1/lineage"
        for event in events:
            send("POST", url, json.dumps(event).encode(), {"Content-Type": "application/json"})
        target = url
    else:
        data = "".join(json.dumps(event) + "\n" for event in events)
        place(target, data.encode(), request["replace"])
    wrote("%s  %d events; runs: %d" % (target, len(events), len(runs)))


def _time(ns):
    moment = datetime.datetime.fromtimestamp(ns // 10**9, datetime.timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + ".%06dZ" % (ns % 10**9 // 1000)


def _facet(schema, **fields):
    return {"_producer": PRODUCER, "_schemaURL": schema, **fields}


def _dataset(path, digest):
    facets = {"version": _facet(VERSION, datasetVersion=digest)} if digest else {}
    return {"namespace": "file", "name": path, "facets": facets}


def _events(run):
    facets = {"twinrun_run": _facet(FACET, **run.tags(), parameters=run.parameters())}
    if "outcome" in run.info and not run.succeeded:
        facets["errorMessage"] = _facet(ERROR, message=run.ending, programmingLanguage="")
    ended = {"interrupted": "ABORT", "stopped": "ABORT"}.get(run.info.get("outcome"), "FAIL")
    ended = "COMPLETE" if run.succeeded else ended
    kinds = [("START", run.start_ns)]
    if "outcome" in run.info:
        kinds.append((ended, run.end_ns))
    for kind, ns in kinds:
        yield {
            "eventType": kind,
            "eventTime": _time(ns),
            "producer": PRODUCER,
            "schemaURL": SPEC,
            "run": {"runId": str(uuid.UUID(run.id)), "facets": {} if kind == "START" else facets},
            "job": {"namespace": run.project or "twinrun", "name": run.command, "facets": {}},
            "inputs": [_dataset(path, digest) for path, digest in run.data()],
            "outputs": []
            if kind == "START"
            else [_dataset(path, digest) for path, digest in run.files()],
        }
