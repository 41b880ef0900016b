# SPDX-License-Identifier: Apache-2.0
"""How twinrun.recheck holds the pins of `check --pinned` against what the runs say themselves.

Written from docs/format/run-folder.md (`factors` in run.json, and the file of that name) and
docs/format/verdict.md: it shares no code with the comparison.
"""

import os

from ._recorded import items, need, word

FACTORS_MAX = 64 << 20  # bytes of the file `factors`
# What is held by variables, of which one has to arrive, and what an agent says of it by name
# (docs/factors.md). A factor that stands in neither is of the user's own file.
VARIABLES = {
    "hash-seed": ("PYTHONHASHSEED",),
    "threads": ("OMP_NUM_THREADS",),
    "tf32": ("NVIDIA_TF32_OVERRIDE",),
    "cublas-workspace": ("CUBLAS_WORKSPACE_CONFIG",),
    "autotune": ("TORCHINDUCTOR_MAX_AUTOTUNE",),
    "onednn": ("TF_ENABLE_ONEDNN_OPTS",),
    "jax-cache": ("JAX_ENABLE_COMPILATION_CACHE",),
    "collective-algorithm": ("NCCL_ALGO",),
    "nccl-channels": ("NCCL_MIN_NCHANNELS",),
    "isa": ("ATEN_CPU_CAPABILITY",),
}
BY_AGENT = (
    *("dir-order", "entropy", "malloc-fill", "clock", "loader-workers", "executor-order"),
    *("seed.python", "seed.numpy", "seed.torch", "seed.cuda", "cudnn-benchmark", "tensor-hash"),
    *("seed.tensorflow", "tensorflow-deterministic"),
    *(
        "torch-deterministic",
        "cudnn-deterministic",
        "sdpa-backend",
        "ddp-buckets",
        "exact-allreduce",
    ),
)


def _said(run):
    """(key, value) of each line of the run's file `factors`."""
    if not os.path.exists(os.path.join(run.folder, "factors")):
        return []
    with open(run.path("factors"), "rb") as f:
        text = f.read(FACTORS_MAX).decode("utf-8", "replace")
    whole = text[: text.rfind("\n") + 1]  # the last line may have been cut
    rows = [line.split("\t") for line in whole.splitlines()]
    return [(row[3], row[4]) for row in rows if len(row) == 5]


def _words(agents, variable):
    """A list of the launcher's, by commas."""
    return [w for w in str(agents.get(variable, "")).split(",") if w]


def took_effect(run, factor):
    """Why this pin was not in force in this run; None: it was."""
    asked = run.json.get("factors")
    asked = asked if isinstance(asked, dict) else {}
    launcher = {"aslr": ("held.layout", "fixed"), "affinity": ("held.processors", "1 from ")}
    said = _said(run)
    if factor in launcher:
        if not isinstance(asked.get(factor), dict) or asked[factor].get("done") is not True:
            return "the launcher did not do it"
        key, value = launcher[factor]
        other = [v for k, v in said if k == key and not v.startswith(value)]
        return "a process has %s" % other[0] if other else None
    agents = asked.get("agents")
    agents = agents if isinstance(agents, dict) else {}
    pins = _words(agents, "TWINRUN_FACTORS") + _words(agents, "TWINRUN_PINS")
    spoken = [v for k, v in said if k == "effect." + factor]
    for v in spoken:
        if v.startswith(("failed:", "overridden:")):
            return v
    if any(v and not v.startswith("not used:") for v in spoken):
        by_agent = any(p == factor + "=pin" or p.startswith(factor + "=pin:") for p in pins)
        return None if by_agent else "it was not asked for"
    # else it is held by variables, which have to arrive in a process as they were set
    held = [v for v in _words(agents, "TWINRUN_HELD") if v in VARIABLES.get(factor, (v,))]
    if not held or factor in BY_AGENT:
        return "no process says that it was held"
    found = {k[4:]: v for k, v in said if k.startswith("env.")}
    keys = {k for k, _ in said}
    unset = [v for v in held if "unset." + v in keys]
    if unset:
        return "a process found %s unset" % unset[0]
    if not any(v in found for v in held):
        return "no process says that it had it"
    other = [v for k, v in said if factor == "hash-seed" and k == "env.PYTHONHASHSEED" and v != "0"]
    return "a process found PYTHONHASHSEED=%s" % other[0] if other else None


class Pins:
    """Of a verdict under pins: were they asked for, and in force?"""

    def pinned(self, claim):
        said = self.verdict.get("pinned")
        need(isinstance(said, dict), "the verdict is not of pinned runs")
        factors = items(claim, "factors")
        need(factors and all(isinstance(f, str) for f in factors), "it names no factor")
        need(factors == said.get("factors"), "the verdict names other factors")
        need(word(claim, "search") == said.get("search"), "the verdict names another search")
        need(claim.get("held") is said.get("held"), "the verdict says it otherwise")
        loose = [
            "%s in run %d: %s" % (f, i + 1, why)
            for f in factors
            for i, run in enumerate(self.runs)
            for why in [took_effect(run, f)]
            if why
        ]
        if claim.get("held") is True:
            need(not loose, "not in force: %s", loose[0] if loose else "")
        else:
            good = ("same", "within-tolerance")
            need(self.verdict.get("outcome") not in good, "pins that did nothing prove nothing")
        return ", ".join(factors)
