# SPDX-License-Identifier: Apache-2.0
"""The replay vote: a nondeterministic operation, a core that answers otherwise, and an operation
that does neither.

The faulty core is played by the test's own job: an operation that flips the lowest bit of its
result while it runs on core GHOST_CORE. The nondeterministic operation sets 22 bits by chance, so
that two of its results are equal once in four million times.
"""

import importlib.util
import json
import os

import pytest
from conftest import FULL, ROOT
from test_transplant import survivors

CORES = sorted(os.sched_getaffinity(0))
two_cores = pytest.mark.skipif(len(CORES) < 2, reason="one core")

JOB = """
import ctypes, os, random, time
import torch
torch.manual_seed(0)
cpu = ctypes.CDLL(None).sched_getcpu
cores = sorted(os.sched_getaffinity(0))
once = random.SystemRandom().getrandbits(22)
library = torch.library.Library("ghost", "DEF")
library.define("scale(Tensor x) -> Tensor")
def scale(x):
    y = x * 2
    bits = {
        "core": lambda: cpu() == int(os.environ["GHOST_CORE"]),
        "operation": lambda: random.SystemRandom().getrandbits(22),
        "held": lambda: random.SystemRandom().getrandbits(22) if len(os.sched_getaffinity(0)) == 1 else once,
        "agrees": lambda: 0,
    }
    y.view(-1).view(torch.int32)[0] ^= bits[os.environ["GHOST"]]()
    return y
library.impl("scale", scale, "CPU")
weight = torch.nn.Parameter(torch.randn(4))
opt = torch.optim.SGD([weight], lr=0.1)
for step in range(3):
    os.sched_setaffinity(0, {cores[-(time.perf_counter_ns() >> 6 & 1)]})   # by chance, and by no clock that can be pinned
    os.sched_setaffinity(0, cores)
    opt.zero_grad()
    (weight * torch.ops.ghost.scale(weight.detach())).sum().backward()
    opt.step()
"""


MODEL = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4))
    def forward(self, x):
        return (self.weight * torch.ops.ghost.scale(x)).sum()
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.utils.data.DataLoader(torch.randn(6, 4), batch_size=None):
    opt.zero_grad()
    net(x).backward()
    opt.step()
"""


@pytest.fixture(scope="module")
def vote():
    spec = importlib.util.spec_from_file_location(
        "vote", ROOT / "python" / "twinrun" / "_agent" / "vote.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_the_ballots_mean(vote):
    one, other = {"x"}, {"y"}
    assert vote.verdict({2: (one, one), 1: (one, one)}, one) == "agrees"
    # other chunks for other threads are no disagreement
    assert vote.verdict({2: (one, one), 1: (other, other)}, one) == "agrees"
    assert vote.verdict({2: (one, other), 1: (one, one)}, one) == "core"
    # moved about while it was not held
    assert vote.verdict({2: (one, other)}, one | other) == "core"
    assert vote.verdict({2: (one, one | other)}, one) == "operation"
    # a race that needs two cores
    assert vote.verdict({2: (one, one)}, one | other) == "operation"


@two_cores
def test_threads_are_put_back(vote):
    class Torch:
        threads = 4

        def get_num_threads(self):
            return self.threads

        def set_num_threads(self, n):
            self.threads = n

    torch, seen = Torch(), []
    cores, rounds, ballots = vote.hold(
        torch,
        lambda: seen.append((torch.threads, frozenset(os.sched_getaffinity(0)))) or seen[-1][1],
    )
    here, there = (frozenset([c]) for c in (CORES[0], CORES[-1]))
    assert (
        seen == [(n, core) for n in (4, 1) for _ in range(vote.ROUNDS) for core in (here, there)]
        and rounds == 2 * vote.ROUNDS
    )
    assert cores == (CORES[0], CORES[-1]) and ballots == {
        4: ({here}, {there}),
        1: ({here}, {there}),
    }
    assert sorted(os.sched_getaffinity(0)) == CORES and torch.threads == 4


@pytest.mark.usefixtures("light")
@two_cores
@pytest.mark.parametrize("kind", ["core", "operation", "agrees"])
def test_the_vote_in_a_job(kind, twinrun, script, python):
    script("job.py", JOB)
    # as zoom would: twinrun takes its own away
    asked = ["TWINRUN_ZOOM_OP=1:0:ghost::scale", f"GHOST={kind}", f"GHOST_CORE={CORES[-1]}"]
    assert twinrun("record", "-q", "--level", "ops", "--", "env", *asked, python, "job.py").rc == 0
    told = json.dumps(twinrun("show", "--json", "last").json)
    assert f'"ghost::scale {kind} {CORES[0]} {CORES[-1]} ' in told, told


@pytest.mark.usefixtures("light")
@two_cores
def test_what_replays_showed_is_claimed(twinrun, script, python):
    script("job.py", JOB[: JOB.index("weight =")] + MODEL)
    done = twinrun(
        "check",
        "--json",
        "--runs",
        "6",
        "--",
        "env",
        "GHOST=operation",
        f"GHOST_CORE={CORES[-1]}",
        python,
        "job.py",
    )
    assert done.rc == 1, done
    (claim,) = [c for c in done.json["claims"] if c["claim"] == "transplant"]
    said = "ghost::scale, run again %d times on its recorded inputs, gave another result %d times: it is not deterministic"
    assert said % (claim["replays"], claim["disagree"]) in done.json["notes"]
    assert list(survivors(done.json)) == []


@pytest.mark.usefixtures("light")
@two_cores
def test_who_differs_only_where_it_is_held_is_not_acquitted(twinrun, script, python):
    """The replays agree, those on one core do not: one sentence says both, and recheck finds it."""
    script("job.py", JOB[: JOB.index("weight =")] + MODEL)
    asked = ["env", "GHOST=held", f"GHOST_CORE={CORES[-1]}", python, "job.py"]
    done = twinrun("check", "--json", "--runs", "2", "--", *asked)
    assert done.rc == 1, done
    said = (
        "ghost::scale, run again 20 times on its recorded inputs, gave the same result each time, "
        "and 8 different ones when it was held on one core: it is not deterministic"
    )
    assert said in done.json["notes"], done.json["notes"]
    assert not any("acquits" in note for note in done.json["notes"])
    assert list(survivors(done.json)) == []


@pytest.mark.usefixtures("light")
def test_a_job_that_no_hook_sees_is_recorded_by_operations(twinrun, script, python):
    script("job.py", JOB)
    done = twinrun(
        "check",
        "--json",
        "--runs",
        "2",
        "--",
        "env",
        "GHOST=agrees",
        f"GHOST_CORE={CORES[-1]}",
        python,
        "job.py",
    )
    assert (
        "recorded at operation level, since no hook of the usual level saw a batch or an input"
        in done.json["notes"]
    ), done


OWN_GENERATOR = """
import random, torch
own = torch.Generator()
own.seed()
print("seeded", torch.empty(3).normal_(generator=own).shape)
before = own.get_state()
torch.empty(3).normal_(generator=own)
after = own.get_state()
own.set_state(before)
torch.empty(3).normal_(generator=own)
library = torch.library.Library("ghost", "DEF")
library.define("noise(Tensor x) -> Tensor")
library.impl("noise", lambda x: x + random.random(), "CPU")
was = random.getstate()
torch.ops.ghost.noise(before)
used = random.getstate()
random.setstate(was)
random.random()
print("Python's as well", used == random.getstate())
print("as if it had not been run again", torch.equal(after, own.get_state()))
"""


@pytest.mark.usefixtures("light")
@two_cores
@pytest.mark.parametrize("operation", ["0:aten::normal_", "1:aten::normal_", "0:ghost::noise"])
def test_generators_are_set_back(operation, twinrun, script, python):
    """An operation that draws, from a generator that it was handed or from Python's, gives the same
    on the same state; and they go on as alone.
    """
    script("job.py", OWN_GENERATOR)
    asked = "TWINRUN_ZOOM_OP=0:" + operation
    done = twinrun("record", "-q", "--level", "ops", "--", "env", asked, python, "job.py")
    assert (
        done.rc == 0 and "Python's as well True\nas if it had not been run again True" in done.out
    ), done
    told = json.dumps(twinrun("show", "--json", "last").json)
    assert '"%s 20 0"' % operation[2:] in told, told


@two_cores
@pytest.mark.skipif(not FULL, reason="a whole search: with --full")
def test_isolate_suspects_the_hardware(twinrun, script, python):
    script("job.py", JOB)
    env = {"GHOST": "core", "GHOST_CORE": str(CORES[-1])}
    done = twinrun("isolate", "--json", "--", python, "job.py", env=env, timeout=900)
    assert done.rc == 3 and done.json["vote"] == "hardware" and done.json["runs_used"] <= 20, done
    assert all(f"taskset -c {core} " in done.json["next"] for core in (CORES[0], CORES[-1])), done
