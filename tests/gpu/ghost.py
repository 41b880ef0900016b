# SPDX-License-Identifier: Apache-2.0
"""A job that is known to wander on a GPU, or its twin, which is not: verdicts.py starts it.

ghost.py DEVICE NAME HOW. HOW `twin`: the same computation, held still by what PyTorch offers.
"""

import sys

import torch

device, name, how = sys.argv[1:4]
torch.manual_seed(0)
torch.set_num_threads(1)
twin = how == "twin"
if twin:
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.deterministic = True
torch.backends.cudnn.benchmark = name == "cudnn-benchmark" and not twin
torch.backends.cuda.matmul.allow_tf32 = name == "tf32" and how == "on"

N = 200000 if device == "cuda" else 2000
index = torch.randint(0, 50, (N,)).to(device)
source = torch.randn(N, 8).to(device)
weight = torch.nn.Parameter(torch.randn(50, 8).to(device))
square = torch.randn(256, 256).to(device)
heads = torch.randn(2, 4, 128, 32).to(device)
picture = torch.randn(8, 3, 32, 32).to(device)
conv = torch.nn.Conv2d(3, 8, 3).to(device)


def triton_sum():
    import triton
    import triton.language as tl

    @triton.jit
    def add_all(x, out, n, block: tl.constexpr):
        at = tl.program_id(0) * block + tl.arange(0, block)
        tl.atomic_add(out, tl.sum(tl.load(x + at, mask=at < n, other=0.0)))

    flat, out = source.flatten(), torch.zeros(1, device=device)
    if twin:
        return flat.sum() + out
    add_all[(triton.cdiv(flat.numel(), 256),)](flat, out, flat.numel(), 256)
    return out


def attention():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    fused = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]
    with sdpa_kernel(fused if how == "fused" else SDPBackend.MATH):
        return torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)


def scattered():
    values = source[:, 0] * weight.detach()[index, 0]  # one dimension: all versions have a twin
    return torch.zeros(50, device=device).scatter_add(0, index, values)


WAYS = {
    "scatter-add": scattered,
    "index-add": lambda: torch.zeros(50, 8, device=device).index_add(0, index, source),
    "embedding": lambda: torch.nn.functional.embedding(index, weight) * source,
    "cudnn-benchmark": lambda: conv(picture),
    "tf32": lambda: square @ square,
    "split-k": lambda: square[:8, :] @ square,
    "triton-atomics": triton_sum,
    "sdpa": attention,
}

optimizer = torch.optim.SGD([weight, *conv.parameters()], lr=1e-3)
for _ in range(3):
    optimizer.zero_grad()
    found = WAYS[name]()
    (found.float().pow(2).mean() * weight.pow(2).mean()).backward()
    optimizer.step()
