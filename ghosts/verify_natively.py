#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows, without twinrun, that each ghost parts as its truth says and that its twin never does.

A throw-away witness runs the script in a process of its own and writes one line `step what name
sha256` for everything it can see; two runs part at the first line that differs. It shares no code
with twinrun, so it can bear witness against it. Ghosts whose last printed line is their result in
every bit are compared by that line alone. Usage: verify_natively.py [--pairs N] [NAME...]; prints
for job and twin how many pairs parted and where.
"""

import argparse
import hashlib
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections import Counter

import suite

HERE = os.path.dirname(os.path.abspath(__file__))
# Of neighbouring runs: a run-level cause of rate p parts twice for each run out of the common
# class.
RATES = {"always": (0.9, 1), "often": (0.2, 1), "rare": (0.05, 0.7), "never": (0, 0)}


# ---------------------------------------------------------------- the witness, in the process of
# the job


def digest(value):
    import torch

    if isinstance(value, torch.Tensor):
        value = value.detach()
        if value.is_sparse:
            value = value.coalesce().to_dense()
        data = (
            value.contiguous().view(torch.uint8).numpy().tobytes()
            if value.dim()
            else repr(value.item()).encode()
        )
        return hashlib.sha256(data).hexdigest()[:16]
    if isinstance(value, dict):
        value = [value[key] for key in sorted(value)]
    if isinstance(value, (list, tuple)):
        return hashlib.sha256("".join(digest(item) for item in value).encode()).hexdigest()[:16]
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def witness(path, script, arguments):
    """Runs the script under the witness; its lines go to PATH, or PATH.RANK for one of several
    processes.
    """
    import torch
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    rank = os.environ.get("RANK")
    out = open(path if rank is None else f"{path}.{rank}", "w", buffering=1)
    names, step = {}, [0]

    def see(what, name, value):
        mode = "" if torch.is_grad_enabled() or what in ("init", "weight") else "eval-"
        out.write(f"{step[0]} {mode}{what} {name} {digest(value)}\n")

    def learn(module):
        for name, parameter in module.named_parameters():
            if id(parameter) not in names:
                names[id(parameter)] = name
                see("init", name, parameter)
                if rank is not None:
                    parameter.register_post_accumulate_grad_hook(
                        lambda p, name=name: see("local", name, p.grad)
                    )

    def before_forward(module, inputs):
        learn(module)

    def after_forward(module, inputs, output):
        see("forward", type(module).__name__, output)

    def before_step(optimizer, *_):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    see("gradient", names.get(id(parameter), "?"), parameter.grad)

    def after_step(optimizer, *_):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                see("weight", names.get(id(parameter), "?"), parameter)
        see("rng", "torch", torch.get_rng_state())
        step[0] += 1

    fetch, start = _BaseDataLoaderIter.__next__, _BaseDataLoaderIter.__init__

    def watched_fetch(self):
        batch = fetch(self)
        see("data", "batch", batch)
        return batch

    def watched_start(self, loader):
        see("rng", "before-loader", torch.get_rng_state())
        start(self, loader)
        see("rng", "after-loader", torch.get_rng_state())

    backward = torch.Tensor.backward

    def leaves(node, seen):
        if node is None or node in seen:
            return
        seen.add(node)
        if hasattr(node, "variable"):
            yield node.variable
        for nxt, _ in node.next_functions:
            yield from leaves(nxt, seen)

    def watched_backward(self, *args, **kwargs):
        see("loss", "loss", self)
        found = list(leaves(self.grad_fn, set()))
        backward(self, *args, **kwargs)
        if not names:
            for i, leaf in enumerate(found):
                see("gradient", f"leaf{i}", leaf.grad)
            step[0] += 1

    torch.nn.modules.module.register_module_forward_pre_hook(before_forward)
    torch.nn.modules.module.register_module_forward_hook(after_forward)
    register_optimizer_step_pre_hook(before_step)
    register_optimizer_step_post_hook(after_step)
    _BaseDataLoaderIter.__next__, _BaseDataLoaderIter.__init__ = watched_fetch, watched_start
    torch.Tensor.backward = watched_backward
    sys.argv = [script] + arguments
    sys.path[0] = os.path.dirname(script)
    runpy.run_path(script, run_name="__main__")
    out.close()


# ---------------------------------------------------------------- the harness


def filled(argv, folder):
    """The command with its placeholders filled in, and where in it the script stands."""
    torchrun = os.path.join(os.path.dirname(sys.executable), "torchrun")
    return [part.format(python=sys.executable, torchrun=torchrun, here=folder) for part in argv]


def run(argv, folder, scratch, env, log):
    """Runs a ghost's command under the witness; returns its lines, output included, or raises."""
    argv = filled(argv, folder)
    script = next(i for i, part in enumerate(argv) if part.endswith(".py"))
    argv[script:script] = [os.path.abspath(__file__), "--witness", log]
    done = subprocess.run(
        argv, cwd=scratch, env={**os.environ, **env}, capture_output=True, text=True, timeout=300
    )
    if done.returncode:
        raise SystemExit(f"{argv}: exit {done.returncode}\n{done.stderr[-2000:]}")
    lines = []
    for name in sorted(os.listdir(scratch)):
        if name.startswith(os.path.basename(log)):
            suffix = name[len(os.path.basename(log)) :]
            with open(os.path.join(scratch, name)) as text:
                lines += [
                    f"rank{suffix} {line}".strip() if suffix else line.strip() for line in text
                ]
    return lines, done.stdout


def by_step(lines):
    """Witness lines of several ranks in the order of their steps (stable within a rank)."""
    return sorted(
        lines,
        key=lambda line: int(line.split()[1]) if line.startswith("rank") else int(line.split()[0]),
    )


def first_difference(a, b):
    for x, y in zip(by_step(a), by_step(b)):
        if x != y:
            return " ".join(x.split()[:-1]) + (
                "" if x.split()[:-1] == y.split()[:-1] else " | " + " ".join(y.split()[:-1])
            )
    return None if len(a) == len(b) else "length"


def drop_seam(lines, first_step):
    """Lines of a continuous run from the seam on, its steps counted from 0, as a resumed run counts
    them.
    """
    kept = []
    for line in lines:
        step, rest = line.split(" ", 1)
        if int(step) >= first_step:
            kept.append(f"{int(step) - first_step} {rest}")
    return kept


def runs_of(name, truth, variant, pairs):
    """Yields pairs of (lines, printed output): neighbouring runs of one command, or one run of each
    arm.
    """
    folder = os.path.join(HERE, name)
    arms, env = truth[variant], truth.get("env", {})
    before = None
    for i in range(pairs + ("argv" in arms)):
        scratch = tempfile.mkdtemp(prefix="ghost-")
        try:
            for argv in arms.get("prepare", []):
                subprocess.run(filled(argv, folder), cwd=scratch, check=True, capture_output=True)
            if "argv" in arms:
                now = run(arms["argv"], folder, scratch, env, os.path.join(scratch, "witness"))
                if before:
                    yield before, now
                before = now
            else:
                yield tuple(
                    run(arms[arm], folder, scratch, env, os.path.join(scratch, "witness-" + arm))
                    for arm in "ab"
                )
        finally:
            shutil.rmtree(scratch)


def verify(name, truth, variant, pairs):
    seam = truth.get("native", {}).get("seam", 0)
    where, printed = Counter(), 0
    for (lines_a, out_a), (lines_b, out_b) in runs_of(name, truth, variant, pairs):
        # arms may evaluate at other times: training is what is compared
        if variant == "twin" and "a" in truth[variant]:
            lines_a, lines_b = (
                [line for line in lines if " eval-" not in line] for lines in (lines_a, lines_b)
            )
        if seam:
            lines_a = drop_seam(lines_a, seam)
            lines_b = [line for line in lines_b if " init " not in line]
        where[first_difference(lines_a, lines_b)] += 1
        printed += out_a != out_b
    parted = pairs - where[None]
    print(
        f"{name:24} {variant:5} parted {parted}/{pairs}, printed output parted {printed}/{pairs}",
        flush=True,
    )
    for place, count in where.most_common(4):
        if place:
            print(f"{'':24}   {count:3} x  {place}", flush=True)
    return parted, where


def verify_result(name, truth, variant, pairs):
    """A ghost that prints its result in every bit needs no witness: neighbouring runs, or the arms,
    agree in the last line or not.
    """
    parted = 0
    with tempfile.TemporaryDirectory(prefix="ghost-") as folder:
        staged = suite.Staged(name, truth, variant, folder)
        commands = (
            [staged.argv, staged.argv] if staged.argv else [staged.arms["a"], staged.arms["b"]]
        )
        before = staged.result(commands[0])
        for _ in range(pairs):
            now = staged.result(commands[1])
            parted += now != before
            before = now if staged.argv else staged.result(commands[0])
    print(f"{name:24} {variant:5} parted {parted}/{pairs}", flush=True)
    return parted


def wrong_result(truth, variant, parted, pairs):
    """What the rate of a ghost that prints its result ought to have been; empty: it is that."""
    low, high = RATES[truth["rate"]] if variant == "job" else RATES["never"]
    return (
        "" if low * pairs <= parted <= high * pairs else f"expected {low:.0%} to {high:.0%} to part"
    )


def main():
    if len(sys.argv) > 3 and sys.argv[1] == "--witness":
        return witness(sys.argv[2], sys.argv[3], sys.argv[4:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--variant", choices=["job", "twin", "both"], default="both")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    bad = 0
    truths = suite.truths()
    for name in args.names or truths:
        truth = truths[name]
        for variant in ("job", "twin") if args.variant == "both" else (args.variant,):
            if "twin" not in truth:
                if variant == "job" or "fix" in truth:
                    wrong = wrong_result(
                        truth, variant, verify_result(name, truth, variant, args.pairs), args.pairs
                    )
                    bad += bool(wrong)
                    print(f"{'':24}   WRONG: {wrong}\n" if wrong else "", end="")
                continue
            parted, where = verify(name, truth, variant, args.pairs)
            expected = variant == "job" and truth["outcome"] == "differ"
            wanted = truth.get("native", {}).get("first", ".")
            if expected and (
                parted < 0.95 * args.pairs
                or not re.search(wanted, where.most_common(1)[0][0] or "")
            ):
                bad += 1
                print(f"{'':24}   WRONG: expected at least 95% to part at /{wanted}/")
            elif not expected and parted:
                bad += 1
                print(f"{'':24}   WRONG: expected none to part")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
