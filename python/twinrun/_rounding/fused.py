# SPDX-License-Identifier: Apache-2.0
"""Fused operations in pieces, where PyTorch has no decomposition or one that hides what is summed.

Run under bounds.Bounds, each line below gets its own bound.
"""

import math

import torch

# Taken as they are, although PyTorch can take them apart.
PRIMITIVE = """add sub mul div exp log log2 log1p expm1 sqrt rsqrt tanh sigmoid erf sin cos pow neg
    abs where sum mean reciprocal maximum minimum clamp clamp_min clamp_max relu
    threshold_backward atan atan2 sinh cosh tan""".split()


def _mask(q, k):
    rows, columns = q.shape[-2], k.shape[-2]
    return torch.ones(rows, columns, dtype=torch.bool).tril()


def _scores(q, k, causal, bias, scale):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = torch.matmul(q * scale, k.transpose(-2, -1))
    if causal:
        scores = torch.where(_mask(q, k), scores, float("-inf"))
    if bias is not None:
        if bias.dtype == torch.bool:
            scores = torch.where(bias, scores, float("-inf"))
        else:
            scores = scores + bias
    return scores


def attention(q, k, v, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    scores = _scores(q, k, is_causal, attn_mask, scale)
    most = scores.amax(-1, keepdim=True)
    weights = torch.exp(scores - most)
    total = weights.sum(-1, keepdim=True)
    out = torch.matmul(weights / total, v)
    return out, (most + torch.log(total)).squeeze(-1)


def attention_backward(
    grad, q, k, v, out, lse, dropout_p, is_causal, *, attn_mask=None, scale=None
):
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    weights = torch.exp(_scores(q, k, is_causal, attn_mask, scale) - lse.unsqueeze(-1))
    grad_v = torch.matmul(weights.transpose(-2, -1), grad)
    inner = torch.matmul(grad, v.transpose(-2, -1)) - (grad * out).sum(-1, keepdim=True)
    grad_scores = weights * inner
    grad_q = torch.matmul(grad_scores, k) * factor
    return grad_q, torch.matmul(grad_scores.transpose(-2, -1), q) * factor, grad_v


def attention_math(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, *_rest, **more):
    scale = more.get("scale")
    scores = _scores(q, k, is_causal, attn_mask, scale)
    weights = torch.exp(scores - scores.amax(-1, keepdim=True))
    weights = weights / weights.sum(-1, keepdim=True)
    return torch.matmul(weights, v), weights


def var(x, dim=None, *, correction=1, keepdim=False):
    return var_mean(x, dim, correction=correction, keepdim=keepdim)[0]


def var_mean(x, dim=None, *, correction=1, keepdim=False):
    dims = list(range(x.dim())) if not dim else list(dim)
    count = 1
    for d in dims:
        count *= x.shape[d]
    mean = x.mean(dims, keepdim=True)
    away = x - mean
    found = (away * away).sum(dims, keepdim=keepdim) / max(count - (correction or 0), 0)
    return found, mean if keepdim else x.mean(dims)


def layer_norm(x, shape, weight, bias, eps):
    dims = list(range(x.dim() - len(shape), x.dim()))
    spread, mean = var_mean(x, dims, correction=0, keepdim=True)
    scale = torch.rsqrt(spread + eps)
    out = (x - mean) * scale
    if weight is not None:
        out = out * weight
    if bias is not None:
        out = out + bias
    return out, mean, scale


def layer_norm_backward(grad, x, shape, mean, scale, weight, bias, mask):
    dims = list(range(x.dim() - len(shape), x.dim()))
    rest = list(range(x.dim() - len(shape)))
    normal = (x - mean) * scale
    inner = grad if weight is None else grad * weight
    first = inner.mean(dims, keepdim=True)
    second = (inner * normal).mean(dims, keepdim=True)
    made = [(inner - first - normal * second) * scale, None, None]
    if mask[1]:
        made[1] = (grad * normal).sum(rest) if rest else grad * normal
    if mask[2]:
        made[2] = grad.sum(rest) if rest else grad * 1
    return tuple(made)


def norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    if ord != 2:
        raise NotImplementedError("a norm other than the second")
    dims = list(range(x.dim())) if dim is None else dim
    return (x * x).sum(dims, keepdim=keepdim).sqrt()


def lerp(start, end, weight):
    return start + weight * (end - start)


def addcmul(x, one, two, *, value=1):
    return x + value * (one * two)


def addcdiv(x, one, two, *, value=1):
    return x + value * (one / two)


def _adam(decoupled):
    """Adam over lists, as one call. decoupled: weights decay apart from the gradient (AdamW)."""

    def step(params, grads, means, squares, largest, steps, *, lr, beta1, beta2, **more):
        if more["amsgrad"] or more.get("grad_scale") is not None:
            raise NotImplementedError("a largest square, or gradients that are scaled")
        decay, eps, found = more["weight_decay"], more["eps"], ([], [], [], [])
        lr = float(lr)
        for param, grad, mean, square, count in zip(params, grads, means, squares, steps):
            used = -grad if more["maximize"] else grad
            if decay and decoupled:
                param = param * (1 - lr * decay)
            elif decay:
                used = used + param * decay
            mean = mean + (1 - beta1) * (used - mean)
            square = square * beta2 + (1 - beta2) * (used * used)
            first, second = 1 - beta1 ** float(count), 1 - beta2 ** float(count)
            root = square.sqrt() / math.sqrt(second) + eps
            made = param - (lr / first) * (mean / root), grad * 1, mean, square
            for kept, value in zip(found, made):
                kept.append(value)
        return (*found, [t * 1 for t in largest])

    return step


OWN = {
    "_fused_adam": _adam(False),
    "_fused_adamw": _adam(True),
    "_scaled_dot_product_flash_attention_for_cpu": attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": attention_backward,
    "_scaled_dot_product_attention_math": attention_math,
    "var": var,
    "var_mean": var_mean,
    "native_layer_norm": layer_norm,
    "native_layer_norm_backward": layer_norm_backward,
    "linalg_vector_norm": norm,
    "lerp": lerp,
    "addcmul": addcmul,
    "addcdiv": addcdiv,
}
