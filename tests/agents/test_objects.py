# SPDX-License-Identifier: Apache-2.0
"""Objects that ranks hand each other: what a run is called means nothing, all else does."""

import json
import re

import pytest

JOB = """
    import os, sys
    import torch
    import torch.distributed as dist

    what = sys.argv[1]
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    os.makedirs("logs", exist_ok=True)
    folder = os.path.abspath("logs/version_%d" % len(os.listdir("logs")))
    data = "/data/b.csv" if what == "path" else "/data/a.csv"
    dist.broadcast_object_list([folder, data, "two" if what == "text" else "one", {3, 4}], src=0)
    os.makedirs(folder)
    open(folder + "/metrics.csv", "w").write("step\\n")
    for i in range(3):
        optimizer.zero_grad()
        net(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        seen = {"seen": i + (what == "number" and i == 1), "mean": torch.ones(2) * i}
        if what == "tensor" and i == 1:
            seen["mean"][1] += 1
        if what == "set" and i == 1:
            seen["mean"] = {1, 2}
        dist.all_gather_object([None], seen)
    dist.destroy_process_group()  # without it PyTorch aborts at the exit, once in hundreds of runs
"""


@pytest.fixture
def recorded(twinrun, script, python, light, home):
    script("job.py", JOB)

    def record(what):
        done = twinrun("record", "-q", "--no-telemetry", "--", python, "job.py", what)
        assert done.rc == 0, done
        return max((home / "runs").iterdir(), key=lambda f: (f / "run.json").stat().st_mtime_ns)

    return record


def test_what_ranks_hand_each_other(twinrun, recorded):
    """The folder of a run is told to all ranks, and is another one each time."""
    first, again = recorded("plain"), recorded("plain")
    for run, number in ((first, 0), (again, 1)):
        shown = twinrun("show", run, "--step", "0", "--record", "collective/*").out
        names = re.findall(r"(?:in|out) +((?:broadcast|all_gather)_object\S*(?: /\S+)?)", shown)
        assert len(names) == 4, shown
        assert names[0].endswith("/logs/version_%d" % number), shown
        assert names[1:] == [
            "broadcast_object_list[1]: /data/a.csv",
            "broadcast_object_list[2]",
            "broadcast_object_list[3]",
        ]
    done = twinrun("diff", "--json", first, again)
    assert done.rc == 0 and json.loads(done.out)["outcome"] == "same", done
    for what, step, name in (
        ("path", 0, "broadcast_object_list[1]: /data/"),
        ("text", 0, "broadcast_object_list[2]"),
        ("number", 2, "all_gather_object"),
        ("tensor", 2, "all_gather_object"),
        ("set", 2, "all_gather_object"),
    ):
        done = twinrun("diff", "--json", first, recorded(what))
        found = json.loads(done.out)
        assert done.rc == 1 and found["outcome"] == "differ", (what, done)
        at = found["first"]
        assert at["step"] == step and at["name"].startswith(name), (what, at)
        assert at["source"][0].startswith("job.py:"), (what, at)
        assert "diverged in the reduction" not in done.out, what
