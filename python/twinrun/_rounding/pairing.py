# SPDX-License-Identifier: Apache-2.0
"""Which values of two arms are the same quantity: those that agree in float64, up to what that may
lose.
"""

import torch

WEAK = 1e-9  # of a value: what float64 may have lost without the match becoming meaningless


def bits_equal(a, b):
    if a.dtype != b.dtype or a.numel() != b.numel():
        return False
    if not a.numel():
        return True
    one, other = a.contiguous().flatten(), b.contiguous().flatten()
    return torch.equal(one.view(torch.uint8), other.view(torch.uint8))


def same_quantity(a, b):
    x, y = a.exact.flatten(), b.exact.flatten()
    if not x.is_floating_point() or not y.is_floating_point():
        return x.dtype == y.dtype and torch.equal(x, y)
    allowed = 2 * (a.error.flatten() + b.error.flatten())
    near = (x - y).abs() <= allowed
    return bool((near | (x == y) | (torch.isnan(x) & torch.isnan(y))).all())


def size_of(value):
    finite = value.exact[torch.isfinite(value.exact)]
    if not finite.numel():
        return torch.zeros_like(value.exact)
    return value.exact.abs().nan_to_num(0, 0, 0) + finite.square().mean().sqrt()


def is_weak(value, other):
    """Do two values that may be the same quantity lie further apart than a bug could hide in?"""
    if value.weak or other.weak or value.error is None:
        return value.weak or other.weak
    y = other.exact.reshape(value.exact.shape)
    away = torch.where(value.exact == y, 0.0, (value.exact - y).abs()).nan_to_num(0.0)
    return bool((away > WEAK * size_of(value)).any())


class Pairing:
    """Which values of the two arms are the same quantity."""

    def __init__(self, a):
        self.classes = {}
        for value in a.values:
            if value.exact is not None:
                self.classes.setdefault(value.data.numel(), []).append(value)

    def find(self, value):
        found = []
        for other in self.classes.get(value.data.numel(), ()):
            if value.maker is None:
                # what was there before is the same where its bytes are
                if other.maker is None and bits_equal(value.data, other.data):
                    found.append(other)
            elif same_quantity(other, value):
                found.append(other)
        if not found:
            return

        def likeness(other):
            name = other.maker.name if other.maker else ""
            own = value.maker.name if value.maker else ""
            return (
                other.data.dtype == value.data.dtype,
                name == own,
                tuple(other.data.shape) == tuple(value.data.shape),
                bits_equal(other.data, value.data),
                -abs(other.number - value.number),
            )

        value.match = max(found, key=likeness)
        value.weak = is_weak(value, value.match)
        self._anchor(value, value.match)
        for other in found:
            if other.match is None:
                other.match = value

    def _anchor(self, value, other):
        """A quantity is known as well as either arm knows it: what follows is bounded from there.
        Without this, sums that give back what they lose would have no bound.
        """
        if value.error is not None:
            known = other.error.reshape(value.error.shape)
            away = (value.exact - other.exact.reshape(value.exact.shape)).abs().nan_to_num(0, 0, 0)
            value.error = torch.minimum(value.error, known + away)
