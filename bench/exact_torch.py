#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What exact sums cost in PyTorch: sums by index against torch's own, training with ExactDDP
against DistributedDataParallel, and where its exchange spends its time.

Usage: exact_torch.py [index|training|exchange]...     default: the first two.     Environment: TWINRUN_BUILD, the build folder (default: build beside bench).

Everything is timed in turns, in one process (training: in two gloo ranks, one thread each). Prints
rows `name value unit`: medians of the ratios of neighbouring runs. index: processor times of
twinrun's functions over torch's, plain and with torch.use_deterministic_algorithms(True), on one
thread. training: steps per second of ExactDDP over those of DistributedDataParallel with the same
microbatches. exchange: the sum of 8 contributions as long as the MLP's gradients, in all, on 2 and
4 ranks, over torch's all-reduce of as many f32; and its parts, wall and processor time of rank 0.
"""

import contextlib
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("TWINRUN_BUILD") or os.path.join(HERE, "..", "build")
os.environ.setdefault(
    "TWINRUN_NUMERICS", os.path.join(BUILD, "src", "numerics", "libtwinnumerics.so")
)
sys.path.insert(0, os.path.join(HERE, "..", "python"))
from twinrun import torch as exact  # noqa: E402
from twinrun.torch import _library, _reduce  # noqa: E402

ROUNDS = 15


def seconds(call, clock=time.perf_counter):
    begin = clock()
    call()
    return clock() - begin


def deterministic(call):
    torch.use_deterministic_algorithms(True)
    try:
        call()
    finally:
        torch.use_deterministic_algorithms(False)


def compare(name, ours, plain):
    ways = ours, plain, lambda: deterministic(plain)
    for way in ways:
        way()
    # one thread: other work does not count
    rounds = [[seconds(way, time.thread_time) for way in ways] for _ in range(ROUNDS)]
    print("%s_time %.2f ms" % (name, 1e3 * statistics.median(r[0] for r in rounds)))
    print("%s_over_torch %.2f x" % (name, statistics.median(r[0] / r[1] for r in rounds)))
    print(
        "%s_over_deterministic %.2f x" % (name, statistics.median(r[0] / r[2] for r in rounds)),
        flush=True,
    )


def index():
    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(1)
    for kind, dtype in (("f32", torch.float32), ("f64", torch.float64)):
        for label, n, targets in (
            ("1e6_to_1e6", 10**6, 10**6),
            ("1e6_to_10", 10**6, 10),
            ("1e5_to_1e4", 10**5, 10**4),
        ):
            x, to = (
                torch.randn(n, generator=draw).to(dtype),
                torch.randint(0, targets, (n,), generator=draw),
            )
            zero = torch.zeros(targets, dtype=dtype)
            compare(
                "scatter_add_%s_%s" % (kind, label),
                lambda: exact.scatter_add(zero, 0, to, x),
                lambda: torch.scatter_add(zero, 0, to, x),
            )
            if targets == 10:
                compare(
                    "bincount_%s_%s" % (kind, label),
                    lambda: exact.bincount(to, x),
                    lambda: torch.bincount(to, x),
                )
        for label, n, targets, columns in (
            ("8192x64_to_1000", 8192, 1000, 64),
            ("8192x256_to_20000", 8192, 20000, 256),
            ("1e5x4_to_256", 10**5, 256, 4),
        ):
            x, to = (
                torch.randn(n, columns, generator=draw).to(dtype),
                torch.randint(0, targets, (n,), generator=draw),
            )
            table = torch.zeros(targets, columns, dtype=dtype, requires_grad=True)
            compare(
                "index_add_%s_%s" % (kind, label),
                lambda: exact.index_add(table.detach(), 0, to, x),
                lambda: torch.index_add(table.detach(), 0, to, x),
            )
            ours, plain = exact.embedding(to, table), torch.nn.functional.embedding(to, table)
            compare(
                "embedding_backward_%s_%s" % (kind, label),
                lambda: torch.autograd.grad(ours, table, x, retain_graph=True),
                lambda: torch.autograd.grad(plain, table, x, retain_graph=True),
            )
        x = torch.randn(10**6, generator=draw).to(dtype)
        compare("sum_%s_1e6" % kind, lambda: exact.exact_sum(x), lambda: torch.sum(x))
        x = x.reshape(1000, 1000)
        compare(
            "sum_%s_1000x1000_columns" % kind,
            lambda: exact.exact_sum(x, 0),
            lambda: torch.sum(x, 0),
        )
        compare(
            "sum_%s_1000x1000_rows" % kind, lambda: exact.exact_sum(x, 1), lambda: torch.sum(x, 1)
        )


# ---- training


def cnn():
    sys.path.insert(0, os.path.join(HERE, "..", "workloads"))
    import elastic

    return elastic.Net(), lambda: (torch.randint(0, 256, (16, 28, 28)), torch.randint(0, 10, (16,)))


def mlp():  # 1.9 million parameters
    layers = torch.nn.Sequential(
        torch.nn.Linear(784, 1024),
        torch.nn.ReLU(),
        torch.nn.Linear(1024, 1024),
        torch.nn.ReLU(),
        torch.nn.Linear(1024, 10),
    )
    return layers, lambda: (torch.randn(64, 784), torch.randint(0, 10, (64,)))


def rank_of(part, name, rank, world, place):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + place, rank=rank, world_size=world)
    {"training": measure_training, "exchange": measure_exchange}[part](name, rank)
    gc.collect()  # what holds the group goes before it does
    dist.destroy_process_group()


def measure_training(name, rank):
    exact.seed_all(1)
    loss_of = torch.nn.functional.cross_entropy
    (one, batch), (other, _) = globals()[name](), globals()[name]()
    plain, ours = torch.nn.parallel.DistributedDataParallel(one), exact.ExactDDP(other, 8)
    batches = [batch() for _ in ours.mine]
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9) for net in (one, other)]

    def plain_step():
        optimizers[0].zero_grad()
        for number, (x, y) in enumerate(batches):
            with contextlib.nullcontext() if number == len(batches) - 1 else plain.no_sync():
                (loss_of(plain(x), y) / len(batches)).backward()
        optimizers[0].step()

    def exact_step():
        for number, (x, y) in zip(ours.mine, batches):
            with ours.microbatch(number):
                loss_of(ours(x), y).backward()
        ours.reduce()
        optimizers[1].step()

    rounds = []
    for number in range(ROUNDS + 3):
        times = []
        for step in (plain_step, exact_step) if number % 2 else (exact_step, plain_step):
            dist.barrier()
            times.append(seconds(lambda: (step(), dist.barrier())))
        rounds.append(times if number % 2 else times[::-1])
    rounds = rounds[3:]
    if rank == 0:
        print("%s_plain_step %.2f ms" % (name, 1e3 * statistics.median(r[0] for r in rounds)))
        print("%s_exact_step %.2f ms" % (name, 1e3 * statistics.median(r[1] for r in rounds)))
        print(
            "%s_exact_throughput %.2f of DistributedDataParallel's"
            % (name, statistics.median(r[0] / r[1] for r in rounds)),
            flush=True,
        )


def measure_exchange(name, rank):
    """The parts are called one by one, with the arguments that _reduce.Sum gives them."""
    n, block, total = sum(p.numel() for p in mlp()[0].parameters()), 1024, 8
    group, memory = _reduce.Group(), _reduce.Memory()
    rows = [torch.randn(n) for _ in range(total // group.world)]
    out, plain, integers = torch.empty(n), torch.randn(n), torch.zeros(n, dtype=torch.int64)
    exponents = torch.zeros(-(-n // block), dtype=torch.uint8)
    code, at = _library.code(out.dtype), exponents.data_ptr()

    def find_exponents():
        for row in rows:
            _library.call("twin_fixed_exponents", code, row.data_ptr(), n, block, at)

    def to_integers():
        integers.zero_()
        to = integers.data_ptr()
        for row in rows:
            _library.call("twin_fixed_add", code, row.data_ptr(), n, block, total, at, None, to)

    def to_floats():
        _library.call(
            "twin_fixed_round",
            code,
            integers.data_ptr(),
            n,
            block,
            total,
            total,
            at,
            None,
            out.data_ptr(),
        )

    def reduce_integers():
        for piece in integers.split(_reduce._CHUNK):
            dist.all_reduce(piece)

    def whole():
        held = [len(rows)] * group.world
        one = _reduce.Sum(rows, out, held, total, group, block).start()
        _reduce.finish_all([one], memory)

    parts = {
        "all_reduce_f32": lambda: dist.all_reduce(plain),
        "whole": whole,
        "exponents": find_exponents,
        "exponents_all_reduce": lambda: dist.all_reduce(exponents, op=dist.ReduceOp.MAX),
        "to_integers": to_integers,
        "integers_all_reduce": reduce_integers,
        "to_floats": to_floats,
    }
    rounds = []
    for _ in range(ROUNDS + 2):
        plain.fill_(1.0)
        times = {}
        for part, call in parts.items():
            dist.barrier()
            begin = time.process_time()
            times[part] = seconds(call), time.process_time() - begin
        rounds.append(times)
    rounds = rounds[2:]
    if rank == 0:
        for part in parts:
            for i, clock in enumerate(("", "_processor")):
                took = statistics.median(r[part][i] for r in rounds)
                print("%s_%s%s %.2f ms" % (name, part, clock, 1e3 * took))
        ratio = statistics.median(r["whole"][0] / r["all_reduce_f32"][0] for r in rounds)
        print("%s_over_torch %.2f x" % (name, ratio), flush=True)


def on_ranks(part, name, world):
    with tempfile.TemporaryDirectory() as folder:
        own = [sys.executable, os.path.abspath(__file__), "--rank", part, name]
        ranks = [
            subprocess.Popen(
                own + [str(rank), str(world), os.path.join(folder, "meet")],
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
            for rank in range(world)
        ]
        if any([rank.wait() for rank in ranks]):
            raise SystemExit("exact_torch.py: a rank failed")


def training():
    for name in ("cnn", "mlp"):
        on_ranks("training", name, 2)


def exchange():
    for world in (2, 4):
        on_ranks("exchange", "exchange_%d_ranks" % world, world)


def main():
    if sys.argv[1:2] == ["--rank"]:
        part, name, rank, world, place = sys.argv[2:7]
        rank_of(part, name, int(rank), int(world), place)
        return
    for part in [a for a in sys.argv[1:] if not a.startswith("-")] or ["index", "training"]:
        {"index": index, "training": training, "exchange": exchange}[part]()


if __name__ == "__main__":
    main()
