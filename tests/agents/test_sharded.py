# SPDX-License-Identifier: Apache-2.0
"""Parameters and optimizer state that are cut over ranks (fully_shard, tensor parallelism): the
digests of the ranks add up to the digest of the job that runs whole.
"""

import ctypes
import glob
import itertools
import json
import os
import subprocess
import sys

import pytest

import job_pool
from conftest import CALM, FULL
from launch_helper import BUILD

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "python"))

from twinrun import trace  # noqa: E402
from twinrun._agent.shards import Box  # noqa: E402

PYTHON = os.environ.get("TWINRUN_TEST_PYTHON", sys.executable)
JOB = os.path.join(HERE, "torch_jobs", "sharded.py")
MASK = (1 << 64) - 1

torch = pytest.importorskip("torch")


def recorded(home, label, kind, ranks, *more):
    """The run folder of the job on so many ranks."""
    command = [PYTHON, JOB, kind, *more]
    if kind != "whole":
        command[1:1] = [
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node=%d" % ranks,
        ]
    # Files that the job's folder gets meanwhile count as the run's: where it ran in the repository,
    # a build beside it made runs inconclusive that were the same. The job writes nothing.
    here = os.path.join(os.environ.get("TWINRUN_TEST_SHARED") or str(home), "sharded-here")
    os.makedirs(here, exist_ok=True)
    done = subprocess.run(
        [os.path.join(BUILD, "cmd", "twinrun"), "record", "--no-telemetry", "--ledger", "none"]
        + ["--home", str(home), "--label", label, "--", *command],
        env=dict(os.environ, OMP_NUM_THREADS="1", **CALM),
        cwd=here,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    return glob.glob(os.path.join(str(home), "runs", "*-%s-*" % label))[0]


def shared(kind, ranks):
    """The same of the job as it is; one recording serves all tests, for reading."""
    with open(JOB) as f:
        key = ("sharded", f.read(), PYTHON, kind, ranks)
    return job_pool.pooled(key, lambda home: recorded(home, kind, kind, ranks))


def composed(folder):
    """{(step, key): [digest, elements, may it be added up]} over all ranks, copies of a part once."""
    found, seen = {}, set()
    for path in sorted(glob.glob(os.path.join(folder, "ranks", "*.twt"))):
        with trace.Trace.open(path) as t:
            for r in t.records():
                key = t.key(r)
                if key[1] not in ("weight", "moment") or key[0] not in ("init", "optimizer"):
                    continue
                if t.layouts[r.layout].dtype == 0:
                    continue  # the bytes of a block that ranks share, beside their parts
                part = (r.step, key, r.global_offset, r.digest)
                if r.flags & trace.OFFSET and part in seen:
                    continue
                seen.add(part)
                elements = 1
                for n in t.layouts[r.layout].shape:
                    elements *= n
                digest, adds = r.digest, True
                if r.flags & trace.OFFSET:
                    old = found.get((r.step, key), [(0, 0), 0, True])
                    digest = tuple((x + y) & MASK for x, y in zip(old[0], digest))
                    elements += old[1]
                    adds = old[2] and not r.flags & trace.NOT_COMPOSABLE
                found[r.step, key] = [digest, elements, adds]
    return found


@pytest.fixture(scope="module")
def whole():
    found = composed(shared("whole", 1))
    assert len(found) > 30
    return found


@pytest.mark.parametrize(
    "kind, ranks",
    [("fsdp", 2), ("tp", 2), ("both", 4)] + ([("fsdp", 4), ("tp", 4)] if FULL else []),
)
def test_ranks_add_up_to_the_whole(whole, kind, ranks):
    found = composed(shared(kind, ranks))
    assert set(found) == set(whole)
    for key, (digest, elements, adds) in found.items():
        assert elements == whole[key][1], key
        # ten numbers are cut within 16 bytes, so that no sum is that of the whole
        odd = kind != "tp" and key[1][2].startswith("3.bias")
        assert adds != odd, key
        if adds:
            assert digest == whole[key][0], key


def test_one_changed_element_changes_the_sum(tmp_path, whole):
    found = composed(recorded(tmp_path, "changed", "fsdp", 2, "2", "1"))
    last = max(step for step, _ in found)
    different = {key for key in whole if found[key][2] and found[key][0] != whole[key][0]}
    assert {key[1][2].split(".momentum")[0] for key in different} == {"0.weight"}
    assert all(step == last or step == last - 1 for step, _ in different)


def judged(home, a, b):
    """(the verdict, how the second reader found it) of two runs."""
    done = subprocess.run(
        [os.path.join(BUILD, "cmd", "twinrun"), "diff", "--json", "--home", str(home), a, b],
        capture_output=True,
        text=True,
        timeout=300,
    )
    path = os.path.join(str(home), "verdict.json")
    with open(path, "w") as f:
        f.write(done.stdout)
    checked = subprocess.run(
        [sys.executable, "-m", "twinrun.recheck", path],
        env=dict(os.environ, PYTHONPATH=os.path.join(os.path.dirname(HERE), "..", "python")),
        capture_output=True,
        text=True,
        timeout=300,
    )
    return json.loads(done.stdout), checked.stdout + checked.stderr


def test_other_numbers_of_ranks_are_compared(tmp_path):
    two, four = shared("tp", 2), shared("tp", 4)
    one, changed = shared("whole", 1), recorded(tmp_path, "c", "tp", 2, "2", "1")
    # fully_shard cuts ten numbers into five and five, within 16 bytes
    odd = shared("fsdp", 2)
    pairs = ((one, two), (two, one), (two, four), (four, one), (one, odd), (odd, four))
    # tensor parallelism and fully_shard: as many ranks, and other parts
    both = shared("both", 4)
    for a, b in (*pairs, (two, odd), (one, both), (both, four)):
        verdict, checked = judged(tmp_path, a, b)
        assert verdict["outcome"] == "same", verdict["unseen"]
        what = "only rank 0's weights, gradients and optimizer state, and those that the ranks hold"
        assert any(what in n for n in verdict["notes"]), verdict["notes"]
        assert ", 0 refuted" in checked, checked
    for a, b in ((changed, four), (four, changed), (one, changed), (odd, changed)):
        verdict, checked = judged(tmp_path, a, b)
        assert verdict["outcome"] == "differ", verdict["unseen"]
        assert verdict["first"]["name"] == "0.weight" and verdict["first"]["step"] == 1
        assert ", 0 refuted" in checked, checked
    told = subprocess.run(
        [os.path.join(BUILD, "cmd", "twinrun"), "diff", "--home", str(tmp_path), one, changed],
        capture_output=True,
        text=True,
        timeout=300,
    )
    # their operations have other tensors
    assert "twinrun show" in told.stdout and "twinrun zoom" not in told.stdout, told
    said = "elements 128 to 255 of 0.weight differ between the runs: "
    said += "run 1's rank 1, run 2's ranks 2, 3"
    assert said in judged(tmp_path, changed, four)[0]["notes"]


def test_large_weights_are_compared(tmp_path):
    """A rank that holds them whole records weights of 65,536 elements in parts by turns: all of them
    in the first steps and in the last one.
    """
    one = recorded(tmp_path, "one", "whole", 1, "2", "-1", "16384")
    two = recorded(tmp_path, "two", "fsdp", 2, "2", "-1", "16384")
    changed = recorded(tmp_path, "changed", "fsdp", 2, "2", "1", "16384")
    for a, b in ((one, two), (two, one)):
        verdict, checked = judged(tmp_path, a, b)
        assert verdict["outcome"] == "same", verdict["unseen"]
        assert ", 0 refuted" in checked, checked
    for a, b in ((one, changed), (changed, one)):
        verdict, checked = judged(tmp_path, a, b)
        assert verdict["outcome"] == "differ", verdict["unseen"]
        assert verdict["first"]["name"] == "0.weight" and verdict["first"]["step"] == 1
        assert ", 0 refuted" in checked, checked


@pytest.mark.parametrize("length, ranks, width", [(10, 2, 4), (7, 3, 8), (10, 4, 1), (33, 5, 2)])
def test_edges(length, ranks, width):
    """The bytes of the blocks that parts share, each from its own part, are those of the whole."""
    from twinrun._agent import shards

    numbers = bytes(range(1, length * width + 1))
    shared = {}
    for at in range(ranks):
        box = shards._cut((at,), (ranks,), (("Shard", 0, None),), (length,))
        own = numbers[box.first * width : (box.first + box.run) * width]
        held = ctypes.create_string_buffer(own, len(own) or 1)
        cuts = box.cuts(width)
        touched = {(box.first * width + i) // 16 for i in range(len(own))}
        alone = {b for b in touched if numbers[16 * b : 16 * b + 16] in own}
        assert {block for block, _, _ in cuts} == touched - alone
        for cut in cuts:
            words = shards.edge_bytes(ctypes.addressof(held), box, width, cut)
            assert not any(bytes(words)[: cut[1]]) and not any(bytes(words)[cut[2] :])
            before = shared.get(cut[0], bytes(16))
            shared[cut[0]] = bytes(x | y for x, y in zip(before, bytes(words)))
    assert len(shared) > 0
    for block, found in shared.items():
        assert found == numbers[16 * block : 16 * block + 16].ljust(16, b"\0")


@pytest.mark.parametrize(
    "whole_shape, cut",
    [
        ((16,), (0,)),
        ((10, 4), (0,)),
        ((4, 8), (1,)),
        ((3, 8, 8), (2,)),
        ((8, 8), (0, 1)),
        ((7, 9), (1, 0)),
    ],
)
def test_places(whole_shape, cut):
    """Every element of every part is at the place that the box says."""
    from twinrun._agent import shards

    numbers = torch.arange(torch.Size(whole_shape).numel()).reshape(whole_shape)
    mesh = (3, 2)[: len(cut)]
    for at in itertools.product(*(range(n) for n in mesh)):
        part = numbers
        for place, ranks, dim in zip(at, mesh, cut):
            pieces = part.chunk(ranks, dim)
            part = pieces[place] if place < len(pieces) else part.narrow(dim, 0, 0)
        box = shards._cut(at, mesh, tuple(("Shard", dim, None) for dim in cut), whole_shape)
        assert isinstance(box, Box) and box.shape == tuple(part.shape)
        if part.numel() == 0:
            continue
        places = [o + i for o in box.offsets() for i in range(box.run)]
        assert places == part.reshape(-1).tolist() and len(places) == box.runs * box.run
    for kind in ("Partial", "_StridedShard", "Anything"):
        assert shards._cut((0,), (2,), ((kind, 0, 2),), whole_shape) is shards.UNKNOWN
    assert shards._cut((0,), (2,), (("Replicate", None, None),), whole_shape) is None


def test_places_of_what_was_cut_before():
    """fully_shard cuts what tensor parallelism has cut."""
    from twinrun._agent import shards

    numbers = torch.arange(70).reshape(10, 7)
    placements = (("_StridedShard", 0, 2), ("Shard", 0, None))
    seen = []
    for at in itertools.product(range(3), range(2)):
        part = numbers.chunk(2, 0)[at[1]].chunk(3, 0)[at[0]]
        box = shards._cut(at, (3, 2), placements, (10, 7))
        places = [o + i for o in box.offsets() for i in range(box.run)]
        assert places == part.reshape(-1).tolist() and box.shape == tuple(part.shape)
        seen += places
    assert sorted(seen) == list(range(70))
    for wrong in (
        (("_StridedShard", 0, 3), ("Shard", 0, None)),
        (("_StridedShard", 0, 2), ("Shard", 1, None)),
        (("Shard", 0, None), ("_StridedShard", 0, 1)),
        (("_StridedShard", 0, None), ("Shard", 0, None)),
    ):
        assert shards._cut((0, 0), (3, 2), wrong, (10, 7)) is shards.UNKNOWN


def test_check_with_two_numbers_of_ranks(tmp_path):
    """`check --ranks 2,4` of parameters that fully_shard cuts. Rank 3, which only the second number
    has, changes an element in step 1: step 0 must be equal, though each rank holds other parts.
    """
    page = tmp_path / "page.html"
    torchrun = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node={ranks}"]
    done = subprocess.run(
        [os.path.join(BUILD, "cmd", "twinrun"), "check", "--ranks", "2,4", "--runs", "1", "-q"]
        + ["--json", "--no-zoom", "--no-telemetry", "--ledger", "none", "--home", str(tmp_path)]
        + ["--html", str(page), "--", *torchrun, JOB, "fsdp", "2", "3"],
        env=dict(os.environ, OMP_NUM_THREADS="1", **CALM),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 1, done.stderr
    verdict = json.loads(done.stdout)
    first = verdict["first"]
    assert (verdict["outcome"], first["step"], first["kind"]) == ("differ", 1, "weight")
    assert first["name"] == "0.weight" and first["role"] != "origin"
    assert verdict["equal_before_records"] > 0
    said = "weights, gradients and optimizer state are compared"
    assert any(said in note for note in verdict["notes"]), verdict["notes"]
    shown = page.read_text()
    assert "0.weight" in shown and said in shown
