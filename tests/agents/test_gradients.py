# SPDX-License-Identifier: Apache-2.0
"""Gradients that a line of the job writes between backward and step: neither the backward nor the
optimizer is their origin.
"""

import pytest

pytestmark = pytest.mark.usefixtures("light")

JOB = """
import os

import torch

torch.manual_seed(0)
torch.set_num_threads(1)
noise = int.from_bytes(os.urandom(2), "little") * 1e-7 + 1e-6
hit = False


class Loose(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (1 + noise * (hit and LOOSE))


model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
weight = model[0].weight
for step in range(STEPS):
    x, y = torch.randn(5, 6), torch.randn(5, 2)
    hit = step == STEPS - 2
    loss = ((Loose.apply(model(x)) - y) ** 2).mean()
    ZERO
    BACKWARD
    AFTER
    optimizer.step()
"""

WRITES = [  # name, parts of the job, what is known to be equal before
    ("in-place", {"AFTER": "if hit: weight.grad.add_(noise)"}, "forward"),
    ("data", {"AFTER": "if hit: weight.grad.data[0, 1] += noise"}, "forward"),
    ("another-tensor", {"AFTER": "if hit: weight.grad = weight.grad * (1 + noise)"}, "forward"),
    (
        "clip",
        {"AFTER": "torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1 + noise * hit)"},
        "backward",
    ),
    (
        "clip-in-first-step",
        {"AFTER": "torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1 + noise)"},
        "backward",
    ),
    (
        "between-two-backwards",
        {
            "BACKWARD": "loss.backward(retain_graph=True); weight.grad.mul_(1 + noise * hit); loss.backward()"
        },
        "backward",
    ),
    (
        "made-by-the-job",
        {"BACKWARD": "for p in model.parameters(): p.grad = torch.full_like(p, 0.1 + noise * hit)"},
        "forward",
    ),
    ("later", {"AFTER": "if hit: weight.grad.add_(noise)", "STEPS": "22"}, "forward"),
    (
        "data-in-each-step",
        {"AFTER": "weight.grad.data.add_(noise * hit + 1e-9)", "STEPS": "22"},
        "backward",
    ),
]


USUAL = {
    "LOOSE": "False",
    "STEPS": "5",
    "ZERO": "optimizer.zero_grad()",
    "BACKWARD": "loss.backward()",
    "AFTER": "pass",
}


def job(parts):
    text = JOB
    for part, usual in USUAL.items():
        text = text.replace(part, parts.get(part, usual))
    return text


def check(twinrun, python, script, parts):
    return twinrun(
        "check", "--json", "--no-zoom", "--runs", "2", "--", python, script("job.py", job(parts))
    )


@pytest.mark.parametrize("parts, before", [w[1:] for w in WRITES], ids=[w[0] for w in WRITES])
def test_a_written_gradient_makes_no_operation_an_origin(twinrun, python, script, parts, before):
    first = check(twinrun, python, script, parts).json["first"]
    assert (first["role"], first["phase"], first["kind"], first["op"]) == (
        "unknown",
        "optimizer",
        "gradient",
        "written",
    ), first
    assert first["name"] == "0.weight" and first["layer"] == "backward", first
    assert first["between"][0] == "the %s of step %d" % (before, first["step"]), first


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"AFTER": "torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)"},
        {"ZERO": "optimizer.zero_grad(set_to_none=False)"},
        {
            "BACKWARD": "for p, g in zip(model.parameters(), torch.autograd.grad(loss, list(model.parameters()))): p.grad = g"
        },
    ],
    ids=["plain", "clipped", "set-to-zero", "assigned"],
)
def test_a_backward_that_varies_stays_the_origin(twinrun, python, script, parts):
    verdict = check(twinrun, python, script, dict(parts, LOOSE="True")).json
    first = verdict["first"]
    assert (first["role"], first["phase"], first["kind"]) == (
        "origin",
        "backward",
        "gradient",
    ), first
    assert ("written gradients" in [onset["what"] for onset in verdict["then"]]) == (
        "clip" in parts.get("AFTER", "")
    ), verdict["then"]


@pytest.mark.parametrize(
    "parts",
    [{"LOOSE": "True"}, {"AFTER": "if hit: weight.grad.data.add_(noise)"}],
    ids=["backward", "data"],
)
def test_behind_the_first_steps_no_backward_is_an_origin_without_a_zoom(
    twinrun, python, script, parts
):
    """A write through .data is not seen in every gradient there, so a backward cannot be told from
    it.
    """
    first = check(twinrun, python, script, dict(parts, STEPS="40")).json["first"]
    assert (first["role"], first["step"], first["kind"]) == ("unknown", 38, "gradient"), first
    assert first["between"][0] == "the forward of step 38", first


def test_it_is_said_in_words(twinrun, python, script):
    done = twinrun(
        "check", "--no-zoom", "--runs", "2", "--", python, script("job.py", job(WRITES[3][1]))
    )
    assert "grad that was written to, of 0.weight" in done.out and "ORIGIN" not in done.out, done


@pytest.mark.parametrize(
    "change",
    (
        "del optimizer.param_groups[0]['params'][1:]",
        "optimizer.param_groups[0]['params'].reverse()",
        "optimizer.add_param_group({'params': [torch.nn.Parameter(torch.ones(3))]})",
    ),
    ids=("fewer", "turned", "more"),
)
@pytest.mark.parametrize("when", (0, 17))
def test_parameters_may_change_behind_a_backward(twinrun, python, script, when, change):
    parts = {
        "AFTER": "torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n    if step == %d: %s"
        % (when, change),
        "STEPS": "20",
    }
    path = script("job.py", job(parts))
    done = twinrun("check", "--json", "--no-zoom", "--runs", "2", "--", python, path)
    assert done.json["outcome"] == "same", done
    assert "agent.error" not in done.out, done


def test_gradients_that_are_clipped_alike_are_the_same(twinrun, python, script):
    done = check(
        twinrun,
        python,
        script,
        {"AFTER": "torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)"},
    )
    assert done.json["outcome"] == "same", done
