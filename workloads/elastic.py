# SPDX-License-Identifier: Apache-2.0
"""The same weights, bit for bit, on any number of ranks: a CNN with BatchNorm and dropout on
Fashion-MNIST.

    torchrun --nproc-per-node=2 elastic.py                  prints a digest of everything that was learned
    torchrun --nproc-per-node=3 elastic.py                  prints the same
    torchrun --nproc-per-node=3 elastic.py --plain          does not: DistributedDataParallel, as one writes it
    torchrun --nproc-per-node=2 elastic.py --until 5 --checkpoint c.pt; torchrun --nproc-per-node=3
    elastic.py --checkpoint c.pt

usage: elastic.py [--plain] [--steps N] [--microbatches N] [--batch N] [--until N] [--checkpoint
FILE] [--order R,R,...] [--noise]
                  [--data FOLDER] [--seed N]
"""

import argparse
import contextlib
import gzip
import hashlib
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

HERE = os.path.dirname(os.path.abspath(__file__))
try:
    from twinrun import seeds
except ImportError:  # not installed: from the checkout
    sys.path.insert(0, os.path.join(HERE, os.pardir, "python"))
    from twinrun import seeds
from twinrun.torch import DeterministicSampler, Embedding, ExactDDP, exact_allreduce, seed_all


def read_idx(folder, name):
    """Reads an IDX file of unsigned bytes (the format of MNIST), compressed or not: magic, sizes as
    big-endian u32, the values.
    """
    path = os.path.join(folder, name)
    with open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz", "rb") as f:
        raw = f.read()
    if raw[:3] != b"\x00\x00\x08":
        raise SystemExit(f"{path}: expected an IDX file of unsigned bytes")
    sizes = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(raw[3])]
    return torch.frombuffer(bytearray(raw[4 + 4 * len(sizes) :]), dtype=torch.uint8).reshape(sizes)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        # the gradient of a look-up is a sum over many equal indices
        self.levels = Embedding(256, 4)
        self.conv1, self.norm1 = nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.conv2, self.norm2 = nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.drop, self.head = nn.Dropout(0.25), nn.Linear(16 * 7 * 7, 10)

    def forward(self, pixels):
        x = self.levels(pixels).permute(0, 3, 1, 2)
        x = torch.relu(nn.functional.max_pool2d(self.norm1(self.conv1(x)), 2))
        x = torch.relu(nn.functional.max_pool2d(self.norm2(self.conv2(x)), 2))
        return self.head(self.drop(x.flatten(1)))


class Plain:
    """What ExactDDP stands for, with DistributedDataParallel: dropout of each microbatch and weight
    of its loss are as there, so that the sum over ranks, and BatchNorm's, are all that differs.
    """

    def __init__(self, net, microbatches, mine, seed):
        self.net = nn.parallel.DistributedDataParallel(net) if dist.is_initialized() else net
        self.microbatches, self.mine, self.seed, self.step = microbatches, mine, seed, 0
        self.weight = (dist.get_world_size() if dist.is_initialized() else 1) / microbatches

    def __call__(self, x):
        return self.net(x)

    @contextlib.contextmanager
    def microbatch(self, number):
        torch.manual_seed(
            seeds.seed(self.seed, "training/step=%d/microbatch=%d/torch" % (self.step, number))
        )
        last = number == self.mine[-1]
        if number == self.mine[0]:
            self.net.zero_grad()
        with contextlib.nullcontext() if last or not dist.is_initialized() else self.net.no_sync():
            yield

    def reduce(self):
        self.step += 1


def connect(order):
    """Joins the ranks that torchrun started, or not; `order`: the rank that each of them takes."""
    if "RANK" not in os.environ:
        return 0
    rank = int(os.environ["RANK"])
    dist.init_process_group(
        "gloo",
        rank=int(order.split(",")[rank]) if order else rank,
        world_size=int(os.environ["WORLD_SIZE"]),
    )
    return dist.get_rank()


def digest(net):
    state = hashlib.blake2b(digest_size=16)
    for name, value in net.state_dict().items():
        state.update(name.encode() + value.contiguous().numpy().tobytes())
    return state.hexdigest()


def save(path, ddp, optimizer, sampler, rank):
    if rank == 0:
        torch.save(
            {
                "ddp": ddp.state_dict(),
                "optimizer": optimizer.state_dict(),
                "sampler": sampler.state_dict(),
            },
            path,
        )


def train(ddp, optimizer, sampler, loader, args, rank):
    loss_of = nn.CrossEntropyLoss()
    while sampler.step < args.until:
        for share in sampler.steps(loader):
            losses = []
            for number, (pixels, target) in share:
                if args.noise:
                    time.sleep(os.urandom(1)[0] / 25600)
                with ddp.microbatch(number):
                    loss = loss_of(ddp(pixels), target)
                    losses.append(loss.detach())
                    (loss * getattr(ddp, "weight", 1)).backward()
            ddp.reduce()
            optimizer.step()
            sampler.done()
            mean = exact_allreduce(
                losses, contributions=args.microbatches, mean=True, out=torch.zeros(())
            )
            if rank == 0 and (sampler.step - 1) % 10 == 0:
                print(f"step {sampler.step - 1:3d}  loss {mean.item():.6f}", flush=True)
            if sampler.step >= args.until:
                break


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--microbatches", type=int, default=24)
    parser.add_argument("--batch", type=int, default=96)
    parser.add_argument("--until", type=int, help="stop there, of all steps")
    parser.add_argument(
        "--checkpoint", help="go on from there, if it exists, and save there at the end"
    )
    parser.add_argument("--order", help="ranks to take: 2,0,1")
    parser.add_argument("--noise", action="store_true", help="wait now and then")
    parser.add_argument("--data", default=os.path.join(HERE, "data"))
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.until = args.steps if args.until is None else args.until

    torch.set_num_threads(1)  # on any number of ranks
    rank = connect(args.order)
    seed_all(args.seed)
    data = TensorDataset(
        read_idx(args.data, "train-images-idx3-ubyte").int(),
        read_idx(args.data, "train-labels-idx1-ubyte").long(),
    )
    sampler = DeterministicSampler(data, args.batch, microbatches=args.microbatches, drop_last=True)
    loader, net = DataLoader(data, batch_sampler=sampler), Net()
    ddp = (
        Plain(net, args.microbatches, sampler.mine, args.seed)
        if args.plain
        else ExactDDP(net, args.microbatches)
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    if args.checkpoint and os.path.exists(args.checkpoint):
        state = torch.load(args.checkpoint)
        ddp.load_state_dict(state["ddp"])
        optimizer.load_state_dict(state["optimizer"])
        sampler.load_state_dict(state["sampler"])
    train(ddp, optimizer, sampler, loader, args, rank)
    if args.checkpoint:
        save(args.checkpoint, ddp, optimizer, sampler, rank)
    if rank == 0:
        print(f"digest {digest(net)}", flush=True)
    if dist.is_initialized():
        # gloo's thread drops its last work first: where Python ends before that, PyTorch 2.13
        # aborts
        time.sleep(0.5)
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
