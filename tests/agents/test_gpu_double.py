# SPDX-License-Identifier: Apache-2.0
"""The agent on a GPU's tensors, from PyTorch to the verdict, on a DOUBLE of the driver: kernels run
on the host (gpu_double/as_if_gpu.py). It says nothing about a GPU; tests/gpu/run does.
"""

import os
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TWINRUN_BUILD", ROOT / "build"))
DOUBLE = BUILD / "tests/kernels/libcuda_of_a_job.so"
IMAGE = BUILD / "agents/look.fatbin"
pytestmark = [
    pytest.mark.skipif(not DOUBLE.exists(), reason="no double of the driver in the build"),
    pytest.mark.skipif(
        not IMAGE.exists(), reason="the build has no kernels for a GPU: there was no nvcc"
    ),
]

START = """
    import sys
    sys.path.insert(0, %r)
    import torch, as_if_gpu
    torch.manual_seed(0)
    torch.set_num_threads(1)
""" % str(Path(__file__).parent / "gpu_double")

# Weights, gradients and results of every layout: transposed, sliced, expanded, complex, channels
# last, a sum's expanded gradient.
STRIDED = """
    if len(sys.argv) > 1:
        as_if_gpu.begin(sys.argv[1])

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
            self.wide = torch.nn.Parameter(torch.randn(7, 30).t())
            self.slice = torch.nn.Parameter(torch.randn(9, 9)[1::2, ::3])
            self.register_buffer("still", torch.randn(5).expand(3, 5))
            self.register_buffer("turned", torch.randn(4, 6, dtype=torch.complex64).t())
            self.register_buffer("flags", (torch.randn(6, 8) > 0)[:, 1::2])
            self.register_buffer("small", torch.randn(6, 8, dtype=torch.bfloat16)[::2])

        def forward(self, x):
            x = self.first(x.to(memory_format=torch.channels_last))
            return (x.mean((2, 3)).sum() * self.wide.t()).sum() + self.slice.sum()

    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for step in range(3):
        optimizer.zero_grad()
        net(torch.randn(2, 3, 6, 6).transpose(2, 3)).backward()
        optimizer.step()
    if len(sys.argv) > 1:
        as_if_gpu.report(sys.argv[2])
"""

# Memory that is written again as soon as the record returns, as a caching allocator's is, and
# tensors of which other ones lie in the same place in the next turn.
REUSED = """
    import twinrun
    if len(sys.argv) > 1:
        as_if_gpu.begin(sys.argv[1])
    for step in range(3):
        for turn in range(4):
            t = torch.randn(300, 7)
            twinrun.record("t", t.t() if turn % 2 else t)
            t.fill_(7.0)
            del t
        twinrun.step()
    if len(sys.argv) > 1:
        as_if_gpu.report(sys.argv[2])
"""

# Parts of a model on two GPUs, of which each is the current one in turn, with streams of their own;
# and a tensor on one of which the process has no context.
SEVERAL = """
    import twinrun
    if len(sys.argv) > 1:
        as_if_gpu.begin(sys.argv[1])
    for device in (1, 0):
        as_if_gpu.use(device)
        as_if_gpu.use_stream(device, 16 << device)
    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Linear(8, 3))
    for p in net[1].parameters():
        as_if_gpu.place(p.data, 1)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for step in range(4):
        as_if_gpu.use(step % 2)
        optimizer.zero_grad()
        net(torch.randn(5, 6)).sum().backward()
        for p in net[1].parameters():
            as_if_gpu.place(p.grad, 1)
        twinrun.record("there", as_if_gpu.place(torch.randn(30, 7), 1).t())
        twinrun.record("here", torch.randn(7, 3)[::2])
        if step == UNUSED:
            twinrun.record("unused", as_if_gpu.place(torch.randn(9), 2))
        optimizer.step()
        assert as_if_gpu.is_current(step % 2)
    if len(sys.argv) > 1:
        as_if_gpu.report(sys.argv[2])
"""

CAPTURED = """
    import twinrun
    as_if_gpu.begin(sys.argv[1])
    for step in range(2):
        as_if_gpu.capture(step == 1)
        twinrun.record("t", torch.ones(50, 3).t())
        as_if_gpu.capture(False)
        twinrun.step()
    print("done")
"""


def script(folder, text):
    path = folder / "job.py"
    path.write_text(textwrap.dedent(START) + textwrap.dedent(text))
    return path


def numbers(path):
    return {k: int(n) for k, n in (line.split() for line in path.read_text().splitlines())}


def both(twinrun, python, folder, text, *more):
    """check of the job on the host and on the double; what the double counted."""
    job = script(folder, text)
    words = [str(python), str(job)]
    counts = folder / "counts"
    there = words + [str(DOUBLE), str(counts)]
    result = twinrun(
        "check",
        "--json",
        *more,
        "--a",
        " ".join(words),
        "--b",
        " ".join(there),
        cwd=folder / "work",
    )
    return result, numbers(counts)


def test_every_layout_is_read_where_it_lies(twinrun, python, tmp_path, work, calm):
    """The device's digests are the host's, and nothing is copied to the host."""
    result, counted = both(twinrun, python, tmp_path, STRIDED, "--level", "modules")
    assert result.rc == 0, result
    assert result.json["outcome"] == "same", result
    assert counted["copied"] == 0
    assert counted["cuLaunchKernel"] > 30


def test_memory_that_is_written_again_at_once(twinrun, python, tmp_path, work, calm):
    """A record waits for what it reads: the next user of the memory does not get into a digest."""
    result, counted = both(twinrun, python, tmp_path, REUSED)
    assert result.json["outcome"] == "same", result
    assert counted["copied"] == 0
    assert counted["cuStreamSynchronize"] >= 12  # what is read early would be zeros


def test_tensors_of_several_devices(twinrun, python, tmp_path, work, calm):
    """Each is read in its device's context and behind its stream, which the double insists on."""
    result, counted = both(
        twinrun, python, tmp_path, SEVERAL.replace("UNUSED", "4"), "--level", "modules"
    )
    assert result.json["outcome"] == "same", result
    assert counted["copied"] == 0
    assert counted["cuMemAlloc_v2"] == 4  # scratch and results, of two devices


def test_a_device_without_a_context_gets_none(twinrun, python, tmp_path, work, calm):
    """Its tensors are copied to the host, as PyTorch does it."""
    text = SEVERAL.replace("UNUSED", "3")
    result, counted = both(twinrun, python, tmp_path, text)
    assert result.json["outcome"] == "same", result
    assert counted["copied"] == 1


def test_while_a_stream_is_captured_nothing_is_read(twinrun, python, tmp_path, work, calm):
    """There are no values then: unobserved, so two such runs are not called the same, and the job
    goes on.
    """
    job = script(tmp_path, CAPTURED)
    result = twinrun("check", "--json", "--runs", "2", "--", python, job, DOUBLE, cwd=work)
    assert result.rc == 3, result
    assert result.json["outcome"] == "inconclusive", result
    assert result.json["unseen"] == ["1 records of rank 0 whose contents could not be read"]
