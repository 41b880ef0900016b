# SPDX-License-Identifier: Apache-2.0
"""One step of training on several ranks, which is the step of one process (LAWFUL), or is not (BUGS).

Started by torchrun with a folder, it records each case of its number of ranks into that folder. Each
case is a function of a model, the rank and the number of ranks. The lines that a bug stands in end
with `# BUG`.
"""

import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F

N, C, CLASSES = 8, 12, 5
LAWFUL, BUGS = {}, {}


def lawful(function):
    LAWFUL[function.__name__] = function
    return function


def bug(function):
    BUGS[function.__name__] = function
    return function


class Model:
    def __init__(self):
        generator = torch.Generator().manual_seed(5)

        def draw(*shape):
            return torch.randn(*shape, generator=generator).mul_(0.5)

        self.x, self.targets = draw(N, C), torch.randint(0, CLASSES, (N,), generator=generator)
        self.weights = draw(C, C), draw(C) + 1, draw(CLASSES, C)
        for weight in self.weights:
            weight.requires_grad_()
        self.weight, self.gain, self.head = self.weights

    def loss(self, x, targets):
        y = F.layer_norm(torch.tanh(x @ self.weight), (C,), self.gain)
        return F.cross_entropy(y @ self.head.t(), targets)

    def block(self, rank, world):
        each = N // world
        return slice(rank * each, (rank + 1) * each)

    def backward(self, part, scale=1.0):
        """Gradients of the rows of a part."""
        loss = self.loss(self.x[part], self.targets[part])
        return list(torch.autograd.grad(loss * scale if scale != 1.0 else loss, self.weights))

    @torch.no_grad()
    def update(self, grads):
        for weight, grad in zip(self.weights, grads):
            weight.sub_(grad, alpha=0.1)


# ---- lawful


@lawful
def summed_and_divided(m, rank, world):
    grads = m.backward(m.block(rank, world))
    for grad in grads:
        dist.all_reduce(grad)
        grad.div_(world)
    m.update(grads)


@lawful
def divided_before(m, rank, world):
    grads = m.backward(m.block(rank, world), 1 / world)
    for grad in grads:
        dist.all_reduce(grad)
    m.update(grads)


@lawful
def rows_in_turns(m, rank, world):
    grads = m.backward(slice(rank, None, world))
    for grad in grads:
        dist.all_reduce(grad)
    m.update([grad / world for grad in grads])


@lawful
def blocks_the_other_way_round(m, rank, world):
    grads = m.backward(m.block(world - 1 - rank, world))
    flat = torch.cat([grad.flatten() for grad in grads])
    dist.all_reduce(flat)
    flat /= world
    shares = flat.split([grad.numel() for grad in grads])
    m.update([share.view_as(grad) for share, grad in zip(shares, grads)])


@lawful
def weights_of_rank_zero(m, rank, world):
    with torch.no_grad():
        for weight in m.weights:
            weight.add_(rank)
            dist.broadcast(weight, 0)
    summed_and_divided(m, rank, world)


@lawful
def optimizer_in_shards(m, rank, world):
    grads = m.backward(m.block(rank, world))
    with torch.no_grad():
        for weight, grad in zip(m.weights, grads):
            each = grad.numel() // world
            mine = torch.empty(each)
            dist.reduce_scatter_tensor(mine, grad.flatten())
            part = weight.flatten()[rank * each : (rank + 1) * each].clone()
            part.sub_(mine / world, alpha=0.1)
            whole = torch.empty(grad.numel())
            dist.all_gather_into_tensor(whole, part)
            weight.copy_(whole.view_as(weight))


@lawful
def clipped_after_the_sum(m, rank, world):
    grads = m.backward(m.block(rank, world))
    for grad in grads:
        dist.all_reduce(grad)
    grads = [grad / world for grad in grads]
    norm = torch.sqrt(sum((grad * grad).sum() for grad in grads))
    m.update([grad * torch.clamp(0.05 / (norm + 1e-6), max=1.0) for grad in grads])


@lawful
def parallel_of_pytorch(m, rank, world):
    class Inner(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.held = torch.nn.ParameterList([w.detach() for w in m.weights])

        def forward(self, x):
            y = F.layer_norm(torch.tanh(x @ self.held[0]), (C,), self.held[1])
            return y @ self.held[2].t()

    model = torch.nn.parallel.DistributedDataParallel(Inner())
    part = m.block(rank, world)
    F.cross_entropy(model(m.x[part]), m.targets[part]).backward()
    torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9).step()


@lawful
def shares_that_were_loaded(m, rank, world):
    part = m.block(rank, world)
    x = torch.from_numpy(m.x.numpy()[part].copy())
    y = F.layer_norm(torch.tanh(x @ m.weight), (C,), m.gain)
    grads = torch.autograd.grad((y @ m.head.t()).square().mean(), m.weights)
    for grad in grads:
        dist.all_reduce(grad)
    m.update([grad / world for grad in grads])


# ---- planted bugs


@bug
def mean_forgotten(m, rank, world):
    grads = m.backward(m.block(rank, world))
    for grad in grads:
        dist.all_reduce(grad)  # BUG
    m.update(grads)


@bug
def divided_twice(m, rank, world):
    grads = m.backward(m.block(rank, world), 1 / world)
    for grad in grads:
        dist.all_reduce(grad)
    m.update([grad / world for grad in grads])  # BUG


@bug
def one_share_for_all(m, rank, world):
    part = m.block(0, world)
    y = F.layer_norm(torch.tanh(m.x[part] @ m.weight), (C,), m.gain)  # BUG
    grads = torch.autograd.grad(F.cross_entropy(y @ m.head.t(), m.targets[part]), m.weights)
    for grad in grads:
        dist.all_reduce(grad)
    m.update([grad / world for grad in grads])


@bug
def shares_that_overlap(m, rank, world):
    """Each rank has loaded its own; none has seen the whole."""
    each, first = N // world, rank * (N // world - 1)
    x = torch.from_numpy(m.x.numpy()[first : first + each].copy())
    y = F.layer_norm(torch.tanh(x @ m.weight), (C,), m.gain)  # BUG
    grads = torch.autograd.grad((y @ m.head.t()).square().mean(), m.weights)
    for grad in grads:
        dist.all_reduce(grad)
    m.update([grad / world for grad in grads])


@bug
def clipped_before_the_sum(m, rank, world):
    grads = m.backward(m.block(rank, world))
    norm = torch.sqrt(sum((grad * grad).sum() for grad in grads))  # BUG
    grads = [grad * torch.clamp(0.05 / (norm + 1e-6), max=1.0) for grad in grads]  # BUG
    for grad in grads:
        dist.all_reduce(grad)  # BUG
    m.update([grad / world for grad in grads])


@bug
def one_is_not_summed(m, rank, world):
    grads = m.backward(m.block(rank, world))
    for grad in (grads[0], grads[2]):
        dist.all_reduce(grad)
        grad.div_(world)
    with torch.no_grad():
        for weight, grad in zip(m.weights, grads):
            weight.sub_(grad, alpha=0.1)  # BUG


@bug
def statistics_of_a_rank(m, rank, world):
    x = m.x[m.block(rank, world)]
    y = F.batch_norm(x @ m.weight, None, None, m.gain, None, training=True)  # BUG
    part = m.block(rank, world)
    grads = torch.autograd.grad(F.cross_entropy(y @ m.head.t(), m.targets[part]), m.weights)
    for grad in grads:
        dist.all_reduce(grad)
    m.update([grad / world for grad in grads])


@bug
def summed_in_bfloat16(m, rank, world):
    grads = m.backward(m.block(rank, world))
    if world > 1:
        grads = [grad.bfloat16() for grad in grads]  # BUG
    for grad in grads:
        dist.all_reduce(grad)  # BUG
    m.update([grad.float() / world for grad in grads])  # BUG


def record_all(folder):
    import rounding_tools

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    for name, case in {**LAWFUL, **BUGS}.items():
        where = os.path.join(folder, name, "%d.%d" % (world, rank))
        model = Model()
        rounding_tools.write(where, lambda c=case, m=model: c(m, rank, world), __file__)
    dist.destroy_process_group()


if __name__ == "__main__":
    record_all(sys.argv[1])
    # All is written. On a busy machine PyTorch now and then ends itself by SIGABRT while its
    # threads are taken down ("terminate called without an active exception").
    os._exit(0)
