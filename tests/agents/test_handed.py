# SPDX-License-Identifier: Apache-2.0
"""What lines of the job do between a loader, the models and the losses: no module or backward may
be called its origin.
"""

import pytest

pytestmark = pytest.mark.usefixtures("light")

JOB = """
import os

import numpy
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
noise = int.from_bytes(os.urandom(2), "little") * 1e-7 + 1e-6
NOISE = 0


class Slots:
    __slots__ = ("value",)


class Net(torch.nn.Sequential):
    def forward(self, x, more=0):
        return super().forward(x) * (1 + (more.value if isinstance(more, Slots) else more() if callable(more) else float(more)) + NOISE)


model = Net(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
criterion = torch.nn.MSELoss()
given = Slots()
data = torch.utils.data.TensorDataset(torch.randn(40, 6), torch.randn(40, 2))
for step, (x, y) in enumerate(torch.utils.data.DataLoader(data, batch_size=10)):
    hit = step == 2
    given.value = noise * hit
    BEFORE
    out = CALL
    loss = LOSS
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
USUAL = {"BEFORE": "pass", "CALL": "model(x)", "LOSS": "criterion(out, y)"}
DELIVERED = "the batch of step 2 as the loader delivered it"
OUTPUT = "output of Net in step 2"
WRITES = [  # name, parts of the job, kind and name of what is named first, between what and it
    ("batch-in-place", {"BEFORE": "x += noise * hit"}, ("in", "input[0]"), DELIVERED),
    ("batch-data", {"BEFORE": "x.data.mul_(1 + noise * hit)"}, ("in", "input[0]"), DELIVERED),
    ("number", {"CALL": "model(x, noise * hit)"}, ("in", "input, plain values"), "the beginning"),
    (
        "numpy-scalar",
        {"CALL": "model(x, numpy.float32(noise * hit))"},
        ("activation", "output"),
        "the call of Net in step 2 (which was given a float32, which is not looked into)",
    ),
    (
        "slots",
        {"CALL": "model(x, given)"},
        ("activation", "output"),
        "the call of Net in step 2 (which was given a Slots, which is not looked into)",
    ),
    (
        "function",
        {"CALL": "model(x, lambda: noise * hit)"},
        ("activation", "output"),
        "the call of Net in step 2 (which was given a function, which is not looked into)",
    ),
    ("loss-by-lines", {"LOSS": "((out - y) ** 2).mean() + noise * hit"}, ("loss", "loss"), OUTPUT),
    (
        "target-by-lines",
        {"LOSS": "criterion(out, y + noise * hit)"},
        ("loss", "loss"),
        "the call of MSELoss in step 2 (which was given what no record shows)",
    ),
    (
        "target-in-place",
        {"BEFORE": "y.data.add_(noise * hit)"},
        ("loss", "loss"),
        "the call of MSELoss in step 2 (which was given what no record shows)",
    ),
    (
        "seeded-anew",
        {"BEFORE": "if hit: torch.manual_seed(int(noise * 1e7))"},
        ("state", "torch.cpu"),
        "the end of step 1",
    ),
]
ORIGINS = [  # what is seen whole keeps its origin
    ("model", {"BEFORE": "NOISE = noise * hit"}, ("activation", "output")),
    (
        "model-with-number",
        {"BEFORE": "NOISE = noise * hit", "CALL": "model(x, 0.5)"},
        ("activation", "output"),
    ),
    (
        "criterion",
        {
            "BEFORE": "criterion.__class__ = type('OddLoss', (torch.nn.MSELoss,),"
            " {'forward': lambda self, a, b: super(type(self), self).forward(a, b) + noise * hit})",
            "LOSS": "criterion(out[:, :1], y[:, :1])",
        },
        ("loss", "loss"),
    ),
]


def first_of(twinrun, python, script, parts):
    text = JOB
    for part, usual in USUAL.items():
        text = text.replace(part, parts.get(part, usual))
    done = twinrun(
        "check", "--json", "--no-zoom", "--runs", "2", "--", python, script("job.py", text)
    )
    assert done.json["outcome"] == "differ", done
    return done.json["first"]


@pytest.mark.parametrize("parts, what, before", [w[1:] for w in WRITES], ids=[w[0] for w in WRITES])
def test_lines_in_between_make_no_module_an_origin(twinrun, python, script, parts, what, before):
    first = first_of(twinrun, python, script, parts)
    assert first["step"] == 2 and (first["kind"], first["name"]) == what, first
    assert first["role"] == "unknown" and first["between"][0] == before, first


@pytest.mark.parametrize("features", (16384, 16385, 32767, 32768, 40001))
def test_a_write_to_a_batch_of_any_size(twinrun, python, script, features):
    text = JOB.replace("Linear(6, 8)", f"Linear({features}, 8)").replace(
        "randn(40, 6)", f"randn(4, {features})"
    )
    text = text.replace("randn(40, 2)", "randn(4, 2)").replace("batch_size=10", "batch_size=1")
    for part, usual in {**USUAL, "BEFORE": "x.data.mul_(1 + noise * hit)"}.items():
        text = text.replace(part, usual)
    done = twinrun(
        "check", "--json", "--no-zoom", "--runs", "2", "--", python, script("job.py", text)
    )
    first = done.json["first"]
    assert (first["step"], first["kind"], first["name"], first["role"]) == (
        2,
        "in",
        "input[0]",
        "unknown",
    ), first


@pytest.mark.parametrize("parts, what", [o[1:] for o in ORIGINS], ids=[o[0] for o in ORIGINS])
def test_what_was_given_whole_has_its_origin(twinrun, python, script, parts, what):
    first = first_of(twinrun, python, script, parts)
    assert first["step"] == 2 and (first["kind"], first["name"]) == what, first
    assert first["role"] == "origin", first
