# SPDX-License-Identifier: Apache-2.0
"""twinrun import: curves that other tools wrote, and what `significant` makes of them. What stands
in them is known here, where they are written.
"""

import json
import math
import statistics

import pytest

from mlflow_stand_in import MlflowStandIn
from test_trackers import with_packages

LAST = {"a": [1.0, 1.1, 1.05, 1.02], "b": [2.0, 2.1, 2.05, 2.02]}


def curves(work, name="c.json"):
    found = json.loads((work / name).read_text(), parse_constant=lambda c: 1 / 0)
    return found, {r["name"]: r for r in found["runs"]}


def csv_text(values):
    """A value 3.0 at step 0 of each run, lines of the runs mixed, and what is left out."""
    first = "".join(f"r{i},0,3.0,\n" for i in range(len(values)))
    last = "".join(f"r{i},7,{v},x\n" for i, v in reversed(list(enumerate(values))))
    return f"run,step,val/loss,other\n{first}{last}bad,1,0.5,\nbad,2,nan,\nnone,1,,\n"


def test_csv(twinrun, script, work):
    """From two CSV files to an answer that says what is not known."""
    for arm, values in LAST.items():
        script(f"{arm}.csv", csv_text(values))
        done = twinrun(
            "import", "--csv", f"{arm}.csv", "-m", "val/loss", "--run-column", "run",
            "--step-column", "step", "-o", f"{arm}.json",
        )  # fmt: skip
        assert done.rc == 0, done
        found, runs = curves(work, f"{arm}.json")
        assert [runs[f"r{i}"]["value"] for i in range(4)] == values
        assert runs["r2"]["points"] == [[0, 3.0], [7, values[2]]]
        assert runs["bad"]["value"] is None and "this run diverged" in runs["bad"]["left_out"]
        assert runs["bad"]["points"] == [[1, 0.5], [2, "nan"]]
        assert "no value" in runs["none"]["left_out"] and len(runs) == 6
        assert (
            "code and its version" in found["unknown"] and "how the runs ended" in found["unknown"]
        )
    done = twinrun("significant", "--json", "a.json", "b.json")
    assert done.rc == 1 and done.json["answer"] == "real" and done.json["effect"] == 1.0, done
    assert done.json["a"]["values"] == LAST["a"] and len(done.json["a"]["left_out"]) == 2
    assert done.json["a"]["configuration"] == (
        "a.json: last val/loss of each run in a.csv, which twinrun did not record; not known: code "
        "and its version, data, seeds, machine and libraries, whether values were left out, how "
        "the runs ended"
    )
    said = twinrun("significant", "a.json", "a.json").out
    assert "left out: bad: its last value is NaN" in said and "NOT SHOWN" in said

    # min and max; the same again; other contents
    argv = ("import", "--csv", "a.csv", "-m", "val/loss", "--run-column", "run", "-o", "m.json")
    assert twinrun(*argv, "--take", "max").rc == 0
    _, runs = curves(work, "m.json")
    assert [runs[f"r{i}"]["value"] for i in range(4)] == [3.0] * 4
    assert "NaN" in runs["bad"]["left_out"]
    assert twinrun(*argv, "--take", "max").rc == 0
    done = twinrun(*argv, "--take", "min")
    assert done.rc == 2 and "--force replaces it" in done.err, done


@pytest.mark.parametrize(
    "text, words",
    [
        ("step,x\n", "expected a column loss in its first line, found step, x"),
        ("", "found nothing"),
        ("loss\n1\nspam\n", "line 3: expected a number, found 'spam'"),
        ('loss\n"1\n', "expected CSV in UTF-8"),
        ("loss\n", "expected runs with loss, found none"),
    ],
)
def test_csv_that_is_none(twinrun, script, work, text, words):
    script("x.csv", text)
    done = twinrun("import", "--csv", "x.csv", "-m", "loss", "-o", "c.json")
    assert done.rc == 2 and words in done.err and not (work / "c.json").exists(), done


WRITE_EVENTS = """
import sys
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.compat.proto.types_pb2 import DT_FLOAT
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.summary.writer.event_file_writer import EventFileWriter

def write(folder, make):
    writer = EventFileWriter(folder)
    for step in range(20000):
        if step % 4 == 0:
            value = summary_pb2.Summary(value=[make(step)])
            writer.add_event(event_pb2.Event(step=step, wall_time=1e9 + step, summary=value))
    writer.close()

Value = summary_pb2.Summary.Value
write(sys.argv[1] + "/old", lambda s: Value(tag="loss", simple_value=s / 4))
about = summary_pb2.SummaryMetadata(
    plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name="scalars"))
write(sys.argv[1] + "/deep/new", lambda s: Value(tag="loss", metadata=about,
    tensor=TensorProto(dtype=DT_FLOAT, float_val=[s / 2])))
write(sys.argv[1] + "/other", lambda s: Value(tag="accuracy", simple_value=1.0))
"""


def test_tensorboard(twinrun, run, work):
    """Both forms of scalars, every point of them; a run without this one is named."""
    python = with_packages("TWINRUN_TRACKERS_PYTHON", "tensorboard")
    done = run([python, "-c", WRITE_EVENTS, work / "logs"])
    assert done.rc == 0, done
    done = twinrun("import", "--tensorboard", "logs", "-m", "loss", "-o", "c.json", "-p", python)
    assert done.rc == 0 and "no value of this metric" in done.out + done.err, done
    _, runs = curves(work)
    assert sorted(runs) == ["deep/new", "old", "other"] and runs["other"]["value"] is None
    assert runs["old"]["points"] == [[s, s / 4] for s in range(0, 20000, 4)]
    assert runs["deep/new"]["points"] == [[s, s / 2] for s in range(0, 20000, 4)]
    assert runs["old"]["value"] == 4999.0


def test_mlflow(twinrun, work):
    """Pages of runs and of points; runs that failed are left out; a server that says no."""
    server = MlflowStandIn()
    try:
        server.experiments["mine"] = "1"
        for i in range(5):
            points = [(step, 1000 * (9 - step), step + i / 8) for step in (2, 0, 3, 1)]
            status = "FAILED" if i == 3 else "FINISHED"
            server.add("1", f"run {i}", metrics={"loss": points}, status=status)
        argv = ("import", "--mlflow", server.url, "-m", "loss", "-o", "c.json")
        done = twinrun(*argv, "--experiment", "mine")
        assert done.rc == 0 and "run 3: it ended as FAILED" in done.out + done.err, done
        found, runs = curves(work)
        assert [runs[f"run {i}"]["value"] for i in range(5)] == [3, 3.125, 3.25, None, 3.5]
        assert runs["run 1"]["points"] == [[s, s + 1 / 8] for s in range(4)]
        assert "how the runs ended" not in found["unknown"] and server.writes == 0
        done = twinrun(*argv, "--experiment", "mine", "--filter", "nonsense", "--force")
        assert done.rc == 2 and "Invalid clause" in done.err, done
        done = twinrun(*argv, "--experiment", "other", "--force")
        assert done.rc == 2 and "RESOURCE_DOES_NOT_EXIST" in done.err, done
        assert curves(work)[0] == found
    finally:
        server.close()


@pytest.mark.parametrize(
    "text",
    ['{"schema": "twinrun.curves/2", "runs": []}', "{}", '{"schema": "twinrun.curves/1"}',
     '{"schema": "twinrun.curves/1", "metric": "x", "take": "last", "source": "s",'
     ' "runs": [{"name": "a", "value": "1"}]}', "{nonsense"],
)  # fmt: skip
def test_significant_refuses_others(twinrun, script, text):
    script("x.json", text)
    script("y.txt", "1 2 3")
    done = twinrun("significant", "x.json", "y.txt")
    assert done.rc == 2 and "x.json: " in done.err and "expected" in done.err, done


# ---- what report says of them


def imported(twinrun, script, name, runs, metric="loss"):
    """A file of curves: run -> [(step, text of a value)], in this order."""
    lines = [f"{r},{s},{v}" for r, points in runs.items() for s, v in points]
    script(f"{name}.csv", "\n".join([f"run,step,{metric}", *lines]) + "\n")
    done = twinrun(
        "import", "--csv", f"{name}.csv", "-m", metric, "--run-column", "run",
        "--step-column", "step", "-o", f"{name}.json",
    )  # fmt: skip
    assert done.rc == 0, done


CURVE = [(s, repr(1 / (s + 3))) for s in range(5)]
ULP = [*CURVE[:3], (3, repr(math.nextafter(1 / 6, 1))), CURVE[4]]
# How a second run stands to CURVE: its curve, are the numbers equal, what is said of it.
PAIRS = {
    "equal": (CURVE, True, "the imported numbers are equal, all 5"),
    "lines in another order": (CURVE[::-1], True, "the imported numbers are equal, all 5"),
    "one unit in the last place": (ULP, False, "differs first at step 3: 0.16666666666666666 and"),
    "one point less": (CURVE[:-1], False, "equal numbers at 4 points; 1 stands in one alone"),
    "one point more": ([*CURVE, (9, "1")], False, "equal numbers at 5 points; 1 stands in one"),
    "a point twice": ([*CURVE, CURVE[4]], False, "equal numbers at 5 points; 1 stands in one"),
    "another step": ([(s + 9, v) for s, v in CURVE], None, "no step in common: not compared"),
    "a NaN": ([*CURVE[:4], (4, "nan")], False, "differs first at step 4: 0.14285714285714285 and"),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_report_of_a_pair(twinrun, script, work, pair):
    """Equal numbers are equal numbers: in no form is a pair called the same run, or more than that;
    and whatever differs by one number is not even called equal numbers."""
    curve, equal, words = PAIRS[pair]
    imported(twinrun, script, "c", {"a": CURVE, "b": curve})
    done = twinrun("report", "c.json")
    assert done.rc == 0 and words in done.out, done
    assert done.out.startswith("IMPORTED  curves of 2 runs that twinrun did not record")
    found = twinrun("report", "--json", "c.json").json
    assert (found["schema"], found["outcome"]) == ("twinrun.imported/1", "imported")
    first, second = found["files"][0]["runs"]
    assert first["is_first"] and second["beside_first"]["equal_numbers"] is equal
    assert twinrun("report", "--html", "c.html", "c.json").rc == 0
    page = (work / "c.html").read_text()
    page = page[page.index("<main") : page.index("</main>")]
    for said in (done.out, json.dumps(found), page):
        for never in (
            "SAME",
            "same run",
            "identical",
            "bit for bit",
            "reproducib",
            "deterministic",
        ):
            assert never not in said, never
        assert "whether any two of these runs computed the same" in said
        assert ("numbers are equal" in said) == (equal is True) or said == json.dumps(found)
        assert "code and its version" in said and "seeds" in said
    assert words.replace("'", "&#39;") in page


def test_report_tells_nan_and_zero(twinrun, script):
    """A NaN is the same number as a NaN, and -0 is not 0."""
    nan = [(0, "nan"), (1, "2")]
    imported(twinrun, script, "n", {"a": nan, "b": nan})
    runs = twinrun("report", "--json", "n.json").json["files"][0]["runs"]
    assert runs[1]["beside_first"]["equal_numbers"] is True
    imported(twinrun, script, "z", {"a": [(0, "0.0"), (0, "-0.0")], "b": [(0, "-0.0"), (0, "0.0")]})
    runs = twinrun("report", "--json", "z.json").json["files"][0]["runs"]
    assert runs[1]["beside_first"]["equal_numbers"] is False


def test_report_of_noise(twinrun, script, work):
    """How far runs lie apart, by Python's own statistics; files are not mixed with one another, and
    other metrics not held against it."""
    ends = {"a": [1.0, 1.25, 0.5, 3.0], "b": [7.0, 7.5]}
    for name, values in ends.items():
        runs = {
            f"{name}{i}": [(0, "2"), (5, str(v + 1)), (9, str(v))] for i, v in enumerate(values)
        }
        imported(twinrun, script, name, {**runs, "bad": [(0, "nan")]})
    imported(twinrun, script, "other", {"x": CURVE}, metric="accuracy")
    done = twinrun("report", "--json", "a.json", "b.json", "other.json")
    assert done.rc == 0, done
    for found, values in zip(done.json["files"], ends.values()):
        noise = found["noise"]
        assert noise["values"] == len(values)
        assert noise["mean"] == pytest.approx(statistics.mean(values), rel=1e-15)
        assert noise["sd"] == pytest.approx(statistics.stdev(values), rel=1e-14)
        assert (noise["low"], noise["high"]) == (min(values), max(values))
        assert noise["steps_of_all"] == 3 and noise["first_apart"] == 0
        assert noise["last_apart"] == pytest.approx(max(values) - min(values), rel=1e-15)
    (lonely,) = done.json["files"][2]["runs"]
    assert lonely["beside_first"] is None
    text = twinrun("report", "a.json", "b.json", "other.json").out
    assert "another metric: not compared" in text and "left out  bad: its last value is" in text
    assert "of 1 run of 1: 0.14285714285714285; of one value no spread can be said" in text
    assert "twinrun significant a.json b.json" in text


def test_report_of_hostile_curves(twinrun, script, work):
    """Names are text, whatever they hold; a page of many runs and points is bounded."""
    runs = {f"<script>{i}\x1b[31m": [(s, "1") for s in range(5000)] for i in range(70)}
    imported(twinrun, script, "h", runs)
    found = json.loads((work / "h.json").read_text())
    found["metric"], found["source"], found["unknown"] = "<b>\u202e", "\x1b[2J", ["<i>", 7]
    found["runs"][0]["name"] = "\n\r\t\x1b[0m</main>"
    (work / "h.json").write_text(json.dumps(found))
    done = twinrun("report", "--html", "h.html", "h.json")
    assert done.rc == 0 and (work / "h.html").stat().st_size < 8 << 20, done
    page = (work / "h.html").read_text()
    assert "<script>0" not in page and "<b>" not in page and page.count("</main>") == 1
    out = twinrun("report", "h.json").out
    assert "\x1b" not in out and "\u202e" not in out and "and 30 more" in out


@pytest.mark.parametrize(
    "change, words",
    [
        ({"runs": [{"name": "a", "value": 1, "points": [[0.5, 1]]}]}, "expected [step, value]"),
        ({"runs": [{"name": "a", "value": 1, "points": [[1, 1], [2]]}]}, "run 1, point 2"),
        ({"runs": [{"name": "a", "value": 1, "points": [[1, "one"]]}]}, "expected [step, value]"),
        ({"runs": [{"value": 1}]}, "expected a name and a value"),
        ({"schema": "twinrun.check/1"}, "expected curves that `twinrun import` wrote"),
    ],
)
def test_report_refuses_others(twinrun, script, work, change, words):
    imported(twinrun, script, "c", {"a": CURVE})
    found = {**json.loads((work / "c.json").read_text()), **change}
    (work / "c.json").write_text(json.dumps(found))
    done = twinrun("report", "c.json")
    assert done.rc == 2 and words in done.err and not done.out, done
    for option in ("--postmortem", "--output=x", "--ignore=x", "--tolerance=x"):
        done = twinrun("report", option, "c.json")
        assert done.rc == 2 and "numbers alone" in done.err, done
