# SPDX-License-Identifier: Apache-2.0
"""Work buffers are no results: what is compared of an operation is the same wherever its memory
came from, and when it runs again.
"""

import json
import os

from conftest import ROOT

# Every operation of the catalogue and of the usual layers, on one thread: digests of its outputs,
# and of the same call made again.
CALLS = """
import importlib.util, hashlib, json, sys
import torch
from torch.utils._python_dispatch import TorchDispatchMode
def load(path):
    spec = importlib.util.spec_from_file_location("m", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
catalogue, opaque = load(sys.argv[1] + "/_ops/catalogue.py"), load(sys.argv[1] + "/_agent/opaque.py")
torch.set_num_threads(1)
nn, found, again = torch.nn, [], []
def digest(x):
    if not isinstance(x, torch.Tensor) or x.layout is not torch.strided:
        return type(x).__name__
    x = x.detach().contiguous()
    return hashlib.sha256(bytes(x.reshape(-1).contiguous().view(torch.uint8).numpy())).hexdigest()[:16] if x.numel() else "nothing"
def digests(name, result):
    result = opaque.outputs(name, result) if sys.argv[2] == "table" else result
    return [digest(x) for x in (result if isinstance(result, (tuple, list)) else [result])]
class Watch(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        schema, state = func._schema, torch.get_rng_state()
        pure = all(a.alias_info is None for a in schema.arguments) and not schema.name.startswith("prim")
        result = func(*args, **(kwargs or {}))
        if not any(word in schema.name for word in ("::empty", "::new_empty", "resize_")):
            found.append((schema.name, digests(schema.name, result)))
            if pure and (kwargs or {}).get("generator") is None:
                now = torch.get_rng_state()
                torch.set_rng_state(state)
                once_more = digests(schema.name, func(*args, **(kwargs or {})))
                torch.set_rng_state(now)
                if once_more != found[-1][1]:
                    again.append(schema.name)
        return result
def train(layer, *inputs):
    out = layer(*inputs)
    (out[0] if isinstance(out, tuple) else out).sum().backward()
def step(kind, **options):
    net = nn.Linear(3, 3)
    optimizer = kind(net.parameters(), lr=0.1, **options)
    net(torch.ones(2, 3)).sum().backward()
    optimizer.step()
x, q = torch.ones(5, 3, 8), [torch.ones(2, 2, 8, 8, requires_grad=True) for _ in range(3)]
layers = [lambda: train(nn.LSTM(8, 16, 2, dropout=0.1), x), lambda: train(nn.GRU(8, 16, 2), x), lambda: train(nn.RNN(8, 16, 2), x),
          lambda: nn.LSTM(8, 16).eval()(x), lambda: train(nn.MultiheadAttention(8, 2), x, x, x),
          lambda: train(nn.functional.scaled_dot_product_attention, *q), lambda: train(nn.BatchNorm1d(4), torch.ones(3, 4)),
          lambda: train(nn.BatchNorm1d(4).eval(), torch.ones(3, 4)), lambda: train(nn.Sequential(nn.Linear(8, 8), nn.Dropout()), x),
          lambda: train(nn.EmbeddingBag(10, 4, mode="max"), torch.arange(6).view(2, 3)), lambda: train(nn.Sequential(nn.Linear(8, 8), nn.LogSigmoid()), x),
          lambda: train(nn.Sequential(nn.Linear(8, 8), nn.RReLU()), x), lambda: step(torch.optim.Adam, fused=True), lambda: step(torch.optim.SGD, foreach=True)]
with Watch():
    inputs = catalogue.Inputs(torch, "cpu")
    for row in catalogue.ROWS if sys.argv[2] == "table" else []:
        torch.manual_seed(0)
        row.make(inputs)()
    for layer in layers:
        torch.manual_seed(0)
        layer()
print(json.dumps([found, again]))
"""


def calls(run, python, tmp_path, table, fill):
    job = tmp_path / "calls.py"
    job.write_text(CALLS)
    done = run(
        [python, "-W", "ignore", job, ROOT / "python" / "twinrun", table],
        env=dict(os.environ, MALLOC_PERTURB_=fill),
        timeout=600,
    )
    assert done.rc == 0, done
    return json.loads(done.out)


def test_what_is_compared_does_not_depend_on_where_memory_came_from(run, python, tmp_path):
    (one, again), (other, _) = (
        calls(run, python, tmp_path, "table", fill) for fill in ("85", "170")
    )
    assert len(one) > 500 and [name for name, _ in one] == [name for name, _ in other]
    assert not {name for (name, x), (_, y) in zip(one, other) if x != y}
    assert not again, "a replay on equal inputs must agree"
    assert {name for name, _ in one} >= {
        "aten::mkldnn_rnn_layer",
        "aten::native_batch_norm",
        "aten::bernoulli_",
    }


def test_without_the_table_a_workspace_would_look_like_a_result(run, python, tmp_path):
    (one, _), (other, _) = (calls(run, python, tmp_path, "bare", fill) for fill in ("85", "170"))
    assert {name for (name, x), (_, y) in zip(one, other) if x != y} == {"aten::mkldnn_rnn_layer"}


JOB = """
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
nn = torch.nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru, self.rnn = nn.LSTM(8, 16, 2, dropout=0.1), nn.GRU(16, 8), nn.RNN(8, 8)
        self.attention, self.norm, self.drop = nn.MultiheadAttention(8, 2), nn.BatchNorm1d(8), nn.Dropout(0.2)
    def forward(self, x):
        x = self.rnn(self.gru(self.lstm(x)[0])[0])[0]
        x = self.attention(x, x, x)[0]
        return self.drop(self.norm(x.reshape(-1, 8)))
net = Net()
optimizer = torch.optim.Adam(net.parameters())
for step in range(3):
    optimizer.zero_grad()
    net(torch.randn(5, 3, 8)).pow(2).mean().backward()
    optimizer.step()
"""


def test_recurrent_layers_attention_and_norms_are_the_same_at_operation_level(
    twinrun, python, work, light
):
    job = work / "job.py"
    job.write_text(JOB)
    done = twinrun(
        "check", "--json", "--runs", "2", "--level", "ops", "--", python, job, timeout=600
    )
    assert done.rc == 0 and done.json["outcome"] == "same", done
