# SPDX-License-Identifier: Apache-2.0
"""check --transplant on real PyTorch jobs: what is injected arrives bit for bit, causes are told
apart, refusals are clear.

The oracle of exactness is the job itself: it prints a digest of what it trained with, and the
transplanted run must print what the recorded one printed.
"""

import copy
import importlib.util
import json
import sys
from pathlib import Path

import pytest
from conftest import FULL, ROOT

pytestmark = pytest.mark.usefixtures("light")

NET = """
import hashlib, os, random
import torch
torch.set_num_threads(1)
torch.manual_seed(0)
ENTROPY = random.SystemRandom()
def digest(*tensors):
    return hashlib.sha256(b"".join(t.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes() for t in tensors)).hexdigest()[:12]
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm = torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8)
        self.drop, self.b = torch.nn.Dropout(0.5), torch.nn.Linear(8, 1)
    def forward(self, x):
        return self.b(self.drop(torch.relu(self.norm(self.a(x)))))
net = Net()
"""


@pytest.fixture(scope="session")
def values_file():
    path = ROOT / "python" / "twinrun" / "_agent" / "values_file.py"
    spec = importlib.util.spec_from_file_location("values_file", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def transplanted(twinrun, python, kind, *options, rc=1):
    done = twinrun("check", "--json", "--transplant", kind, *options, "--", python, "job.py")
    assert done.rc == rc, done
    return done


def printed(home):
    """What each run printed, by label."""
    return {
        folder.name.split("-")[-2]: (folder / "stdout").read_text()
        for folder in sorted(Path(home, "runs").iterdir())
    }


def altered(x, path=()):
    """Every value in a claim, with another one of its type."""
    if isinstance(x, (dict, list)):
        for key, value in x.items() if isinstance(x, dict) else enumerate(x):
            yield from altered(value, path + (key,))
    elif isinstance(x, int):
        yield path, x + 1
        yield path, x - 1
    elif isinstance(x, str):
        yield path, x + "x"


def survivors(verdict):
    """What of the claims about transplants and replays could be another thing, and nobody would
    notice.
    """
    sys.path.insert(0, str(ROOT / "python"))
    from twinrun import recheck

    runs, tried = [recheck.Run(d) for d in verdict["runs_dir"]], 0

    def refuted(claims):
        r = recheck.Recheck(claims, runs, verdict)
        return [text for c in claims for state, text in [r.one(c)] if state == "refuted"]

    assert refuted(verdict["claims"]) == []
    for i, claim in enumerate(verdict["claims"]):
        for path, value in altered(claim) if claim["claim"] == "transplant" else ():
            claims = copy.deepcopy(verdict["claims"])
            at = claims[i]
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = value
            tried += 1
            if not refuted(claims):
                yield path, value
        if claim["claim"] == "transplant" and claim["of"] == "run":
            assert refuted(verdict["claims"][:i] + verdict["claims"][i + 1 :])
    assert tried > 5


# ---------------------------------------------------------------- the file


def test_values_come_back_as_they_were_written_or_not_at_all(values_file, tmp_path):
    path = tmp_path / "values"
    writer = values_file.Writer(path, 4096)
    entries = [
        ("w", "torch.float32", [2, 1], b"\x01\x02\x03\x04\xff\xff\xff\x7f"),
        ("lr", "plain", [0.1, None, "x", True], None),
        ("empty", "torch.int64", [0], b""),
    ]
    assert writer.add(3, values_file.STATE, 0, entries) and writer.add(
        4, values_file.BATCH, 1, entries
    )
    assert not writer.add(5, values_file.STATE, 0, [("large", "torch.uint8", [4096], bytes(4096))])
    writer.close()
    whole = path.read_bytes()

    reader = values_file.Reader(path)
    assert set(reader.frames) == {(3, 0, 0), (4, 1, 1)} and reader.get(5, 0, 0) is None
    assert [
        (n, k, w, None if d is None else bytes(d)) for n, k, w, d in reader.get(4, 1, 1)
    ] == entries

    # every single byte, flipped: noticed, or a frame that is not found
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        damaged = values_file.Reader(path)
        for key in [(3, 0, 0), (4, 1, 1)]:
            try:
                found = damaged.get(*key)
            except values_file.Damaged:
                continue
            assert (
                found is None
                or [(n, k, w, None if d is None else bytes(d)) for n, k, w, d in found] == entries
            ), at
        damaged.close()
    for length in range(len(whole)):  # cut off anywhere: whole frames only
        path.write_bytes(whole[:length])
        cut = values_file.Reader(path)
        assert len(cut.frames) == (length >= len(whole) // 2)
        cut.close()


# ---------------------------------------------------------------- jobs


def test_two_causes_are_listed_apart_with_their_rates(twinrun, script, python, home):
    """The generator is reseeded from entropy in steps 2 and 6; the backward pass of steps 3, 6 and
    8 is disturbed. The second one hides behind the first in every natural comparison, and in step
    6.
    """
    script(
        "job.py",
        NET
        + """
        class Disturbed(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()
            @staticmethod
            def backward(ctx, g):
                return g * (1 + ENTROPY.random()) if step in (3, 6, 8) else g
        opt = torch.optim.Adam(net.parameters(), lr=0.01)
        plan = torch.optim.lr_scheduler.StepLR(opt, 3)
        data = torch.utils.data.TensorDataset(torch.randn(40, 4), torch.randn(40, 1))
        step = 0
        for x, y in torch.utils.data.DataLoader(data, batch_size=4, shuffle=True):
            if step in (2, 6):
                torch.seed()
            loss = torch.nn.functional.mse_loss(Disturbed.apply(net(x)), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            plan.step()
            step += 1
        """.replace("\n        ", "\n"),
    )
    done = transplanted(twinrun, python, "step", "--no-zoom")
    found = {
        (o["layer"], o["name"]): (o["steps_differing"], o["steps"], o["step"])
        for o in done.json["origins"]
    }
    assert found == {("rng", "torch.cpu"): (2, 10, 2), ("backward", "a.weight"): (2, 10, 3)}, done
    first = done.json["first"]
    assert (first["step"], first["layer"], first["name"]) == (2, "rng", "torch.cpu")
    origin = next(o for o in done.json["origins"] if o["layer"] == "rng")
    assert origin["op"] == "user code" and any("job.py:" in s for s in origin["source"]), done
    # scipy.stats.binomtest(2, 10).proportion_ci(): 0.025211, 0.556095
    assert (origin["rate"], round(origin["low"], 6), round(origin["high"], 6)) == (
        0.2,
        0.025211,
        0.556095,
    )
    assert done.json["transplant"] == {
        "kind": "step",
        "window": [0, 9],
        "runs": 1,
        "steps": 10,
        "unequal": 0,
        "left_out": 0,
        "stopped": False,
    }
    assert list(survivors(done.json)) == []
    assert "run 2 records" in done.err and not list(Path(home).rglob("*.twv")), done


def test_batches_that_stop_the_divergence_carry_it(twinrun, script, python, home):
    """Order and contents from entropy. The dataset's own memory must not be written to: batches are
    views of it.
    """
    script(
        "job.py",
        NET
        + """
        pool = torch.randn(24, 4, 4)
        own = [pool.clone(), torch.zeros(0)]
        class Unordered(torch.utils.data.Dataset):
            def __len__(self):
                return 6
            def __getitem__(self, i):
                return {"x": pool[ENTROPY.randrange(24)], "more": (i, "text", ENTROPY.random(), pool[:0])}
        opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        seen = []
        for batch in torch.utils.data.DataLoader(Unordered(), batch_size=None):
            net(batch["x"]).pow(2).sum().backward()
            seen.append(batch["more"][:3])
            opt.step()
            opt.zero_grad()
        print(digest(*net.state_dict().values()), seen, torch.equal(pool, own[0]))
        """.replace("\n        ", "\n"),
    )
    done = transplanted(twinrun, python, "data")
    verdict = done.json
    # where both drew the same row only the rest of the batch differs, which has another name
    origins = verdict["origins"]
    assert list(survivors(verdict)) == []
    assert {(o["layer"], o["steps"]) for o in origins} == {("data", 6)} and sum(
        o["steps_differing"] for o in origins
    ) == 6, done
    assert verdict["transplant"]["stopped"] and any(
        "came through the batches" in note for note in verdict["notes"]
    ), done
    out = printed(home)
    assert out["recorded"] == out["transplanted"] != out["natural"] and out[
        "transplanted"
    ].endswith("True\n"), out


def test_a_whole_state_arrives_bit_for_bit(twinrun, script, python, home):
    """Odd types, layouts and values in weights, buffers and optimizer state, generators of all
    libraries, a gradient scaler.
    """
    script(
        "job.py",
        NET
        + """
        import numpy
        numpy.random.seed(ENTROPY.randrange(2**31)); random.seed(); torch.seed()
        with torch.no_grad():
            net.b.weight.set_(torch.empty(8, 1).t())       # not contiguous after the next line
            net.a.weight = torch.nn.Parameter(torch.randn(4, 8).t())
            net.b.weight.copy_(torch.randn(1, 8))
        bits = torch.tensor([ENTROPY.randrange(2**31) for _ in range(3)], dtype=torch.int32)
        net.register_buffer("nan", (bits | 0x7F800001).view(torch.float32))   # payloads survive
        net.register_buffer("brain", torch.randn(3).to(torch.bfloat16))
        net.register_buffer("flags", torch.rand(5) > 0.5)
        net.register_buffer("none", torch.zeros(0, 3))
        net.register_buffer("wave", torch.randn(2, dtype=torch.complex64))
        opt = torch.optim.AdamW(net.parameters(), lr=ENTROPY.random() / 100, amsgrad=True)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** ENTROPY.randrange(4, 12), growth_interval=2)
        data = torch.utils.data.TensorDataset(torch.randn(24, 4))
        out = []
        for step, (x,) in enumerate(torch.utils.data.DataLoader(data, batch_size=4)):
            if step >= 1:
                held = net.a.weight * 1                     # a graph over the boundary: its version check must not mind
                out.append((step, digest(*[b for b in net.state_dict().values()]), scaler.get_scale(), opt.param_groups[0]["lr"],
                            random.random(), numpy.random.rand(), torch.rand(1).item(), digest(*[t for s in opt.state.values() for t in s.values()])))
            scaler.scale(net(x).pow(2).sum()).backward()
            version = net.a.weight._version
            scaler.step(opt)
            scaler.update()
            assert net.a.weight._version - version < 8
            opt.zero_grad()
        for line in out:
            print(*line)
        """.replace("\n        ", "\n"),
    )
    done = transplanted(twinrun, python, "step", "--no-zoom")
    out = printed(home)
    assert out["natural"] != out["recorded"]
    here, there = out["transplanted"].splitlines(), out["recorded"].splitlines()
    assert len(here) == len(there) == 5
    assert here == there, done
    assert done.json["transplant"]["left_out"] == 0


def test_a_step_of_another_shape_is_left_out_and_said(twinrun, script, python):
    script(
        "job.py",
        NET
        + """
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        rows = [torch.randn(3 + (ENTROPY.randrange(10**6) if i == 2 else 0), 4) for i in range(5)]
        for x in torch.utils.data.DataLoader(rows, batch_size=None):
            net(x).pow(2).sum().backward()
            opt.step()
            opt.zero_grad()
        """.replace("\n        ", "\n"),
    )
    verdict = transplanted(twinrun, python, "data", "--no-zoom").json
    assert verdict["transplant"]["left_out"] == 1, verdict
    assert any(
        "step 2 of rank 0 could not be given its values: batch: recorded torch.float32" in note
        for note in verdict["notes"]
    ), verdict


def test_too_much_is_refused_before_it_is_recorded(twinrun, script, python, home):
    script(
        "job.py",
        NET
        + """
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            net(torch.ones(2, 4)).sum().backward()
            opt.step()
        """.replace("\n        ", "\n"),
    )
    done = transplanted(twinrun, python, "step", "--transplant-limit", "10K", rc=2)
    assert (
        "found a limit of 10.0 KiB; try --window FIRST:LAST" in done.err
        and json.loads(done.out)["outcome"] == "error"
    ), done
    assert len(list(Path(home, "runs").iterdir())) == 1
    done = transplanted(twinrun, python, "data", rc=2)
    assert "needs batches of a DataLoader" in done.err, done


def test_what_could_not_be_recorded_is_said(twinrun, script, python):
    """Steps that grow after the first two: the estimate lets them begin, and the limit
    ends them.
    """
    script(
        "job.py",
        NET
        + """
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        rows = [torch.randn(5000 if i == 2 else 3, 4) for i in range(4)]
        for x in torch.utils.data.DataLoader(rows, batch_size=None):
            net(x + ENTROPY.random()).pow(2).sum().backward()
            opt.step()
            opt.zero_grad()
        """.replace("\n        ", "\n"),
    )
    verdict = transplanted(twinrun, python, "data", "--no-zoom", "--transplant-limit", "20K").json
    said = "transplant: rank 0 recorded nothing more, or took nothing more, from step 2 on: 20480 bytes are used up"
    assert said in verdict["notes"], verdict["notes"]


@pytest.mark.skipif(not FULL, reason="two ranks, three runs: with --full")
def test_every_rank_takes_its_own_values(twinrun, script, python, home):
    script(
        "job.py",
        NET
        + """
        import time, torch.distributed as dist
        dist.init_process_group("gloo")
        rank = dist.get_rank()
        model = torch.nn.parallel.DistributedDataParallel(net)
        opt = torch.optim.Adam(model.parameters(), lr=0.01)
        torch.seed()
        for step in range(6):
            x = torch.randn(4, 4) if step else torch.ones(4, 4)   # the first one is drawn before anything is watched
            if step == 3 and rank == 1:
                x = x * (1 + ENTROPY.random())
            model(x).pow(2).sum().backward()
            opt.step()
            opt.zero_grad()
        open("out%d.%s" % (rank, os.environ["TWINRUN_TRANSPLANT"].split(":")[0]), "w").write(digest(torch.get_rng_state(), net.norm.running_mean))
        time.sleep(0.5)  # gloo's thread drops its last work first: where Python ends before that, PyTorch 2.13 aborts
        dist.destroy_process_group()
        """.replace("\n        ", "\n"),
    )
    torchrun = Path(python).parent / "torchrun"
    done = twinrun(
        "check",
        "--json",
        "--transplant",
        "step",
        "--no-zoom",
        "--",
        torchrun,
        "--standalone",
        "--nproc-per-node=2",
        "job.py",
    )
    verdict = done.json
    assert verdict["transplant"]["left_out"] == 0 and verdict["transplant"]["steps"] == 6, done
    data = [o for o in verdict["origins"] if o["layer"] == "data"]
    assert [(o["rank"], o["step"], o["steps_differing"]) for o in data] == [(1, 3, 1)], done
    work = script("ignored", "").parent
    for rank in range(2):
        assert (
            (work / f"out{rank}.record").read_text()
            == (work / f"out{rank}.inject").read_text()
            != (work / f"out{rank}.measure").read_text()
        )
