# SPDX-License-Identifier: Apache-2.0
"""Ranks of one run that hold the same shard, or the same tensor, as DTensor's placements on a mesh
say: what `show` says of real jobs over gloo. Without the fixture `light`, as DTensor imports what
that leaves out.
"""

import os
import subprocess
import sys
import types

import pytest

from conftest import FULL
from test_replicas import record, said

HERE = os.path.dirname(os.path.abspath(__file__))
JOB = os.path.join(HERE, "torch_jobs", "mesh_replicas.py")
AGENT = os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")
sys.path.insert(0, AGENT)

from twinrun._agent import replicas, tensors  # noqa: E402

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("calm")


def over(dimensions, text):
    many = "s" if "+" in dimensions else ""
    keeper = "DTensor, replicated over mesh dimension%s %s" % (many, dimensions)
    return "%s (%s)%s" % (text[0], keeper, text[1])


def mesh_said(home, what):
    return said(record(home, what, 4, JOB))


def test_one_bit_of_one_replica_of_a_shard(tmp_path):
    """fully_shard on a mesh of two dimensions: each shard is held by two ranks. Where one pair
    drifts the other one is still equal.
    """
    assert mesh_said(tmp_path, "flip") == [
        over("dp", ("ranks 0, 2 should hold equal weights", " and do not: 0.weight"))
        + " is first seen to differ after step 2; 1 of 4 weights differ, in 2 of 4 steps",
        over("dp", ("ranks 1, 3 hold equal weights", ": 4 of them, in 4 steps")),
    ]


def test_replicas_of_shards_that_begin_apart(tmp_path):
    """fully_shard sends no weights, unlike DDP: ranks that are seeded otherwise stay apart. How they
    began is not held against them: they may have loaded a checkpoint since.
    """
    assert mesh_said(tmp_path, "seeds") == [
        over("dp", ("ranks %s should hold equal weights" % ranks, " and do not: 0.weight"))
        + " is first seen to differ after step 0; 4 of 4 weights differ, in 4 of 4 steps"
        for ranks in ("0, 2", "1, 3")
    ]


@pytest.mark.skipif(not FULL, reason="test_who_holds_it_alike has the rule; runs with --full")
def test_terms_of_a_sum_may_differ(tmp_path):
    assert mesh_said(tmp_path, "partial") == []


@pytest.mark.skipif(not FULL, reason="test_who_holds_it_alike has the rule; runs with --full")
def test_replicated_over_both_dimensions(tmp_path):
    assert mesh_said(tmp_path, "both") == [
        over("dp+shard", ("ranks 0, 1, 2, 3 should hold equal weights", " and do not: weight"))
        + " is first seen to differ after step 2, where rank 2 differs from the other 3, which "
        "agree; 1 of 1 weights differ, in 2 of 4 steps"
    ]


class Shard:
    pass


class Replicate:
    pass


class Partial:
    pass


class Other:
    pass


@pytest.mark.parametrize(
    "placements, rank, found",
    [
        ((Replicate, Shard), 2, ("DTensor/dp", [0, 2])),
        ((Shard, Replicate), 2, ("DTensor/t_p", [2, 3])),
        ((Replicate, Replicate), 1, ("DTensor/dp+t_p", [0, 1, 2, 3])),
        ((Shard, Shard), 0, None),
        ((Partial, Shard), 0, None),
        ((Replicate, Partial), 0, None),
        ((Replicate, Other), 0, None),
        ((Replicate,), 0, None),
    ],
)
def test_who_holds_it_alike(monkeypatch, placements, rank, found):
    def mesh_of(shape, ranks, names):
        at = (rank // shape[1], rank % shape[1])
        return types.SimpleNamespace(
            shape=shape,
            mesh=types.SimpleNamespace(tolist=lambda: ranks),
            mesh_dim_names=names,
            get_coordinate=lambda: at,
        )

    made = tuple(p() for p in placements)
    monkeypatch.setattr(tensors, "_torch", torch)
    monkeypatch.setattr(replicas.S, "rank", rank)
    mesh = mesh_of((2, 2), [[0, 1], [2, 3]], ("dp", "t p"))
    assert replicas._over(mesh, made) == found
    # a dimension of one rank holds nothing twice; another process than the mesh says is in no group
    mesh = mesh_of((1, 4), [[0, 1, 2, 3]], None)
    if placements == (Replicate, Shard):
        assert replicas._over(mesh, made) is None
    if placements == (Shard, Replicate):
        assert replicas._over(mesh, made) == ("DTensor/1", [0, 1, 2, 3])
        monkeypatch.setattr(replicas.S, "rank", 9)
        assert replicas._over(mesh, made) is None


def said_by(program):
    done = subprocess.run(
        [sys.executable, "-c", IN_A_MESH + program, AGENT],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


IN_A_MESH = """
import sys, types, weakref
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

sys.path.insert(0, sys.argv[1])
from twinrun._agent import core, naming, replicas, tensors, written

tensors._torch, replicas.S.rank = torch, 2
dist.init_process_group("fake", store=FakeStore(), rank=2, world_size=4)
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "shard"))
"""

UNDER_MODES = """
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

seen = []

class Watching(TorchDispatchMode):
    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        seen.append(str(operation))
        return operation(*args, **(kwargs or {}))

class Shard: pass
class Replicate: pass

with FakeTensorMode(), Watching():
    print(replicas._over(mesh, (Replicate(), Shard())))
print(seen)
"""


def test_modes_of_the_job_see_nothing_of_it():
    """A job may have modes around optimizer.step(), where meshes are looked at; newer versions
    compute the ranks of a mesh with operations.
    """
    assert said_by(UNDER_MODES) == ["('DTensor/dp', [0, 2])", "[]"]


STEPS = """
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

class Parameters(list):
    walks = 0

    def __iter__(self):
        self.walks += 1
        return super().__iter__()

class Root:
    def __init__(self, label, count):
        place = [Replicate(), Shard(0)]
        self.held = [
            torch.nn.Parameter(distribute_tensor(torch.ones(4, 4), mesh, place)) for _ in range(count)
        ]
        self.label = label
        self.parameters = Parameters(
            ("p%d" % i, weakref.ref(p), "") for i, p in enumerate(self.held)
        )
        naming.roots[label] = self

    def reference(self):
        return self

def optimizer(parameters):
    return types.SimpleNamespace(ids=[id(p) for p in parameters], placed_at=None)

def step(*stepped):
    for one in stepped:
        replicas.stepping(one)
    replicas.S.step += 1

notes, looks, layout = [], [], replicas._layout
core.note = lambda key, text: notes.append(key + " " + text.replace("\\n", " "))
replicas._layout = lambda p: looks.append(1) or layout(p)
net, teacher = Root("Net", 3), Root("Teacher", 2)
"""
LOOKS = """
every = [optimizer([p]) for p in net.held]
step(*every)
looks.clear()
net.parameters.walks = teacher.parameters.walks = 0
for _ in range(4):
    step(*every)
print(len(looks), net.parameters.walks, teacher.parameters.walks)
every[0].ids, every[0].placed_at = [id(teacher.held[0])], None  # as optim.py does
step(*every)
net.held[1] = None
step(*every)
print(*notes, sep="\\n")
"""
OTHER_RANK = """
replicas.S.rank = 0  # the job counts its processes otherwise than torch
step(optimizer(net.held))
print(notes)
"""


def test_an_optimizer_for_each_parameter():
    """All placements are looked at once in a step, and a model that nobody trains is not walked."""
    assert said_by(STEPS + LOOKS) == [
        "12 0 0",
        "replica DTensor/dp 0,2 0 0 3 Net p0 p1 p2",
        "replica DTensor/dp 0,2 5 0 2 Teacher p0 p1",
        "replica.end 6 0,2 Net",
    ]


def test_ranks_of_the_job_that_are_not_torchs():
    assert said_by(STEPS + OTHER_RANK) == ["[]"]
