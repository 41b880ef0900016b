# SPDX-License-Identifier: Apache-2.0
"""Messages and calls with a root of torch.distributed: what a record says of peer, root and group,
and which rank is named when a sum depends on the order in which messages arrive.
"""

import json
import os
import sys

import pytest

from conftest import recheck_last

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "python"))

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
