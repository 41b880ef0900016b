# SPDX-License-Identifier: Apache-2.0
"""The runbooks (docs/runbooks/): what they say is printed by the job that they name.

Of each page the commands behind `$` are run, in their order (pages.py), in a folder that holds its
ghost as train.py (./train in C).
"""

import re
from pathlib import Path

import pytest
from conftest import ROOT, clean_environment
from pages import follow, stage

PAGES = sorted((ROOT / "docs" / "runbooks").glob("*.md"))
# It pins deterministic algorithms, which need PyTorch's compiler (conftest.light).
WHOLE = {"operator"}
# One bit of the first weight, as a bad disk leaves it: the archive's own checksum is not asked.
DAMAGE = """
import sys, torch

state = torch.load(sys.argv[1])
weight = next(v for v in state["model"].values())
weight.view(torch.int32).view(-1)[0] ^= 1 << 22
torch.save(state, sys.argv[1])
"""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page, work, build, home, python, request):
    if page.stem not in WHOLE:
        request.getfixturevalue("light")
    text = page.read_text()
    env = clean_environment({"TWINRUN_HOME": str(home)})
    env["PATH"] = f"{build / 'cmd'}:{Path(python).parent}:{env['PATH']}"
    stage(re.search(r"^Ghost: `(.+)`$", text, re.M)[1], work, env)
    (work / "damage.py").write_text(DAMAGE)
    assert follow(text, work, env) >= 1


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "runbooks.md").read_text()
    assert [f"runbooks/{page.name}" in index for page in PAGES] == [True] * len(PAGES)
    assert len(PAGES) == 8
