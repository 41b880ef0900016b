#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What watching costs a training step: in one process, recording switched on and off in turns.

Usage: torch_overhead.py [MODEL...]     models: mlp, cnn, transformer, ddp (the default: these),
resnet, transformer100m (for a GPU)
Environment: TWINRUN_BUILD, the build folder that holds agents/libtwinrun.so (default: build beside
bench); BENCH_DEVICE, where the models are (default: cpu).

Prints rows `name value unit`. Steps go in turns without recording, with it, and with every element
of all weights and moments
recorded in each step (`whole`: what the first steps and the last of a process cost). `*_overhead`,
`*_whole`: time of all steps with
recording over time of all without, rounds with a step of more than three times the median left out
(somebody else had the CPU);
`*_median`: median over rounds; `*_cpu`: the same of processor time, all threads, which other
processes disturb less. A ratio of
1.05 is 5% slower. The agent is armed in this process as under `twinrun`, at the default level;
statistics and sketches fall
into some of the steps and are contained in the sums. `ddp`: the MLP under DistributedDataParallel on
three ranks of gloo, one thread each; the figures are rank 0's.
"""

import itertools
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# rounds of three steps
MODELS = {"mlp": 400, "cnn": 200, "transformer": 60, "ddp": 200}
LARGE = {"resnet": 100, "transformer100m": 60}
DEVICE = os.environ.get("BENCH_DEVICE", "cpu")
RANKS = 3
ORDERS = tuple(itertools.permutations(("off", "on", "whole")))
# at most, for each
SECONDS = int(os.environ.get("BENCH_SECONDS", 60))


def arm(library):
    """As the launcher does it; then the same boot module that sitecustomize calls."""
    folder = tempfile.mkdtemp(prefix="twinrun-bench-")
    os.makedirs(os.path.join(folder, "ranks"))
    os.environ.update(
        TWINRUN_RUN_DIR=folder,
        TWINRUN_RUN_ID="0" * 32,
        TWINRUN_LIB=os.path.abspath(library),
        TWINRUN_LEVEL="tensors",
    )
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
    model = nn.Sequential(
        nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
    )
    return model, lambda: (torch.randn(128, 784), torch.randint(0, 10, (128,)))


def cnn(torch):
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(64 * 49, 10),
    )
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


def resnet(torch):
    """Like ResNet-18, for pictures of 64 x 64."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, before, after, stride):
            super().__init__()
            self.path = nn.Sequential(
                nn.Conv2d(before, after, 3, stride, 1, bias=False),
                nn.BatchNorm2d(after),
                nn.ReLU(),
                nn.Conv2d(after, after, 3, 1, 1, bias=False),
                nn.BatchNorm2d(after),
            )
            self.short = nn.Conv2d(before, after, 1, stride, bias=False)

        def forward(self, x):
            return torch.relu(self.path(x) + self.short(x))

    widths, layers = (64, 64, 128, 128, 256, 256, 512, 512), [nn.Conv2d(3, 64, 7, 2, 3)]
    for i, width in enumerate(widths):
        stride = 2 if i in (2, 4, 6) else 1
        layers.append(Block(64 if i == 0 else widths[i - 1], width, stride))
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))
    return model, lambda: (torch.randn(64, 3, 64, 64), torch.randint(0, 1000, (64,)))


def transformer100m(torch):
    """12 layers of width 768: about 100 million parameters, a batch of 8 x 512 words."""
    nn = torch.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10000, 768)
            layer = nn.TransformerEncoderLayer(768, 12, 3072, dropout=0.1, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
            self.head = nn.Linear(768, 10000)

        def forward(self, x):
            return self.head(self.encoder(self.embed(x))).flatten(0, 1)

    return Model(), lambda: (torch.randint(0, 10000, (8, 512)), torch.randint(0, 10000, (4096,)))


def ddp(torch):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    model, batch = mlp(torch)
    return torch.nn.parallel.DistributedDataParallel(model), batch


def measure(torch, name, rounds):
    core, optim = sys.modules["_twinrun_agent.core"], sys.modules["_twinrun_agent.optim"]
    written = sys.modules["_twinrun_agent.written"]
    torch.manual_seed(0)
    model, batch = globals()[name](torch)
    model.to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x, y = (t.to(DEVICE) for t in batch())
    wait = torch.cuda.synchronize if DEVICE == "cuda" else lambda: None

    def step():
        wait()
        began, used = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        wait()  # the GPU's work of this step counts in this step
        return time.perf_counter() - began, time.process_time() - used

    for _ in range(20):  # beyond the first steps, which are whole
        step()
    # ranks end together: by the number of rounds
    taken, end = [], time.monotonic() + (float("inf") if name == "ddp" else SECONDS)
    while len(taken) < rounds and (len(taken) < 10 or time.monotonic() < end):
        found, at = {}, len(taken) % 6
        for mode in ORDERS[at]:
            core.S.on = mode != "off"
            # what the steps without recording did to the weights is not to be recorded as a line's
            # doing
            written.resync()
            optim._everything = lambda _followed, whole=mode == "whole": whole
            found[mode] = step()
        core.S.on = True
        taken.append(found)
    if os.environ.get("RANK", "0") != "0":
        return
    report(name, taken)
    print("%s_parameters %d count" % (name, sum(p.numel() for p in model.parameters())))


def report(name, taken):
    usual = statistics.median(found["off"][0] for found in taken)
    calm = [found for found in taken if max(wall for wall, _cpu in found.values()) < 3 * usual]
    print("%s_rounds %d count" % (name, len(calm)))
    print("%s_step %.3f ms" % (name, 1000 * usual))
    for mode, label in (("on", "overhead"), ("whole", "whole")):
        for clock, suffix in ((0, ""), (1, "_cpu")):
            ratio = sum(found[mode][clock] for found in calm) / sum(
                found["off"][clock] for found in calm
            )
            print("%s_%s%s %.4f ratio" % (name, label, suffix, ratio))
            median = statistics.median(found[mode][clock] / found["off"][clock] for found in calm)
            print("%s_%s%s_median %.4f ratio" % (name, label, suffix, median))


def measure_ranks():
    with socket.socket() as any_free:
        any_free.bind(("127.0.0.1", 0))
        port = any_free.getsockname()[1]
    ranks = []
    for rank in range(RANKS):
        env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_PORT=str(port))
        env["MASTER_ADDR"] = "127.0.0.1"
        ranks.append(subprocess.Popen([sys.executable, __file__, "ddp"], env=env))
    if any([rank.wait() for rank in ranks]):
        sys.exit("torch_overhead.py: a rank of ddp failed")


def main():
    names = [name for name in sys.argv[1:] if name != "--full"] or list(MODELS)
    if not set(names) <= {*MODELS, *LARGE}:
        sys.exit(__doc__)
    if "ddp" in names and "RANK" not in os.environ:
        measure_ranks()
        names.remove("ddp")
        if not names:
            return
    build = os.environ.get("TWINRUN_BUILD") or os.path.join(HERE, "..", "build")
    folder = arm(os.path.join(build, "agents", "libtwinrun.so"))
    import torch

    if "RANK" not in os.environ:
        print("torch %s version" % torch.__version__)
        print("torch_threads %d count" % torch.get_num_threads())
    for name in names:
        measure(torch, name, {**MODELS, **LARGE}[name])
    sys.stdout.flush()
    import shutil

    sys.modules["_twinrun_agent.native"].library().close()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
