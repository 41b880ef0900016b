# SPDX-License-Identifier: Apache-2.0
"""Rules and dashboards of `twinrun slo`, judged by the real promtool and by a real Prometheus, which
scrapes a real `serve` over a ledger whose runs were really made to diverge.
"""

import json
import os
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request

import pytest
from ledger_by_hand import Ledger
from serve_helper import BUILD, TWINRUN, prometheus, serving, until

JOB = os.path.join(BUILD, "tests", "cli", "job")
pytestmark = [
    pytest.mark.usefixtures("elsewhere"),
    pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN),
    pytest.mark.skipif(not shutil.which("promtool"), reason="apt install prometheus"),
]


def rules(folder, targets=None):
    """Writes rules for these targets; the file, and what was said."""
    words = [TWINRUN, "slo", "--rules", str(folder)]
    if targets is not None:
        (folder / "slo.toml").write_text(targets)
        words += ["--targets", str(folder / "slo.toml")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "twinrun.rules.yml", done.stderr


def lint(path):
    done = subprocess.run(
        ["promtool", "check", "rules", "--lint-fatal", path], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def promtool_test(folder, tests):
    """Runs unit tests of promtool over the rules of a folder."""
    path = folder / "test.yml"
    # JSON is YAML, and no names of ours need quoting then
    path.write_text(
        json.dumps({"rule_files": ["twinrun.rules.yml"], "evaluation_interval": "1m", **tests})
    )
    done = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def dashboards(folder):
    """The three dashboards, by name."""
    words = [TWINRUN, "slo", "--dashboards", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    names = ["debug", "executive", "on-call"]
    made = sorted(p.name for p in folder.glob("*.json"))
    assert made == [f"twinrun-{n}.json" for n in names]
    return {n: json.loads((folder / f"twinrun-{n}.json").read_text()) for n in names}


def expressions(dashboard):
    """As Grafana would send them, for all projects of the last five minutes."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            expr = target["expr"]
            for name, value in {"$project": ".*", "$__range": "5m"}.items():
                expr = expr.replace(name, value)
            assert "$" not in expr, expr
            yield panel["title"], expr


def alert_names(path):
    return re.findall(r"- alert: (\S+)", path.read_text())


TARGETS = """
[[slo]]
indicator = "M1"
[[slo]]
indicator = "M1"
project = "research-*"
target = 0.5
window_days = 7
[[slo]]
indicator = "M1"
project = 'a"b\\[!x-z]?.'
target = 1
[[slo]]
indicator = "M2"
[[slo]]
indicator = "M6"
[[slo]]
indicator = "M3"
limit = 1e-4
[[slo]]
indicator = "M10"
[[slo]]
indicator = "ranking"
target = 0.8
[[slo]]
indicator = "M4"
family = "llama"
"""


def test_rules_are_clean(tmp_path):
    path, said = rules(tmp_path)
    assert said == ""
    lint(path)
    names = alert_names(path)
    for wanted in (
        "TwinrunM1FastBurn",
        "TwinrunM1BurnedInAnHour",
        "TwinrunM5Broken",
        "TwinrunM6Broken",
    ):
        assert wanted in names
    # 14.4 times a budget of 10% is more than all events: it could never fire
    assert "TwinrunM2FastBurn" not in names and "TwinrunM2SteadyBurn" in names
    assert "TwinrunM5FastBurn" not in names
    path, said = rules(tmp_path, TARGETS)
    lint(path)
    assert "2 of the targets have no rule" in said.replace("\n", " ")
    text = path.read_text()
    assert "# no rule: ranking" in text and "# no rule: M4" in text
    assert 'project!~"research-.*"' in text and 'project=~"research-.*"' in text
    # rules come out the same from the same targets
    before = text
    assert rules(tmp_path, TARGETS)[0].read_text() == before


def test_dashboards(tmp_path):
    """What Grafana takes by, without Grafana: ids, places, variables, links; PromQL by promtool."""
    exprs = set()
    for name, d in dashboards(tmp_path).items():
        assert d["uid"] == "twinrun-" + name and d["schemaVersion"] == 36
        variables = {v["name"] for v in d["templating"]["list"]}
        assert {"datasource", "project", "run", "twinrun"} <= variables
        assert any(x["url"] == "${twinrun}/api/v1/runs/${run}" for x in d["links"])
        panels = d["panels"]
        assert len({p["id"] for p in panels}) == len({p["title"] for p in panels}) == len(panels)
        taken = set()
        for p in panels:
            at = p["gridPos"]
            assert at["x"] + at["w"] <= 24
            area = {
                (x, y)
                for x in range(at["x"], at["x"] + at["w"])
                for y in range(at["y"], at["y"] + at["h"])
            }
            assert not area & taken, p["title"]
            taken |= area
            if p["type"] == "text":
                continue
            assert (
                p["fieldConfig"]["defaults"]["unit"] and p["datasource"]["uid"] == "${datasource}"
            )
            refs = [t["refId"] for t in p["targets"]]
            assert refs and len(set(refs)) == len(refs)
            assert all(t["legendFormat"] or p["type"] == "table" for t in p["targets"])
        exprs |= {expr for _, expr in expressions(d)}
        # names in texts and links are those of variables
        for used in re.findall(r"\$\{?(\w+)", json.dumps(d)):
            assert used in variables | {"__range", "__all"}, used
    rules = [{"record": f"x:{i}", "expr": e} for i, e in enumerate(sorted(exprs))]
    path = tmp_path / "exprs.yml"
    path.write_text(json.dumps({"groups": [{"name": "dashboards", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


TYPES = """import type { Dashboard } from "@grafana/schema";
// words of an enumeration stand in JSON as they are
type Plain<T> = T extends string ? `${T}` : T extends (infer U)[] ? Plain<U>[]
    : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;
"""
GRAFANA = os.environ.get("TWINRUN_GRAFANA_TYPES", "")


@pytest.mark.skipif(not GRAFANA, reason="./dev test --full installs @grafana/schema")
def test_types_of_grafana(tmp_path):
    """No field that Grafana does not know, and none of another type. One is spoilt, so that a
    check that sees nothing is seen."""

    def complaints(text):
        source = tmp_path / "check.ts"
        source.write_text(TYPES + "export const d: Plain<Dashboard> = " + text + ";\n")
        (tmp_path / "node_modules").exists() or os.symlink(
            os.path.join(GRAFANA, "node_modules"), tmp_path / "node_modules"
        )
        words = ["--noEmit", "--strict", "--skipLibCheck", "--moduleResolution", "bundler"]
        words += ["--module", "esnext", "--target", "es2022", "--preserveSymlinks", str(source)]
        tsc = os.path.join(GRAFANA, "node_modules", ".bin", "tsc")
        return subprocess.run([tsc, *words], capture_output=True, text=True).stdout

    for name, d in dashboards(tmp_path).items():
        text = json.dumps(d)
        assert complaints(text) == "", name
    for good, bad, code in (
        ('"links"', '"linkz"', "TS2353"),
        (": 36", ': "36"', "TS2322"),
        ('"absolute"', '"absolut"', "TS2820"),
    ):
        assert code in complaints(text.replace(good, bad, 1)), bad


def test_bad_use(tmp_path):
    for words in (
        ["--rules", str(tmp_path), "--json"],
        ["--rules", str(tmp_path / "none")],
        ["--dashboards", str(tmp_path), "--until", "2026-11-21"],
        ["--dashboards", str(tmp_path / "none")],
    ):
        done = subprocess.run([TWINRUN, "slo", *words], capture_output=True, text=True)
        assert done.returncode == 2 and done.stderr


def series(name, values, **labels):
    inside = ",".join(f"{k}={json.dumps(v)}" for k, v in labels.items())
    return {"series": f"{name}{{{inside}}}", "values": values}


def case(interval, at, alert, firing, *inputs):
    """One time at which alert fires for these projects and no other."""
    return {
        "interval": interval,
        "input_series": list(inputs),
        "alert_rule_test": [
            {
                "eval_time": at,
                "alertname": alert,
                "exp_alerts": firing,
            }
        ],
    }


def outcomes(metric, project, **values):
    return [series(metric, v, project=project, outcome=k) for k, v in values.items()]


def fires(path, alert, at, interval, *inputs, every="5m"):
    """Does promtool see the alert fire? Found by asking for none: the answer is in its complaint."""
    tests = {"tests": [case(interval, at, alert, [], *inputs)]}
    (path.parent / "test.yml").write_text(
        json.dumps({"rule_files": [path.name], "evaluation_interval": every, **tests})
    )
    done = subprocess.run(
        ["promtool", "test", "rules", path.parent / "test.yml"], capture_output=True, text=True
    )
    text = done.stdout + done.stderr
    assert done.returncode == 0 or "alertname: " + alert in text, text
    return re.findall(r'project="([^"]*)"', text) if done.returncode else []


def test_alerts_by_promtool(tmp_path):
    """Each kind of alert fires when it should, and does not a little below."""
    path, _ = rules(tmp_path, TARGETS)
    runs = "twinrun_repeated_runs_total"

    def m1(alert, at, project, bad, good, interval="1m", every="5m"):
        inputs = outcomes(runs, project, diverged=bad, match=good)
        return fires(path, alert, at, interval, *inputs, every=every)

    # 80% of a budget of 5%: 16 times as fast as allowed, for an hour and for five minutes
    assert m1("TwinrunM1FastBurn", "70m", "shop", "0+4x80", "0+1x80") == ["shop"]
    # 60%: 12 times
    assert m1("TwinrunM1FastBurn", "70m", "shop", "0+3x80", "0+2x80") == []
    # it was that fast, and has ended: the short window lets the alert go
    assert m1("TwinrunM1FastBurn", "70m", "shop", "0+4x60 240x20", "0+1x60 60+9x20") == []
    # 40% for six hours and half an hour: 8 times
    assert m1("TwinrunM1SteadyBurn", "6h", "shop", "0+2x80", "0+3x80", "5m", "30m") == ["shop"]
    # of research 50% are allowed: no burn of 6 can be reached, and a rate of 1.2 lasts
    assert m1("TwinrunM1FastBurn", "70m", "research-a", "0+4x80", "0+1x80") == []
    assert m1("TwinrunM1LastingBurn", "17h", "research-a", "0+3x120", "0+2x120", "10m", "1h") == [
        "research-a"
    ]
    assert m1("TwinrunM1LastingBurn", "17h", "research-a", "0+2x120", "0+3x120", "10m", "1h") == []

    # events: 100 in 30 days allow 5 bad ones; a quarter of that in an hour, and two at least
    def m10(bad, events):
        window = series("twinrun_slo_window_events", f"{events}x130", project="shop", slo="M1")
        return fires(
            path,
            "TwinrunM1BurnedInAnHour",
            "100m",
            "1m",
            *outcomes(runs, "shop", diverged=bad),
            window,
        )

    assert m10("0x80 2x50", 100) == ["shop"]
    assert m10("0x80 1x50", 10) == []  # one is chance
    assert m10("0x80 2x50", 1000) == []  # 4% of the budget
    assert m10("0x20 2x120", 100) == []  # more than an hour ago

    # no budget: one is enough, of the projects that the pattern names and of no other
    one = "0x80 1x50"
    hostile = 'a"b\\wq.'
    found = fires(
        path,
        "TwinrunM1Broken",
        "100m",
        "1m",
        *outcomes(runs, hostile, diverged=one),
        *outcomes(runs, 'a"b\\xq.', diverged=one),
        *outcomes(runs, 'a"b\\wqz', diverged=one),
    )
    assert len(found) == 1
    calls = [series("twinrun_nondeterministic_ops_total", one, project="shop", op="other")]
    assert fires(path, "TwinrunM6Broken", "100m", "1m", *calls) == ["shop"]
    ratio = [series("twinrun_metric_variance_ratio", "1.5x130", project="shop", metric="loss")]
    assert fires(path, "TwinrunM3Broken", "100m", "1m", *ratio) == ["shop"]
    down = [series("twinrun_ledger_up", "0x130", job="twinrun")]
    promtool_test(
        tmp_path,
        {
            "tests": [
                case("1m", "100m", "TwinrunServeGone", [], *down),
                case("1m", "4m", "TwinrunLedgerLost", [], *down),
                case(
                    "1m",
                    "6m",
                    "TwinrunLedgerLost",
                    [
                        {
                            "exp_labels": {
                                "job": "twinrun",
                                "severity": "ticket",
                                "source": "twinrun",
                            },
                            "exp_annotations": {
                                "summary": "twinrun serve cannot read its ledger: what it shows is old"
                            },
                        }
                    ],
                    *down,
                ),
            ]
        },
    )


# ---- a real Prometheus


# Of these a ledger may have no series: a gauge needs a target with a limit, or enough runs.
MAY_BE_EMPTY = {
    "Alerts that fire",
    "Budget of M1 that the last hour burned",
    "Variance of metrics over its limit",
    "Deviation of run times",
}


def evaluated(folder, ask, s):
    """Each expression of each dashboard gives numbers, of metrics that serve has."""
    has = set(re.findall(r"^# HELP (\S+)", s.get("/metrics").text, re.M))
    has |= {"twinrun_training_duration_seconds_" + k for k in ("bucket", "count")}
    for dashboard in dashboards(folder).values():
        for title, expr in expressions(dashboard):
            assert set(re.findall(r"twinrun_[a-z_]+", expr)) <= has, expr
            found = ask("query?query=" + urllib.parse.quote(expr))
            assert found and (found["result"] or title in MAY_BE_EMPTY), (title, expr)
    projects = ask("label/project/values?match[]=twinrun_comparisons_total")
    assert "shop" in projects


SHORT = """
[[slo]]
indicator = "M1"
window_days = 0.01
[[slo]]
indicator = "M10"
window_days = 0.01
"""


def run_job(home, verb, *job):
    env = {**os.environ, "TWINRUN_HOME": str(home), "TWINRUN_LEDGER": "", "TWINRUN_PROJECT": "shop"}
    return subprocess.run(
        [TWINRUN, verb, "-q", "--", JOB, "--steps", "5", *job],
        env=env,
        stdout=subprocess.DEVNULL,
    ).returncode


@pytest.mark.skipif(not shutil.which("prometheus"), reason="apt install prometheus")
def test_an_alert_fires_and_resolves(tmp_path):
    """Runs diverge, and the alerts of both kinds fire, for their project; they end, and so do the
    alerts. What Prometheus met is asked of its own history, so that no moment has to be caught."""
    home = tmp_path / "home"
    path, _ = rules(tmp_path, SHORT)
    assert run_job(home, "record") == 0
    with serving(home, "--targets", str(tmp_path / "slo.toml")) as s:
        with prometheus(tmp_path, f"127.0.0.1:{s.port}") as ask:

            def scraped():
                t = ask("targets?state=active")["activeTargets"]
                return (
                    t
                    and t[0]["health"] == "up"
                    and ask("query?query=twinrun_repeated_runs_total")["result"]
                )

            until(scraped)

            def ever(alert):
                """Was it seen firing, by the record that Prometheus keeps?"""
                query = f'query?query=count_over_time(ALERTS{{alertname="{alert}",alertstate="firing",project="shop"}}[5m])'
                return ask(query)["result"]

            def firing():
                return {
                    a["labels"]["alertname"]
                    for a in ask("alerts")["alerts"]
                    if a["state"] == "firing"
                }

            assert not firing()
            for _ in range(3):  # two bad events are more than chance to the event form
                assert run_job(home, "check", "--noise-at", "2") == 1
            until(lambda: ever("TwinrunM1FastBurn") and ever("TwinrunM1BurnedInAnHour"))
            # the hour of the event form is 36 s here, which is waited for in the long tests alone
            long = {"TwinrunM1BurnedInAnHour"} if os.environ.get("TWINRUN_FULL") != "1" else set()
            until(lambda: not firing() - long)
            # the runs that it was about are found by the exemplars
            now = time.time()
            found = ask(
                f"query_exemplars?query=twinrun_repeated_runs_total&start={now - 600}&end={now}"
            )
            runs = {e["labels"]["run_id"] for x in found for e in x["exemplars"]}
            assert runs & {r["id"] for r in s.get("/api/v1/runs").json["runs"]}
            groups = ask("rules")["groups"]
            assert all(r["health"] == "ok" for g in groups for r in g["rules"])
            assert not ask("query?query=up==0")["result"]
            evaluated(tmp_path, ask, s)


def test_every_expression_on_real_metrics(tmp_path):
    """Each metric that a rule names is one that serve has."""
    home = Ledger(tmp_path / "home")
    for i in range(6):
        home.run(loss=0.1 + i, wall=1.0 + i, snapshots=1)
    home.repeats(2, 1)
    path, _ = rules(tmp_path, TARGETS)
    with serving(home.done(), "--targets", str(tmp_path / "slo.toml")) as s:
        metrics = {key[0] for key in s.metrics()}
    named = set(re.findall(r"twinrun_[a-z_]+", re.sub(r"project:\S+", "", path.read_text())))
    assert named - {"twinrun_training_time_deviation_ratio"} <= metrics, named - metrics
