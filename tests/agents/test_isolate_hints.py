# SPDX-License-Identifier: Apache-2.0
"""Hints of `twinrun isolate` that say "unless": each is given where the job does not follow the
advice yet, and not where it does.

The jobs differ on purpose, in what one operation of the backward pass gives and nowhere before it,
so that they look like the case; the opposite differs in one line. What a GPU's atomic additions do
the job of atomic-gradient plays: its noise ends where the pin says so.
"""

import html
import re
from pathlib import Path

import pytest
from conftest import FULL, ROOT

UNLESS = {
    path.stem
    for path in (ROOT / "cases").glob("*.toml")
    if re.search(r"^unless\s*=", path.read_text(), re.M)
}

JOB = """
import os
import torch
{follow}
torch.manual_seed(0)
def noise():
    return 1 + {noise} / 256
def embedding(grad, indices, rows, padding, scale):
    return torch.zeros(rows, 8).index_add_(0, indices, grad) * noise()
def attention(grad, *_arguments, **_named):
    out = grad * noise()
    return out, out.clone(), out.clone()
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(6, 8)
    def forward(self, index):
        rows = self.table(index)
        {forward}
library = torch.library.Library("aten", "IMPL")
library.impl("{operation}", {by}, "CPU")
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=.1)
for step in range(2):
    optimizer.zero_grad()
    model(torch.tensor([0, 1, 1, 4])).pow(2).sum().backward()
    optimizer.step()
"""
ADVICE = "torch.use_deterministic_algorithms(True)"
INDEX = {"forward": "return rows", "operation": "embedding_dense_backward", "by": "embedding"}
ATTENTION = {
    "forward": "q = rows.view(1, 1, 4, 8); return torch.nn.functional.scaled_dot_product_attention(q, q, q)",
    "operation": "_scaled_dot_product_flash_attention_for_cpu_backward",
    "by": "attention",
}
URANDOM = "os.urandom(1)[0]"
PLAYED = "(0 if 'torch-deterministic' in os.environ.get('TWINRUN_PINS', '') else %s)" % URANDOM
# case -> (which operation gives other gradients, what makes them differ, the only candidate)
CASES = {
    "index-gradient": (INDEX, URANDOM, "entropy"),
    "flash-attention-backward": (ATTENTION, URANDOM, "entropy"),
    "atomic-gradient": (INDEX, PLAYED, "torch-deterministic"),
}


def test_every_case_is_tried():
    assert UNLESS == set(CASES)


def hints(twinrun, python, script, case, follow):
    operation, noise, pin = CASES[case]
    script("job.py", JOB.format(noise=noise, follow=follow, **operation))
    done = twinrun("isolate", "-q", "--json", "--pin", pin, "--", python, "job.py", timeout=900)
    assert done.rc == 1 and [c["factor"] for c in done.json["causes"]] == [pin], done
    assert done.json["first"]["op"] == "aten::" + operation["operation"], done.json["first"]
    return [hint["id"] for hint in done.json["seen_before"]], done.json["first"]


@pytest.mark.skipif(not FULL, reason="two searches of about 13 runs of PyTorch: with --full")
@pytest.mark.parametrize("case", sorted(CASES))
def test_a_hint_and_its_opposite(twinrun, python, script, case):
    pytest.importorskip("torch")
    found, first = hints(twinrun, python, script, case, "")
    assert case in found, first
    found, first = hints(twinrun, python, script, case, ADVICE)
    assert case not in found, first


OWN = """
[[case]]
id = "own"
title = "a case of one's own"
factors = "entropy"
phase = "backward"
kind = "gradient"
name = "w"
cause = "A noise that is drawn."
fix = "Fix the hash seed."
unless = "hash=random"
"""
LIGHT = """
import array, os, twinrun
for step in range(3):
    twinrun.record("batch:x", array.array("d", [step]))
    twinrun.record("gradient:w", array.array("d", [os.urandom(1)[0]]))
    twinrun.step()
"""


@pytest.mark.parametrize("salt, given", [("0", True), (None, False)])
def test_a_case_of_ones_own(twinrun, home, python, script, salt, given):
    """Without PyTorch: the settings that are noted of every Python job decide, too."""
    (home / "cases").mkdir(parents=True, exist_ok=True)
    (home / "cases" / "own.toml").write_text(OWN)
    script("job.py", LIGHT)
    env = {"PYTHONHASHSEED": salt} if salt else None
    done = twinrun("isolate", "-q", "--json", "--pin", "entropy", "--", python, "job.py", env=env)
    assert done.rc == 1, done
    assert ("own" in [hint["id"] for hint in done.json["seen_before"]]) == given, done.json[
        "seen_before"
    ]
    # the page of the search shows the line that the cause points to, and those around it
    page = html.unescape((Path(done.json["folder"]) / "report.html").read_text())
    assert "job.py, as it was in run 1 (by its digest)." in page
    (asked,) = [line for line in page.split("\n") if line.startswith(">    4  ")]
    assert asked.endswith('twinrun.record("gradient:w", array.array("d", [os.urandom(1)[0]]))')
    assert done.json["causes"][0]["where"][0].startswith("job.py:4, 3 calls"), done.json["causes"]
