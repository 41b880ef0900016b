# SPDX-License-Identifier: Apache-2.0
"""What a hook may meet: strange tensors, strange callers, and everything that a job can look at
afterwards.
"""

import copy
import inspect
import pickle
import re
import sys
import warnings

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call, grad, vmap

torch.manual_seed(0)
embedding = torch.nn.Embedding(5, 3, sparse=True)
sparse = torch.optim.SparseAdam(embedding.parameters())
embedding(torch.tensor([1, 1, 2])).sum().backward()
sparse.step()


class Many(torch.nn.Module):
    def forward(self, x, y=None):
        both = torch.complex(x, x)
        return {
            "plain": x * 2,
            "list": [x.to_sparse(), x.bfloat16(), both.conj(), x.half().t()[::2]],
            "meta": torch.empty(2, 2, device="meta"),
            "f8": x.to(torch.float8_e4m3fn),
            "negative": both.conj().imag,
            "none": None,
            "empty": torch.empty(0, 3),
            "expanded": x[:1].expand(5, 3),
            "mkldnn": x.to_mkldnn(),
            "nested": torch.nested.nested_tensor([x, x[:2]]),
            "quantized": torch.quantize_per_tensor(x, 0.5, 3, torch.qint8),
            "channels": torch.quantize_per_channel(
                x, torch.tensor([0.5, 1.0, 2.0]), torch.zeros(3, dtype=torch.long), 1, torch.qint8
            ),
            "csr": x.to_sparse_csr(),
            "csc": x.to_sparse_csc(),
        }


class Wrapper(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))
        self.many = Many()

    def forward(self, x, **named):
        return self.many(x * self.scale.detach(), **named)


print(sorted(Wrapper()(torch.randn(4, 3), y=1)))
linear = torch.nn.Linear(3, 1)
parameters = dict(linear.named_parameters())
print(
    vmap(grad(lambda p, x: functional_call(linear, p, (x,)).sum()), in_dims=(None, 0))(
        parameters, torch.ones(4, 3)
    )["weight"].shape
)
print(torch.fx.symbolic_trace(torch.nn.Sequential(linear)).graph)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    print(
        torch.jit.trace(linear, torch.ones(1, 3))(torch.ones(1, 3)).shape,
        torch.jit.script(linear)(torch.ones(1, 3)).shape,
    )
    print(torch.export.export(linear, (torch.ones(1, 3),)).graph)
sgd = torch.optim.SGD(linear.parameters(), lr=1.0)
loader = torch.utils.data.DataLoader([1, 2])
# storages go by their addresses, more digits or fewer
pickled = re.sub(rb"\d{6,}", b"", pickle.dumps((linear, sgd, loader)))
print(len(pickled), sorted(vars(linear)), sorted(vars(sgd)), sorted(vars(loader)))
print(sorted(vars(copy.deepcopy(linear).weight)), sorted(vars(linear.weight)))
print(torch.nn.LazyLinear(2)(torch.ones(1, 4)).shape)
with torch.device("meta"):
    meta = torch.nn.Linear(2, 2)
print(meta(torch.ones(1, 2, device="meta")).shape)
with FakeTensorMode():
    print(torch.nn.Linear(2, 2)(torch.ones(1, 2)).shape)

calls = []


class Listening(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        calls.append(function.__name__)
        return super().__torch_function__(function, types, args, kwargs or {})


print(type(linear(torch.ones(1, 3).as_subclass(Listening))), calls)
for function in (
    linear.__call__,
    torch.autograd.backward,
    torch.save,
    torch.utils.data.DataLoader.__iter__,
):
    print(inspect.signature(function), function.__qualname__, function.__module__)
print(
    [name for name in globals() if "twin" in name],
    [path for path in sys.path if path.endswith("/_site")],
)
print(torch.__spec__.loader.__class__, "exec_module" in vars(torch.__loader__))
