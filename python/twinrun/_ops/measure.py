# SPDX-License-Identifier: Apache-2.0
"""Measures rows of the catalogue in this process and prints one JSON object a line, beginning with
what it runs on.

    python measure.py '{"device": "cpu", "threads": [1, 2], "runs": 5, "names": [...], "cost":
    true}'

For each row: digests of the results, call by call and thread count by thread count; the same under
torch.use_deterministic_algorithms(True); and, with "cost", times of calls without and with it. A
line {"begin": name} precedes each row, so that the reader knows which one a crash or a halt belongs
to.
"""

import ctypes
import hashlib
import json
import os
import random
import sys
import time

import catalogue

ROUNDS, FEWEST_ROUNDS = 12, 8
ROUND_SECONDS = 0.5  # per row, for all rounds
SHORTEST_SECONDS = 1e-3  # a shorter call is timed several times at once


def say(**values):
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def digest(torch, results):
    """Of the bytes, layouts and types of the results of a call."""
    h = hashlib.blake2b(digest_size=16)
    for t in results if isinstance(results, (tuple, list)) else (results,):
        t = t.detach().cpu().contiguous()
        h.update(repr((tuple(t.shape), str(t.dtype))).encode())
        size = t.numel() * t.element_size()
        if size:
            h.update((ctypes.c_char * size).from_address(t.data_ptr()))
    return h.hexdigest()


def first_line(error):
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:300]


class Meter:
    def __init__(self, torch, plan):
        self.torch, self.plan = torch, plan
        self.cuda = plan["device"] == "cuda"

    def flag(self, on):
        self.torch.use_deterministic_algorithms(on)

    def wait(self):
        if self.cuda:
            self.torch.cuda.synchronize()

    def digests(self, call):
        return [digest(self.torch, call()) for _ in range(self.plan["runs"])]

    def seconds(self, call, times):
        self.wait()
        began = time.perf_counter()
        for _ in range(times):
            call()
        self.wait()
        return (time.perf_counter() - began) / times

    def rounds(self, call):
        """[without, with, without the flag], in seconds, many times over. In a drawn order: a fixed
        one would beat with the scheduler's time slices on a busy machine. The two without it tell
        what the machine does by itself.
        """
        once = self.seconds(call, 1)
        times = max(1, int(SHORTEST_SECONDS / max(once, 1e-7)))
        count = max(FEWEST_ROUNDS, min(ROUNDS, int(ROUND_SECONDS / (3 * once * times))))
        found, order = [], random.Random(1)
        for _ in range(count):
            times_of = [0.0, 0.0, 0.0]
            for which in order.sample(range(3), 3):
                self.flag(which == 1)
                times_of[which] = self.seconds(call, times)
            found.append(times_of)
        self.flag(False)
        return found

    def under_flag(self, call):
        """{"digests", "rounds"}, or {"raises"} where PyTorch refuses the operation."""
        try:
            self.flag(True)
            found = {"digests": self.digests(call)}
            if self.plan["cost"]:
                found["rounds"] = self.rounds(call)
            return found
        except RuntimeError as error:
            return {"raises": first_line(error)}
        finally:
            self.flag(False)

    def row(self, row):
        call = row.make(catalogue.Inputs(self.torch, self.plan["device"]))
        threads = {}
        for count in self.plan["threads"]:
            self.torch.set_num_threads(count)
            call()  # not counted: libraries choose and pack at the first call
            threads[str(count)] = self.digests(call)
        return {"name": row.name, "threads": threads, "flag": self.under_flag(call)}


def about(torch, plan):
    name = None
    if plan["device"] == "cuda":
        name = torch.cuda.get_device_name()
    elif hasattr(torch.backends, "cpu") and hasattr(torch.backends.cpu, "get_cpu_capability"):
        name = torch.backends.cpu.get_cpu_capability()
    say(
        about={
            "python": ".".join(map(str, sys.version_info[:3])),
            "torch": torch.__version__,
            "capability": name,
        }
    )


def main():
    plan = json.loads(sys.argv[1])
    import warnings

    import torch

    # what beta features PyTorch warns about is not the reader's concern
    warnings.simplefilter("ignore")
    if plan["device"] == "cuda" and not torch.cuda.is_available():
        say(failed="this PyTorch (%s) finds no usable CUDA device" % torch.__version__)
        return 1
    about(torch, plan)
    meter = Meter(torch, plan)
    wanted = set(plan["names"])
    for row in catalogue.ROWS:
        if row.name in wanted:
            say(begin=row.name)
            try:
                say(row=meter.row(row))
            except Exception as error:  # an operation that this PyTorch or device does not have
                say(row={"name": row.name, "error": first_line(error)})
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (KeyboardInterrupt, BrokenPipeError):
        os._exit(130)
