# SPDX-License-Identifier: Apache-2.0
"""Two programs that share no code and compute the same model: a trainer's forward and a sampler with
a cache of keys and values; a module of PyTorch and a port in plain operations. `how` names a bug, or
is empty. The lines that one stands in end with `# BUG NAME`.
"""

import math

import torch
import torch.nn.functional as F

T, C, H, V = 7, 16, 2, 11
D = C // H


class World:
    def __init__(self):
        generator = torch.Generator().manual_seed(3)

        def draw(*shape):
            return torch.randn(*shape, generator=generator).mul_(0.4)

        self.tokens = torch.randint(0, V, (T,), generator=generator)
        self.table, self.places = draw(V, C), draw(T, C)
        self.qkv, self.out = draw(3 * C, C), draw(C, C)
        self.gain, self.shift, self.head = draw(C) + 1, draw(C), draw(V, C)


def trainer(w):
    """The log-probabilities of what comes next, of all places at once."""
    x = w.table[w.tokens] + w.places
    y = F.layer_norm(x, (C,), w.gain, w.shift)
    q, k, v = F.linear(y, w.qkv).view(T, 3, H, D).permute(1, 2, 0, 3)
    y = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)
    x = x + F.linear(y[0].transpose(0, 1).reshape(T, C), w.out)
    return F.log_softmax(F.linear(x, w.head), -1)


def sampler(w, how=""):
    """The same, token by token."""
    keys, values, logs = [], [], []
    for t in range(T):
        place = max(t - 1, 0) if how == "place" else t
        x = w.table[w.tokens[t : t + 1]] + w.places[place : place + 1]  # BUG place
        mean = x.mean(-1, keepdim=True)
        spread = (x - mean).square().mean(-1, keepdim=True)
        scale = torch.rsqrt(spread + (1e-4 if how == "epsilon" else 1e-5))  # BUG epsilon
        y = (x - mean) * scale * w.gain + w.shift
        q, k, v = (y @ w.qkv.t()).chunk(3, -1)
        keys.append(k.view(1, H, D))
        values.append(v.view(1, H, D))
        first = 1 if how == "window" and t == T - 1 else 0
        past, held = torch.cat(keys[first:]), torch.cat(values[first:])  # BUG window
        scores = torch.einsum("qhd,khd->hqk", q.view(1, H, D), past) / math.sqrt(D)
        weights = F.softmax(scores / (1.01 if how == "temperature" else 1), -1)  # BUG temperature
        y = torch.einsum("hqk,khd->qhd", weights, held).reshape(1, C)  # BUG window
        x = x + y @ w.out.t()
        if how == "half":
            logits = (x.bfloat16() @ w.head.bfloat16().t()).float()  # BUG half
        else:
            logits = x @ w.head.t()
        logs.append(logits - torch.logsumexp(logits, -1, keepdim=True))
    return logs


SAMPLER_BUGS = ("place", "epsilon", "window", "temperature", "half")


def module(w):
    layer = torch.nn.TransformerEncoderLayer(C, H, 2 * C, 0.0, "gelu", batch_first=True)
    layer.load_state_dict(w.state)
    return layer(w.given)


class Ported(World):
    """A batch for a layer of PyTorch, and its weights under its names."""

    def __init__(self):
        torch.manual_seed(9)
        layer = torch.nn.TransformerEncoderLayer(C, H, 2 * C, 0.0, "gelu", batch_first=True)
        self.state = {name: t.detach() for name, t in layer.state_dict().items()}
        self.given = torch.randn(3, T, C)


def port(w, how=""):
    """That layer in plain operations, with names of its own."""
    s, x = w.state, w.given

    def normed(x, name):
        away = x - x.mean(-1, keepdim=True)
        count = C - 1 if how == "unbiased" else C
        spread = away.pow(2).sum(-1, keepdim=True) / count  # BUG unbiased
        return away / torch.sqrt(spread + 1e-5) * s[name + ".weight"] + s[name + ".bias"]

    mixed = torch.matmul(x, s["self_attn.in_proj_weight"].t()) + s["self_attn.in_proj_bias"]
    q, k, v = (t.reshape(3, T, H, D).transpose(1, 2) for t in mixed.split(C, -1))
    if how == "swapped":
        k, v = v, k
    scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(D)  # BUG swapped
    raised = torch.exp(scores - scores.amax(-1, keepdim=True))
    y = torch.matmul(raised / raised.sum(-1, keepdim=True), v)  # BUG swapped
    y = y.transpose(1, 2).reshape(3, T, C) @ s["self_attn.out_proj.weight"].t()
    x = normed(x + y + s["self_attn.out_proj.bias"], "norm1")
    y = x @ s["linear1.weight"].t() + s["linear1.bias"]
    if how == "gelu":
        y = F.gelu(y, approximate="tanh")  # BUG gelu
    else:
        y = 0.5 * y * (1 + torch.erf(y / math.sqrt(2)))
    y = y @ s["linear2.weight"].t()
    if how != "bias":
        y = y + s["linear2.bias"]
    return normed(x + y, "norm2")  # BUG bias


PORT_BUGS = ("unbiased", "swapped", "gelu", "bias")
