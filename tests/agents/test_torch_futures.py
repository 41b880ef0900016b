# SPDX-License-Identifier: Apache-2.0
"""Outputs of asynchronous collectives whose completion a job learns of otherwise than by wait(): it
polls, or it asks for a future and chains callbacks. What the job sees is what it sees unwatched.
"""

import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "python"))

from twinrun import trace  # noqa: E402

pytestmark = pytest.mark.usefixtures("light")

JOB = """
import os, sys, tempfile, time
import torch, torch.distributed as dist, torch.multiprocessing as mp

def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)

def given(rank, n):
    return torch.arange(float(n)) + rank

def main(rank, meet, by):
    dist.init_process_group("gloo", init_method="file://" + meet, rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(3)
    net = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    out = []
    for step in range(2):
        optimizer.zero_grad()
        net(torch.ones(1, 2)).sum().backward()
        polled, asked, chained, told = (given(rank, n) for n in (3, 4, 5, 6))
        go = meet + ".go%d" % step
        if rank == 1:
            until(lambda: os.path.exists(go))  # rank 0 has asked before this rank takes part
        work = dist.all_reduce(polled, async_op=True)
        if rank == 0:
            future = work.get_future()
            out.append((work.is_completed(), future.done()))
            open(go, "w").close()
        until(work.is_completed)
        out.append(polled.tolist())
        work.wait()
        future = dist.all_reduce(asked, async_op=True).get_future()
        out.append([t.tolist() for t in future.wait()] + [future.done()])
        factor = by if step and rank == 0 else 2
        last = dist.all_reduce(chained, async_op=True).get_future()
        last = last.then(lambda f: f.value()[0].mul_(factor)).then(lambda f: f.value() + 1)
        out.append((last.wait().tolist(), chained.tolist()))
        done = []
        work = dist.all_reduce(told, async_op=True)
        work.get_future().add_done_callback(lambda f: done.append(f.value()[0].add_(1).tolist()))
        work.wait()
        until(lambda: done)
        out.append(done)
        failing = dist.all_reduce(given(rank, 2), async_op=True).get_future().then(lambda f: 1 // 0)
        try:
            failing.wait()
        except Exception as error:
            out.append(type(error).__name__)
        optimizer.step()
    with open("%s.%d" % (sys.argv[3], rank), "w") as f:
        f.write(repr(out))
    time.sleep(0.5)  # gloo's thread drops its last work first: else PyTorch 2.13 may abort
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(main, args=(tempfile.mktemp(dir=sys.argv[1]), int(sys.argv[2])), nprocs=2)
"""


def outputs(folder):
    """[(step, name, elements, sum)] of what came out, and notes of what was not seen, of rank 0."""
    (path,) = (folder / "ranks").glob("0.*.twt")
    with trace.Trace.open(str(path)) as t:
        found = []
        for r in t.records():
            phase, kind, name = t.key(r)[:3]
            if (phase, kind) == ("collective", "out"):
                found.append((r.step, name, t.layouts[r.layout].shape[0], r.stats.sum))
        return found, [value for key, value in t.notes if key == b"exchange.unseen"]


def test_polled_and_chained(twinrun, script, work, python, home, tmp_path_factory):
    script("job.py", JOB)
    meet = tmp_path_factory.mktemp("meet")

    def said(name):
        return [(meet / ("%s.%d" % (name, rank))).read_text() for rank in (0, 1)]

    def record(name, by):
        before = set((home / "runs").iterdir()) if home.exists() else set()
        done = twinrun("record", "--no-telemetry", "--", python, "job.py", meet, by, meet / name)
        assert done.rc == 0, done
        (folder,) = (p for p in set((home / "runs").iterdir()) - before if p.is_dir())
        return folder

    one, other = record("one", "2"), record("other", "3")
    done = subprocess.run(
        [str(python), "job.py", str(meet), "2", str(meet / "alone")],
        cwd=work,
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert said("one") == said("alone")
    assert said("one")[0].startswith("[(False, False), [1.0, 3.0, 5.0]"), said("one")[0]

    found, unseen = outputs(one)
    behind = "all_reduce, behind callbacks"
    sums = [("all_reduce", 3, 9.0), ("all_reduce", 4, 16.0), (behind, 5, 50.0)]
    assert found == [(step, *s) for step in (0, 1) for s in sums]
    # a callback without a future behind it may change what came out at any moment
    assert unseen == [b"it did not wait for what a message or a collective brought"]

    done = twinrun("diff", "--json", one, other)
    first = done.json["first"]
    assert done.rc == 1 and (first["rank"], first["step"], first["name"]) == (0, 1, behind), first
    assert not any("diverged in the" in note for note in done.json["notes"]), done.json["notes"]
