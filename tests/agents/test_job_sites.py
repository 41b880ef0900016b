# SPDX-License-Identifier: Apache-2.0
"""What the fixtures `light` and `calm` put before a job (light_site, calm_site) leaves the job as it
is for all that the tests ask of it, and the agent sees PyTorch come.
"""

import json

import pytest
from conftest import CALM_SITE, LIGHT_SITE

JOB = """
import gc, json, sys, weakref
gc.disable() if "off" in sys.argv else None
import torch

class Cycle:
    def __init__(self):
        self.own = self

torch.manual_seed(1)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.utils.data.DataLoader(torch.randn(4, 2), shuffle=True, num_workers=1):
    model(x).sum().backward()
    optimizer.step()
gone = weakref.ref(Cycle())
left = gone() is not None
gc.collect()
print(json.dumps({
    "collects": gc.isenabled(),
    "cycle": [left, gone() is not None],
    "set aside": gc.get_freeze_count() > 50_000,
    "in the loader": sorted(set(vars(torch.__spec__.loader)) - {"name", "path"}),
    "finders": [type(f).__name__ for f in sys.meta_path if type(f).__name__ == "CalmImport"],
    "generator": torch.Generator().manual_seed(3).initial_seed(),
    "compiler": "torch._dynamo" in sys.modules and hasattr(sys.modules["torch._dynamo"], "config"),
    "prims": "torch._prims" in sys.modules,
}))
"""


@pytest.mark.parametrize("site", [LIGHT_SITE, CALM_SITE], ids=lambda site: site.name)
@pytest.mark.parametrize("arguments", [[], ["off"]], ids=["on", "off"])
def test_the_job_is_as_it_was(site, arguments, twinrun, script, python, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(site))
    script("job.py", JOB)
    done = twinrun("record", "--", python, "job.py", *arguments)
    assert done.rc == 0, done
    whole = site == CALM_SITE
    assert json.loads(done.out.splitlines()[-1]) == {
        "collects": not arguments,
        "cycle": [True, False],
        "set aside": True,
        "in the loader": [],
        "finders": [],
        "generator": 3,
        "compiler": whole,
        "prims": whole,
    }, done
    assert "4 steps" in twinrun("show", "last").out, done
