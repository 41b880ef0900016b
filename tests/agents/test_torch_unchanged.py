# SPDX-License-Identifier: Apache-2.0
"""A job gives the same output, messages and exit code with and without the agent, at every level,
under -W error.
"""

import os
import subprocess

import pytest
from conftest import FULL
from torch_observed import JOBS, PYTHON, alone, environment, faked, observed

pytestmark = pytest.mark.usefixtures("python")

CASES = [
    ("train", "tensors", (), ("-W", "error")),
    ("train", "steps", (), ()),
    ("train", "modules", (), ("-W", "error")),
    ("train", "ops", (), ()),
    ("gan", "modules", (), ()),
    ("large", "tensors", ("18", "Adam", "save"), ()),
    ("large", "tensors", ("18", "SGD", "function"), ("-W", "error")),
    ("large", "tensors", ("3", "Adam", "exit"), ()),
    ("large", "tensors", ("3", "SGD", "child"), ()),
    ("critic", "tensors", (), ()),
    ("lbfgs", "tensors", (), ()),
    ("scaler", "tensors", (), ()),
    ("accumulation", "tensors", (), ()),
    ("checkpointing", "modules", (), ()),
    ("checkpointing", "ops", (), ()),
    ("compiled", "tensors", (), ()),
    ("by_hand", "tensors", (), ()),
    ("by_hand", "ops", (), ()),
    ("evaluation", "tensors", (), ()),
    ("saving", "tensors", ("1.5",), ()),
    ("loaders", "tensors", ("fork",), ()),
    ("loaders", "tensors", ("spawn",), ()),
    *[("loaders", "tensors", ("forkserver",), ())] * FULL,
    ("ranks", "tensors", (), ()),
    ("odd", "tensors", (), ()),
    ("traced", "modules", (), ()),
    ("traced", "ops", (), ()),
]


@pytest.mark.parametrize("job, level, args, options", CASES)
def test_job_runs_as_if_alone(job, level, args, options):
    plain, watched = alone(job, args, options), observed(job, level, args, options)
    assert plain.returncode == 0, plain.stderr
    assert watched.done.stdout == plain.stdout
    assert watched.done.stderr == plain.stderr
    assert watched.done.returncode == 0
    assert watched.records and watched.note("agent.error") is None


@pytest.mark.parametrize("level", ["tensors", "ops"])
def test_exceptions_pass_with_the_tracebacks_of_the_job(level):
    import sys

    plain, watched = alone("failing"), observed("failing", level)
    assert plain.returncode == 1 and "mat1 and mat2" in plain.stderr
    assert watched.done.returncode == 1
    # before, a re-raised exception keeps the frame that it passed through
    if sys.version_info >= (3, 11):
        assert watched.done.stdout == plain.stdout
        assert watched.done.stderr == plain.stderr
    assert watched.note("agent.error") is None


def run_text(text, tmp_path, *options, **env):
    """A script given as text, under the agent; returns how it ended and the lines of the double's
    file.
    """
    script = tmp_path / "job.py"
    script.write_text(text)
    out = tmp_path / "records"
    done = subprocess.run(
        [PYTHON, *options, str(script)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        env=faked(FAKE_OUT=str(out), **env),
    )
    return done, out.read_text().splitlines() if out.exists() else []


def test_without_torch_nothing_of_torch_or_ctypes_is_imported(tmp_path):
    done, _rows = run_text(
        "import sys\nprint([m for m in ('torch', 'ctypes', 'numpy', '_twinrun_agent.core') if m in sys.modules])\n",
        tmp_path,
    )
    imported_by_the_double = ["ctypes"]
    assert done.returncode == 0 and done.stdout.strip() in (
        str([]),
        str(imported_by_the_double),
    ), done


def test_an_error_of_ours_switches_the_agent_off_and_is_noted(tmp_path):
    done, rows = run_text(
        "import torch, sys\n"
        "sys.modules['_twinrun_agent.rng'].confirm = None\n"
        "model = torch.nn.Linear(1, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for i in range(3):\n"
        "    model(torch.ones(1, 1)).backward(); optimizer.step(); optimizer.zero_grad()\n"
        "print('done')\n",
        tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    assert sum('"agent.error"' in row for row in rows) == 1
    assert not any('"step": 1' in row for row in rows)


def test_an_exception_of_a_signal_handler_reaches_the_job(tmp_path):
    """The handler runs while a hook of ours works: its exception is the job's, not a failure of the
    agent.
    """
    done, rows = run_text(
        "import os, signal, torch, sys\n"
        "class Stop(Exception):\n    pass\n"
        "def stop(*_):\n    raise Stop\n"
        "signal.signal(signal.SIGUSR1, stop)\n"
        "rng = sys.modules['_twinrun_agent.rng']\n"
        "check = rng.check\n"
        "def interrupted(*args):\n    os.kill(os.getpid(), signal.SIGUSR1); return check(*args)\n"
        "rng.check = interrupted\n"
        "try:\n    torch.nn.Linear(1, 1)(torch.ones(1, 1))\n"
        "except Stop:\n    print('stopped')\n"
        "rng.check = check\n"
        "print(torch.nn.Linear(1, 1)(torch.ones(1, 1)).shape)\n",
        tmp_path,
    )
    assert done.stdout == "stopped\ntorch.Size([1, 1])\n", done
    assert not any('"agent.error"' in row for row in rows)


def test_generators_of_the_job_are_left_alone(tmp_path):
    text = (
        "import random, numpy, torch\n"
        "torch.manual_seed(1); random.seed(2); numpy.random.seed(3)\n"
        "net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout())\n"
        "for x in torch.utils.data.DataLoader([torch.ones(2)] * 4, shuffle=True):\n"
        "    net(x).sum().backward()\n"
        "print(torch.rand(3).tolist(), random.random(), numpy.random.rand(), torch.initial_seed())\n"
    )
    done, rows = run_text(text, tmp_path)
    plain = subprocess.run(
        [PYTHON, str(tmp_path / "job.py")], capture_output=True, text=True, env=environment()
    )
    assert rows and done.stdout == plain.stdout != ""


def test_recording_stops_after_the_steps_asked_for(tmp_path):
    with open(os.path.join(JOBS, "critic.py")) as f:
        done, rows = run_text(f.read(), tmp_path, FAKE_STEPS="2")
    assert done.returncode == 0
    assert any('"step": 1,' in row for row in rows) and not any('"step": 2,' in row for row in rows)
