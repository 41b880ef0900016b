# SPDX-License-Identifier: Apache-2.0
"""`check --a --b` of commands that compute with other numbers of PyTorch's threads: B is run again
with A's number. Only where their difference goes away it comes from that.
"""

import shlex

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("light")

# The number of threads goes into what is computed as it does into a sum that is split over them,
# but on every machine alike. "past": the job sets it behind the back of torch.set_num_threads.
JOB = """
import sys, torch
threads, rate, how = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
(torch._C if how == "past" else torch).set_num_threads(threads)
assert how != "strict" or torch.get_num_threads() == threads
torch.manual_seed(3)
layer = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(layer.parameters(), lr=rate)
for step in range(3):
    scale = 1 + torch.get_num_threads() / 8
    loss = (layer(torch.full((3, 4), 0.1)) * scale).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def checked(twinrun, python, script, a, b):
    script("job.py", JOB)
    command = shlex.quote(python) + " job.py "
    return twinrun(
        "check",
        "--json",
        "-q",
        "--no-zoom",
        "--a",
        command + a,
        "--b",
        command + b,
        timeout=300,
    ).json


def notes(verdict):
    return [n for n in verdict["notes"] if "threads of PyTorch" in n and " in run " not in n]


def held(home):
    return [p for p in (home / "runs").iterdir() if "b_held" in p.name]


def test_the_difference_goes_away(twinrun, python, home, script):
    verdict = checked(twinrun, python, script, "2 .1 torch", "3 .1 torch")
    assert verdict["outcome"] == "differ"
    assert notes(verdict) == [
        "B with A's number of threads of PyTorch (2; B's own: 3) agrees with A in 2 of 2 runs; B as "
        "it is was not run again beside them, so that number is not shown to be the cause"
    ]
    said = [n for n in verdict["notes"] if "threads" in n and n not in notes(verdict)]
    assert (
        said
        == [  # once
            "threads of PyTorch: 2 in run 1, 3 in run 2; whether what differs comes from that, a "
            "comparison cannot tell"
        ]
    )
    assert len(held(home)) == 2
    for run in held(home):
        said = (run / "factors").read_text()
        assert "effect.threads.torch\tpin 2 threads in operations of torch" in said
        assert "interop" not in said  # held by the pin `threads`, and not here


def test_what_differs_otherwise_is_not_laid_to_the_threads(twinrun, python, home, script):
    verdict = checked(twinrun, python, script, "2 .1 torch", "3 .2 torch")
    assert notes(verdict) == [
        "B with A's number of threads of PyTorch (2; B's own: 3) still differs from A: the "
        "difference does not go away with that number alone"
    ]
    assert len(held(home)) == 1


def test_equal_numbers_make_no_experiment(twinrun, python, home, script):
    verdict = checked(twinrun, python, script, "2 .1 torch", "2 .2 torch")
    assert verdict["outcome"] == "differ"
    assert notes(verdict) == []
    assert held(home) == []


@pytest.mark.parametrize(
    "b, said",
    [
        (
            "3 .1 past",
            "B could not be held at A's number of threads of PyTorch (2; B's own: 3): whether the "
            "difference comes from it is not known",
        ),
        (
            "3 .1 strict",
            "whether the difference comes from the number of threads of PyTorch was not found out: "
            "a run of B with A's number (2; B's own: 3) failed, or could not be judged",
        ),
    ],
)
def test_an_experiment_that_failed_says_nothing(twinrun, python, home, script, b, said):
    verdict = checked(twinrun, python, script, "2 .1 torch", b)
    assert verdict["outcome"] == "differ"
    assert notes(verdict) == [said]
    assert len(held(home)) == 1
