# SPDX-License-Identifier: Apache-2.0
"""A part of tests/gpu/run: how often a training step waits for the GPU, with recording and without,
in one process whose recording is switched on and off in turns (bench/torch_overhead.py).

The bar of issue 20: recording adds none. Waiting is counted by CUPTI's callbacks for the driver's
functions (waits.c); on a double, the double of the driver counts its calls, and PyTorch's tensors
say that they lie on its GPU (tests/agents/gpu_double).
"""

import ctypes
import os
import subprocess
import sys
import tempfile

import bars

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STEPS = 6
FUNCTIONS = (b"cuStreamSynchronize", b"cuEventSynchronize", b"cuCtxSynchronize")


def build(folder, call):
    """Compiles what counts; returns its path."""
    library = os.path.join(folder, "waits.so")
    words = [
        os.environ.get("CC", "cc"),
        "-std=gnu17",
        "-O2",
        "-fPIC",
        "-shared",
        "-D_GNU_SOURCE",
        "-I.",
    ]
    words += ["tests/gpu/waits.c", "agents/cupti/library.c", "-o", library, "-ldl", "-lpthread"]
    call(words)
    return library


def counter(library):
    """A function that says how often this process has waited."""
    counting = ctypes.CDLL(library)
    counting.waits_counted.restype = ctypes.c_ulong
    why = ctypes.create_string_buffer(400)
    if counting.waits_begin(why, ctypes.c_size_t(len(why))) != 0:
        sys.exit("waits.py: " + why.value.decode())
    return counting.waits_counted


def counter_of_double(driver):
    sys.path.insert(0, os.path.join(ROOT, "tests", "agents", "gpu_double"))
    import as_if_gpu

    as_if_gpu.begin(driver)
    calls = as_if_gpu.double().calls
    return lambda: sum(calls(name) for name in FUNCTIONS)


def count(device, library):
    """The process that is counted: prints the steps' waits without recording, and with."""
    sys.path.insert(0, os.path.join(ROOT, "bench"))
    import torch_overhead

    build_folder = os.environ["TWINRUN_BUILD"]
    torch_overhead.arm(os.path.join(build_folder, "agents", "libtwinrun.so"))
    import torch

    core, written = sys.modules["_twinrun_agent.core"], sys.modules["_twinrun_agent.written"]
    torch.manual_seed(0)
    model, batch = torch_overhead.mlp(torch)
    model.to(device)
    x, y = (t.to(device) for t in batch())
    waited = counter(library) if device == "cuda" else counter_of_double(library)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    waits = {False: [], True: []}
    for step in range(4 + 2 * STEPS):
        core.S.on = step % 2 == 1 or step < 4
        written.resync()
        before = waited()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        if step >= 4:  # the first ones are recorded whole
            waits[core.S.on].append(waited() - before)
    print("without %s" % " ".join(map(str, waits[False])))
    print("with %s" % " ".join(map(str, waits[True])))


def added(rows):
    """Of what the process printed: how many more a step waits with recording, on average."""
    without, recorded = ([int(n) for n in rows[name]] for name in ("without", "with"))
    return sum(recorded) / len(recorded) - sum(without) / len(without)


def check(build_folder, device, figures, call):
    """False where it could not be counted; None where there is no build or no double."""
    library = os.path.join(build_folder, "agents", "libtwinrun.so")
    driver = os.path.join(build_folder, "tests", "kernels", "libcuda_of_a_job.so")
    if not os.path.exists(library) or (device != "cuda" and not os.path.exists(driver)):
        print("waits: no build of the agent, or no double: ./dev build, or --build FOLDER")
        return None
    with tempfile.TemporaryDirectory() as folder:
        counting = build(folder, call) if device == "cuda" else os.path.abspath(driver)
        done = subprocess.run(
            [sys.executable, os.path.abspath(__file__), device, counting],
            env=dict(os.environ, TWINRUN_BUILD=os.path.abspath(build_folder)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
            timeout=600,
            check=False,
        )
    rows = {words[0]: words[1:] for words in map(str.split, done.stdout.splitlines()) if words}
    if done.returncode != 0 or not rows.get("with") or not rows.get("without"):
        print("waits: exit code %d\n%s" % (done.returncode, done.stderr[-2000:]))
        return False
    figures[bars.WAITS] = added(rows)
    marked = "" if device == "cuda" else " (a double of the driver)"
    print(
        "%s%s: %.2f; each step without: %s; with: %s"
        % (
            bars.WAITS,
            marked,
            figures[bars.WAITS],
            " ".join(rows["without"]),
            " ".join(rows["with"]),
        )
    )
    return True


if __name__ == "__main__":
    count(*sys.argv[1:])
