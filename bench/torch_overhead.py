#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What watching costs a training step: paired in one process, recording switched on and off in turns.

Usage: torch_overhead.py [MODEL...]     models: mlp, cnn, transformer; default all
Environment: TWINRUN_BUILD, the build folder that holds agents/libtwinrun.so (default: build beside bench).

Prints rows `name value unit`. `*_overhead`: time of all steps with recording over time of all without, pairs with a step of
more than three times the median left out (somebody else had the CPU); `*_overhead_median`: median over pairs of neighbouring
steps. A ratio of 1.05 is 5% slower. The agent is armed in this process as under `twinrun`, at the default level; statistics and
sketches fall into some of the steps and are contained in the first figure.
"""
import os
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = {"mlp": 400, "cnn": 200, "transformer": 60}   # pairs of steps
SECONDS = int(os.environ.get("BENCH_SECONDS", 60))                                          # at most, for each


def arm(library):
    """As the launcher does it; then the same boot module that sitecustomize calls."""
    folder = tempfile.mkdtemp(prefix="twinrun-bench-")
    os.makedirs(os.path.join(folder, "ranks"))
    os.environ.update(TWINRUN_RUN_DIR=folder, TWINRUN_RUN_ID="0" * 32, TWINRUN_LIB=os.path.abspath(library),
                      TWINRUN_LEVEL="tensors")
    import importlib.util

    path = os.path.join(HERE, "..", "python", "twinrun", "_agent", "boot.py")
    spec = importlib.util.spec_from_file_location("_twinrun_boot", os.path.normpath(path))
    boot = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(boot)
    if not boot.arm():
        sys.exit("torch_overhead.py: the agent could not be armed with %s" % library)
    return folder


def mlp(torch):
    nn = torch.nn
    model = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    return model, lambda: (torch.randn(128, 784), torch.randint(0, 10, (128,)))


def cnn(torch):
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.1),
        nn.Linear(64 * 49, 10))
    return model, lambda: (torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,)))


def transformer(torch):
    nn = torch.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(1000, 256)
            layer = nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.1, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
            self.head = nn.Linear(256, 1000)

        def forward(self, x):
            return self.head(self.encoder(self.embed(x))).flatten(0, 1)

    return Model(), lambda: (torch.randint(0, 1000, (8, 64)), torch.randint(0, 1000, (512,)))


def measure(torch, name, pairs):
    core = sys.modules["_twinrun_agent.core"]
    torch.manual_seed(0)
    model, batch = globals()[name](torch)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x, y = batch()

    def step():
        began = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        return time.perf_counter() - began

    for _ in range(5):
        step()
    taken, end = [], time.monotonic() + SECONDS
    while len(taken) < pairs and (len(taken) < 10 or time.monotonic() < end):
        pair = {}
        for on in ((True, False), (False, True))[len(taken) % 2]:
            core.S.on = on
            pair[on] = step()
        core.S.on = True
        taken.append((pair[True], pair[False]))
    usual = statistics.median(off for _on, off in taken)
    calm = [(on, off) for on, off in taken if max(on, off) < 3 * usual]
    print("%s_parameters %d count" % (name, sum(p.numel() for p in model.parameters())))
    print("%s_pairs %d count" % (name, len(calm)))
    print("%s_step %.3f ms" % (name, 1000 * usual))
    print("%s_overhead %.4f ratio" % (name, sum(on for on, _off in calm) / sum(off for _on, off in calm)))
    print("%s_overhead_median %.4f ratio" % (name, statistics.median(on / off for on, off in calm)))


def main():
    names = [name for name in sys.argv[1:] if name != "--full"] or list(MODELS)
    if not set(names) <= set(MODELS):
        sys.exit(__doc__)
    build = os.environ.get("TWINRUN_BUILD") or os.path.join(HERE, "..", "build")
    folder = arm(os.path.join(build, "agents", "libtwinrun.so"))
    import torch

    print("torch %s version" % torch.__version__)
    print("torch_threads %d count" % torch.get_num_threads())
    for name in names:
        measure(torch, name, MODELS[name])
    sys.stdout.flush()
    import shutil

    sys.modules["_twinrun_agent.native"].library().close()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
