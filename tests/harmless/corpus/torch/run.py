# SPDX-License-Identifier: Apache-2.0
"""Runs several PyTorch jobs of this folder one after the other: PyTorch is imported once for all.

usage: run.py FILE [NAME...]: each function `job_NAME` of FILE, or those that are named. Before each
one all generators are seeded, after it what it left is digested: their state, the descriptors, the
hooks and settings of PyTorch. So a difference in one job cannot hide in the next.
"""

import gc
import hashlib
import importlib
import os
import random
import sys
import traceback
import warnings

import numpy
import torch

sys.path[:0] = [os.environ["CORPUS"], os.path.join(os.environ["CORPUS"], "torch")]
import seen


def digest(*values):
    """A short digest of tensors, modules' states and plain values, to the last bit."""
    sha = hashlib.sha256()

    def add(value):
        if isinstance(value, torch.nn.Module):
            value = value.state_dict()
        if isinstance(value, torch.Tensor):
            value = value.detach()
            sha.update(repr((value.dtype, tuple(value.shape))).encode())
            sha.update(
                value.contiguous().view(-1).view(torch.uint8).numpy().tobytes()
                if value.numel()
                else b""
            )
        elif isinstance(value, dict):
            for key in value:
                sha.update(str(key).encode())
                add(value[key])
        elif isinstance(value, (list, tuple)):
            for part in value:
                add(part)
        else:
            sha.update(repr(value).encode())

    for value in values:
        add(value)
    return sha.hexdigest()[:16]


def state():
    return (
        torch.get_num_threads(),
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.__future__.get_swap_module_params_on_conversion(),
        torch.is_autocast_enabled(),
    )


def main():
    jobs = importlib.import_module(sys.argv[1])
    names = sys.argv[2:] or [name[4:] for name in vars(jobs) if name.startswith("job_")]
    warnings.simplefilter("always")
    for name in names:
        print("==", name, flush=True)
        torch.manual_seed(1)
        numpy.random.seed(2)
        random.seed(3)
        try:
            getattr(jobs, "job_" + name)()
        except Exception:
            sys.stdout.flush()
            traceback.print_exc()
        gc.collect()
        print(
            name, "left", seen.generators(), state(), len(os.listdir("/proc/self/fd")), flush=True
        )
    seen.look("end")


if __name__ == "__main__":
    main()
