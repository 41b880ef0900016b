# SPDX-License-Identifier: Apache-2.0
"""Pairs of small programs that compute the same (LAWFUL) or do not (BUGS): half types, optimizers,
gradients that are accumulated, work in place. Written before the rules of `--explain rounding` were
read. Each is a function of a world and of `new`, which says whether it is the new program. The lines
that a bug stands in end with `# BUG`.
"""

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

N, C, T, CLASSES = 8, 16, 10, 7
BF, FP = torch.bfloat16, torch.float16
LAWFUL, BUGS = {}, {}


def lawful(function):
    LAWFUL[function.__name__] = function
    return function


def bug(function):
    BUGS[function.__name__] = function
    return function


class World:
    """The same values each time: a batch and two layers."""

    def __init__(self):
        generator = torch.Generator().manual_seed(41)

        def draw(*shape):
            return torch.randn(*shape, generator=generator).mul_(0.5)

        self.x, self.sequence = draw(N, C), draw(N, C, T)
        self.weight, self.bias = draw(C, C), draw(C)
        self.head, self.kernel = draw(CLASSES, C), draw(C, C, 3)
        self.gain, self.shift = draw(C) + 1, draw(C)
        self.targets = torch.randint(0, CLASSES, (N,), generator=generator)

    def logits(self, x):
        return F.linear(torch.tanh(F.linear(x, self.weight, self.bias)), self.head)

    def parameters(self):
        return [t.requires_grad_() for t in (self.weight, self.bias, self.head)]


def run(function, new):
    """What a test records: the world is there before, only the program is watched."""
    world = World()
    return lambda: function(world, new)


def gradients(world, loss):
    loss.backward()
    return [t.grad for t in (world.weight, world.bias, world.head)]


# ---- lawful


@lawful
def softmax_of_bfloat16_in_float32(w, new):
    x = w.x.to(BF)
    if new:
        wide = x.float()
        raised = torch.exp(wide - wide.amax(-1, keepdim=True))
        y = (raised / raised.sum(-1, keepdim=True)).to(BF)
    else:
        y = F.softmax(x, -1)
    return y @ w.weight.to(BF)


@lawful
def layer_norm_of_float16_by_hand(w, new):
    x = w.x.to(FP)
    if new:
        wide = x.float()
        mean = wide.mean(-1, keepdim=True)
        spread = (wide - mean).square().mean(-1, keepdim=True)
        y = (wide - mean) / torch.sqrt(spread + 1e-5)
        y = (y * w.gain.to(FP).float() + w.shift.to(FP).float()).to(FP)
    else:
        y = F.layer_norm(x, (C,), w.gain.to(FP), w.shift.to(FP))
    return (y.float() ** 2).sum()


@lawful
def convolution_of_bfloat16_as_product(w, new):
    x, kernel = w.sequence.to(BF), w.kernel.to(BF)
    if new:
        wide = F.pad(x, (1, 1)).float()
        columns = torch.stack([wide[:, :, i : i + T] for i in range(3)], 2)
        y = torch.einsum("nckt,ock->not", columns, kernel.float()).to(BF)
    else:
        y = F.conv1d(x, kernel, padding=1)
    return y.float().mean()


@lawful
def product_in_two_shards_of_bfloat16(w, new):
    x, weight = w.x.to(BF), w.weight.to(BF)
    if new:
        half = C // 2
        y = x[:, :half] @ weight[:half] + x[:, half:] @ weight[half:]
    else:
        y = x @ weight
    return torch.relu(y).sum()


@lawful
def autocast_by_hand(w, new):
    if new:
        y = F.linear(w.x.to(BF), w.weight.to(BF), w.bias.to(BF))
        return F.softmax(y.float(), -1).sum(0)
    with torch.autocast("cpu", dtype=BF):
        y = F.linear(w.x, w.weight, w.bias)
        return F.softmax(y, -1, dtype=torch.float32).sum(0)


@lawful
def adam_fused(w, new):
    parameters = w.parameters()
    adam = torch.optim.Adam(parameters, lr=1e-2, fused=new, foreach=not new)
    F.cross_entropy(w.logits(w.x), w.targets).backward()
    adam.step()


@lawful
def gradients_accumulated(w, new):
    w.parameters()
    if new:
        for x, t in zip(w.x.chunk(4), w.targets.chunk(4)):
            (F.cross_entropy(w.logits(x), t) / 4).backward()
    else:
        F.cross_entropy(w.logits(w.x), w.targets).backward()
    with torch.no_grad():
        for t in (w.weight, w.bias, w.head):
            t.sub_(t.grad, alpha=0.1)


@lawful
def work_in_place(w, new):
    x = w.x.clone()
    if new:
        x[:, : C // 2].mul_(3).add_(w.bias[: C // 2])
        x[:, C // 2 :].mul_(3).add_(w.bias[C // 2 :])
        x.clamp_(min=0).div_(7)
    else:
        x = torch.relu(x * 3 + w.bias) / 7
    return x @ w.weight


@lawful
def gelu_by_tanh_by_hand(w, new):
    x = w.x @ w.weight
    if new:
        inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
        y = x / (1 + torch.exp(-2 * inner))
    else:
        y = F.gelu(x, approximate="tanh")
    return y.square().mean()


@lawful
def activations_recomputed(w, new):
    w.parameters()

    def layer(x):
        return torch.tanh(F.linear(x, w.weight, w.bias))

    x = w.x.clone().requires_grad_()
    y = checkpoint(layer, x, use_reentrant=False) if new else layer(x)
    gradients(w, F.cross_entropy(F.linear(y, w.head), w.targets))


# ---- planted bugs


@bug
def softmax_without_its_upcast(w, new):
    x = w.x.to(BF)
    wide = x if new else x.float()
    raised = torch.exp(wide - wide.amax(-1, keepdim=True))  # BUG
    y = raised / raised.sum(-1, keepdim=True)  # BUG
    return y.to(BF) @ w.weight.to(BF)


@bug
def statistics_in_float16(w, new):
    x = w.x.half() if new else w.x  # BUG
    mean = x.mean(-1, keepdim=True).float()
    spread = (w.x - mean).square().mean(-1, keepdim=True)
    return (w.x - mean) * torch.rsqrt(spread + 1e-5) * w.gain + w.shift


@bug
def gelu_of_another_kind(w, new):
    """A declared approximation: what B computes differs by up to 5e-4, on purpose or not."""
    x = w.x @ w.weight
    y = F.gelu(x, approximate="tanh" if new else "none")  # BUG
    return y.square().mean()


@bug
def convolution_that_sees_the_next(w, new):
    wide = F.pad(w.sequence, (1, 1) if new else (2, 0))  # BUG
    y = F.conv1d(wide, w.kernel)  # BUG
    return torch.relu(y).mean(-1) @ w.weight


@bug
def gradients_accumulated_undivided(w, new):
    w.parameters()
    for i, (x, t) in enumerate(zip(w.x.chunk(4), w.targets.chunk(4))):
        loss = F.cross_entropy(w.logits(x), t)
        (loss if new and i == 3 else loss / 4).backward()  # BUG
    with torch.no_grad():
        for t in (w.weight, w.bias, w.head):
            t.sub_(t.grad, alpha=0.1)


# the operation of A that B leaves out
gradients_accumulated_undivided.missing = "aten.div.Tensor"


@bug
def adam_without_a_correction(w, new):
    w.parameters()
    for grad in gradients(w, F.cross_entropy(w.logits(w.x), w.targets)):
        m, v = grad * 0.1, grad * grad * 0.01
        v_hat = v if new else v / (1 - 0.99)
        step = m / (1 - 0.9) / (v_hat.sqrt() + 1e-8)  # BUG
        grad.copy_(step)


@bug
def decay_that_is_coupled(w, new):
    parameters = w.parameters()
    kind = torch.optim.Adam if new else torch.optim.AdamW
    adam = kind(parameters, lr=1e-2, weight_decay=0.1, foreach=False)
    F.cross_entropy(w.logits(w.x), w.targets).backward()
    adam.step()  # BUG


@bug
def loss_scale_left_in(w, new):
    w.parameters()
    loss = F.cross_entropy(w.logits(w.x), w.targets)
    grads = gradients(w, loss * 1024)
    with torch.no_grad():
        for i, (t, grad) in enumerate(zip((w.weight, w.bias, w.head), grads)):
            t.sub_(grad * (1 / 1024 if not new or i != 1 else 1 / 1023))  # BUG


@bug
def residual_overwritten(w, new):
    x = w.x.clone()
    y = torch.tanh(x @ w.weight)
    kept = x if new else x.clone()
    x.mul_(0.5)
    return torch.relu(kept + y) @ w.weight  # BUG


@bug
def mean_over_the_ignored(w, new):
    targets = w.targets.clone()
    targets[2] = -100
    losses = F.cross_entropy(w.logits(w.x), targets, reduction="none")
    return losses.sum() / (N if new else (targets != -100).sum())  # BUG


# ---- written after the rules: what must not pass since parts of a loss may stand for the whole


@bug
def microbatch_taken_twice(w, new):
    w.parameters()
    for start in (0, 2, 4, 4 if new else 6):
        part = slice(start, start + 2)
        x = w.x[part]
        (F.cross_entropy(F.linear(x, w.head), w.targets[part]) / 4).backward()
    with torch.no_grad():
        w.head.sub_(w.head.grad, alpha=0.1)


# each of its values is one that A has, too: the first that is not is the sum of the gradients
microbatch_taken_twice.finding = "aten.add_.Tensor"


@bug
def losses_of_another_share(w, new):
    """The gradients are right, and what is printed is not."""
    w.parameters()
    logits = F.linear(w.x, w.head)
    if not new:
        return F.cross_entropy(logits, w.targets)
    for x, t in zip(logits.chunk(4), w.targets.chunk(4)):
        F.cross_entropy(x, t) / 3  # BUG
