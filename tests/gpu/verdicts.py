# SPDX-License-Identifier: Apache-2.0
"""The fifth part of tests/gpu/run: what `check` and `isolate` say of jobs that are known to wander
on a GPU, and of their twins, which do not; and `lab --torch` there.

It needs a build of this project. `--dry` runs the same commands on the processor: there the jobs do
not wander, but for the ways to compute attention, so only twins and that one are judged.
"""

import json
import os
import subprocess
import sys
import tempfile

JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ghost.py")

# Each: what sets arm A and arm B apart (words before the command, words behind the name), and
# whether the two must differ. "may": the library decides, by version and GPU.
GHOSTS = {
    "scatter-add": (((), ("free",)), ((), ("free",)), "differ"),
    "index-add": (((), ("free",)), ((), ("free",)), "differ"),
    "embedding": (((), ("free",)), ((), ("free",)), "may"),
    "cudnn-benchmark": (((), ("free",)), ((), ("free",)), "may"),
    "tf32": (((), ("on",)), ((), ("off",)), "differ"),
    "split-k": (
        (("env", "CUBLAS_WORKSPACE_CONFIG=:0:0"), ("free",)),
        (("env", "CUBLAS_WORKSPACE_CONFIG=:4096:8"), ("free",)),
        "may",
    ),
    "triton-atomics": (((), ("free",)), ((), ("free",)), "differ"),
    "sdpa": (((), ("math",)), ((), ("fused",)), "differ"),
}
ISOLATED = ("scatter-add", "torch-deterministic")  # and the cause that isolate must name


def asked(build, home, words):
    """The JSON that a command of twinrun prints; None, and what it said."""
    program = os.path.join(build, "cmd", "twinrun")
    env = dict(os.environ, TWINRUN_HOME=home)
    done = subprocess.run(
        [program, *words],
        cwd=home,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=3000,
        check=False,
    )
    try:
        return json.loads(done.stdout), ""
    except ValueError:
        return None, "exit code %d: %s" % (done.returncode, done.stderr[-1500:])


def command(name, arm, device):
    before, behind = arm
    return " ".join([*before, sys.executable, JOB, device, name, *behind])


def has(device, name):
    """Why a ghost cannot be run here; empty: it can."""
    if name != "triton-atomics":
        return ""
    if device == "cpu":
        return "Triton's kernels need a GPU"
    try:
        import triton  # noqa: F401
    except ImportError:
        return "no Triton in this Python"
    return ""


def judge(expected, outcome, device, name):
    """Whether an outcome is as it should be."""
    if outcome not in ("same", "differ"):
        return False
    if expected == "may" or (device == "cpu" and name != "sdpa"):
        return True
    return outcome == expected


def check_ghosts(build, device, home, figures, names):
    wrong = 0
    for name, (a, b, expected) in GHOSTS.items():
        if name not in names:
            continue
        why = has(device, name)
        if why:
            print("ghost %-16s not run: %s" % (name, why))
            continue
        twin = (("env", "CUBLAS_WORKSPACE_CONFIG=:4096:8"), ("twin",))
        for what, arms, should in (("free", (a, b), expected), ("twin", (twin, twin), "same")):
            words = ["check", "--json", "-q"]
            words += ["--no-zoom"] if device == "cpu" else []
            words += ["--a", command(name, arms[0], device), "--b", command(name, arms[1], device)]
            verdict, trouble = asked(build, home, words)
            outcome = verdict["outcome"] if verdict else "no verdict"
            good = outcome == "same" if what == "twin" else judge(should, outcome, device, name)
            wrong += not good
            first = (verdict or {}).get("first") or {}
            print(
                "ghost %-16s %s: %s%s%s%s"
                % (
                    name,
                    what,
                    outcome,
                    ", first %s %s" % (first.get("kind"), first.get("name")) if first else "",
                    "" if good else "  WRONG, expected " + should,
                    " (%s)" % trouble if trouble else "",
                )
            )
            figures["ghost %s, %s" % (name, what)] = outcome
    return wrong


def judge_isolate(verdict, device):
    """On the processor nothing parts: then `isolate` has to say so, and name no cause."""
    if verdict is None or verdict.get("outcome") == "error":
        return False
    causes = [c.get("factor") for c in verdict.get("causes") or []]
    return causes == ([] if device == "cpu" else [ISOLATED[1]])


def check_isolate(build, device, home, figures):
    name = ISOLATED[0]
    words = ["isolate", "--json", "-q", "--pin", "torch-deterministic,threads"]
    if device == "cpu":
        words += ["--max-runs", "14"]  # the least that it accepts
    words += ["--", *command(name, ((), ("free",)), device).split(" ")]
    verdict, trouble = asked(build, home, words)
    causes = [c.get("factor") for c in (verdict or {}).get("causes") or []]
    print("isolate %s: %s %s %s" % (name, (verdict or {}).get("outcome"), causes, trouble))
    figures["isolate"] = [(verdict or {}).get("outcome"), causes]
    return not judge_isolate(verdict, device)


def check_lab(build, device, home, figures):
    words = ["lab", "--torch", "--json", "-q", "--python", sys.executable, "--device", device]
    if device == "cpu":
        words += ["--step", "config"]
    answer, trouble = asked(build, home, words)
    print("lab --torch --device %s: %s %s" % (device, (answer or {}).get("outcome"), trouble))
    figures["lab"] = (answer or {}).get("outcome")
    return answer is None or answer.get("outcome") == "error"


NAMES = (*GHOSTS, "isolate", "lab")


def check(build, device, figures, names=NAMES):
    """How many answers were wrong; None: there is no build."""
    if not os.path.exists(os.path.join(build, "cmd", "twinrun")):
        print("verdicts: no %s/cmd/twinrun: ./dev build, or --build FOLDER" % build)
        return None
    build = os.path.abspath(build)
    with tempfile.TemporaryDirectory() as home:
        wrong = check_ghosts(build, device, home, figures, names)
        if "isolate" in names:
            wrong += check_isolate(build, device, home, figures)
        if "lab" in names:
            wrong += check_lab(build, device, home, figures)
    return wrong
