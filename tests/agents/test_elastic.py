# SPDX-License-Identifier: Apache-2.0
"""workloads/elastic.py: the same weights on any number of ranks, as `twinrun check` sees them; with
a plain all-reduce others.

TWINRUN_FULL=1: ranks 1, 2, 3, 4, 6, 8, permuted, with a change of their number on the way and under
noise.
"""

import os
from pathlib import Path

import pytest

from conftest import FULL, ROOT, shell

pytestmark = pytest.mark.usefixtures("light")
ELASTIC = ROOT / "workloads" / "elastic.py"


@pytest.fixture
def job(python, build):
    """job(ranks, arguments...): the command that trains."""
    torchrun = Path(python).parent / "torchrun"
    if not torchrun.exists():
        pytest.skip(f"no torchrun beside {python}")

    def command(ranks, *arguments):
        start = [torchrun, "--standalone", f"--nproc-per-node={ranks}"] if ranks else [python]
        return [*start, ELASTIC, "--steps", "3" if not FULL else "8", *arguments]

    os.environ.setdefault("TWINRUN_NUMERICS", str(build / "src/numerics/libtwinnumerics.so"))
    return command


def digest(done):
    assert done.rc == 0, done
    return [line for line in done.out.splitlines() if line.startswith("digest ")][-1]


def test_check_says_same(twinrun, job):
    """One process against two ranks."""
    done = twinrun(
        "check", "--json", "--runs", "2", "--no-zoom", "--a", shell(job(0)), "--b", shell(job(2))
    )
    assert done.rc == 0 and done.json["outcome"] == "same", done


@pytest.mark.skipif(not FULL, reason="jobs of several ranks: TWINRUN_FULL=1")
def test_check_says_that_plain_differs(twinrun, job):
    done = twinrun(
        "check",
        "--json",
        "--runs",
        "2",
        "--no-zoom",
        "--a",
        shell(job(1, "--plain")),
        "--b",
        shell(job(2, "--plain")),
        timeout=600,
    )
    assert (
        done.rc == 1
        and done.json["outcome"] == "differ"
        and done.json["first"]["kind"] == "gradient"
    ), done


@pytest.mark.skipif(not FULL, reason="a dozen jobs of up to 8 ranks: TWINRUN_FULL=1")
def test_matrix(run, job, tmp_path):
    def train(ranks, *arguments):
        return digest(
            run(
                job(ranks, *arguments),
                timeout=900,
                env={"TWINRUN_NUMERICS": os.environ["TWINRUN_NUMERICS"]},
            )
        )

    expected = train(0)
    for ranks in 1, 2, 3, 4, 6, 8:
        assert train(ranks) == expected, ranks
    for order in "2,0,1", "1,2,0", "2,1,0":
        assert train(3, "--order", order) == expected, order
    assert train(4, "--order", "3,1,0,2", "--noise") == expected == train(2, "--noise")
    for before, after in (2, 3), (3, 1), (1, 4):
        checkpoint = tmp_path / f"{before}.pt"
        train(before, "--until", "3", "--checkpoint", checkpoint)
        assert train(after, "--checkpoint", checkpoint) == expected
    plain = {train(ranks, "--plain") for ranks in (1, 2, 3, 4)}
    assert len(plain) > 1 and expected not in plain
    assert train(2, "--plain") in plain  # it does repeat: what differs is the number of ranks


def test_two_ranks_repeat(twinrun, script, python):
    """DeterministicSampler under gloo, seen twice: batches, gradients and weights of both ranks."""
    script(
        "job.py",
        """
        import os, torch, torch.distributed as dist
        from torch.utils.data import DataLoader, TensorDataset
        from twinrun.torch import DeterministicSampler, SeededSamples, seed_all
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method="file://" + os.environ["MEET"], rank=int(os.environ["RANK"]), world_size=2)
        seed_all(5)
        data = SeededSamples(TensorDataset(torch.randn(24, 3), torch.randn(24, 1)))
        sampler = DeterministicSampler(data, batch=8)
        loader = DataLoader(data, batch_sampler=sampler)
        net = torch.nn.Linear(3, 1)
        for epoch in range(2):
            for x, y in loader:
                net.zero_grad()
                (net(x) - y).pow(2).mean().backward()
                for p in net.parameters():
                    dist.all_reduce(p.grad)
                    with torch.no_grad():
                        p -= 0.05 * p.grad
                sampler.done()
        os.write(1, b"seen %d\\n" % sampler.step)  # in one piece, where Python has no buffer, too
        """,
    )
    script(
        "both.sh",
        f"""
        MEET=$(mktemp -u); export MEET WORLD_SIZE=2
        RANK=1 {python} job.py & RANK=0 {python} job.py && wait $!
        """,
    )
    done = twinrun(
        "check", "--json", "--runs", "2", "--no-zoom", "--show-output", "--", "sh", "both.sh"
    )
    assert done.rc == 0 and done.json["outcome"] == "same", done


@pytest.mark.parametrize("left", ["MEET", "RESULT"])
def test_a_file_over_which_ranks_met_is_no_result(twinrun, script, python, tmp_path_factory, left):
    """Where two ranks end at the same moment PyTorch leaves it behind, about one time in a hundred:
    here the second run does. A file of the job's own in its place counts.
    """
    script(
        "job.py",
        """
        import os, time, torch, torch.distributed as dist
        dist.init_process_group("gloo", init_method="file://" + os.environ["MEET"], rank=int(os.environ["RANK"]), world_size=2)
        torch.manual_seed(5)
        net = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            net(torch.randn(8, 3)).pow(2).mean().backward()
            for p in net.parameters():
                dist.all_reduce(p.grad)
            optimizer.step()
        time.sleep(0.5)  # gloo's thread drops its last work first: where Python ends before that, PyTorch 2.13 aborts
        """,
    )
    script(
        "both.sh",
        f"""
        TMPDIR={tmp_path_factory.mktemp("outside")}; export TMPDIR
        MEET=$(mktemp -u); RESULT=$(mktemp -u); export MEET
        RANK=1 {python} job.py & RANK=0 {python} job.py && wait $!
        [ -e again ] && echo left > ${left}
        touch again
        """,
    )
    done = twinrun("check", "--json", "--runs", "2", "--no-zoom", "--", "sh", "both.sh")
    if left == "MEET":
        assert done.rc == 0 and done.json["outcome"] == "same", done
        assert any(
            note.endswith("not compared: the processes of torch.distributed met over it")
            for note in done.json["notes"]
        ), done
    else:
        assert done.rc == 3 and any("1 only in run 2" in text for text in done.json["unseen"]), done
