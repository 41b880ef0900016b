# SPDX-License-Identifier: Apache-2.0
"""The fourth part of tests/gpu/run: the CUDA driver loads the agent, which subscribes to CUPTI, and
`diff` names the kernel that one of two runs launched in place of another, says nothing of two runs
that launched the same, and stands aside where torch.profiler was there first.

It needs a build of this project. On a double (no GPU) a program plays the driver, and CUDA_HOME has
the double of libcupti.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

JOB = """
import sys, torch, twinrun
torch.backends.cudnn.benchmark = False
kind, steps = sys.argv[1], 4
if kind == "profiler":
    from torch.profiler import ProfilerActivity, profile
    profile(activities=[ProfilerActivity.CUDA]).__enter__()
x = torch.ones(64, 64, device="cuda")
graph, inside = torch.cuda.CUDAGraph(), torch.ones(64, device="cuda")
if kind != "profiler":
    with torch.cuda.graph(graph):
        inside.mul_(1.0)
for step in range(steps):
    y = torch.relu(x @ x)
    if kind == "other" and step == 2:
        y = torch.sigmoid(y)
    if kind != "profiler":
        graph.replay()
    twinrun.record("x", x.cpu())
    twinrun.step()
torch.cuda.synchronize()
"""
# the same for the double: WHAT of tests/agents/cupti_job.c
CALLS = {
    "usual": ("kernel:gemm:8:256:4096", "ex:relu:4:64:0", "graph:1"),
    "other": ("kernel:gemm:8:256:4096", "ex:relu:4:64:0", "ex:sigmoid:4:64:0@2", "graph:1"),
    "profiler": ("--other", "kernel:gemm:8:256:4096"),
}


def command_of(build, folder, kind, double):
    if double:
        return [os.path.join(build, "tests", "agents", "cupti_job"), *CALLS[kind]]
    script = os.path.join(folder, "job.py")
    with open(script, "w", encoding="utf-8") as f:
        f.write(JOB)
    return [sys.executable, script, kind]


def record(build, folder, label, kind, double):
    """The folder of a recorded run, and what its `faults` say."""
    env = dict(os.environ, TWINRUN_HOME=folder, TWINRUN_CUPTI="on")
    env.pop("CUDA_INJECTION64_PATH", None)
    if double:
        toolkit = os.path.join(folder, "toolkit", "lib64")
        os.makedirs(toolkit, exist_ok=True)
        of = os.path.join(build, "tests", "agents", "cupti_double.so")
        shutil.copy(of, os.path.join(toolkit, "libcupti.so.13"))
        env["CUDA_HOME"] = os.path.dirname(toolkit)
    twinrun = os.path.join(build, "cmd", "twinrun")
    words = [twinrun, "record", "-q", "--label", label, "--"]
    words += command_of(build, folder, kind, double)
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != 0:
        print("%s: exit code %d\n%s" % (label, done.returncode, done.stderr[-4000:]))
    runs = os.path.join(folder, "runs")
    (name,) = [n for n in os.listdir(runs) if "-%s-" % label in n]
    run = os.path.join(runs, name)
    path = os.path.join(run, "faults")
    if not os.path.exists(path):
        return run, ""
    with open(path, encoding="utf-8") as f:
        return run, f.read()


def notes_of(build, folder, a, b):
    words = [os.path.join(build, "cmd", "twinrun"), "diff", "--json", a, b]
    env = dict(os.environ, TWINRUN_HOME=folder)
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=900, check=False)
    try:
        return [n for n in json.loads(done.stdout)["notes"] if "kernels" in n]
    except ValueError:
        return ["diff gives no verdict: %s" % done.stderr[-1000:]]


def check(build, double):
    """How much was seen, in words; and whether it was as it should be."""
    if not os.path.exists(os.path.join(build, "cmd", "twinrun")):
        return "no %s/cmd/twinrun: ./dev build, or --build FOLDER" % build, None
    if double and not os.path.exists(os.path.join(build, "tests", "agents", "cupti_double.so")):
        return "the build has no double of libcupti: it takes cupti_callbacks.h", None
    with tempfile.TemporaryDirectory() as folder:
        one, faults = record(build, folder, "one", "usual", double)
        if faults or not os.path.isdir(os.path.join(one, "kernels")):
            return "the agent did not subscribe: %s" % (
                faults or "the driver did not load it"
            ), False
        two, _ = record(build, folder, "two", "usual", double)
        said = notes_of(build, folder, one, two)
        if said:
            return "of two runs that launch the same it is said: %s" % said, False
        other, _ = record(build, folder, "other", "other", double)
        said = notes_of(build, folder, one, other)
        if len(said) != 1 or not said[0].startswith("other kernels on a GPU: step 2 of rank 0"):
            return "diff does not name the kernel: %s" % said, False
        profiled, faults = record(build, folder, "profiled", "profiler", double)
        if "uses CUPTI" not in faults:
            print(
                "beside torch.profiler the agent did not stand aside: %s" % (faults or "no fault")
            )
        return said[0], double is False or "uses CUPTI" in faults
