#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What watching costs a training step: paired in one process, recording switched on and off in turns.

Usage: torch_overhead.py LIBTWINRUN [MODEL...]     models: mlp, cnn, transformer; default all

Prints rows `name value unit`: for each model the median, over pairs of neighbouring steps, of time with recording over time
without. A ratio of 1.05 is 5% slower. The agent is armed in this process as under `twinrun`, at the default level.
"""
import os
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = {"mlp": 240, "cnn": 120, "transformer": 30}


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
    ratios, plain = [], []
    for i in range(pairs):
        took = {}
        for on in ((True, False), (False, True))[i % 2]:
            core.S.on = on
            took[on] = step()
        core.S.on = True
        ratios.append(took[True] / took[False])
        plain.append(took[False])
    print("%s_parameters %d count" % (name, sum(p.numel() for p in model.parameters())))
    print("%s_step %.3f ms" % (name, 1000 * statistics.median(plain)))
    print("%s_overhead %.4f ratio" % (name, statistics.median(ratios)))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = arm(sys.argv[1])
    import torch

    print("torch %s version" % torch.__version__)
    print("torch_threads %d count" % torch.get_num_threads())
    for name in sys.argv[2:] or MODELS:
        measure(torch, name, MODELS[name])
    sys.stdout.flush()
    import shutil

    sys.modules["_twinrun_agent.native"].library().close()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
