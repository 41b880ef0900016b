#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a dashboard for Grafana as JSON: make.py NAME OUT, NAME: executive, on-call, debug.

What the panels show is in the lists below; everything else (places, ids, data sources) is the same
for all panels and comes from the functions. Three hand-written files of a thousand lines each would
not stay alike.
"""

import json
import sys

# The version of the classic dashboard's schema that Grafana 9 introduced; later ones read it.
SCHEMA = 36
COLUMNS = 24
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
HERE = 'project=~"$project"'
REPEATED = "twinrun_repeated_runs_total"
BAD_REPEATS = REPEATED + '{outcome="diverged",%s}' % HERE
ALL_REPEATS = REPEATED + '{outcome=~"match|diverged",%s}' % HERE
# alerts of the ledger and of serve itself have no project
FIRING = 'ALERTS{source="twinrun",alertstate="firing",project=~"$project|"}'


def share(of, among, window, by="project"):
    """Part of events within a window; ratios of several projects are never averaged."""
    return f"sum by ({by}) (increase({of}[{window}])) / sum by ({by}) (increase({among}[{window}]))"


def grown(metric, window, by="project", match=""):
    more = "," + match if match else ""
    return f"sum by ({by}) (increase({metric}{{{HERE}{more}}}[{window}]))"


def query(expr, legend="{{project}}", instant=False):
    return {
        "datasource": SOURCE,
        "editorMode": "code",
        "expr": expr,
        "legendFormat": legend,
        "instant": instant,
        "range": not instant,
        # ids of runs: shown where Prometheus keeps them
        "exemplar": not instant and "_total" in expr,
    }


def panel(kind, title, unit, about, *queries, width=8, height=8, good=None, **defaults):
    """good: the threshold from which on a number is green; negative: up to which it is."""
    options = {
        "stat": {
            "reduceOptions": {"calcs": ["lastNotNull"], "values": False},
            "colorMode": "value",
            "graphMode": "none",
            "textMode": "auto",
            "justifyMode": "auto",
            "orientation": "auto",
        },
        "timeseries": {
            "legend": {
                "displayMode": "list",
                "placement": "bottom",
                "showLegend": True,
                "calcs": [],
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "table": {"showHeader": True},
    }[kind]
    steps = [{"color": "blue", "value": None}]
    if good is not None:
        low, high = ("red", "green") if good >= 0 else ("green", "red")
        steps = [{"color": low, "value": None}, {"color": high, "value": abs(good)}]
    targets = [dict(q, refId=chr(ord("A") + i)) for i, q in enumerate(queries)]
    if kind == "table":
        targets = [dict(q, format="table") for q in targets]
    return {
        "type": kind,
        "title": title,
        "description": about,
        "datasource": SOURCE,
        "gridPos": {"w": width, "h": height},
        "fieldConfig": {
            "defaults": {
                "unit": unit,
                "noValue": "nothing yet",
                "thresholds": {"mode": "absolute", "steps": steps},
                **defaults,
            },
            "overrides": [],
        },
        "options": options,
        "targets": targets,
    }


def stat(title, unit, about, expr, width=4, height=4, good=None):
    one = query(expr, title, instant=True)
    return panel("stat", title, unit, about, one, width=width, height=height, good=good)


def lines(title, unit, about, *queries, width=8, **more):
    return panel("timeseries", title, unit, about, *queries, width=width, **more)


def table(title, about, expr, width=8, hide=()):
    made = panel("table", title, "short", about, query(expr, "", instant=True), width=width)
    gone = {name: True for name in ("Time", "__name__", "instance", "job", "source", *hide)}
    made["transformations"] = [{"id": "organize", "options": {"excludeByName": gone}}]
    return made


def note(title, text, width=8):
    return {
        "type": "text",
        "title": title,
        "gridPos": {"w": width, "h": 8},
        "options": {"mode": "markdown", "content": text},
    }


# ---- what is shown

LEDGER_UP = stat(
    "Ledger",
    "bool_yes_no",
    "Could serve read its ledger the last time? No: what is shown is old.",
    "min(twinrun_ledger_up)",
    good=1,
)
AGE = stat(
    "Age of what is shown",
    "s",
    "Age of the snapshot that a scrape is answered from.",
    "max(twinrun_snapshot_age_seconds)",
    good=-600,
)
OPEN = stat(
    "Firing alerts",
    "short",
    "Alerts of `twinrun slo --rules` that fire now.",
    f"count({FIRING}) or vector(0)",
    good=-1,
)
BURN = (
    f"sum by (project) (increase({BAD_REPEATS}[1h])) / on (project) "
    '(twinrun_slo_window_events{slo="M1",%s} * on (project) '
    '((1 - twinrun_slo_target{slo="M1",%s}) > 0))' % (HERE, HERE)
)
DIVERGED = lines(
    "Repeated runs that diverged, by hour",
    "short",
    "The points are run ids, where Prometheus keeps exemplars.",
    query(f"sum by (project) (increase({BAD_REPEATS}[1h]))"),
)

EXECUTIVE = [
    stat(
        "Reproducible runs (M1)",
        "percentunit",
        "Repeated runs that agree, of those that were judged, in the time that is shown.",
        "sum(increase(%s[$__range])) / sum(increase(%s[$__range]))"
        % (BAD_REPEATS.replace('"diverged"', '"match"'), ALL_REPEATS),
        good=0.95,
    ),
    stat(
        "Broken targets",
        "short",
        "Targets of projects that are broken, as `twinrun slo` judges them.",
        'sum(twinrun_slo_broken{project=~"$project"}) or vector(0)',
        good=-1,
    ),
    OPEN,
    stat(
        "Artifacts with a signature that holds",
        "short",
        "Those that were verified (M9).",
        'sum(twinrun_artifacts_total{attested="true",project=~"$project"})',
    ),
    stat(
        "Rollbacks that failed",
        "short",
        "Rollbacks and drills that did not restore the proven state (M8).",
        'sum(increase(twinrun_rollbacks_total{outcome="failed",project=~"$project"}[$__range]))',
        good=-1,
    ),
    LEDGER_UP,
    lines(
        "Reproducible runs, by day",
        "percentunit",
        "Share of a day's repeated runs that agree (M1).",
        query(share(BAD_REPEATS.replace('"diverged"', '"match"'), ALL_REPEATS, "1d")),
        width=12,
        min=0,
        max=1,
    ),
    lines(
        "Budget of M1 that the last hour burned",
        "percentunit",
        "Above 25% a page is due. A target of 100% has no budget and is not shown.",
        query(BURN),
        width=12,
        min=0,
    ),
    DIVERGED,
    table(
        "Targets: 1 is broken",
        "Of each project and indicator that has a target.",
        'twinrun_slo_broken{project=~"$project"}',
    ),
    lines(
        "Artifacts verified",
        "short",
        "By whether their signature holds.",
        query(
            'sum by (attested) (twinrun_artifacts_total{project=~"$project"})',
            "attested: {{attested}}",
        ),
    ),
]

ON_CALL = [
    OPEN,
    LEDGER_UP,
    AGE,
    stat(
        "Rollbacks restored",
        "percentunit",
        "Rollbacks and drills that restored the proven state (M8): may one be relied on now?",
        'sum(increase(twinrun_rollbacks_total{outcome="restored",%s}[$__range])) / '
        "sum(increase(twinrun_rollbacks_total{%s}[$__range]))" % (HERE, HERE),
        good=1,
    ),
    stat(
        "Nondeterministic calls",
        "short",
        "By runs that are meant to be deterministic, in the time that is shown (M6).",
        "sum(increase(twinrun_nondeterministic_ops_total{%s}[$__range]))" % HERE,
        good=-1,
    ),
    stat(
        "Flaky results of CI",
        "percentunit",
        "Results that changed without a change of inputs (M4).",
        'sum(increase(twinrun_ci_results_total{outcome="flaky",%s}[$__range])) / '
        'sum(increase(twinrun_ci_results_total{outcome=~"pass|fail",%s}[$__range]))' % (HERE, HERE),
        good=-0.02,
    ),
    table("Alerts that fire", "Of `twinrun slo --rules`.", FIRING, width=12),
    DIVERGED | {"gridPos": {"w": 12, "h": 8}},
    lines(
        "Comparisons that diverged or failed, by hour",
        "short",
        "",
        query(
            grown(
                "twinrun_comparisons_total", "1h", "project, outcome", 'outcome=~"diverged|error"'
            ),
            "{{project}} {{outcome}}",
        ),
    ),
    lines(
        "Results of CI, by hour",
        "short",
        "A flaky one is also passed or failed.",
        query(
            grown("twinrun_ci_results_total", "1h", "project, outcome"), "{{project}} {{outcome}}"
        ),
    ),
    lines(
        "Nondeterministic calls, by hour",
        "short",
        "",
        query(
            grown("twinrun_nondeterministic_ops_total", "1h", "project, op"), "{{project}} {{op}}"
        ),
    ),
    lines(
        "Data that did not match their snapshot, by hour",
        "short",
        "Drift of data (M5).",
        query(grown("twinrun_snapshots_total", "1h", "project", 'outcome="mismatch"')),
    ),
    lines(
        "Variance of metrics over its limit",
        "none",
        "Above 1 the target of M3 is broken. Only where the target gives a limit.",
        query("twinrun_metric_variance_ratio{%s}" % HERE, "{{project}} {{metric}}"),
        min=0,
    ),
    lines(
        "Deviation of run times",
        "percentunit",
        "Standard deviation over the median, of the worst job (M7).",
        query("twinrun_training_time_deviation_ratio{%s}" % HERE),
        min=0,
    ),
]

QUANTILE = (
    "histogram_quantile(%s, sum by (le, project) "
    "(increase(twinrun_training_duration_seconds_bucket{%s}[1d])))"
)
DEBUG = [
    lines(
        "Comparisons, by hour",
        "short",
        "",
        query(
            grown("twinrun_comparisons_total", "1h", "project, outcome"), "{{project}} {{outcome}}"
        ),
    ),
    lines(
        "Digests of checkpoints, by hour",
        "short",
        "Checkpoints that repeated runs have in common (M2); missing: written by one run only, or "
        "not readable.",
        query(
            grown("twinrun_checkpoint_checks_total", "1h", "project, outcome"),
            "{{project}} {{outcome}}",
        ),
    ),
    lines(
        "Data and their snapshots, by hour",
        "short",
        "unknown: no snapshot was named, or it was not compared (M5).",
        query(
            grown("twinrun_snapshots_total", "1h", "project, outcome"), "{{project}} {{outcome}}"
        ),
    ),
    lines(
        "Run time",
        "s",
        "Median and 90% of the runs of a day that ended well, as fine as the buckets are.",
        query(QUANTILE % ("0.5", HERE), "{{project}} median"),
        query(QUANTILE % ("0.9", HERE), "{{project}} 90%"),
    ),
    lines(
        "Runs that ended well, by hour",
        "short",
        "",
        query(grown("twinrun_training_duration_seconds_count", "1h")),
    ),
    lines(
        "Nondeterministic calls since the beginning",
        "short",
        "The ledger has the number of calls and not the names of operations.",
        query(
            "sum by (project, op) (twinrun_nondeterministic_ops_total{%s})" % HERE,
            "{{project}} {{op}}",
        ),
    ),
    LEDGER_UP,
    AGE,
    stat(
        "Making a snapshot",
        "s",
        "What it took to read the ledger the last time.",
        "max(twinrun_snapshot_duration_seconds)",
    ),
    stat(
        "Clients of events",
        "short",
        "Of /api/v1/events.",
        "sum(twinrun_event_clients)",
    ),
    stat(
        "Names left out",
        "short",
        "Projects, families and contributors beyond the first 1,000.",
        "max(twinrun_names_left_out)",
        good=-1,
    ),
    stat("Servers", "short", "Which are scraped.", "count(twinrun_build_info)"),
    note(
        "One run",
        "Put the id of a run, of a point or of an alert, into `run` above: "
        "[the run, its files and verdicts](${twinrun}/api/v1/runs/${run}).\n\n"
        "All verdicts that differ: [list](${twinrun}/api/v1/verdicts?outcome=differ).\n\n"
        "Prometheus has numbers alone. Logs of a run, versions of drivers and the GPU are in its "
        "folder: `twinrun show RUN`, and `twinrun diff RUN RUN` says which of them differ.",
        width=12,
    ),
    table("Versions", "Of the servers that are scraped.", "twinrun_build_info", width=12),
]

DASHBOARDS = {
    "executive": ("Twinrun: executive", "Is the fleet reproducible?", "now-30d", EXECUTIVE),
    "on-call": ("Twinrun: on call", "What is broken now?", "now-24h", ON_CALL),
    "debug": ("Twinrun: debug", "Where does it come from?", "now-7d", DEBUG),
}


# ---- the whole


def placed(panels):
    """From the left to the right, a new row where there is no room."""
    x = y = row = 0
    for number, p in enumerate(panels, 1):
        at = p["gridPos"]
        if x + at["w"] > COLUMNS:
            x, y, row = 0, y + row, 0
        yield {**p, "id": number, "gridPos": {**at, "x": x, "y": y}}
        x += at["w"]
        row = max(row, at["h"])


def variable(name, label, kind, **more):
    return {"name": name, "label": label, "type": kind, "hide": 0, "skipUrlSync": False, **more}


def text_variable(name, label, value):
    one = {"text": value, "value": value, "selected": True}
    return variable(name, label, "textbox", query=value, current=one, options=[one])


def link(title, url):
    return {
        "title": title,
        "type": "link",
        "url": url,
        "icon": "external link",
        "tooltip": "",
        "tags": [],
        "asDropdown": False,
        "includeVars": False,
        "keepTime": False,
        "targetBlank": True,
    }


def dashboard(name):
    title, about, since, panels = DASHBOARDS[name]
    names = {
        "query": "label_values(twinrun_comparisons_total, project)",
        "refId": "projects",
    }
    others = link("Twinrun", "") | {
        "type": "dashboards",
        "tags": ["twinrun"],
        "keepTime": True,
        "includeVars": True,
        "targetBlank": False,
    }
    return {
        "uid": "twinrun-" + name,
        "title": title,
        "description": about,
        "tags": ["twinrun"],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "timezone": "browser",
        "time": {"from": since, "to": "now"},
        "refresh": "1m",
        "links": [
            others,
            link("This run", "${twinrun}/api/v1/runs/${run}"),
            link("Latest runs", "${twinrun}/api/v1/runs?limit=20"),
            link("Overview", "${twinrun}/"),
        ],
        "templating": {
            "list": [
                variable("datasource", "Data source", "datasource", query="prometheus", options=[]),
                variable(
                    "project",
                    "Project",
                    "query",
                    datasource=SOURCE,
                    query=names,
                    refresh=2,
                    sort=1,
                    multi=True,
                    includeAll=True,
                    allValue=".*",
                    current={"text": "All", "value": "$__all", "selected": True},
                    options=[],
                ),
                text_variable("twinrun", "twinrun serve", "http://127.0.0.1:8471"),
                text_variable("run", "Run", ""),
            ]
        },
        "annotations": {"list": []},
        "panels": list(placed(panels)),
    }


def main():
    name, out = sys.argv[1:]
    with open(out, "w", encoding="ascii") as f:
        json.dump(dashboard(name), f, indent=2)
        f.write("\n")


if __name__ == "__main__":
    main()
