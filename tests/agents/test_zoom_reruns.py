# SPDX-License-Identifier: Apache-2.0
"""A zoom makes two reruns, the second of which runs the suspect again by itself; and where it could
not, for whatever reason, a second pair that is told.
"""

import importlib
import os
import random
import sys
import types
from pathlib import Path

import pytest
from conftest import ROOT
from test_transplant import survivors
from test_vote import CORES, JOB, MODEL

pytestmark = pytest.mark.usefixtures("light")
two_cores = pytest.mark.skipif(len(CORES) < 2, reason="one core")

NOISE = JOB[: JOB.index("weight =")] + MODEL
SAID = "ghost::scale, run again %d times on its recorded inputs, gave another result %d times: it is not deterministic"


def checked(twinrun, script, python, before, *more):
    """A check of the job whose operation is noise, and its reruns by name: zoom_a, zoom_b."""
    script("job.py", before + NOISE)
    ghost = ["env", "GHOST=operation", f"GHOST_CORE={CORES[-1]}"]
    done = twinrun("check", "--json", "--runs", "2", *more, "--", *ghost, python, "job.py")
    assert done.rc == 1, done
    home = os.path.dirname(done.json["runs_dir"][0])
    reruns = [os.path.join(home, n) for n in sorted(os.listdir(home)) if "-zoom" in n]
    return done, reruns


def replayed(done):
    (claim,) = [c for c in done.json["claims"] if c["claim"] == "transplant"]
    assert done.json["first"]["op"] == "ghost::scale", done
    assert SAID % (claim["replays"], claim["disagree"]) in done.json["notes"], done
    assert list(survivors(done.json)) == []
    return claim


def sizes_are_exact(done):
    (claim,) = [c for c in done.json["claims"] if c["claim"] == "size"]
    return "max_ulp" in claim and "changed" in claim


@two_cores
def test_two_reruns_are_enough(twinrun, script, python):
    done, reruns = checked(twinrun, script, python, "")
    claim = replayed(done)
    assert len(reruns) == 2 and claim["replays"] == 20, done
    assert claim["call"] == "0:0:ghost::scale@Net", claim
    assert sizes_are_exact(done), done
    # the suspect's values are there, and nothing else of what was kept
    assert [sorted(os.listdir(os.path.join(r, "values"))) for r in reruns] == [
        ["0.s0.o0.out0.raw"],
        ["0.s0.o0.in0.raw", "0.s0.o0.out0.raw"],
    ]


@two_cores
@pytest.mark.parametrize(
    "what",
    [
        # its output is larger than what is left of the room
        "room = 'TWINRUN_ZOOM_KEEP'\nif 'TWINRUN_ZOOM_OP' not in os.environ and room in os.environ:"
        "\n    os.environ[room] = '8'\n",
        # what the first rerun has written ends in the middle of a row
        "other = os.environ.get('TWINRUN_ZOOM_AGAINST')\nif other:\n    import glob\n"
        "    os.truncate(glob.glob(other + '/values/*.calls')[0], 41)\n",
        # it is gone
        "other = os.environ.get('TWINRUN_ZOOM_AGAINST')\nif other:\n    import glob\n"
        "    os.unlink(glob.glob(other + '/values/*.calls')[0])\n",
        # it says nonsense: no call is found in it
        "other = os.environ.get('TWINRUN_ZOOM_AGAINST')\nif other:\n    import glob\n"
        "    name = glob.glob(other + '/values/*.calls')[0]\n"
        "    size = os.path.getsize(name)\n    open(name, 'wb').write(b'n' * size)\n",
        # the folder is another one
        "if 'TWINRUN_ZOOM_AGAINST' in os.environ:\n    os.environ['TWINRUN_ZOOM_AGAINST'] = '/none'\n",
    ],
    ids=["room", "cut", "gone", "nonsense", "elsewhere"],
)
def test_else_a_second_pair_is_told(what, twinrun, script, python):
    done, reruns = checked(twinrun, script, python, "import os\n" + what)
    claim = replayed(done)
    assert len(reruns) >= 4 and claim["replays"] == 40 and "call" not in claim, done
    assert [p for r in reruns for p in Path(r).glob("values/*.[ck]*")] == []  # .calls, .kept


WRITES = """
import torch
torch.manual_seed(0)
library = torch.library.Library("ghost", "DEF")
library.define("steal(Tensor x) -> Tensor")
def steal(x):
    y = x.clone()
    y.view(-1)[0] += int.from_bytes(__import__("os").urandom(2), "big")
    x.zero_()
    return y
library.impl("steal", steal, "CPU")
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4))
    def forward(self, x):
        return (self.weight * torch.ops.ghost.steal(x)).sum()
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.utils.data.DataLoader(torch.randn(6, 4), batch_size=None):
    opt.zero_grad()
    net(x).backward()
    opt.step()
"""


def test_what_wrote_to_its_inputs_in_secret_is_not_run_again_on_them(twinrun, script, python):
    """The call's inputs are gone by then: a second pair copies them before."""
    script("job.py", WRITES)
    done = twinrun("check", "--json", "--runs", "2", "--", python, "job.py")
    (claim,) = [c for c in done.json["claims"] if c["claim"] == "transplant"]
    assert claim["replays"] == 40 and "call" not in claim, done
    assert list(survivors(done.json)) == []


PRINTS = """
import os, random, torch
torch.manual_seed(0)
random.seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5))
opt = torch.optim.Adam(net.parameters(), lr=0.1)
for step in range(3):
    opt.zero_grad()
    loss = net(torch.randn(16, 8)).pow(2).mean()
    loss.backward()
    opt.step()
    print(step, loss.item().hex(), random.random())
print(sorted(map(str, net.state_dict().values())))
"""


def test_a_job_that_keeps_its_calls_computes_the_same(twinrun, script, python):
    script("job.py", PRINTS)
    alone = twinrun("record", "-q", "--", python, "job.py")
    keeping = twinrun(
        "record", "-q", "--level", "ops", "--", "env", "TWINRUN_ZOOM_KEEP=9999", python, "job.py"
    )
    assert alone.rc == keeping.rc == 0 and alone.out == keeping.out and alone.out, keeping


# ---------------------------------------------------------------- rows and values, by themselves


@pytest.fixture
def reruns(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(ROOT / "python" / "twinrun"))
    for name in [n for n in sys.modules if n.startswith("_agent")]:
        monkeypatch.delitem(sys.modules, name)
    module = importlib.import_module("_agent.reruns")
    monkeypatch.setenv("TWINRUN_RUN_DIR", str(tmp_path))
    module.torch = torch
    return module


def test_what_is_kept_and_what_differs(reruns, tmp_path):
    torch, ones = reruns.torch, reruns.torch.ones(4)
    a = reruns.Calls(40, None)
    a.keep(1, [(10, ones), (11, None)])
    a.keep(2, [(20, 2 * ones)])
    a.keep(3, [(30, 3 * ones)])  # no room
    a.keep(4, [(40, torch.ones(2))])
    a.write()
    (rows,) = (tmp_path / "values").glob("*.calls")
    (kept,) = (tmp_path / "values").glob("*.kept")
    found = list(reruns.ROW.iter_unpack(rows.read_bytes()))
    none = reruns.NOT_KEPT
    assert found == [
        (1, 10, 0, 16, 0, 2),
        (1, 11, none, 0, 1, 2),
        (2, 20, 16, 16, 0, 1),
        (3, 30, none, 16, 0, 1),
        (4, 40, 32, 8, 0, 1),
    ]
    assert kept.read_bytes() == torch.cat([ones, 2 * ones, torch.ones(2)]).numpy().tobytes()
    b = reruns.Calls(40, str(tmp_path))
    assert b.differs(1, [(10, None), (11, None)]) is False
    assert b.differs(9, [(90, None)]) is None  # its own alone
    assert b.differs(3, [(30, None)]) is False  # the other one's call before it is passed over
    assert b.differs(2, [(21, None)]) is None  # and does not come back
    assert b.differs(4, [(41, None)]) is True
    assert b.differs(4, [(40, None)]) is None


def test_a_later_step_takes_the_room_of_the_one_before(reruns):
    torch = reruns.torch
    a = reruns.Calls(32, None)
    a.keep(1, [(10, torch.ones(6))])
    a.step_ends()
    a.keep(2, [(20, torch.ones(2))])  # behind it
    rows = lambda: [reruns.ROW.unpack_from(a.rows, i * 40)[2] for i in range(a.count)]
    assert rows() == [0, 24]
    a.keep(3, [(30, torch.full((4,), 3.0))])
    a.keep(4, [(40, torch.ones(4))])  # now it is full
    assert rows() == [reruns.NOT_KEPT, 24, 0, reruns.NOT_KEPT]
    assert bytes(a.values[:16]) == torch.full((4,), 3.0).numpy().tobytes()


def test_two_processes_of_a_rank_are_not_told_apart(reruns, tmp_path):
    values = tmp_path / "values"
    values.mkdir()
    for pid in (1, 2):
        (values / f"0.{pid}.calls").write_bytes(bytes(40))
    with pytest.raises(OSError, match="2 processes of rank 0"):
        reruns.Calls(40, str(tmp_path))


@pytest.mark.parametrize("draws", [False, True])
def test_who_draws_in_secret_is_not_run_again(draws, reruns, monkeypatch):
    replay, torch, said = sys.modules["_agent.replay"], reruns.torch, []
    monkeypatch.setattr(replay.tensors, "_torch", torch)
    monkeypatch.setattr(replay, "digests_at_once", lambda values: [str(t.tolist()) for t in values])
    monkeypatch.setattr(replay, "digests", lambda values: [str(t.tolist()) for t in values])
    monkeypatch.setattr(replay.core, "note", lambda key, text: said.append((key, text)))
    monkeypatch.setattr(replay.vote, "hold", lambda *_: None)
    monkeypatch.setattr(replay.Held, "_outputs", lambda self, args, kwargs, result: [result])
    replay.set_room(0)
    described = types.SimpleNamespace(
        name="aten::neg", writes=[], may_draw=False, among_ranks=False, collective=False
    )
    x = torch.ones(2)

    def neg(t):
        return -t * (random.random() if draws else 1)

    held = replay.Held(neg, (x,), {}, [x], 0, described, True)
    made, state = neg(x), random.getstate()
    held.finish([made])
    told = [pair for pair in said if not pair[1].startswith(("in", "out"))]
    secret = ("zoom.left_out", "aten::neg drew from a generator")
    assert told == [secret if draws else ("zoom.replay", "aten::neg 20 0")]
    assert random.getstate() == state


# Rank 0 is done at once; rank 1, where the noise is first, never gets to its step in a rerun.
TWO_RANKS = """
import os, time, torch
rank = int(os.environ["RANK"])
rerun = os.environ.get("TWINRUN_LEVEL") == "ops"
if rank == 1 and rerun:
    raise SystemExit(0)
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    noise = int.from_bytes(os.urandom(2), "big") * (rank == 1 or (rerun and step == 0))
    opt.zero_grad()
    (model(torch.randn(3, 4)) * (1 + noise)).sum().backward()
    opt.step()
"""
BOTH = "export LOCAL_WORLD_SIZE=2 WORLD_SIZE=2; RANK=1 %s job.py & RANK=0 %s job.py; wait"


def test_a_rerun_without_one_of_the_ranks_names_no_operation(twinrun, script, python):
    script("job.py", TWO_RANKS)
    both = ["sh", "-c", BOTH % (python, python)]
    done = twinrun("check", "-q", "--json", "--runs", "2", "--", *both)
    assert done.rc == 1, done
    assert (done.json["first"]["rank"], done.json["first"]["op"]) == (1, "backward"), done
    said = "zoom: rank 1 made no step in a rerun, so no operation is named; zoom again"
    assert said in done.json["notes"], done


def test_a_seed_that_comes_too_late(twinrun, script, python):
    """Weights were drawn before it: their generator differed, though its state behind the seed, which
    is what was recorded, does not.
    """
    script(
        "job.py",
        """import torch
model = torch.nn.Linear(8, 4)
torch.manual_seed(0)
for step in range(2):
    model(torch.ones(2, 8)).sum().backward()
""",
    )
    done = twinrun("check", "-q", "--json", "--runs", "2", "--", python, "job.py")
    first = done.json["first"]
    assert done.rc == 1 and (first["phase"], first["kind"]) == ("init", "weight"), done
    assert first["role"] == "unknown" and first["op"] == "aten::uniform_", done
    assert first["between"] == ["the beginning", "the initial value of weight"], done
    said = "zoom: aten::uniform_ drew from a generator whose state already differed"
    assert said in done.json["notes"] and "job.py:2" in str(first["source"]), done
