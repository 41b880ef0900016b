# SPDX-License-Identifier: Apache-2.0
"""Jobs on an NVIDIA GPU, watched for real. Skipped where PyTorch sees none."""

import textwrap

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that PyTorch can use")

ADAM = """
    import sys, torch
    torch.manual_seed(0)
    device = sys.argv[1] if len(sys.argv) > 1 else "cuda"
    model = torch.nn.Sequential(torch.nn.Linear(64, 1100), torch.nn.ReLU(), torch.nn.Linear(1100, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.randn(8, 32, 64).to(device)
    y = torch.randint(0, 10, (8, 32)).to(device)
    for step in range(8):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x[step]), y[step])
        loss.backward()
        optimizer.step()
        print("step", step, "loss", loss.item())
    print("weights", sum(p.double().sum().item() for p in model.parameters()))
"""

# Small whole numbers: every sum is exact, so that both devices compute the same bits.
WHOLE = """
    import sys, torch
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    device = sys.argv[1]
    weight = torch.nn.Parameter(torch.randint(-3, 4, (300, 256)).float().to(device))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    x = torch.randint(-2, 3, (6, 16, 256)).float()
    for step in range(6):
        optimizer.zero_grad()
        out = torch.nn.functional.linear(x[step].to(device), weight)
        loss = out.sum() / 4096
        loss.backward()
        weight.grad.mul_(4096)
        optimizer.step()
        print("step", step, "loss", loss.item())
"""

ATOMIC = """
    import torch
    torch.manual_seed(0)
    table = torch.nn.Parameter(torch.randn(1000, 64, device="cuda"))
    head = torch.nn.Linear(64, 1).cuda()
    optimizer = torch.optim.SGD([table, *head.parameters()], lr=0.01, momentum=0.9)
    index = torch.randint(0, 1000, (200000,), device="cuda")
    source = torch.randn(200000, 64, device="cuda")
    for step in range(4):
        optimizer.zero_grad()
        pooled = torch.zeros(1000, 64, device="cuda").index_add_(0, index, source * table[index])
        head(pooled).pow(2).mean().backward()
        optimizer.step()
"""

DROPOUT = """
    import torch
    torch.manual_seed(0)
    torch.cuda.seed()
    head = torch.nn.Linear(64, 1).cuda()
    optimizer = torch.optim.SGD(head.parameters(), lr=0.01)
    x = torch.ones(32, 64, device="cuda")
    for step in range(3):
        optimizer.zero_grad()
        head(torch.nn.functional.dropout(x, 0.5)).pow(2).mean().backward()
        optimizer.step()
"""

GRAPH = """
    import torch
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 64).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(32, 64, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            model(x).pow(2).mean().backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
    for i in range(5):
        graph.replay()
        print(i, loss.item())
"""

# Two threads, each with a stream of its own, and a worker that waits for what the other thread
# launches.
THREADS = """
    import threading, torch
    torch.manual_seed(0)
    models = [torch.nn.Linear(256, 256).cuda() for _ in range(2)]
    x = torch.randn(64, 256, device="cuda")

    def train(model, out):
        with torch.cuda.stream(torch.cuda.Stream()):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            for _ in range(10):
                optimizer.zero_grad()
                model(x).pow(2).mean().backward()
                optimizer.step()
            torch.cuda.current_stream().synchronize()
            out.append(model.weight.double().sum().item())

    torch.cuda.synchronize()
    found = [[], []]
    threads = [threading.Thread(target=train, args=(m, o), name="train-%d" % i) for i, (m, o) in enumerate(zip(models, found))]
    [t.start() for t in threads]
    [t.join() for t in threads]
    print(found)
"""


def script(tmp_path, text, name="job.py"):
    path = tmp_path / name
    path.write_text(textwrap.dedent(text))
    return path


def words(text):
    """The text without the breaks of its lines."""
    return " ".join(text.split())


def test_a_job_with_moments_on_the_device_is_the_same(twinrun, python, tmp_path):
    """Moments were once sent as rows that nobody had filled: every Adam on a GPU was
    inconclusive.
    """
    result = twinrun(
        "check", "--runs", "2", "--json", "--", python, script(tmp_path, ADAM), cwd=tmp_path
    )
    assert result.rc == 0, result
    assert result.json["outcome"] == "same", result


def test_the_device_gives_the_digests_that_the_host_gives(twinrun, python, tmp_path):
    job = script(tmp_path, WHOLE)
    result = twinrun(
        "check", "--json", "--a", f"{python} {job} cpu", "--b", f"{python} {job} cuda", cwd=tmp_path
    )
    print(result.out)  # the arms differ in what is there: a device's generator
    assert (
        result.rc in (0, 3) and not result.json.get("first") and "could not be" not in result.out
    ), result


def test_atomics_part_and_the_replay_shows_that_the_operation_does(twinrun, python, tmp_path):
    result = twinrun(
        "check",
        "--runs",
        "2",
        "--zoom-time",
        "600",
        "--",
        python,
        script(tmp_path, ATOMIC),
        cwd=tmp_path,
    )
    assert result.rc == 1 and "aten::index_add_" in result.out and "SIG" not in result.err, result
    assert "it is not deterministic" in words(result.out), result


def test_a_replayed_dropout_draws_what_it_drew(twinrun, python, tmp_path):
    """The operation that diverges draws from the device's generator: replays on its recorded inputs
    agree.
    """
    result = twinrun(
        "check",
        "--runs",
        "2",
        "--zoom-time",
        "600",
        "--",
        python,
        script(tmp_path, DROPOUT),
        cwd=tmp_path,
    )
    assert (
        result.rc == 1
        and "SIG" not in result.err
        and "it is not deterministic" not in words(result.out)
    ), result


@pytest.mark.parametrize("job", [ADAM, GRAPH, THREADS], ids=["adam", "graph", "threads"])
def test_the_job_computes_what_it_computes_alone(twinrun, python, tmp_path, job):
    import subprocess

    path = script(tmp_path, job)
    alone = subprocess.run(
        [python, path], capture_output=True, text=True, timeout=200, cwd=tmp_path, check=True
    )
    watched = twinrun("record", "-q", "--", python, path, cwd=tmp_path)
    assert (watched.rc, watched.out) == (0, alone.stdout), watched
