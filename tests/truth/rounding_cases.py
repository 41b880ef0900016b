# SPDX-License-Identifier: Apache-2.0
"""A training step of a small decoder whose parts can be exchanged: for lawful rewritings, whose
bits may differ, and for planted bugs. The lines that a bug stands in end with `# BUG`.
"""

import math

import torch
import torch.nn.functional as F

B, T, C, H, V = 2, 12, 32, 4, 40
D = C // H
EPS = 1e-5


class Parts:
    """The reference."""

    dtype = torch.float32

    def embed(self, p, tokens):
        return F.embedding(tokens, p["token"]) + F.embedding(torch.arange(T), p["place"])

    def norm(self, x, weight):
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPS)
        return (wide * scale).to(x.dtype) * weight

    def layer_norm(self, x, weight, bias):
        return F.layer_norm(x, (C,), weight, bias, EPS)

    def angles(self, x):
        inverse = 1.0 / (10000.0 ** (torch.arange(0, D, 2).float() / D))
        angle = torch.outer(torch.arange(T).float() * 37, inverse)
        return angle.cos().to(x.dtype), angle.sin().to(x.dtype)

    def rope(self, x):
        cos, sin = self.angles(x)
        left, right = x[..., : D // 2], x[..., D // 2 :]
        return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)

    def linear(self, x, weight, bias):
        return F.linear(x, weight, bias)

    def mask(self):
        return torch.ones(T, T, dtype=torch.bool).tril()

    def scale(self):
        return 1.0 / math.sqrt(D)

    def softmax(self, scores):
        return F.softmax(scores, -1)

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.scale()
        scores = scores.masked_fill(~self.mask(), float("-inf"))
        return self.softmax(scores) @ v

    def attention(self, x, p):
        q, k, v = self.linear(x, p["qkv"], p["qkv_b"]).split(C, -1)
        q, k, v = (t.view(B, T, H, D).transpose(1, 2) for t in (q, k, v))
        y = self.attend(self.rope(q), self.rope(k), v)
        return self.linear(y.transpose(1, 2).reshape(B, T, C), p["out"], p["out_b"])

    def activation(self, x):
        return F.gelu(x)

    def dropout(self, x):
        kept = torch.bernoulli(torch.full_like(x, 0.75))
        return x * kept / 0.75

    def mlp(self, x, p):
        hidden = self.activation(self.linear(x, p["up"], p["up_b"]))
        return self.linear(self.dropout(hidden), p["down"], p["down_b"])

    def residual(self, x, y):
        return x + y

    def loss(self, logits, targets):
        return F.cross_entropy(logits.view(-1, V), targets.view(-1))

    def forward(self, p, tokens, targets):
        x = self.embed(p, tokens)
        x = self.residual(x, self.attention(self.norm(x, p["n1"]), p))
        x = self.residual(x, self.mlp(self.layer_norm(x, p["n2"], p["n2_b"]), p))
        return self.loss(x @ p["head"], targets)

    def norm_of(self, grads):
        return torch.sqrt(sum((g * g).sum() for g in grads))

    def clip(self, grads):
        total = self.norm_of(grads)
        factor = torch.clamp(0.5 / (total + 1e-6), max=1.0)
        return [g * factor for g in grads]

    def update(self, weight, grad, m, v):
        m.mul_(0.9).add_(grad, alpha=0.1)
        v.mul_(0.99).addcmul_(grad, grad, value=0.01)
        step = (m / (1 - 0.9)) / ((v / (1 - 0.99)).sqrt() + 1e-4)
        weight.mul_(1 - 0.01 * 0.1)
        weight.sub_(step, alpha=0.01)


SHAPES = {
    "token": (V, C), "place": (T, C), "n1": (C,), "n2": (C,), "n2_b": (C,),
    "qkv": (3 * C, C), "qkv_b": (3 * C,), "out": (C, C), "out_b": (C,),
    "up": (4 * C, C), "up_b": (4 * C,), "down": (C, 4 * C), "down_b": (C,), "head": (C, V),
}  # fmt: skip


def world(parts):
    """Parameters, states and a batch, the same for all that have one type."""
    generator = torch.Generator().manual_seed(7)

    def draw(*shape):
        return torch.randn(*shape, generator=generator).mul_(0.3).to(parts.dtype)

    p = {name: draw(*shape).requires_grad_() for name, shape in SHAPES.items()}
    m = {name: torch.zeros_like(t) for name, t in p.items()}
    v = {name: torch.zeros_like(t) for name, t in p.items()}
    tokens = torch.randint(0, V, (B, T), generator=generator)
    targets = torch.randint(0, V, (B, T), generator=generator)
    return p, m, v, tokens, targets


def step(parts, held, trains=True):
    p, m, v, tokens, targets = held
    torch.manual_seed(11)
    loss = parts.forward(p, tokens, targets)
    if not trains:
        return
    grads = parts.clip(torch.autograd.grad(loss, list(p.values())))
    with torch.no_grad():
        for (name, weight), grad in zip(p.items(), grads):
            parts.update(weight, grad, m[name], v[name])


class Half(Parts):
    dtype = torch.bfloat16


LAWFUL, BUGS = {}, {}


def variant(table, base=Parts, threads=None):
    """Enters functions that take the place of parts: the class's name is the case's."""

    def enter(cls):
        made = type(cls.__name__, (cls, base), {})
        table[cls.__name__] = (base, made, threads)
        return cls

    return enter


def lawful(cls):
    return variant(LAWFUL)(cls)


def bug(cls):
    return variant(BUGS)(cls)


# ---- lawful: the same function, other bits


@lawful
class mean_as_sum:
    def norm(self, x, weight):
        scale = torch.rsqrt((x * x).sum(-1, keepdim=True) / C + EPS)
        return x * scale * weight


@lawful
class root_and_division:
    def norm(self, x, weight):
        return x / torch.sqrt(x.square().mean(-1, keepdim=True) + EPS) * weight


@lawful
class fused_rms_norm:
    def norm(self, x, weight):
        return F.rms_norm(x, (C,), weight, EPS)


@lawful
class sum_one_by_one:
    def norm(self, x, weight):
        total = torch.zeros(B, T, 1)
        for i in range(C):
            total = total + x[..., i : i + 1] ** 2
        return x * torch.rsqrt(total / C + EPS) * weight


@lawful
class sum_backwards:
    def norm(self, x, weight):
        scale = torch.rsqrt(x.pow(2).flip(-1).mean(-1, keepdim=True) + EPS)
        return x * scale * weight


@lawful
class sum_pairwise:
    def norm(self, x, weight):
        s = x * x
        while s.shape[-1] > 1:
            s = s[..., ::2] + s[..., 1::2]
        return x * torch.rsqrt(s / C + EPS) * weight


@lawful
class sum_by_kahan:
    def norm(self, x, weight):
        total, lost = torch.zeros(B, T), torch.zeros(B, T)
        for i in range(C):
            y = x[..., i] * x[..., i] - lost
            t = total + y
            lost = (t - total) - y
            total = t
        return x * torch.rsqrt(total[..., None] / C + EPS) * weight


@lawful
class sum_in_float64:
    def norm(self, x, weight):
        mean = x.double().pow(2).mean(-1, keepdim=True).float()
        return x * torch.rsqrt(mean + EPS) * weight


@lawful
class plain_layer_norm:
    def layer_norm(self, x, weight, bias):
        mean = x.mean(-1, keepdim=True)
        spread = (x - mean).pow(2).mean(-1, keepdim=True)
        return (x - mean) * torch.rsqrt(spread + EPS) * weight + bias


@lawful
class layer_norm_by_moments:
    def layer_norm(self, x, weight, bias):
        mean = x.mean(-1, keepdim=True)
        spread = (x * x).mean(-1, keepdim=True) - mean * mean
        return (x - mean) / torch.sqrt(spread + EPS) * weight + bias


@lawful
class layer_norm_by_var:
    def layer_norm(self, x, weight, bias):
        spread, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
        return torch.addcmul(bias, (x - mean) * torch.rsqrt(spread + EPS), weight)


@lawful
class matmul_in_chunks:
    def linear(self, x, weight, bias):
        k = x.shape[-1] // 2
        return x[..., :k] @ weight[:, :k].t() + x[..., k:] @ weight[:, k:].t() + bias


@lawful
class matmul_by_columns:
    def linear(self, x, weight, bias):
        k = weight.shape[0] // 2
        one, other = weight[:k], weight[k:]
        return torch.cat([F.linear(x, one, bias[:k]), F.linear(x, other, bias[k:])], -1)


@lawful
class matmul_by_einsum:
    def linear(self, x, weight, bias):
        return torch.einsum("btc,oc->bto", x, weight) + bias


@lawful
class matmul_by_sums:
    def linear(self, x, weight, bias):
        return (x[..., None, :] * weight).sum(-1) + bias


@lawful
class flash:
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@lawful
class flash_with_a_mask:
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask())


@variant(LAWFUL, Half)
class flash_in_half:
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@lawful
class online_softmax:
    def attend(self, q, k, v):
        mask, most = self.mask(), torch.full((B, H, T, 1), -1e30)
        total, out = torch.zeros(B, H, T, 1), torch.zeros(B, H, T, D)
        for i in range(0, T, 4):
            s = q @ k[:, :, i : i + 4].transpose(-2, -1) * self.scale()
            s = s.masked_fill(~mask[:, i : i + 4], -1e30)
            now = torch.maximum(most, s.amax(-1, keepdim=True))
            e, keep = torch.exp(s - now), torch.exp(most - now)
            total = total * keep + e.sum(-1, keepdim=True)
            out = out * keep + e @ v[:, :, i : i + 4]
            most = now
        return out / total


@lawful
class scale_on_the_query:
    def attend(self, q, k, v):
        scores = (q * self.scale()) @ k.transpose(-2, -1)
        return self.softmax(scores.masked_fill(~self.mask(), float("-inf"))) @ v


@lawful
class added_mask:
    def attend(self, q, k, v):
        away = torch.zeros(T, T).masked_fill(~self.mask(), float("-inf"))
        return self.softmax(torch.baddbmm(
            away.expand(B * H, T, T), q.reshape(-1, T, D), k.reshape(-1, T, D).transpose(1, 2),
            alpha=self.scale(),
        )).view(B, H, T, T) @ v  # fmt: skip


@lawful
class plain_softmax:
    def softmax(self, scores):
        e = torch.exp(scores - scores.amax(-1, keepdim=True).detach())
        return e / e.sum(-1, keepdim=True)


@lawful
class softmax_by_logarithm:
    def softmax(self, scores):
        return torch.exp(scores - torch.logsumexp(scores, -1, keepdim=True))


@lawful
class rope_by_rotation:
    def rope(self, x):
        cos, sin = (torch.cat([t, t], -1) for t in self.angles(x))
        turned = torch.cat([-x[..., D // 2 :], x[..., : D // 2]], -1)
        return x * cos + turned * sin


@lawful
class rope_shifted:
    # Only how far places lie apart counts: all of them moved by one give the same scores.
    def angles(self, x):
        inverse = 1.0 / (10000.0 ** (torch.arange(0, D, 2).float() / D))
        angle = torch.outer(torch.arange(1, T + 1).float() * 37, inverse)
        return angle.cos(), angle.sin()


@lawful
class plain_gelu:
    def activation(self, x):
        return 0.5 * x * (1 + torch.erf(x * (1 / math.sqrt(2))))


@lawful
class dropout_scaled_first:
    def dropout(self, x):
        kept = torch.bernoulli(torch.full_like(x, 0.75))
        return x * (kept * (1 / 0.75))


@lawful
class plain_loss:
    def loss(self, logits, targets):
        found = torch.log_softmax(logits, -1).gather(-1, targets[..., None])
        return -found.mean()


@lawful
class loss_by_logsumexp:
    def loss(self, logits, targets):
        right = logits.gather(-1, targets[..., None])[..., 0]
        return (torch.logsumexp(logits, -1) - right).sum() / (B * T)


@lawful
class norm_of_norms:
    def norm_of(self, grads):
        return torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in grads]))


@lawful
class moments_by_lerp:
    def update(self, weight, grad, m, v):
        m.lerp_(grad, 0.1)
        v.mul_(0.99).add_(grad * grad, alpha=0.01)
        step = (m / (1 - 0.9)) / (v.sqrt() / math.sqrt(1 - 0.99) + 1e-4)
        weight.mul_(1 - 0.01 * 0.1).add_(step, alpha=-0.01)


@variant(LAWFUL, threads=(1, 2))
class other_threads:
    pass


# ---- planted bugs


@bug
class epsilon_outside:
    def norm(self, x, weight):
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True)) + EPS  # BUG
        return x * scale * weight


@bug
class epsilon_wrong:
    def norm(self, x, weight):
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)  # BUG
        return x * scale * weight


@bug
class epsilon_missing:
    def norm(self, x, weight):
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True))  # BUG
        return x * scale * weight


@bug
class norm_over_the_wrong_axis:
    def norm(self, x, weight):
        scale = torch.rsqrt(x.float().pow(2).mean(1, keepdim=True) + EPS)  # BUG
        return x * scale * weight


@bug
class norm_by_one_less:
    def norm(self, x, weight):
        mean = x.float().pow(2).sum(-1, keepdim=True) / (C - 1)  # BUG
        return x * torch.rsqrt(mean + EPS) * weight


@bug
class norm_weight_plus_one:
    def norm(self, x, weight):
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + EPS)
        return x * scale * (weight + 1)  # BUG


@bug
class layer_norm_epsilon:
    def layer_norm(self, x, weight, bias):
        return F.layer_norm(x, (C,), weight, bias, 1e-6)  # BUG


@bug
class layer_norm_without_bias:
    def layer_norm(self, x, weight, bias):
        return F.layer_norm(x, (C,), weight, None, EPS) + 0 * bias  # BUG


@bug
class layer_norm_unbiased:
    def layer_norm(self, x, weight, bias):
        spread, mean = torch.var_mean(x, -1, correction=1, keepdim=True)  # BUG
        return (x - mean) * torch.rsqrt(spread + EPS) * weight + bias


@bug
class scale_off_by_a_thousandth:
    def scale(self):
        return 1.001 / math.sqrt(D)

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.scale()  # BUG
        scores = scores.masked_fill(~self.mask(), float("-inf"))
        return self.softmax(scores) @ v


@bug
class scale_by_the_width:
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(C)  # BUG
        scores = scores.masked_fill(~self.mask(), float("-inf"))
        return self.softmax(scores) @ v


@bug
class flash_with_another_scale:
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3539)  # BUG


@bug
class flash_not_causal:
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)  # BUG


@bug
class scale_missing:
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        scores = scores.masked_fill(~self.mask(), float("-inf"))  # BUG
        return self.softmax(scores) @ v


@bug
class mask_off_by_one:
    def mask(self):
        return torch.ones(T, T, dtype=torch.bool).tril(1)  # BUG


@bug
class mask_upside_down:
    def mask(self):
        return torch.ones(T, T, dtype=torch.bool).triu()  # BUG


@bug
class mask_after_the_softmax:
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.scale()
        weights = F.softmax(scores, -1)  # BUG
        return weights.masked_fill(~self.mask(), 0.0) @ v


@bug
class mask_too_weak:
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.scale()
        scores = scores.masked_fill(~self.mask(), -10.0)  # BUG
        return self.softmax(scores) @ v


@bug
class softmax_over_the_wrong_axis:
    def softmax(self, scores):
        return F.softmax(scores, -2)  # BUG


@bug
class softmax_with_one_more:
    def softmax(self, scores):
        e = torch.exp(scores - scores.amax(-1, keepdim=True))  # BUG
        return e / (1 + e.sum(-1, keepdim=True))  # BUG


@bug
class rope_other_base:
    def angles(self, x):
        inverse = 1.0 / (10001.0 ** (torch.arange(0, D, 2).float() / D))  # BUG
        angle = torch.outer(torch.arange(T).float() * 37, inverse)
        return angle.cos(), angle.sin()


@variant(BUGS, Half)
class rope_in_bfloat16:
    def angles(self, x):
        inverse = 1.0 / (10000.0 ** (torch.arange(0, D, 2).float() / D))
        angle = torch.outer(torch.arange(T).to(x.dtype) * 37, inverse.to(x.dtype))  # BUG
        return angle.cos(), angle.sin()


@bug
class rope_other_sign:
    def rope(self, x):
        cos, sin = self.angles(x)
        left, right = x[..., : D // 2], x[..., D // 2 :]
        return torch.cat([left * cos + right * sin, right * cos - left * sin], -1)  # BUG


@bug
class rope_interleaved:
    def rope(self, x):
        cos, sin = self.angles(x)
        left, right = x[..., ::2], x[..., 1::2]  # BUG
        return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)  # BUG


@variant(BUGS, Half)
class upcast_dropped:
    def norm(self, x, weight):
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS)  # BUG
        return x * scale * weight


@variant(BUGS, Half)
class sum_in_bfloat16:
    def norm(self, x, weight):
        total = torch.zeros(B, T, 1, dtype=x.dtype)
        for i in range(C):
            total = total + x[..., i : i + 1] ** 2  # BUG
        return x * torch.rsqrt(total / C + EPS) * weight


@bug
class activation_in_bfloat16:
    def activation(self, x):
        return F.gelu(x.bfloat16()).float()  # BUG


@bug
class matmul_in_bfloat16:
    def linear(self, x, weight, bias):
        return (x.bfloat16() @ weight.t().bfloat16()).float() + bias  # BUG


@bug
class matmul_like_tf32:
    def linear(self, x, weight, bias):
        def short(t):
            return t + ((t * 8193.0 - (t * 8193.0 - t)) - t).detach()  # BUG

        return F.linear(short(x), short(weight), bias)  # BUG


@bug
class bias_missing:
    def linear(self, x, weight, bias):
        return F.linear(x, weight) + 0 * bias  # BUG


@bug
class gelu_by_tanh:
    def activation(self, x):
        return F.gelu(x, approximate="tanh")  # BUG


@bug
class dropout_unscaled:
    missing = "aten.div.Tensor"

    def dropout(self, x):
        kept = torch.bernoulli(torch.full_like(x, 0.75))
        return x * kept  # BUG


@bug
class dropout_scaled_wrongly:
    def dropout(self, x):
        kept = torch.bernoulli(torch.full_like(x, 0.75))
        return x * kept / 0.25  # BUG


@bug
class place_off_by_one:
    def embed(self, p, tokens):
        places = (torch.arange(T) + 1) % T  # BUG
        return F.embedding(tokens, p["token"]) + F.embedding(places, p["place"])  # BUG


@bug
class transposed_weight:
    def attention(self, x, p):
        return super().attention(x, {**p, "out": p["out"].t()})

    def linear(self, x, weight, bias):
        return F.linear(x, weight, bias)  # BUG


@bug
class query_and_key_exchanged:
    def attend(self, q, k, v):
        scores = k @ q.transpose(-2, -1) * self.scale()  # BUG
        scores = scores.masked_fill(~self.mask(), float("-inf"))
        return self.softmax(scores) @ v


@bug
class residual_scaled:
    def residual(self, x, y):
        return x + 0.9999 * y  # BUG


@bug
class loss_summed:
    def loss(self, logits, targets):
        return F.cross_entropy(logits.view(-1, V), targets.view(-1), reduction="sum")  # BUG


@bug
class loss_smoothed:
    def loss(self, logits, targets):
        found = torch.log_softmax(logits, -1)
        right = found.gather(-1, targets[..., None]).mean()  # BUG
        return -0.999 * right - 0.001 * found.mean()  # BUG


@bug
class loss_of_the_next_token:
    def loss(self, logits, targets):
        return F.cross_entropy(logits.view(-1, V), targets.roll(1, -1).view(-1))  # BUG


@bug
class clip_over_some:
    def norm_of(self, grads):
        return torch.sqrt(sum((g * g).sum() for g in grads if g.dim() > 1))  # BUG


@bug
class clip_epsilon:
    def clip(self, grads):
        factor = torch.clamp(0.5 / (self.norm_of(grads) + 1e-4), max=1.0)  # BUG
        return [g * factor for g in grads]


@bug
class momentum_wrong:
    def update(self, weight, grad, m, v):
        m.mul_(0.9).add_(grad, alpha=0.101)  # BUG
        v.mul_(0.99).addcmul_(grad, grad, value=0.01)
        step = (m / (1 - 0.9)) / ((v / (1 - 0.99)).sqrt() + 1e-4)
        weight.mul_(1 - 0.01 * 0.1)
        weight.sub_(step, alpha=0.01)


@bug
class decay_in_the_gradient:
    def update(self, weight, grad, m, v):
        grad = grad + 0.1 * weight  # BUG
        m.mul_(0.9).add_(grad, alpha=0.1)
        v.mul_(0.99).addcmul_(grad, grad, value=0.01)
        step = (m / (1 - 0.9)) / ((v / (1 - 0.99)).sqrt() + 1e-4)
        weight.sub_(step, alpha=0.01)


@bug
class adam_epsilon_inside:
    def update(self, weight, grad, m, v):
        m.mul_(0.9).add_(grad, alpha=0.1)
        v.mul_(0.99).addcmul_(grad, grad, value=0.01)
        step = (m / (1 - 0.9)) / (v / (1 - 0.99) + 1e-4).sqrt()  # BUG
        weight.mul_(1 - 0.01 * 0.1)
        weight.sub_(step, alpha=0.01)


@bug
class gradient_detached:
    def norm(self, x, weight):
        mean = x.pow(2).mean(-1, keepdim=True).detach()
        return x * torch.rsqrt(mean + EPS) * weight  # BUG
