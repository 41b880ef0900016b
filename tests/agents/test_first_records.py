# SPDX-License-Identifier: Apache-2.0
"""The first records of a process, where two threads come to make them at once: the second one waits,
as the states that the first one is about to record were drawn from before, by nobody's code that
could be named.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from twinrun.trace import Record, Step, Trace  # noqa: E402

pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("light")

# The main thread is held where it is about to write the first records, until the other one has
# either come to them as well or is through.
JOB = """
import sys, threading, time, torch
core = next((m for name, m in list(sys.modules.items()) if name.endswith("_agent.core")), None)
torch.manual_seed(3)
models = [torch.nn.Linear(4, 2) for _ in range(2)]

def runs(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        optimizer.zero_grad()
        model(torch.ones(3, 4)).square().mean().backward()
        optimizer.step()

other = threading.Thread(target=runs, args=(models[1],), name="other")

def inside():
    frame = sys._current_frames().get(other.ident)
    while frame is not None:
        if frame.f_code is core.begin.__code__:
            return True
        frame = frame.f_back

def hold():
    other.start()
    while other.is_alive() and not inside():
        time.sleep(0.001)

if core is not None:
    core.S.on_begin.insert(0, hold)
runs(models[0])
other.join()
"""


def test_a_second_thread_waits_for_the_first_records(twinrun, python, home, script):
    script("job.py", JOB)
    done = twinrun("record", "-q", "--", python, "job.py")
    assert done.rc == 0, done
    (path,) = home.rglob("*.twt")
    with Trace.open(path) as t:
        steps, found = 0, []
        for event in t.events():
            if isinstance(event, Step):
                steps += 1
            elif isinstance(event, Record) and t.key(event)[1] == "state":
                found.append((steps, *t.key(event)[:3]))
    # The state as the job found it, and one at the end of each step: nobody drew in between.
    # Records of two threads lie in the file as their buffers were full.
    ends = [(step, "rng", "state", "torch.cpu") for step in range(steps)]
    assert sorted(found) == sorted([(0, "init", "state", "torch.cpu"), *ends])
