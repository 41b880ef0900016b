# SPDX-License-Identifier: Apache-2.0
"""What jobs do to PyTorch itself: hooks, custom functions, script, swapped parameters, copies."""

import copy
import io
import pickle
import sys
import warnings
import weakref

import torch
from run import digest
from torch import nn


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        print("backward of", digest(ctx.saved_tensors[0]))
        return gradient * 2


class Plus(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x) + 1


def job_custom_function():
    x = torch.randn(3, requires_grad=True)
    Double.apply(x).sum().backward()
    print(
        x.grad,
        torch.autograd.gradcheck(
            Double.apply, torch.randn(2, dtype=torch.double, requires_grad=True)
        ),
    )


def job_hooks():
    model, told = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), []
    model[0].register_forward_pre_hook(lambda m, i: told.append("pre"))
    model[0].register_forward_hook(lambda m, i, o: o + 1)
    model.register_full_backward_hook(lambda m, i, o: told.append("backward %d" % len(o)))
    model[0].weight.register_hook(lambda g: g * 2)
    model[0].weight.register_post_accumulate_grad_hook(lambda p: told.append("accumulated"))
    handle = nn.modules.module.register_module_forward_hook(
        lambda m, i, o: told.append(type(m).__name__)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.register_step_post_hook(lambda *a: told.append("step"))
    model(torch.randn(3, 2)).sum().backward()
    optimizer.step()
    handle.remove()
    print(
        told,
        digest(model, model[0].weight.grad),
        len(model._forward_hooks),
        len(model[0]._forward_hooks),
    )


def job_script():
    @torch.jit.script
    def scripted(x):
        y = x * x
        gradient = torch.autograd.grad([y.sum()], [x])
        return gradient[0]

    print(scripted(torch.ones(3, requires_grad=True)))
    module = torch.jit.script(Plus())
    print(digest(module(torch.ones(1, 3))), type(module).__name__)
    traced = torch.jit.trace(Plus(), torch.ones(1, 3))
    buffer = io.BytesIO()
    torch.jit.save(traced, buffer)
    print(digest(torch.jit.load(io.BytesIO(buffer.getvalue()))(torch.ones(1, 3))))


def job_swapped():
    a, b = nn.Linear(2, 2), nn.Linear(2, 2)
    optimizer = torch.optim.Adam(a.parameters())
    a(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    torch.__future__.set_swap_module_params_on_conversion(True)
    b.to(torch.float64)
    b.float().half()
    torch.__future__.set_swap_module_params_on_conversion(False)
    print(b.weight.dtype, digest(a, b))
    x, y = torch.zeros(2), torch.ones(3)
    torch.utils.swap_tensors(x, y)
    print(x, y)


def job_memory():
    """What is let go is gone at once: no cycle, no reference of somebody else."""
    model = nn.Linear(50, 50)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        output = model(torch.randn(2, 50))
        output.sum().backward()
        optimizer.step()
    seen = [
        weakref.ref(o)
        for o in (model, optimizer, output, model.weight, optimizer.state[model.weight]["exp_avg"])
    ]
    print(sys.getrefcount(model), sys.getrefcount(optimizer))
    del model, optimizer, output
    print([r() is None for r in seen])


def job_copies():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(4, 2)).sum().backward()
    optimizer.step()
    twin, kept = copy.deepcopy(model), copy.deepcopy(optimizer.state_dict())
    loaded = pickle.loads(pickle.dumps(model))
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "rng": torch.get_rng_state(),
        },
        "checkpoint.pt",
    )
    back = torch.load("checkpoint.pt")
    twin.load_state_dict(back["model"])
    optimizer.load_state_dict(back["optimizer"])
    whole = torch.load(io.BytesIO(whole_saved(model)), weights_only=False)
    print(digest(model, twin, loaded, kept, whole), sorted(vars(model)), sorted(vars(optimizer)))


def whole_saved(model):
    buffer = io.BytesIO()
    torch.save(model, buffer)
    return buffer.getvalue()


def job_errors():
    for wrong in (
        lambda: nn.Linear(2, 3)(torch.ones(2, 5)),
        lambda: torch.ones(2).backward(),
        lambda: torch.optim.SGD([], lr=1),
    ):
        try:
            wrong()
        except Exception as e:
            print(type(e).__name__, str(e)[:100])
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    torch.optim.lr_scheduler.StepLR(optimizer, 1).step()  # warns: before the optimizer's step
    nn.Linear(3, 3)(torch.ones(2, 4))


def job_warnings():
    torch.tensor(torch.ones(2))
    warnings.warn("with a level", stacklevel=2)
    x = torch.ones(2, requires_grad=True) * 2
    x.grad
    nn.functional.mse_loss(torch.ones(2, 1), torch.ones(2))


def job_deep():
    model = nn.Linear(2, 2)
    for _ in range(60):
        model = nn.Sequential(model)
    print(digest(model(torch.ones(1, 2))))

    def depth(n):
        try:
            return depth(n + 1)
        except RecursionError:
            return n

    print(depth(0) > 500)


def job_subclass():
    class Named(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            calls.append(getattr(function, "__name__", "?"))
            return super().__torch_function__(function, types, args, kwargs or {})

    calls = []
    x = torch.randn(2, 2).as_subclass(Named)
    (x @ x).relu().sum()
    print(calls)
    from torch.utils._python_dispatch import TorchDispatchMode

    class Logged(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            operations.append(str(function))
            return function(*args, **(kwargs or {}))

    operations = []
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Logged():
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    print(operations, digest(model))


def job_functions_as_they_are():
    """Nobody's wrapper shows: names, modules and signatures of what jobs look up."""
    import inspect

    print(
        torch.Tensor.backward.__qualname__,
        torch.autograd.backward.__module__,
        inspect.signature(torch.autograd.grad),
    )
    print(nn.Module.__call__.__name__, inspect.signature(torch.optim.SGD.step), torch.save.__name__)
    print(inspect.getsourcefile(torch.optim.Optimizer.zero_grad).rsplit("/", 2)[1:])
    print([name for name in sys.modules if name.startswith("tensorboard") or name == "pandas"])


def job_anomaly():
    with torch.autograd.set_detect_anomaly(True):
        try:
            torch.sqrt(torch.tensor(-1.0, requires_grad=True)).backward()
        except RuntimeError as e:
            print(str(e)[:80])


def job_compile_disabled():
    @torch.compiler.disable
    def step(model, optimizer, x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        step(model, optimizer, torch.randn(3, 2))
    compiled = torch.compile(model, backend="eager")
    print(digest(model, compiled(torch.ones(1, 2))))
