# SPDX-License-Identifier: Apache-2.0
"""Messages and calls with a root of torch.distributed: what a record says of peer, root and group,
and which rank is named when a sum depends on the order in which messages arrive.
"""

import json
import os
import subprocess
import sys

import pytest

from conftest import FULL, recheck_last

HERE = os.path.dirname(os.path.abspath(__file__))
AGENT = os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")
sys.path.insert(0, AGENT)

from twinrun import trace  # noqa: E402

pytestmark = pytest.mark.usefixtures("light")

JOB = """
import sys, tempfile, time
import torch, torch.distributed as dist, torch.multiprocessing as mp

def main(rank, meet, order):
    dist.init_process_group("gloo", init_method="file://" + meet, rank=rank, world_size=3)
    torch.set_num_threads(1)
    torch.manual_seed(3)
    turned = dist.new_group([2, 0], sort_ranks=False)
    net = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        net(torch.ones(1, 4)).sum().backward()
        total, part, go = net.weight.grad / 3 * 10.0 ** -rank, torch.empty(2, 4), torch.zeros(1)
        if rank == 0:
            total.zero_()
            for source in order if step else (1, 2):  # who may send now: no race decides it
                dist.send(go, source, tag=5)
                if step == 2:
                    dist.irecv(part).wait()
                else:
                    dist.recv(part)
                total = 2 * total + part  # so the order of arrival decides
        else:
            dist.recv(go, 0, tag=5)
            dist.isend(total, 0).wait()
        dist.broadcast(total, 0)
        net.weight.grad.copy_(total)
        optimizer.step()
    if rank != 1:
        dist.broadcast(total, group_src=0, group=turned)
    dist.broadcast(total, group_src=0, group=turned) if rank == 1 else None  # no member
    dist.reduce(torch.ones(1) * rank, 1)
    dist.gather(torch.ones(1) * rank, [torch.zeros(1)] * 3 if rank == 2 else None, dst=2)
    dist.scatter(go, [torch.ones(1) * i for i in range(3)] if rank == 1 else None, src=1)
    time.sleep(0.5)  # gloo's thread drops its last work first: else PyTorch 2.13 may abort
    dist.destroy_process_group()

if __name__ == "__main__":
    meet = tempfile.mktemp(dir=sys.argv[1])
    mp.spawn(main, args=(meet, [int(r) for r in sys.argv[2]]), nprocs=3)
"""


@pytest.fixture
def recorded(twinrun, script, python, home, tmp_path_factory):
    """recorded(ORDER): the run folder of a job in which rank 0 gets messages in that order."""
    script("job.py", JOB)
    meet = tmp_path_factory.mktemp("meet")

    def record(order):
        before = set((home / "runs").iterdir()) if home.exists() else set()
        done = twinrun("record", "--no-telemetry", "--", python, "job.py", meet, order)
        assert done.rc == 0, done
        (folder,) = (p for p in set((home / "runs").iterdir()) - before if p.is_dir())
        return folder

    return record


def calls(folder, rank, step=None):
    (path,) = (folder / "ranks").glob("%d.*.twt" % rank)
    with trace.Trace.open(str(path)) as t:
        found = []
        for r in t.records():
            phase, kind, name, scope = t.key(r)[:4]
            if phase == "collective" and step in (None, r.step):
                found.append((kind, name, scope, t.string(t.series[r.series].op)))
        notes = [value.decode() for key, value in t.notes if key == b"group"]
    return found, notes


def test_who_diverged_and_who_only_took_it(twinrun, home, recorded):
    one, other, again = recorded("12"), recorded("21"), recorded("12")
    assert twinrun("diff", one, again).rc == 0
    done = twinrun("diff", "--json", one, other)
    assert done.rc == 1, done
    first, order = done.json["first"], done.json["order"]
    assert (first["rank"], first["name"], first["kind"]) == (0, "broadcast", "in"), first
    assert (first["step"], first["role"]) == (1, "unknown"), first
    notes = done.json["notes"]
    assert "carried to ranks 1, 2 from rank 0 by call 2 of broadcast, group 0" in notes, notes
    assert any("came to rank 0 from ranks 1, 2 in run 1 and from ranks 2, 1" in n for n in notes)
    assert [r["place"] for r in order["differing"]] == ["first", "carried", "carried"], order
    (one / "verdict.json").write_text(json.dumps(done.json))
    recheck_last(home)

    assert calls(one, 0, 1)[0] == [
        ("in", "send to rank 1, tag 5", "", "send"),
        ("out", "recv from rank 1, tag 0", "", "any source"),
        ("in", "send to rank 2, tag 5", "", "send"),
        ("out", "recv from rank 2, tag 0", "", "any source"),
        ("in", "broadcast", "", "root 0"),
    ]
    assert ("out", "irecv from rank 2, tag 0", "", "any source") in calls(one, 0, 2)[0]
    assert calls(one, 1, 1)[0] == [
        ("out", "recv from rank 0, tag 5", "", "recv"),
        ("in", "isend to rank 0, tag 0", "", "isend"),
        ("out", "broadcast", "", "root 0"),
    ]
    # the first rank of the group is rank 2 of the job, and rank 1 has no part in it
    (zero, of_zero), (one_, of_one), (two, of_two) = (calls(one, rank, 3) for rank in range(3))
    (group,) = {scope for _, _, scope, _ in zero if scope}
    assert of_zero == of_two == [group + " 2,0"] and of_one == []
    assert ("in", "broadcast", group, "root 2") in two
    assert ("out", "broadcast", group, "root 2") in zero
    assert all(not scope for _, _, scope, _ in one_)
    # what comes out of a call with a root is recorded where somebody gets it, and nowhere else
    assert [c[:2] for c in one_] == [
        ("in", "reduce"), ("out", "reduce"), ("in", "gather"),
        ("in", "scatter[0]"), ("in", "scatter[1]"), ("in", "scatter[2]"), ("out", "scatter"),
    ]  # fmt: skip
    assert [c[:2] for c in two][-6:] == [
        ("in", "reduce"), ("in", "gather"),
        ("out", "gather[0]"), ("out", "gather[1]"), ("out", "gather[2]"), ("out", "scatter"),
    ]  # fmt: skip


BUFFERS = """
import os, sys, tempfile, time
import torch, torch.distributed as dist, torch.multiprocessing as mp

def noise(n):
    return torch.frombuffer(bytearray(os.urandom(4 * n)), dtype=torch.float32)

def main(rank, meet, lie):
    dist.init_process_group("gloo", init_method="file://" + meet, rank=rank, world_size=2)
    torch.set_num_threads(1)
    w, other = torch.arange(4.0, requires_grad=True), 1 - rank
    for step in range(2):
        w.square().sum().backward()
        given = torch.ones(4) * (rank + step + 1)
        if lie == "lie" and step and rank == 1:
            given = noise(4)
        taken = given if rank else noise(4)
        dist.broadcast(taken, 1)
        kept = taken
        if lie == "functional":
            import torch.distributed._functional_collectives as functional
            kept = functional.broadcast(given if rank else noise(4), 1, dist.group.WORLD)
        got = noise(4)
        if rank:
            dist.send(given, other)
        else:
            dist.recv(got, other)
        every = [noise(4), noise(4)]
        dist.all_gather(every, taken)
        part, half, each = noise(2), noise(2), noise(4)
        dist.reduce_scatter_tensor(part, taken)
        dist.scatter(half, [taken[:2].clone(), taken[2:].clone()] if rank else None, src=1)
        dist.gather(half, [noise(2), noise(2)] if rank else None, dst=1)
        dist.all_to_all_single(each, taken)
        dist.barrier()
        with torch.no_grad():
            w -= 0.1 * (taken + each + kept + every[1])
    time.sleep(0.5)  # gloo's thread drops its last work first: else PyTorch 2.13 may abort
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(main, args=(tempfile.mktemp(dir=sys.argv[1]), sys.argv[2]), nprocs=2)
"""


RECEIVES = """
import sys, types
import torch, torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

sys.path.insert(0, sys.argv[1])
from twinrun._agent import ops

ops._torch = torch
dist.init_process_group("fake", store=FakeStore(), rank=2, world_size=4)
world = dist.group.WORLD
described = types.SimpleNamespace(from_a_root=(1, 2))
for group in (world, world.group_name, world.boxed(), "no group", 5):
    print([ops._only_receives(described, (None, root, group)) for root in (1, 2)])
"""


def test_who_only_receives(python):
    """However PyTorch hands over the group; of one that is not known nothing is left out."""
    done = subprocess.run(
        [python, "-c", RECEIVES, AGENT], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[True, False]"] * 3 + ["[False, False]"] * 2


OPERATIONS = ("--json", "--runs", "2", "--level", "ops", "--no-zoom", "--no-telemetry")


def test_what_a_buffer_holds_before_it_receives_is_no_input(
    twinrun, script, python, tmp_path, home
):
    script("buffers.py", BUFFERS)
    done = twinrun("check", *OPERATIONS, "--", python, "buffers.py", tmp_path, "truth")
    assert done.rc == 0 and done.json["outcome"] == "same", done
    # the byte that a barrier is given is nobody's: by chance alone it is the same in both runs
    for path in (home / "runs").glob("*/ranks/*.twt"):
        with trace.Trace.open(str(path)) as t:
            barrier = {t.key(r)[2] for r in t.records() if "c10d::barrier" in t.key(r)[2]}
        assert barrier == {"c10d::barrier.arguments"}, path
    done = twinrun("check", *OPERATIONS, "--", python, "buffers.py", tmp_path, "lie")
    assert done.rc == 1, done
    first = done.json["first"]
    assert (first["rank"], first["step"]) == (1, 1), first
    assert first["name"] == "broadcast" and first["kind"] == "in", first


@pytest.mark.skipif(not FULL, reason="the whole of PyTorch, four times: with --full")
def test_what_is_still_on_its_way_is_not_read(twinrun, script, python, tmp_path):
    """A functional collective returns before its result is there."""
    script("buffers.py", BUFFERS)
    done = twinrun("check", *OPERATIONS, "--", python, "buffers.py", tmp_path, "functional")
    assert done.json["first"] is None, done
