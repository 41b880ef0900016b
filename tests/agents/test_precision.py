# SPDX-License-Identifier: Apache-2.0
"""`twinrun verify RUN --precision POLICY` over real PyTorch jobs on the CPU: types of tensors,
autocast regions by step, gradient scaling, switches.
"""

import pytest
from conftest import marker_line

pytestmark = pytest.mark.usefixtures("light")

JOB = """
    import sys, torch
    mixed, scaled = "mixed" in sys.argv, "scaled" in sys.argv
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if "medium" in sys.argv:
        torch.set_float32_matmul_precision("medium")
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", enabled=scaled, init_scale=1024.0)
    x, y = torch.randn(8, 16), torch.randint(0, 4, (8,))
    for step in range(6):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=mixed and step >= 2):
            output = model(x)  # ORIGIN
            loss = torch.nn.functional.cross_entropy(output, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    torch.set_float32_matmul_precision("highest")
"""


@pytest.fixture
def verify(twinrun, python, script):
    """verify(policy text, *words of the job) -> (exit code, {line of the rule: rule})."""

    def call(policy, *words):
        path = script("job.py", JOB)
        done = twinrun("record", "-q", "--level", "modules", "--", python, path, *words)
        assert done.rc == 0, done
        found = twinrun("verify", "last", "--precision", script("policy.toml", policy), "--json")
        assert found.rc in (0, 1, 3), found
        return found.rc, found.json["rules"], path

    return call


def test_bf16_autocast_is_seen_by_step_tensor_and_line(verify):
    rc, rules, path = verify(
        """
        [[precision]]
        pattern = "forward/activation/*"
        dtypes = "f32"
        [[precision]]
        pattern = "*/weight/*"
        dtypes = "f32"
        [[precision]]
        autocast = "off"
        [[precision]]
        autocast = ["off", "bfloat16"]
        [[precision]]
        grad_scaler = "off"
        """,
        "mixed",
    )
    activations, weights, off, either, unscaled = rules
    assert rc == 1 and [r["outcome"] for r in rules] == ["broken", "kept", "broken", "kept", "kept"]
    first = activations["breaches"][0]
    assert (first["step"], first["found"], first["phase"]) == (2, "bf16", "forward")
    assert all(b["times"] == 4 and b["step"] == 2 for b in activations["breaches"])
    assert any(
        "job.py:%d" % marker_line(path) in b["source"] for b in activations["breaches"]
    ), activations["breaches"]
    (breach,) = off["breaches"]
    assert (breach["step"], breach["times"], breach["found"]) == (2, 4, "cpu bfloat16")
    assert either["judged"] == unscaled["judged"] == 6 and weights["judged"] > 6


def test_scaling_is_required_in_every_step(verify):
    policy = """
        [[precision]]
        grad_scaler = "required"
        [[precision]]
        float32_matmul_precision = "highest"
        [[precision]]
        tf32 = "off"
        """
    rc, rules, _ = verify(policy, "scaled")
    assert rc == 0 and [r["outcome"] for r in rules] == ["kept", "kept", "not applicable"]
    # set back before the end: the start has told it
    rc, rules, _ = verify(policy, "plain", "medium")
    assert rc == 1 and [r["outcome"] for r in rules] == ["broken", "broken", "not applicable"]
    (breach,) = rules[0]["breaches"]
    assert (breach["step"], breach["times"], breach["found"]) == (0, 6, "not scaled")
    assert [b["found"] for b in rules[1]["breaches"]] == ["medium at the start"]


def test_what_was_not_recorded_is_not_known(verify):
    rc, rules, _ = verify(
        """
        [[precision]]
        pattern = "forward/activation/no such module"
        dtypes = "f32"
        """,
        "plain",
    )
    assert rc == 3 and rules[0]["outcome"] == "unknown" and rules[0]["judged"] == 0


def test_fp32_against_mixed_as_an_experiment(twinrun, python, script):
    path = script("job.py", JOB)
    done = twinrun(
        "significant",
        "-q",
        "--json",
        "--runs",
        "2",
        "--within",
        "5%",
        "--a",
        f"{python} {path} plain",
        "--b",
        f"{python} {path} mixed",
        timeout=400,
    )
    assert done.rc == 0, done
    speed, metric, bits = (done.json[key] for key in ("speed", "metric", "bits"))
    assert (
        speed["metric"] == "step"
        and speed["took_turns"]
        and all(v > 0 for v in speed["a"]["values"] + speed["b"]["values"])
    )
    assert metric["answer"] == "within" and metric["a"]["distinct"] == metric["b"]["distinct"] == 1
    assert (
        abs(metric["b"]["values"][0] / metric["a"]["values"][0] - 1) < 0.05
        and metric["a"]["values"] != metric["b"]["values"]
    )
    assert bits["a_classes"] == bits["b_classes"] == 1 and bits["equal"] is False
    assert (
        "autocast off" in metric["a"]["configuration"]
        and "autocast cpu bfloat16" in metric["b"]["configuration"]
    )
