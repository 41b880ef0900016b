# SPDX-License-Identifier: Apache-2.0
"""A training step of a small vision model with a recurrent head, whose parts can be exchanged: for
lawful rewritings, whose bits may differ, and for planted bugs. Written after the rules of `--explain
rounding` were fixed, by somebody who had not read them. The lines that a bug stands in end with
`# BUG`.
"""

import torch
import torch.nn.functional as F

N, IN, WIDE, SIDE, CLASSES, HIDDEN = 6, 3, 16, 10, 11, 12
EPS = 1e-5


class Parts:
    """The reference."""

    def conv(self, x, weight, bias):
        return F.conv2d(x, weight, bias, padding=1)

    def batch_norm(self, x, weight, bias):
        return F.batch_norm(x, None, None, weight, bias, training=True, eps=EPS)

    def depthwise(self, x, weight):
        return F.conv2d(x, weight, padding=1, groups=WIDE)

    def group_norm(self, x, weight, bias):
        return F.group_norm(x, 4, weight, bias, EPS)

    def silu(self, x):
        return F.silu(x)

    def grown(self, x):
        return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)

    def shrunk(self, x):
        return F.avg_pool2d(x, 3, stride=2, padding=1, count_include_pad=False)

    def pooled(self, x):
        return x.mean((-2, -1))

    def gated(self, x, p):
        return (F.silu(x @ p["gate"]) * (x @ p["value"])) @ p["down"]

    def recurrent(self, steps, p):
        h = torch.zeros(N, HIDDEN)
        for x in steps:
            h = torch.gru_cell(x, h, p["w_in"], p["w_h"], p["b_in"], p["b_h"])
        return h

    def decayed(self, x):
        """Each feature with what came before it, of which half is lost at each place."""
        out, kept = [], torch.zeros(N)
        for i in range(x.shape[1]):
            kept = 0.5 * kept + x[:, i]
            out.append(kept)
        return torch.stack(out, 1)

    def unit(self, x):
        return F.normalize(x, dim=-1, eps=1e-12)

    def logits(self, x, classes):
        return self.unit(x) @ self.unit(classes).t() / 0.07

    def loss(self, logits, targets):
        return F.cross_entropy(logits, targets, label_smoothing=0.1)

    def penalty(self, p):
        return 1e-2 * sum((w * w).sum() for w in p.values())

    def forward(self, p, x, targets):
        y = F.relu(self.batch_norm(self.conv(x, p["conv"], p["conv_b"]), p["bn"], p["bn_b"]))
        y = self.silu(self.group_norm(self.depthwise(y, p["deep"]), p["gn"], p["gn_b"]))
        y = self.pooled(self.shrunk(self.grown(y)))
        y = y + self.gated(y, p)
        h = self.recurrent(y.split(WIDE // 2, -1), p)
        return self.loss(self.logits(self.decayed(h), p["classes"]), targets) + self.penalty(p)


SHAPES = {
    "conv": (WIDE, IN, 3, 3), "conv_b": (WIDE,), "bn": (WIDE,), "bn_b": (WIDE,),
    "deep": (WIDE, 1, 3, 3), "gn": (WIDE,), "gn_b": (WIDE,),
    "gate": (WIDE, 2 * WIDE), "value": (WIDE, 2 * WIDE), "down": (2 * WIDE, WIDE),
    "w_in": (3 * HIDDEN, WIDE // 2), "w_h": (3 * HIDDEN, HIDDEN),
    "b_in": (3 * HIDDEN,), "b_h": (3 * HIDDEN,), "classes": (CLASSES, HIDDEN),
}  # fmt: skip


def world(_parts):
    generator = torch.Generator().manual_seed(23)
    p = {
        name: torch.randn(*shape, generator=generator).mul_(0.4).requires_grad_()
        for name, shape in SHAPES.items()
    }
    x = torch.randn(N, IN, SIDE, SIDE, generator=generator)
    targets = torch.randint(0, CLASSES, (N,), generator=generator)
    return p, x, targets


def step(parts, held, trains=True):
    p, x, targets = held
    torch.manual_seed(11)
    loss = parts.forward(p, x, targets)
    if trains:
        grads = torch.autograd.grad(loss, list(p.values()))
        with torch.no_grad():
            for weight, grad in zip(p.values(), grads):
                weight.sub_(grad, alpha=0.05)


LAWFUL, BUGS = {}, {}


def lawful(cls):
    LAWFUL[cls.__name__] = (Parts, type(cls.__name__, (cls, Parts), {}), None)
    return cls


def bug(cls):
    BUGS[cls.__name__] = (Parts, type(cls.__name__, (cls, Parts), {}), None)
    return cls


# ---- lawful


@lawful
class conv_by_columns:
    def conv(self, x, weight, bias):
        columns = F.unfold(x, 3, padding=1)
        y = weight.view(WIDE, -1) @ columns + bias[:, None]
        return y.view(N, WIDE, SIDE, SIDE)


@lawful
class conv_by_channels:
    def conv(self, x, weight, bias):
        y = sum(F.conv2d(x[:, i : i + 1], weight[:, i : i + 1], padding=1) for i in range(IN))
        return y + bias[:, None, None]


@lawful
class channels_last:
    def conv(self, x, weight, bias):
        last = torch.channels_last
        return F.conv2d(x.to(memory_format=last), weight.to(memory_format=last), bias, padding=1)


@lawful
class conv_by_places:
    def conv(self, x, weight, bias):
        wide = F.pad(x, (1, 1, 1, 1))
        y = torch.zeros(N, WIDE, SIDE, SIDE)
        for i in range(3):
            for k in range(3):
                part = wide[:, :, i : i + SIDE, k : k + SIDE]
                y = y + torch.einsum("nchw,oc->nohw", part, weight[:, :, i, k])
        return y + bias.view(1, -1, 1, 1)


@lawful
class plain_batch_norm:
    def batch_norm(self, x, weight, bias):
        mean = x.mean((0, 2, 3), keepdim=True)
        spread = x.var((0, 2, 3), correction=0, keepdim=True)
        y = (x - mean) / torch.sqrt(spread + EPS)
        return y * weight[:, None, None] + bias[:, None, None]


@lawful
class batch_norm_as_scale_and_shift:
    def batch_norm(self, x, weight, bias):
        flat = x.transpose(0, 1).reshape(WIDE, -1)
        mean = flat.mean(1)
        spread = (flat * flat).mean(1) - mean * mean
        scale = weight * torch.rsqrt(spread + EPS)
        return x * scale[:, None, None] + (bias - mean * scale)[:, None, None]


@lawful
class group_norm_by_layer_norm:
    def group_norm(self, x, weight, bias):
        y = F.layer_norm(x.reshape(N, 4, -1), (WIDE // 4 * SIDE * SIDE,), eps=EPS)
        return y.view_as(x) * weight[:, None, None] + bias[:, None, None]


@lawful
class plain_silu:
    def silu(self, x):
        return x / (1 + torch.exp(-x))


@lawful
class silu_by_tanh:
    def silu(self, x):
        return x * (0.5 * (1 + torch.tanh(0.5 * x)))


@lawful
class depthwise_by_places:
    def depthwise(self, x, weight):
        wide = F.pad(x, (1, 1, 1, 1))
        return sum(
            wide[:, :, i : i + SIDE, k : k + SIDE] * weight[None, :, 0, i, k, None, None]
            for i in range(3)
            for k in range(3)
        )


@lawful
class pooled_by_the_library:
    def pooled(self, x):
        return F.adaptive_avg_pool2d(x, 1).flatten(1)


@lawful
class pooled_by_a_product:
    def pooled(self, x):
        places = x.shape[-1] * x.shape[-2]
        return x.flatten(2) @ torch.full((places,), 1.0 / places)


@lawful
class shrunk_by_sums:
    def shrunk(self, x):
        taken = F.avg_pool2d(x, 3, stride=2, padding=1, divisor_override=1)
        ones = torch.ones_like(x)
        return taken / F.avg_pool2d(ones, 3, stride=2, padding=1, divisor_override=1)


@lawful
class one_product_for_both:
    def gated(self, x, p):
        gate, value = (x @ torch.cat([p["gate"], p["value"]], 1)).chunk(2, -1)
        return (gate * torch.sigmoid(gate) * value) @ p["down"]


@lawful
class plain_gru:
    def recurrent(self, steps, p):
        h = torch.zeros(N, HIDDEN)
        for x in steps:
            ir, iz, inew = F.linear(x, p["w_in"], p["b_in"]).chunk(3, -1)
            hr, hz, hnew = F.linear(h, p["w_h"], p["b_h"]).chunk(3, -1)
            r, z = torch.sigmoid(ir + hr), torch.sigmoid(iz + hz)
            new = torch.tanh(inew + r * hnew)
            h = (1 - z) * new + z * h
        return h


@lawful
class decayed_by_a_matrix:
    def decayed(self, x):
        place = torch.arange(HIDDEN)
        apart = (place[:, None] - place[None, :]).float()
        powers = torch.where(apart >= 0, 0.5**apart, torch.zeros(()))
        return x @ powers.t()


@lawful
class unit_by_root:
    def unit(self, x):
        return x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True))


@lawful
class temperature_on_the_features:
    def logits(self, x, classes):
        return (self.unit(x) * (1 / 0.07)) @ self.unit(classes).t()


@lawful
class logits_divided_at_the_end:
    def logits(self, x, classes):
        lengths = x.norm(dim=-1)[:, None] * classes.norm(dim=-1)[None, :]
        return (x @ classes.t()) / lengths / 0.07


@lawful
class plain_smoothing:
    def loss(self, logits, targets):
        logs = F.log_softmax(logits, -1)
        right = -logs.gather(-1, targets[:, None])[:, 0]
        return (0.9 * right + 0.1 * -logs.mean(-1)).mean()


@lawful
class smoothing_by_distributions:
    def loss(self, logits, targets):
        wanted = F.one_hot(targets, CLASSES).float() * 0.9 + 0.1 / CLASSES
        return F.cross_entropy(logits, wanted)


@lawful
class two_microbatches:
    def loss(self, logits, targets):
        halves = zip(logits.chunk(2), targets.chunk(2))
        parts = [F.cross_entropy(x, t, label_smoothing=0.1) for x, t in halves]
        return torch.stack(parts).mean()


@lawful
class penalty_in_one:
    def penalty(self, p):
        return 1e-2 * torch.cat([w.flatten() for w in p.values()]).square().sum()


@lawful
class grown_by_columns:
    def grown(self, x):
        wide = F.interpolate(x, scale_factor=(1, 2), mode="bilinear", align_corners=False)
        return F.interpolate(wide, scale_factor=(2, 1), mode="bilinear", align_corners=False)


# ---- planted bugs


@bug
class variance_unbiased:
    def batch_norm(self, x, weight, bias):
        mean = x.mean((0, 2, 3), keepdim=True)
        spread = x.var((0, 2, 3), keepdim=True)  # BUG
        y = (x - mean) / torch.sqrt(spread + EPS)
        return y * weight[:, None, None] + bias[:, None, None]


@bug
class batch_norm_epsilon:
    def batch_norm(self, x, weight, bias):
        return F.batch_norm(x, None, None, weight, bias, training=True, eps=1e-3)  # BUG


@bug
class norm_of_each_sample:
    def batch_norm(self, x, weight, bias):
        return F.instance_norm(x, None, None, weight, bias, True, 0.1, EPS)  # BUG


@bug
class other_groups:
    def group_norm(self, x, weight, bias):
        return F.group_norm(x, 8, weight, bias, EPS)  # BUG


@bug
class padding_counted:
    def shrunk(self, x):
        return F.avg_pool2d(x, 3, stride=2, padding=1)  # BUG


@bug
class padding_reflected:
    def conv(self, x, weight, bias):
        return F.conv2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), weight, bias)  # BUG


@bug
class kernel_turned:
    def conv(self, x, weight, bias):
        return F.conv2d(x, weight.flip(-1, -2), bias, padding=1)  # BUG


@bug
class conv_in_bfloat16:
    def conv(self, x, weight, bias):
        half = torch.bfloat16
        return F.conv2d(x.to(half), weight.to(half), bias.to(half), padding=1).float()  # BUG


@bug
class silu_of_gelu:
    def silu(self, x):
        return x * torch.sigmoid(1.702 * x)  # BUG


@bug
class silu_by_a_table:
    def silu(self, x):
        return x * torch.round(torch.sigmoid(x) * 4096) / 4096  # BUG


@bug
class corners_aligned:
    def grown(self, x):
        return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)  # BUG


@bug
class gates_swapped:
    def gated(self, x, p):
        return (F.silu(x @ p["value"]) * (x @ p["gate"])) @ p["down"]  # BUG


@bug
class reset_before_the_product:
    def recurrent(self, steps, p):
        h = torch.zeros(N, HIDDEN)
        wr, wz, wn = p["w_h"].chunk(3)
        br, bz, bn = p["b_h"].chunk(3)
        for x in steps:
            ir, iz, inew = F.linear(x, p["w_in"], p["b_in"]).chunk(3, -1)
            r, z = torch.sigmoid(ir + F.linear(h, wr, br)), torch.sigmoid(iz + F.linear(h, wz, bz))
            new = torch.tanh(inew + F.linear(r * h, wn, bn))  # BUG
            h = (1 - z) * new + z * h
        return h


@bug
class decay_a_little_other:
    def decayed(self, x):
        out, kept = [], torch.zeros(N)
        for i in range(x.shape[1]):
            kept = 0.5001 * kept + x[:, i]  # BUG
            out.append(kept)
        return torch.stack(out, 1)


@bug
class decay_behind_its_place:
    def decayed(self, x):
        out, kept = [], torch.zeros(N)
        for i in range(x.shape[1]):
            out.append(x[:, i] + kept)  # BUG
            kept = 0.5 * kept + x[:, i]
        return torch.stack(out, 1)


@bug
class epsilon_on_the_length:
    def unit(self, x):
        return x / (x.norm(dim=-1, keepdim=True) + 1e-4)  # BUG


@bug
class temperature_rounded:
    def logits(self, x, classes):
        return self.unit(x) @ self.unit(classes).t() * 14.3  # BUG


@bug
class smoothing_over_the_others:
    def loss(self, logits, targets):
        wanted = torch.full_like(logits, 0.1 / (CLASSES - 1))  # BUG
        wanted = wanted.scatter(1, targets[:, None], 0.9)
        return F.cross_entropy(logits, wanted)


@bug
class means_of_unequal_parts:
    def loss(self, logits, targets):
        halves = zip(logits.split(4), targets.split(4))
        parts = [F.cross_entropy(x, t, label_smoothing=0.1) for x, t in halves]  # BUG
        return torch.stack(parts).mean()


@bug
class penalty_halved:
    def penalty(self, p):
        return 0.5e-2 * sum((w * w).sum() for w in p.values())  # BUG


@bug
class penalty_without_biases:
    def penalty(self, p):
        return 1e-2 * sum((w * w).sum() for n, w in p.items() if not n.endswith("_b"))  # BUG


@bug
class off_by_a_millionth:
    def pooled(self, x):
        return x.mean((-2, -1)) * (1 + 4e-6)  # BUG


@bug
class pooled_in_half:
    def pooled(self, x):
        return x.half().mean((-2, -1)).float()  # BUG


@bug
class last_row_left_out:
    def pooled(self, x):
        return x[..., :-1, :].mean((-2, -1))  # BUG
