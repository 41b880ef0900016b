# SPDX-License-Identifier: Apache-2.0
"""Runs that a Ray cluster makes (--on ray): before a stand-in for Ray (fake_ray), and with --full
before Ray itself.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
from conftest import FULL, ROOT, library_python
from free_ports import free_port
from test_engine import JOB, nodes_of, notes, nothing_left

FAKE = Path(__file__).parent / "fake_ray"


@pytest.fixture
def check(twinrun, script, tmp_path):
    """check(...options, on=, runs=, env=) -> Result of `twinrun check --on ray`."""
    script("job.py", JOB)

    def call(*options, on="ray", runs=3, env=None):
        return twinrun(
            *("check", "--json", "--no-cases", "--no-zoom", "--runs", runs, "--on", on, *options),
            *("--", "python3", "job.py"),
            env={
                "PYTHONPATH": str(FAKE),
                "FAKE_RAY_ASKED": str(tmp_path / "asked"),
                "TWINRUN_ENGINE_GRACE": "0.5",
                **(env or {}),
            },
        )

    call.asked = lambda: [json.loads(x) for x in (tmp_path / "asked").read_text().splitlines()]
    return call


def test_one_task_a_run(check, home):
    done = check(on="ray:--num-gpus=2 --resource a=0.5", runs=4)
    assert done.rc == 0 and done.json["outcome"] == "same", done
    # two nodes of one name are called by their ids; one that is down is none
    assert set(nodes_of(home).values()) == {"r1", "id1", "id2"}
    assert "the runs were made by ray on 3 nodes" in notes(done)
    for task in check.asked():
        assert task["max_retries"] == 0 and task["soft"] is False
        assert task["num_gpus"] == 2 and task["resources"] == {"a": 0.5}
    assert len(check.asked()) == 4 and nothing_left(home)


def test_place(check, home):
    done = check("--place", "pin:id2", runs=2)
    assert done.rc == 0 and set(nodes_of(home).values()) == {"id2"}, done


def test_a_task_on_another_node(check):
    """The worker says where it is, whatever was asked for."""
    done = check("--place", "pin:r1", env={"FAKE_RAY": "elsewhere"})
    assert done.rc == 2 and "a node that was not asked for" in done.err, done


def test_a_task_that_dies(check):
    done = check(env={"FAKE_RAY": "dies"})
    assert done.rc == 2 and "a run was lost 4 times by ray" in done.err, done
    assert "Ray: RuntimeError: the worker died" in done.err, done
    assert len(check.asked()) == 4


@pytest.mark.parametrize(
    ("options", "env", "words"),
    [
        (("--on", "ray"), {"FAKE_RAY": "away"}, "Ray: ConnectionError: no head"),
        (("--on", "ray"), {"PYTHONPATH": ""}, "has no Ray: No module named 'ray'"),
        (("--on", "ray:--what"), {}, "unrecognized arguments: --what"),
        (("--on", "ray:--resource a"), {}, "expected NAME=AMOUNT"),
        (("--on", "ray:{host}"), {}, "--on ray: expected options"),
        (("--on", "ray", "--hosts", "a"), {}, "--hosts is for --on cmd"),
        (("--on", "ray", "--place", "pin:r2"), {}, "leaves none of the hosts"),
        (("--on", "ray", "--place", "type:a"), {}, "for --on slurm and k8s"),
    ],
)
def test_bad_use(twinrun, options, env, words):
    done = twinrun("check", *options, "--", "true", env={"PYTHONPATH": str(FAKE), **env})
    assert done.rc == 2 and words in done.err, done
    assert "\x1b" not in done.err


# ---------------------------------------------------------------- Ray itself


@pytest.fixture(scope="module")
def ray():
    """Two nodes on this machine: (folder of programs, address). Its processes stay in one group."""
    python = os.environ.get("TWINRUN_RAY_PYTHON")
    if not python or not FULL:
        pytest.skip("TWINRUN_RAY_PYTHON names no Python with Ray (./dev test --full)")
    programs = Path(python).parent
    port = free_port()
    usual = ["--num-cpus=2", "--object-store-memory=100000000", "--disable-usage-stats", "--block"]
    usual += ["--node-ip-address=127.0.0.1"]
    head = ["--head", f"--port={port}", "--include-dashboard=false", "--node-name=r1"]
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    started = []
    for first in (head, [f"--address=127.0.0.1:{port}", "--node-name=r2"]):
        started.append(
            subprocess.Popen(
                [programs / "ray", "start", *first, *usual],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        )
        for line in started[-1].stdout:  # --block prints until all is up, and then stays
            if b"--block" in line or b"started" in line:
                break
    yield programs, f"127.0.0.1:{port}"
    for process in reversed(started):
        process.terminate()
        process.wait(60)


def test_the_real_ray(check, ray, home):
    programs, address = ray
    env = {"PYTHONPATH": None, "PATH": f"{programs}:{os.environ['PATH']}"}
    done = check(on=f"ray:--address={address}", runs=5, env=env)
    assert done.rc == 0 and set(nodes_of(home).values()) == {"r1", "r2"}, done
    done = check("--place", "pin:r2", on=f"ray:--address={address}", runs=2, env=env)
    assert done.rc == 0 and "on 1 node: r2 (2)" in notes(done), done


def test_ray_train(twinrun, script, python, run):
    """examples/ray_train: two workers of a cluster that the job starts. Ray may end a worker that
    has not written its last records yet: then the seeded runs are not called the same.
    """
    if not FULL:
        pytest.skip("its cluster takes a minute to start: TWINRUN_FULL=1")
    program = library_python(python, run, "ray.train")
    script("train.py", (ROOT / "examples" / "ray_train" / "train.py").read_text())
    check = ("check", "--json", "--no-zoom", "--runs", "2", "--ignore", "line:Failed to query")
    env = {"PYTHONPATH": None, "RAY_DEDUP_LOGS": "0"}
    done = twinrun(*check, "--", program, "train.py", env=env)
    if done.rc == 3:
        assert "what came after its last finished step" in json.dumps(done.json["unseen"]), done
    else:
        assert done.rc == 0, done
    assert done.json["steps"]["reference"] == 8 and done.json["first"] is None, done
    done = twinrun(*check, "--", program, "train.py", "--unseeded", env=env)
    first = done.json["first"]
    assert done.rc == 1 and (first["step"], first["name"]) == (0, "torch.cpu"), done
