# SPDX-License-Identifier: Apache-2.0
"""Telemetry: what a run folder holds of it."""

import json
import os
import subprocess
import time

import pytest

from launch_helper import wait_for
from telemetry_runs import JOB, TWINRUN, newest, twinrun


def table(path):
    """[(header words, [row as dict])]"""
    found = []
    for line in path.read_text().split("\n")[:-1]:  # what has no end was cut off with its process
        words = line.split("\t")
        if words[0].startswith("twinrun.telemetry/"):
            found.append((words, []))
            names = None
        elif names is None:
            names = words
        else:
            assert len(words) == len(names)
            found[-1][1].append({k: None if w == "-" else int(w) for k, w in zip(names, words)})
    return found


def test_files_of_a_run(tmp_path):
    twinrun(tmp_path, "record", "-q", "--", JOB, "--seconds", "2", "--spin", "400000")
    folder = newest(tmp_path)
    (path,) = [p for p in (folder / "telemetry").iterdir() if p.name not in ("host", "gpus")]
    ((head, rows),) = table(path)
    assert (
        head[1] == "process"
        and head[3:5] == ["0", "1"]
        and head[6] == "main"
        and path.name == "0." + head[5]
    )
    steps = [r["steps"] for r in rows]
    assert steps[0] == 0 and steps == sorted(set(steps))
    for key in ("t_ns", "cpu_ns", "ran_ns", "wait_ns"):
        values = [r[key] for r in rows]
        assert values == sorted(values), key
    spent = rows[-1]["t_ns"] - rows[0]["t_ns"]
    assert 0.3e9 < spent < 30e9
    ran, waited = (rows[-1][k] - rows[0][k] for k in ("ran_ns", "wait_ns"))
    # one thread that never sleeps either runs or waits for a processor
    assert 0.5 * spent < ran + waited < 1.05 * spent
    ((head, samples),) = table(folder / "telemetry" / "host")
    assert head[1] == "host" and len(samples) >= 4
    job = samples[-1]["job_cpu_ns"] - samples[0]["job_cpu_ns"]
    assert 0.5 * ran - 3e7 < job < 1.5 * ran + 1e8  # the kernel's own count, in ticks
    assert samples[-1]["busy_ns"] - samples[0]["busy_ns"] >= 0.7 * job - 3e7
    assert samples[-1]["cpus"] == len(os.sched_getaffinity(0)) or samples[-1]["cpus"] >= 1
    assert json.loads((folder / "run.json").read_text())["telemetry"] is True


def test_switched_off(tmp_path):
    twinrun(tmp_path, "record", "-q", "--no-telemetry", "--", JOB, "--seconds", ".1")
    folder = newest(tmp_path)
    assert list((folder / "telemetry").iterdir()) == []
    assert json.loads((folder / "run.json").read_text())["telemetry"] is False
    done = twinrun(tmp_path, "report", folder, check=False)
    assert done.returncode == 2 and "--no-telemetry" in done.stderr


def test_a_killed_job_keeps_its_rows(tmp_path):
    """Rows reach the file while the job runs, and stay when it is killed."""
    job = subprocess.Popen(
        [TWINRUN, "record", "-q", "--", JOB, "--seconds", "600", "--spin", "400000"],
        env=dict(os.environ, TWINRUN_HOME=str(tmp_path)),
    )
    path, rows = None, []
    wait_for(lambda: job.poll() is not None or list(tmp_path.glob("runs/*/telemetry/0.*")), 60)
    (path,) = tmp_path.glob("runs/*/telemetry/0.*")
    # more than one write
    while job.poll() is None and (not rows or rows[-1]["t_ns"] - rows[0]["t_ns"] < 0.4e9):
        time.sleep(0.01)
        rows = (table(path) or [([], [])])[0][1]
    os.kill(int(path.name[2:]), 9)
    assert job.wait() == 137
    ((_head, kept),) = table(path)
    assert kept[: len(rows)] == rows


def test_several_ranks(tmp_path):
    ranks = " & ".join("RANK=%d WORLD_SIZE=3 %s --train 20" % (r, JOB) for r in range(3))
    twinrun(tmp_path, "record", "-q", "--", "sh", "-c", ranks + " & wait")
    found = sorted(
        table(p)[0][0][3] for p in (newest(tmp_path) / "telemetry").iterdir() if p.name != "host"
    )
    assert found == ["0", "1", "2"]


FAKE_NVML = """
#include <unistd.h>
typedef void *device;
static pid_t set_up_in;    /* as the real one: a process that inherits it set up is not answered */
int nvmlInit_v2(void) { if (!set_up_in) set_up_in = getpid(); return set_up_in == getpid() ? 0 : 17; }
int nvmlDeviceGetName(device d, char *text, unsigned n) { if (n > 2) text[0] = 'G', text[1] = 0; return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, device *d) { *d = (device)(long)(i + 1); return 0; }
int nvmlDeviceGetUtilizationRates(device d, unsigned *v) { v[0] = (long)d == 1 ? 90 : 70; v[1] = 5; return 0; }
int nvmlDeviceGetClockInfo(device d, int type, unsigned *v) { *v = type == 1 ? 1000 + 100 * (unsigned)(long)d : 0; return 0; }
int nvmlDeviceGetPowerUsage(device d, unsigned *v) { *v = 300000; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(device d, unsigned long long *v) { *v = (long)d == 2 ? 0x20 : 1; return 0; }
"""


@pytest.fixture
def two_gpus(tmp_path, monkeypatch):
    """A stand-in for the driver's library with two GPUs, one held down by heat, and without a
    sensor for temperature.
    """
    (tmp_path / "nvml.c").write_text(FAKE_NVML)
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", tmp_path / "libnvidia-ml.so.1", tmp_path / "nvml.c"],
        check=True,
    )
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))


def test_every_run_of_a_check_sees_the_gpus(tmp_path, two_gpus):
    """The driver answers beside each run, and what does not change is no difference between their
    worlds.
    """
    done = twinrun(
        tmp_path, "check", "--runs", "2", "--", JOB, "--seconds", ".5", "--train", "3", check=False
    )
    assert "different worlds" not in done.stdout, done.stdout
    records = [
        json.loads(path.read_text())["accelerators"]
        for path in tmp_path.glob("runs/*/provenance.json")
    ]
    assert [[gpu["name"] for gpu in each["gpus"]] for each in records] == [
        ["G", "G"],
        ["G", "G"],
    ], records
    assert len(list(tmp_path.glob("runs/*/telemetry/gpus"))) == 2


def test_gpus(tmp_path, two_gpus):
    twinrun(tmp_path, "record", "-q", "--", JOB, "--seconds", "4", "--spin", "400000")
    folder = newest(tmp_path)
    ((head, rows),) = table(folder / "telemetry" / "gpus")
    assert head[1] == "gpus" and len(rows) >= 2
    del rows[0]["t_ns"]
    assert rows[0] == {
        "busy_percent": 80,
        "clock_mhz": 1100,
        "power_mw": 600000,
        "celsius": None,
        "slowed": 1,
    }
    assert json.loads(twinrun(tmp_path, "report", "--json", folder).stdout)["ranks"][0]["rows"] > 0
