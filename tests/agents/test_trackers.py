# SPDX-License-Identifier: Apache-2.0
"""twinrun export to trackers, each read back by what its makers give: TensorBoard by tensorboard,
OTLP by the protobuf classes, OpenLineage by its client, MLflow by its server and client (--full).

The oracle is the job itself: what its losses are is computed here.
"""

import json
import math
import os
import subprocess
import sys
import time
import urllib.request

import pytest

from conftest import FULL, alive
from free_ports import free_port
from mlflow_stand_in import MlflowStandIn

# The second loss has a name that no key of MLflow may be, and what JSON has no number for.
JOB = """
    import array, os, sys
    import twinrun

    other = os.path.exists("other")
    for step in range(6):
        twinrun.record("batch:x", array.array("d", [step]))
        twinrun.record("loss:main", array.array("d", [1 / (step + 1)]))
        odd = [float("nan"), float("inf"), 2.0, 3.0, 4.0, 5.0][step]
        twinrun.record("loss:odd\\t<name>", array.array("d", [odd]))
        twinrun.record("weight:w", array.array("d", [step + (other and step == 4)]))
        twinrun.step()
    open("other", "w").close()
"""
MAIN = [1 / (step + 1) for step in range(6)]


def with_packages(variable, *modules):
    python = os.environ.get(variable, sys.executable)
    done = subprocess.run([python, "-c", "import " + ", ".join(modules)], capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"no Python with {' and '.join(modules)} (name one in {variable})")
    return python


@pytest.fixture
def trackers():
    """A Python with what reads the exports back."""
    return with_packages(
        "TWINRUN_TRACKERS_PYTHON", "tensorboard", "opentelemetry.proto", "openlineage.client"
    )


@pytest.fixture
def checked(twinrun, script, work):
    """The home holds a check of two runs that part at step 4, on verified data."""
    script("job.py", JOB)
    script("data/x.txt", "something")
    assert twinrun("snapshot", "data").rc == 0
    done = twinrun("check", "--json", "-n", "2", "--data", "data", "--", sys.executable, "job.py")
    assert done.rc == 1 and done.json["first"]["step"] == 4, done
    return done.json


def said_by(run, python, text, *args):
    """What a small program prints as JSON."""
    done = run([python, "-c", text, *args])
    assert done.rc == 0, done
    return done.json


READ_EVENTS = """
import glob, json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
found = {}
for folder in sorted(glob.glob(sys.argv[1] + "/*")):
    events = EventAccumulator(folder)
    events.Reload()
    found[folder] = {
        "scalars": {t: [[e.step, e.value, e.wall_time] for e in events.Scalars(t)]
                    for t in events.Tags()["scalars"]},
        "texts": {t: events.Tensors(t)[0].tensor_proto.string_val[0].decode()
                  for t in events.Tags()["tensors"]},
    }
print(json.dumps(found))
"""


def test_tensorboard(twinrun, checked, trackers, run, work):
    argv = ("export", "last~1", "last", "--tensorboard", "tb", "--python", trackers)
    done = twinrun(*argv)
    assert done.rc == 0, done
    found = said_by(run, trackers, READ_EVENTS, work / "tb")
    assert sorted(os.path.basename(f) for f in found) == sorted(
        os.path.basename(f) for f in checked["runs_dir"]
    )
    for read in found.values():
        points = read["scalars"]["main"]
        assert [p[0] for p in points] == list(range(6))
        assert [p[1] for p in points] == pytest.approx(MAIN, rel=1e-6)  # f32
        assert [p[2] for p in points] == sorted(p[2] for p in points)
        assert abs(points[0][2] - time.time()) < 3600
        odd = [p[1] for p in read["scalars"]["odd\\x09<name>"]]
        assert math.isnan(odd[0]) and odd[1:] == [math.inf, 2, 3, 4, 5]
        assert read["texts"]["run/twinrun.verdict"] == "differ"
        assert read["texts"]["run/twinrun.first"].startswith("rank 0, step 4, optimizer/weight w")
    before = {p: p.read_bytes() for p in work.glob("tb/*/*")}
    assert twinrun(*argv).rc == 0
    assert {p: p.read_bytes() for p in work.glob("tb/*/*")} == before and len(before) == 2


def test_tensorboard_is_not_there(twinrun, checked, script, work):
    """A Python without it: said, with what to do."""
    script("hidden/tensorboard.py", "raise ImportError('hidden')\n")
    done = twinrun(
        "export", "last", "--tensorboard", "tb", "--python", sys.executable,
        env={"PYTHONPATH": str(work / "hidden")},
    )  # fmt: skip
    assert done.rc == 2 and "pip install tensorboard" in done.err, done
    assert not (work / "tb").exists()


def test_perfetto(twinrun, checked, work):
    """Against the Trace Event Format: which fields an event of each phase has."""
    done = twinrun("export", "last~1", "last", "--perfetto", "t.json")
    assert done.rc == 0, done
    needs = {"M": {"args"}, "X": {"ts", "dur"}, "i": {"ts", "s"}, "C": {"ts", "args"}}
    strict = json.loads((work / "t.json").read_text(), parse_constant=lambda c: 1 / 0)
    events = strict["traceEvents"]
    for e in events:
        assert {"name", "ph", "pid", "tid"} | needs[e["ph"]] <= set(e), e
        assert e.get("ts", 0) >= 0 and e.get("dur", 0) >= 0
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert sorted(processes.values()) == sorted(
        os.path.basename(f) + ", rank 0" for f in checked["runs_dir"]
    )
    for pid in processes:
        steps = [e for e in events if e["pid"] == pid and e["ph"] == "X"]
        assert [e["args"]["step"] for e in steps] == list(range(6))
        for one, after in zip(steps, steps[1:]):
            assert one["ts"] + one["dur"] <= after["ts"]
        losses = [e["args"]["value"] for e in events if (e["pid"], e["name"]) == (pid, "main")]
        assert losses == MAIN
        (first,) = [e for e in events if e["pid"] == pid and e.get("cat") == "divergence"]
        assert first["name"] == "first divergence: optimizer/weight w (origin)"
        assert first["ts"] == steps[4]["ts"]

    # A file that is there stays: the same one is done already, another one is refused.
    assert twinrun("export", "last~1", "last", "--perfetto", "t.json").rc == 0
    done = twinrun("export", "last", "--perfetto", "t.json")
    assert done.rc == 2 and "--force replaces it" in done.err, done
    assert json.loads((work / "t.json").read_text()) == strict
    assert twinrun("export", "last", "--perfetto", "t.json", "--force").rc == 0
    assert json.loads((work / "t.json").read_text()) != strict


READ_OTLP = """
import base64, json, sys
from google.protobuf import json_format
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

def as_protobuf(x):  # OTLP writes ids in hex, where protobuf's JSON has base64
    if isinstance(x, dict):
        ids = ("traceId", "spanId", "parentSpanId")
        return {k: base64.b64encode(bytes.fromhex(v)).decode() if k in ids else as_protobuf(v)
                for k, v in x.items()}
    return [as_protobuf(v) for v in x] if isinstance(x, list) else x

data = json_format.ParseDict(as_protobuf(json.load(open(sys.argv[1]))), TracesData())
print(json.dumps([[dict(trace=s.trace_id.hex(), id=s.span_id.hex(), parent=s.parent_span_id.hex(),
    begin=s.start_time_unix_nano, end=s.end_time_unix_nano, status=s.status.code,
    attributes={a.key: a.value.string_value or a.value.int_value for a in s.attributes},
    events=[e.name for e in s.events])
    for s in r.scope_spans[0].spans] for r in data.resource_spans]))
"""


def test_otlp(twinrun, checked, trackers, run, work):
    assert twinrun("export", "last~1", "last", "--otlp", "o.json").rc == 0
    found = said_by(run, trackers, READ_OTLP, work / "o.json")
    assert len(found) == 2
    for folder, spans in zip(checked["runs_dir"], found):
        ident = json.loads(open(folder + "/run.json").read())["id"]
        root, steps = spans[0], spans[1:]
        assert root["trace"] == ident and root["parent"] == "" and root["status"] == 1
        assert root["attributes"]["twinrun.verdict"] == "differ"
        assert [s["attributes"]["twinrun.step"] for s in steps] == list(range(6))
        assert {s["parent"] for s in steps} == {root["id"]}
        assert len({s["id"] for s in spans}) == 7 and {s["trace"] for s in spans} == {ident}
        assert all(root["begin"] <= s["begin"] <= s["end"] <= root["end"] for s in spans)
        assert [s["events"] for s in steps] == [[]] * 4 + [["first divergence"]] + [[]]


def test_who_diverged(twinrun, script, work):
    """Of four runs the second agrees with the first, and the fourth leaves it later than the third,
    which the verdict names: neither is said to have diverged there.
    """
    script(
        "job.py",
        """
        import array, os, twinrun

        turn = int(open("turn").read()) if os.path.exists("turn") else 0
        open("turn", "w").write(str(turn + 1))
        for step in range(4):
            other = step >= {2: 1, 3: 3}.get(turn, 9)
            twinrun.record("batch:x", array.array("d", [step]))
            twinrun.record("weight:w", array.array("d", [step + other * turn]))
            twinrun.step()
        """,
    )
    done = twinrun(
        "check", "--all", "-n", "4", "--ignore", "file:*", "--", sys.executable, "job.py"
    )
    assert done.rc == 1 and "step 1 · rank 0 · optimizer · weight w" in done.out, done
    runs = [f"last~{n}" for n in (3, 2, 1)] + ["last"]
    assert twinrun("export", *runs, "--otlp", "o.json").rc == 0
    spans = [
        r["scopeSpans"][0]["spans"]
        for r in json.loads((work / "o.json").read_text())["resourceSpans"]
    ]
    marked = [[i for i, s in enumerate(of_run[1:]) if s["events"]] for of_run in spans]
    assert marked == [[1], [], [1], []], marked


READ_LINEAGE = """
import json, sys
from openlineage.client import event_v2 as v2
from openlineage.client.facet_v2 import dataset_version_dataset
found = []
for line in open(sys.argv[1]):
    e = json.loads(line)
    version = dataset_version_dataset.DatasetVersionDatasetFacet
    def facets(d):
        return {"version": version(datasetVersion=d["facets"]["version"]["datasetVersion"])}
    made = v2.RunEvent(  # looks at times, ids and addresses
        eventType=v2.RunState[e["eventType"]], eventTime=e["eventTime"], producer=e["producer"],
        run=v2.Run(runId=e["run"]["runId"], facets=e["run"]["facets"]),
        job=v2.Job(namespace=e["job"]["namespace"], name=e["job"]["name"]),
        inputs=[v2.InputDataset(d["namespace"], d["name"], facets(d)) for d in e["inputs"]],
        outputs=[v2.OutputDataset(d["namespace"], d["name"], facets(d)) for d in e["outputs"]])
    # what the client would send names the same schemas
    theirs = version(datasetVersion="1")
    found.append(dict(e, schemas=[e["schemaURL"] == made.schemaURL,
        all(d["facets"]["version"]["_schemaURL"] == theirs._schemaURL for d in e["inputs"])]))
print(json.dumps(found))
"""


def test_openlineage(twinrun, checked, trackers, run, work):
    assert twinrun("export", "last", "--openlineage", "l.json").rc == 0
    begin, end = said_by(run, trackers, READ_LINEAGE, work / "l.json")
    assert (begin["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert begin["run"]["runId"] == end["run"]["runId"] and begin["job"] == end["job"]
    assert begin["eventTime"] < end["eventTime"]
    info = json.loads(open(checked["runs_dir"][-1] + "/run.json").read())
    assert begin["run"]["runId"].replace("-", "") == info["id"]
    for event in (begin, end):
        assert event["schemas"] == [True, True], event
        (data,) = event["inputs"]
        assert data["name"] == str(work / "data")
        assert data["facets"]["version"]["datasetVersion"] == info["data"][0]["root"]
    assert end["run"]["facets"]["twinrun_run"]["twinrun.verdict"] == "differ"
    assert str(work / "other") in [d["name"] for d in end["outputs"]] and begin["outputs"] == []


def test_collector(twinrun, checked, mlflow, work):
    """OTLP and OpenLineage by HTTP: what is sent is what the files hold."""
    got = []
    mlflow.trouble = lambda n, path: got.append(path) or (200, b"{}", {})
    done = twinrun("export", "last", "--otlp", mlflow.url, "--openlineage", mlflow.url + "/x")
    assert done.rc == 0 and got == ["/v1/traces", "/x", "/x"], done
    mlflow.trouble = lambda n, path: (503, b"busy\x1b[2J", {})
    done = twinrun("export", "last", "--otlp", mlflow.url)
    assert done.rc == 2 and "HTTP 503" in done.err and "\x1b" not in done.err, done


# ---- W&B

READ_WANDB = """
import glob, json, sys
from wandb.proto import wandb_internal_pb2 as protocol
from wandb.sdk.internal.datastore import DataStore
found = []
for path in sorted(glob.glob(sys.argv[1] + "/wandb/offline-run-*/run-*.wandb")):
    of = dict(config={}, summary={}, rows=[], artifacts=[], exit=None, path=path)
    store = DataStore()
    store.open_for_scan(path)
    while True:
        data = store.scan_data()
        if data is None:
            break
        record = protocol.Record()
        record.ParseFromString(data)
        kind = record.WhichOneof("record_type")
        key = lambda i: "|".join(i.nested_key) or i.key
        if kind == "run":
            r = record.run
            of.update(id=r.run_id, project=r.project, entity=r.entity, name=r.display_name,
                      tags=list(r.tags), host=r.host)
            of["config"].update({key(i): json.loads(i.value_json) for i in r.config.update})
        elif kind == "summary":
            of["summary"].update({key(i): json.loads(i.value_json) for i in record.summary.update})
        elif kind == "history":
            of["rows"].append({key(i): json.loads(i.value_json) for i in record.history.item})
        elif kind == "artifact":
            a = record.artifact
            of["artifacts"].append([a.type, a.name, {c.path: open(c.local_path).read()
                                                     for c in a.manifest.contents}])
        elif kind == "exit":
            of["exit"] = record.exit.exit_code
        elif kind == "environment" or kind == "stats" or kind == "files":
            of[kind] = True
    found.append(of)
print(json.dumps(found))
"""


@pytest.fixture
def wandb(tmp_path, trackers):
    """What names a Python with W&B's client, and the variables that keep it in a folder."""
    python = with_packages("TWINRUN_TRACKERS_PYTHON", "wandb")
    (tmp_path / "w").mkdir()
    places = {"WANDB_" + name: str(tmp_path / "w") for name in ("DIR", "DATA_DIR", "CACHE_DIR")}
    env = {**places, "WANDB_CONFIG_DIR": str(tmp_path / "w"), "WANDB_MODE": "offline"}
    return python, env, tmp_path / "w"


def test_wandb(twinrun, checked, wandb, run, work):
    """Written offline by the client, read back by its own reader; the same again changes nothing,
    and a newer verdict takes the place of the older one."""
    python, env, folder = wandb
    argv = ("export", "last~1", "last", "--wandb", "me/proj", "--python", python)
    done = twinrun(*argv, env=env)
    assert done.rc == 0 and done.err.count(": 6 steps") == 2, done
    found = said_by(run, python, READ_WANDB, folder)
    by_name = {r["name"]: r for r in found}
    assert sorted(by_name) == sorted(os.path.basename(f) for f in checked["runs_dir"])
    for path in checked["runs_dir"]:
        info = json.loads(open(path + "/run.json").read())
        r = by_name[os.path.basename(path)]
        assert (r["id"], r["project"], r["entity"]) == (info["id"], "proj", "me")
        assert r["exit"] == 0 and r["tags"] == ["twinrun", "twinrun: differ"]
        assert r["config"]["command"] == f"{sys.executable} job.py"
        assert r["config"]["data/" + str(work / "data")] == info["data"][0]["root"]
        rows = r["rows"]
        assert [(x["trainer/global_step"], x["main"]) for x in rows] == list(enumerate(MAIN))
        odd = [x["odd\\x09<name>"] for x in rows]
        assert math.isnan(odd[0]) and odd[1:] == [math.inf, 2, 3, 4, 5]
        start = info["start_realtime_ns"] / 1e9
        times = [x["_timestamp"] for x in rows]
        assert times == sorted(times) and start <= times[0] and times[-1] < start + 600
        assert r["summary"]["twinrun.id"] == info["id"]
        assert r["summary"]["twinrun.verdict"] == "differ"
        assert r["summary"]["twinrun.first"].startswith("rank 0, step 4, optimizer/weight w")
        ((kind, name, files),) = r["artifacts"]
        assert (kind, name) == ("verdict", "verdict-" + info["id"])
        assert json.loads(files["verdict.json"])["runs_dir"] == checked["runs_dir"]
        # nothing of the process that exports, which is not the run
        assert not {"environment", "stats", "files"} & set(r), r
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*.wandb")}
    done = twinrun(*argv, env=env)
    assert done.rc == 0 and (done.out + done.err).count("is there already") == 2, done
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*.wandb")} == before

    # an export that was cut off left a folder without its mark, and one of another verdict
    (path,) = [p for p in before if p.parent.name.endswith(by_name[r["name"]]["id"])]
    path.with_name("twinrun.exported").unlink()
    done = twinrun(*argv, env=env)
    assert done.rc == 0 and (done.out + done.err).count("is there already") == 1, done
    again = said_by(run, python, READ_WANDB, folder)
    assert len(again) == 2 and {x["id"] for x in again} == {x["id"] for x in found}
    assert str(path) not in {x["path"] for x in again}


def test_wandb_several_values_in_a_step(twinrun, script, wandb, run):
    """None is lost; and a job that failed is a run that failed."""
    python, env, folder = wandb
    script(
        "job.py",
        """
        import array, sys, twinrun
        for step in range(2):
            for k in range(3):
                twinrun.record("loss:l", array.array("d", [10 * step + k]))
            twinrun.step()
        sys.exit(7)
        """,
    )
    twinrun("run", "--", sys.executable, "job.py")
    assert twinrun("export", "last", "--wandb", "p", "--python", python, env=env).rc == 0
    (r,) = said_by(run, python, READ_WANDB, folder)
    rows = [(x["_step"], x["trainer/global_step"], x["l"]) for x in r["rows"]]
    assert rows == [(0, 0, 0), (1, 0, 1), (2, 0, 2), (3, 1, 10), (4, 1, 11), (5, 1, 12)]
    assert r["exit"] == 1 and "exit code 7" in r["summary"]["twinrun.end"]
    assert "twinrun.verdict" not in r["summary"] and not r["artifacts"] and r["tags"] == ["twinrun"]


def test_wandb_refuses(twinrun, checked, wandb, script, work):
    """No client, no key, a name that W&B has no project of: said, with what to do."""
    python, env, folder = wandb
    export = ("export", "last", "--python")
    script("hidden/wandb.py", "raise ImportError('hidden')\n")
    done = twinrun(
        *export, sys.executable, "--wandb", "p", env={"PYTHONPATH": str(work / "hidden")}
    )
    assert done.rc == 2 and "pip install wandb" in done.err, done
    for name in ("a/", "a:b", "x" * 129, "a/b/c"):
        done = twinrun(*export, python, "--wandb", name, env=env)
        assert done.rc == 2 and "expected PROJECT or ENTITY/PROJECT" in done.err, (name, done)
    done = twinrun(*export, python, "--wandb", "p", env={**env, "WANDB_MODE": "disabled"})
    assert done.rc == 2 and "expected online or offline in WANDB_MODE" in done.err, done
    nobody = {"WANDB_MODE": "online", "WANDB_BASE_URL": "http://127.0.0.1:9", "HOME": str(folder)}
    done = twinrun(*export, python, "--wandb", "p", env={**env, **nobody, "WANDB_API_KEY": ""})
    assert done.rc == 2 and "the client of W&B refused" in done.err, done
    assert not list(folder.rglob("*.wandb"))


STANDS_IN_FOR_WANDB = """
import json, os, types

class Error(Exception):
    pass

errors = types.SimpleNamespace(Error=Error)
calls = []

def Settings(**words):
    return words

def teardown():
    with open("calls", "a") as f:
        f.write("".join(json.dumps(c) + "\\n" for c in calls))

class Run:
    def __init__(self, words):
        # the server has three rows of it, as those of an export that was cut off
        self.step, self.summary = 3, Summary()
        if os.path.exists("known"):
            self.summary.update(json.load(open("known")))
        calls.append(["init", words])

    def __getattr__(self, name):
        return lambda *args, **words: calls.append([name, args, words])

class Summary(dict):
    def __setitem__(self, name, value):
        calls.append(["summary", name, value])
        super().__setitem__(name, value)

class Artifact:
    def __init__(self, *words):
        calls.append(["artifact", *words])

    def add_file(self, *words):
        pass

    def __repr__(self):
        return "artifact"

def init(**words):
    return Run(words)
"""


def test_wandb_goes_on_with_a_run(twinrun, checked, script, work):
    """A server is asked to go on with a run that it has: only rows that it lacks are sent, and a
    run that it has whole is left alone. The client is a stand-in: what it does with that is its."""
    script("fake/wandb.py", STANDS_IN_FOR_WANDB.replace("args, words])", "repr(args), words])"))
    argv = ("export", "last", "--wandb", "p", "--python", sys.executable)
    env = {"PYTHONPATH": str(work / "fake"), "WANDB_MODE": "online"}
    assert twinrun(*argv, env=env).rc == 0
    calls = [json.loads(line) for line in open(work / "calls")]
    (init,) = [c[1] for c in calls if c[0] == "init"]
    assert (init["mode"], init["resume"]) == ("online", "allow")
    assert init["id"] == json.loads(open(checked["runs_dir"][-1] + "/run.json").read())["id"]
    assert [c[2] for c in calls if c[0] == "log"] == [{"step": s} for s in (3, 4, 5)]
    assert [c[0] for c in calls][-1] == "finish" and calls[-1][2] == {"exit_code": 0}
    summary = {c[1]: c[2] for c in calls if c[0] == "summary"}
    assert summary["twinrun.verdict"] == "differ"
    # all that tells of the whole is the last thing told
    assert [c[1] for c in calls if c[0] == "summary"][-1] == "twinrun.exported"

    (work / "known").write_text(json.dumps(summary))
    (work / "calls").unlink()
    done = twinrun(*argv, env=env)
    assert done.rc == 0 and "is there already" in done.err, done
    calls = [json.loads(line) for line in open(work / "calls")]
    assert [c[0] for c in calls] == ["init", "finish"]


# ---- MLflow


@pytest.fixture
def mlflow():
    server = MlflowStandIn()
    yield server
    server.close()


def assert_told(runs, checked):
    """What a server has of these runs: folder -> dict of tags, params, metrics, inputs, status."""
    assert sorted(runs) == sorted(checked["runs_dir"])
    for folder, run in runs.items():
        info = json.loads(open(folder + "/run.json").read())
        assert run["tags"]["twinrun.id"] == info["id"] and run["status"] == "FINISHED"
        assert run["tags"]["twinrun.verdict"] == "differ" and run["name"] == os.path.basename(
            folder
        )
        assert run["params"]["command"] == f"{sys.executable} job.py"
        assert [(s, v) for s, _, v in run["metrics"]["main"]] == list(enumerate(MAIN))
        start = info["start_realtime_ns"] // 10**6
        assert all(start <= t <= start + 600_000 for _, t, _ in run["metrics"]["main"])
        (odd,) = set(run["metrics"]) - {"main"}
        values = [v for _, _, v in run["metrics"][odd]]
        assert math.isnan(values[0]) and values[1] > 1e308 and values[2:] == [2, 3, 4, 5], values
        root = info["data"][0]["root"]
        assert run["inputs"] == {"data": root[:36]} and run["tags"]["twinrun.data.0"] == root
        assert json.loads(run["verdict"])["runs_dir"] == checked["runs_dir"]


def told_stand_in(server):
    found = {}
    for ident, run in server.runs.items():
        place = f"{run['experiment']}/{ident}/artifacts/verdict.json"
        found[run["tags"]["twinrun.folder"]] = {**run, "verdict": server.artifacts[place]}
    assert len(found) == len(server.runs)  # none twice
    return found


def test_mlflow(twinrun, checked, mlflow):
    argv = ("export", "last~1", "last", "--mlflow", mlflow.url)
    done = twinrun(*argv, env={"MLFLOW_TRACKING_TOKEN": "secret"})
    assert done.rc == 0 and "secret" not in done.out + done.err, done
    assert set(mlflow.authorization) == {"Bearer secret"} and list(mlflow.experiments) == [
        "twinrun"
    ]
    assert_told(told_stand_in(mlflow), checked)
    before = mlflow.writes
    done = twinrun(*argv)
    assert done.rc == 0 and "is there already" in done.out + done.err, done
    assert mlflow.writes == before
    assert twinrun(*argv, "--experiment", "mine").rc == 0
    assert list(mlflow.experiments) == ["twinrun", "mine"] and len(mlflow.runs) == 4


CALLS = (
    "experiments/create",
    "runs/search",
    "runs/create",
    "runs/log-batch",
    "runs/log-inputs",
    "verdict.json",
    "runs/update",
    "runs/set-tag",
)


def test_mlflow_goes_away(twinrun, checked, mlflow):
    """At each call, before or after the server has done it; exported again all is there, and
    nothing twice.
    """
    argv = ("export", "last~1", "last", "--mlflow", mlflow.url)
    for call in CALLS:
        for how in ("close", "lose") if call != "experiments/create" else ("close",):
            mlflow.trouble = lambda n, path, call=call, how=how: how if call in path else None
            done = twinrun(*argv)
            assert done.rc == 2 and "does not answer" in done.err, (call, how, done)
            assert "Nothing is lost" in done.err
    mlflow.trouble = lambda n, path: None
    assert twinrun(*argv).rc == 0
    assert_told(told_stand_in(mlflow), checked)


@pytest.mark.parametrize(
    "answer, words",
    [
        ((403, b'{"error_code":"PERMISSION_DENIED","message":"no"}', {}), "PERMISSION_DENIED no"),
        ((200, b"<html>", {}), "an answer that is no JSON"),
        ((302, b"", {"Location": "http://127.0.0.1:9/"}), "HTTP 302"),
    ],
    ids=["refused", "another server", "elsewhere"],
)
def test_mlflow_refuses(twinrun, checked, mlflow, answer, words):
    mlflow.trouble = lambda n, path: answer
    done = twinrun("export", "last", "--mlflow", mlflow.url)
    assert done.rc == 2 and words in done.err, done


def test_wrong_addresses(twinrun, checked):
    for url, words in (
        ("ftp://x", "expected a URL"),
        ("http://me:pw@127.0.0.1:9", "no password in the URL"),
    ):
        done = twinrun("export", "last", "--mlflow", url)
        assert done.rc == 2 and words in done.err, done


READ_MLFLOW = """
import json, sys, mlflow
client = mlflow.MlflowClient(sys.argv[1])
experiment = client.get_experiment_by_name("twinrun")
found = []
for run in client.search_runs([experiment.experiment_id]):
    i = run.info.run_id
    verdict = open(client.download_artifacts(i, "verdict.json", ".")).read()
    found.append(dict(tags=run.data.tags, params=run.data.params, status=run.info.status,
        name=run.info.run_name, verdict=verdict,
        inputs={d.dataset.name: d.dataset.digest for d in run.inputs.dataset_inputs},
        metrics={k: [[m.step, m.timestamp, m.value] for m in client.get_metric_history(i, k)]
                 for k in run.data.metrics}))
print(json.dumps(found))
"""


@pytest.mark.skipif(not FULL, reason="MLflow itself is 850 MB: with --full")
def test_real_mlflow(twinrun, checked, start, run, tmp_path, work):
    """The real server, read back by its own client; exported twice, nothing changes."""
    python = with_packages("TWINRUN_MLFLOW_PYTHON", "mlflow")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = start(
        [python, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", port, "--workers", "1",
         "--backend-store-uri", "sqlite:///m.db", "--artifacts-destination", tmp_path / "kept"],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    for _ in range(1200):
        assert alive(server.pid)
        try:
            urllib.request.urlopen(url + "/health", timeout=5)
            break
        except OSError:
            time.sleep(0.1)
    argv = ("export", "last~1", "last", "--mlflow", url)
    assert twinrun(*argv).rc == 0
    env = {"MLFLOW_TRACKING_URI": url}
    read = run([python, "-c", READ_MLFLOW, url], env=env)
    assert read.rc == 0, read
    assert_told({r["tags"]["twinrun.folder"]: r for r in read.json}, checked)
    done = twinrun(*argv)
    assert done.rc == 0 and "is there already" in done.out + done.err, done
    again = run([python, "-c", READ_MLFLOW, url], env=env)
    # and its runs come back as curves
    done = twinrun(
        "import", "--mlflow", url, "--experiment", "twinrun", "-m", "main", "-o", "c.json"
    )
    assert done.rc == 0, done
    curves = json.loads((work / "c.json").read_text())
    assert [r["points"] for r in curves["runs"]] == [[[i, v] for i, v in enumerate(MAIN)]] * 2
    key = lambda r: r["name"]  # noqa: E731
    assert json.dumps(sorted(read.json, key=key)) == json.dumps(sorted(again.json, key=key))
