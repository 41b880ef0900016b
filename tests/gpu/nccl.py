# SPDX-License-Identifier: Apache-2.0
"""The third part of tests/gpu/run: a real NCCL loads the agent as its profiler plugin, and `diff`
names the collective for which it was made to choose another algorithm.

It needs a build of this project. With one GPU NCCL runs no collectives: then only that the plugin
was taken is seen, and said.
"""

import json
import os
import subprocess
import sys
import tempfile

JOB = """
import os, torch, torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
for step in range(4):
    for n in (1024, 1 << 20):
        dist.all_reduce(torch.ones(n, device="cuda"))
dist.barrier()
torch.cuda.synchronize()
dist.destroy_process_group()
"""
CALLS = "AllReduce:1024:ncclFloat32:%s:SIMPLE:2", "AllReduce:1048576:ncclFloat32:%s:SIMPLE:2"


def command_of(build, gpus, folder, algorithm):
    """The job; for a double of NCCL's side (gpus 0) a program that plays it."""
    if gpus == 0:
        double = os.path.join(build, "tests", "agents", "nccl_double")
        return [double, "--ranks", "2", *(c % algorithm.upper() for c in CALLS)]
    script = os.path.join(folder, "job.py")
    with open(script, "w", encoding="utf-8") as f:
        f.write(JOB)
    ranks = ["--standalone", "--nproc-per-node", str(gpus)]
    return [sys.executable, "-m", "torch.distributed.run", *ranks, script]


def run(words, env):
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode not in (0, 1, 3):
        print("%s: exit code %d\n%s" % (words[0], done.returncode, done.stderr[-4000:]))
    return done


def record(twinrun, command, home, algorithm):
    """The folder of a recorded run with this algorithm."""
    env = dict(os.environ, TWINRUN_HOME=home, TWINRUN_NCCL="on")
    env.pop("NCCL_PROFILER_PLUGIN", None)
    env.update(NCCL_ALGO=algorithm, NCCL_PROTO="Simple")
    run([twinrun, "record", "-q", "--label", algorithm, "--", *command], env)
    runs = os.path.join(home, "runs")
    (name,) = [n for n in os.listdir(runs) if "-%s-" % algorithm in n]
    return os.path.join(runs, name)


def check(build, gpus):
    """How much was seen, in words; and whether it was as it should be."""
    twinrun = os.path.join(build, "cmd", "twinrun")
    if not os.path.exists(twinrun):
        return "no %s: ./dev build, or --build FOLDER" % twinrun, None
    with tempfile.TemporaryDirectory() as folder:
        command = [command_of(build, gpus, folder, a) for a in ("Ring", "Tree")]
        ring = record(twinrun, command[0], folder, "Ring")
        tree = record(twinrun, command[1], folder, "Tree")
        taken = [
            sorted(os.listdir(os.path.join(r, "nccl")))
            if os.path.isdir(os.path.join(r, "nccl"))
            else []
            for r in (ring, tree)
        ]
        if not all(len(t) == max(gpus, 1) for t in taken):
            return "NCCL did not take the plugin in each rank: %s" % taken, False
        if gpus == 1:
            return "NCCL takes the plugin; its collectives need two GPUs", True
        done = run([twinrun, "diff", "--json", ring, tree], dict(os.environ, TWINRUN_HOME=folder))
        try:
            notes = json.loads(done.stdout)["notes"]
        except ValueError:
            return "diff gives no verdict: %s" % done.stderr[-1000:], False
        said = [n for n in notes if n.startswith("NCCL ran AllReduce 0 of communicator")]
        fits = len(said) == 1 and "algorithm RING" in said[0] and "algorithm TREE" in said[0]
        return said[0] if said else "diff does not name it: %s" % notes, fits
