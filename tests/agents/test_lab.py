# SPDX-License-Identifier: Apache-2.0
"""twinrun lab: its figures against ones that are computed here, from the files and raw timings that
it leaves.
"""

import ast
import hashlib
import json
import math
import os
import signal
import subprocess
import time

import numpy
import pytest

from conftest import FULL, ROOT, clean_environment

# Student's t, 97.5%, by degrees of freedom (any table).
T = {
    1: 12.706205,
    2: 4.302653,
    3: 3.182446,
    4: 2.776445,
    5: 2.570582,
    6: 2.446912,
    7: 2.364624,
    8: 2.306004,
    9: 2.262157,
    10: 2.228139,
    11: 2.200985,
    12: 2.178813,
    13: 2.160369,
    14: 2.144787,
    15: 2.131450,
    16: 2.119905,
    17: 2.109816,
    18: 2.100922,
}
NOTEBOOK = ROOT / "docs" / "examples" / "lab.ipynb"


def log_mean(ratios):
    """Geometric mean and its 95% interval."""
    logs = numpy.log(ratios)
    half = T[len(logs) - 1] * logs.std(ddof=1) / math.sqrt(len(logs))
    return [math.exp(logs.mean() + k * half) for k in (0, -1, 1)]


@pytest.fixture
def lab(build, tmp_path):
    def start(*args, rc=0, job=(), env=None):
        argv = [
            build / "cmd" / "twinrun",
            "lab",
            "--json",
            "--quiet",
            *args,
            *(["--", *job] if job else []),
        ]
        done = subprocess.run(
            [str(a) for a in argv],
            cwd=tmp_path,
            env=clean_environment(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == rc, done.stderr + done.stdout
        result = json.loads(done.stdout)
        assert (
            json.loads((tmp_path / result["folder"] / "lab.json").read_text())["steps"]
            == result["steps"]
        )
        return result, {s["step"]: s for s in result["steps"]}

    return start


def wanderer(build, *args):
    return [
        build / "tests" / "cli" / "wanderer",
        "--runs-file",
        "runs",
        "--weights",
        "w.npy",
        *args,
    ]


def test_gaps_are_those_of_the_files(lab, build, tmp_path):
    """Exact distances and interval, from the weights that the runs wrote."""
    result, steps = lab("--step", "noise", "--runs", 8, job=wanderer(build, "--wander", "0.003"))
    found = steps["noise"]["measured"]
    files = sorted((tmp_path / result["folder"]).glob("weights-*"))
    assert len(files) == 8 and found["exact"]
    w = [numpy.load(f, allow_pickle=False) for f in files]
    distances = [float(numpy.linalg.norm(w[i] - w[i + 1])) for i in range(0, 8, 2)]
    for pair, expected in zip(found["pairs"], distances):
        assert pair["l2"] == pytest.approx(expected, rel=1e-12)
        assert pair["relative_l2"] == pytest.approx(
            expected / numpy.linalg.norm(w[pair["a"] - 1]), rel=1e-12
        )
        assert pair["loss"] == pytest.approx(
            abs(found["runs"][pair["a"] - 1]["loss"] - found["runs"][pair["b"] - 1]["loss"]),
            rel=1e-12,
        )
    value, low, high = log_mean(distances)
    assert (
        found["weights_l2"]["value"] == pytest.approx(value)
        and found["weights_l2"]["low"] == pytest.approx(low)
        and found["weights_l2"]["high"] == pytest.approx(high)
    )
    assert (
        len({r["given"]["batches"] for r in found["runs"]}) == 1
        and len({r["weights"] for r in found["runs"]}) == 8
    )


def test_cost_is_what_its_timings_say(lab, build):
    """OMP_NUM_THREADS=1 makes this job sleep twice as long: about +100%, more exactly where other
    jobs do not add to both. The figure is made again from the raw times.
    """
    result, steps = lab("--step", "cost", job=wanderer(build, "--sleep-ms", "20"))
    # a run has 5 steps, of which the first is not timed; no sleep is shorter than asked for
    slept = 4 * 0.02
    found = steps["cost"]["measured"]
    assert steps["cost"]["result"] == "pass" and found["timed"] == "steps"
    assert len(found["timings"]) >= 5
    counted = [
        t for t in found["timings"] if found["neighbours"]["all_count"] or not t["disturbed"]
    ]
    ratios = [t["pinned_s"] / t["free_s"] for t in counted]
    cost = found["determinism_cost_pct"]
    for key, value in zip(("value", "low", "high"), log_mean(ratios)):
        assert cost[key] == pytest.approx(100 * (value - 1), rel=1e-5)
    assert cost["pairs"] == len(counted)
    check = sum(t["pinned_s"] for t in counted) / sum(t["free_s"] for t in counted)
    assert found["cross_check_pct"] == pytest.approx(100 * (check - 1)) and min(
        ratios
    ) <= check <= max(ratios)
    assert {t["first"] for t in found["timings"]} == {"free", "pinned"}, "one order only"
    assert all(
        slept <= t["free_s"] < 100 * slept and 2 * slept <= t["pinned_s"] < 100 * slept
        for t in found["timings"]
    ), found["timings"]
    assert all(
        slept * (1 + (p["id"] == "threads")) <= x < 100 * slept
        for p in found["cost_per_pin"]
        for x in p["seconds"]
    ), found["cost_per_pin"]
    assert {"threads", "affinity"} <= {p["id"] for p in found["cost_per_pin"]}
    if max(t["free_s"] for t in found["timings"]) < 1.2 * slept:  # nothing else took its time
        assert 40 < cost["value"] < 160, cost
        if all(
            x < 1.2 * slept
            for p in found["cost_per_pin"]
            if p["id"] != "threads"
            for x in p["seconds"]
        ):
            dearest = max(found["cost_per_pin"], key=lambda p: p["cost_pct"])
            assert dearest["id"] == "threads" and 40 < dearest["cost_pct"] < 160
    free, pinned = (
        numpy.log(found["cost_per_pin_free_s"]),
        numpy.log([t["pinned_s"] for t in counted]),
    )
    assert found["cost_per_pin_free_s"][: len(counted)] == [t["free_s"] for t in counted] and len(
        free
    ) > len(counted)
    for pin in found["cost_per_pin"]:
        own = numpy.log(pin["seconds"])
        assert 1 <= len(own) <= 3
        scatter = max((x for x in (free, pinned, own) if len(x) > 1), key=lambda x: x.std(ddof=1))
        shift, half = (
            own.mean() - free.mean(),
            T[len(scatter) - 1] * scatter.std(ddof=1) * math.sqrt(1 / len(own) + 1 / len(free)),
        )
        for key, x in (("cost_pct", shift), ("low", shift - half), ("high", shift + half)):
            assert pin[key] == pytest.approx(100 * (math.exp(x) - 1), rel=1e-5, abs=1e-9)
    assert found["operations"] is None


def test_config_hash_is_the_file_s(lab, build, tmp_path):
    """RFC 8785 by another implementation gives the same number, of the file and of each way of
    writing it.
    """
    rfc8785 = pytest.importorskip("rfc8785")
    (tmp_path / "train.json").write_text(
        '{"lr": 1e-1, "seed": 3, "name": "x", "layers": [8, {"b": true, "a": null}]}'
    )
    result, steps = lab("--step", "config", job=wanderer(build, "--config", "train.json"))
    found = steps["config"]["measured"]
    value = {"lr": 0.1, "seed": 3, "name": "x", "layers": [8, {"b": True, "a": None}]}
    assert found["config"]["sha256"] == hashlib.sha256(rfc8785.dumps(value)).hexdigest()
    assert found["config"]["changed"] == found["config"]["caught"] == 6
    again = (tmp_path / result["folder"] / "config-reordered.json").read_text()
    assert (
        json.loads(again) == value
        and again != (tmp_path / result["folder"] / "config.json").read_text()
    )
    assert sum(a["pass"] for a in found["checklist"]) >= 3
    assert os.uname().release in found["not_in_the_hash"]["driver"]


def test_ctrl_c(build, tmp_path):
    """What was not finished is not judged; the runs that were made stand in the result."""
    p = subprocess.Popen(
        [
            str(a)
            for a in [
                build / "cmd" / "twinrun",
                "lab",
                "--json",
                "--step",
                "noise",
                "--",
                *wanderer(build, "--sleep-ms", "300"),
            ]
        ],
        cwd=tmp_path,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in p.stderr:
        if " 1/10" in line:
            break
    time.sleep(0.5)
    p.send_signal(signal.SIGINT)
    out, _ = p.communicate(timeout=300)
    result = json.loads(out)
    assert (
        p.returncode == 130
        and result["outcome"] == "interrupted"
        and result["steps"][0]["result"] == "not-done"
    )
    assert 1 <= result["runs_made"] < 10


def test_page(lab, build, tmp_path):
    lab(
        "--step",
        "noise,determinism",
        "--runs",
        4,
        "--html",
        "lab.html",
        rc=1,
        job=wanderer(build, "--wander", "0.01"),
    )
    text = (tmp_path / "lab.html").read_text()
    assert (
        "NOISE FLOOR" in text
        and "both gaps exceed" in text
        and "http" not in text.split("</head>")[0].replace("http-equiv", "")
    )


def test_notebook_can_be_read():
    """Its code compiles, and holds no output of another machine."""
    book = json.loads(NOTEBOOK.read_text())
    assert book["nbformat"] == 4
    code = ["".join(c["source"]) for c in book["cells"] if c["cell_type"] == "code"]
    assert len(code) >= 4 and not any(c.get("outputs") for c in book["cells"])
    for cell in code:
        ast.parse(cell)


TORCH_JOB = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.Adam(model.parameters())
for x in torch.utils.data.DataLoader(torch.randn(32, 4), batch_size=8, shuffle=True):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), torch.zeros(len(x), 2))
    loss.backward()
    optimizer.step()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 4}, "model.pt")
"""


@pytest.mark.usefixtures("light")
def test_torch_job(lab, python, tmp_path):
    """A seeded PyTorch job: all that a run is given is seen, and of its checkpoint the weights
    alone are compared.
    """
    (tmp_path / "job.py").write_text(TORCH_JOB)
    result, steps = lab("--step", "determinism", "--runs", 2, job=[python, "job.py"])
    found = steps["determinism"]["measured"]
    assert steps["determinism"]["result"] == "pass" and found["bit_equal"] and found["exact"]
    assert all(all(r["given"].values()) for r in found["runs"])
    assert {"torch-deterministic", "threads", "hash-seed"} <= {
        p["id"] for p in found["determinism_settings"]
    }
    assert all(p["effect"] == "in force" for p in found["determinism_settings"])


@pytest.mark.skipif(not FULL, reason="minutes; TWINRUN_FULL=1")
def test_whole_lab_in_c(lab):
    began = time.monotonic()
    result, steps = lab()
    assert [s["result"] for s in result["steps"]] == ["pass"] * 4, result
    assert steps["determinism"]["measured"]["bit_equal"]
    print(f"lab on the trainer in C: {time.monotonic() - began:.0f} s, {result['runs_made']} runs")


@pytest.mark.skipif(not FULL, reason="minutes; TWINRUN_FULL=1")
def test_whole_lab_in_torch(lab, python):
    began = time.monotonic()
    result, steps = lab("--torch", "--python", python)
    assert [s["result"] for s in result["steps"]] == ["pass"] * 4, result
    assert steps["determinism"]["measured"]["bit_equal"]
    assert any(
        o["verdict"] == "unsafe"
        for d in steps["cost"]["measured"]["operations"]["devices"]
        for o in d["ops"]
    )
    print(f"lab on PyTorch: {(time.monotonic() - began) / 60:.1f} min, {result['runs_made']} runs")


@pytest.mark.skipif(not FULL, reason="minutes; TWINRUN_FULL=1")
def test_neighbour_is_noticed(lab, build):
    """Two busy loops beside the pairs: they are said to have been there."""
    hogs = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count())]
    try:
        result, steps = lab("--step", "cost", job=wanderer(build, "--sleep-ms", "20"))
    finally:
        for h in hogs:
            h.kill()
            h.wait()
    found = steps["cost"]["measured"]["neighbours"]
    assert found["disturbed"] == 10 and found["all_count"] and found["worst"] > 0.5


@pytest.mark.skipif(not FULL, reason="minutes; TWINRUN_FULL=1")
def test_notebook_runs(build, tmp_path):
    nbformat, nbclient = __import__("nbformat"), __import__("nbclient")
    book = nbformat.read(NOTEBOOK, as_version=4)
    path = str(build / "cmd") + os.pathsep + os.environ["PATH"]
    before, os.environ["PATH"] = os.environ["PATH"], path
    try:
        nbclient.NotebookClient(
            book,
            timeout=900,
            kernel_name="python3",
            resources={"metadata": {"path": str(tmp_path)}},
        ).execute()
    finally:
        os.environ["PATH"] = before
    shown = "".join(
        o.get("text", "") for c in book.cells if c.cell_type == "code" for o in c.outputs
    )
    assert "pass" in shown and "L2" in shown
