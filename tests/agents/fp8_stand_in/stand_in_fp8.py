# SPDX-License-Identifier: Apache-2.0
"""A STAND-IN for modules of Transformer Engine, for machines without it: PyTorch on the processor.

As theirs do, a module keeps the state of its 8-bit floats in `fp8_meta`, a table of its own: under
`scaling_fwd` and `scaling_bwd` objects that hold `scale`, `scale_inv` and `amax_history`, made in
the first forward within `autocast`, or when a checkpoint is loaded (`_extra_state`). What goes
through the product is rounded to 8 bits by the scale; the largest magnitude goes into the history.
The scales are made from it when the region ends (forward), and when the backward has come through
(backward), in place and past PyTorch's version counter. Written from what is publicly known of
Transformer Engine; nothing here shows how the real one computes.
"""

import contextlib
import io

import numpy
import torch

HISTORY = 4
MOST = {"scaling_fwd": 448.0, "scaling_bwd": 57344.0}
TYPES = {"scaling_fwd": torch.float8_e4m3fn, "scaling_bwd": torch.float8_e5m2}
_open = []  # modules whose forward ran in the region that is open


class Meta:
    def __init__(self, tensors):
        self.scale, self.scale_inv = torch.ones(tensors), torch.ones(tensors)
        self.amax_history = torch.zeros(HISTORY, tensors)


def _write(tensor, values):
    """As a kernel of an extension does it."""
    version = tensor._version
    tensor.numpy()[...] = numpy.asarray(values, dtype=numpy.float32)
    assert tensor._version == version


def update(meta, part):
    history = meta.amax_history.numpy()
    amax = history.max(axis=0)
    with numpy.errstate(divide="ignore"):
        scale = numpy.where(amax > 0, 2.0 ** numpy.floor(numpy.log2(MOST[part] / amax)), 1.0)
    _write(meta.scale, scale)
    _write(meta.scale_inv, 1.0 / scale)
    _write(meta.amax_history, numpy.concatenate((numpy.zeros_like(history[:1]), history[:-1])))


def rounded(t, meta, part, index):
    history = meta.amax_history.numpy()
    history[0, index] = max(history[0, index], float(t.detach().abs().max()))
    scale = meta.scale[index]
    held = (t * scale).clamp(-MOST[part], MOST[part]).to(TYPES[part])
    return held.to(torch.float32) * meta.scale_inv[index]


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, fp8_meta):
        forward = fp8_meta["scaling_fwd"]
        x, weight = (
            rounded(x, forward, "scaling_fwd", 0),
            rounded(weight, forward, "scaling_fwd", 1),
        )
        ctx.save_for_backward(x, weight)
        ctx.fp8_meta = fp8_meta
        return x @ weight.t()

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        backward = ctx.fp8_meta["scaling_bwd"]
        gradient = rounded(gradient, backward, "scaling_bwd", 0)
        update(backward, "scaling_bwd")
        return gradient @ weight, gradient.t() @ x, None


class Linear(torch.nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(after, before) / before**0.5)
        self.fp8_meta = {"recipe": "delayed"}

    def _make(self):
        if "scaling_fwd" not in self.fp8_meta:
            self.fp8_meta.update(scaling_fwd=Meta(2), scaling_bwd=Meta(1))

    def forward(self, x):
        if not _open:
            return torch.nn.functional.linear(x, self.weight)
        self._make()
        _open[-1].append(self)
        return _Product.apply(x, self.weight, self.fp8_meta)

    def get_extra_state(self):
        found = io.BytesIO()
        torch.save(
            {
                part: {k: t.clone() for k, t in vars(self.fp8_meta[part]).items()}
                for part in MOST
                if part in self.fp8_meta
            },
            found,
        )
        return torch.frombuffer(bytearray(found.getvalue()), dtype=torch.uint8)

    def set_extra_state(self, state):
        for part, held in torch.load(io.BytesIO(state.numpy().tobytes())).items():
            self._make()
            for name, tensor in held.items():
                setattr(self.fp8_meta[part], name, tensor)


@contextlib.contextmanager
def autocast():
    _open.append([])
    try:
        yield
    finally:
        for module in _open.pop():
            update(module.fp8_meta["scaling_fwd"], "scaling_fwd")
