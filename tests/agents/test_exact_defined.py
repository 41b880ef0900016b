# SPDX-License-Identifier: Apache-2.0
"""exact_allreduce over 1 to 7 gloo ranks against its definition in fractions, at its edges:
subnormal numbers, ties, cancelling, numbers around the unit of a block, sums too large, NaN and
infinities.
"""

import math
import random
from fractions import Fraction

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("hypothesis")  # which the tests that are imported here need
from test_exact_ranks import exact, hash_of, ranks  # noqa: E402
from twinrun.torch import _data, _reduce  # noqa: E402

# The definition of <twin/reduce.h>, followed in fractions.
GIVERS, BLOCK, LENGTH = 7, 8, 77  # with pieces of 16: four whole ones and a short one


def edges(kind):
    """What each of the GIVERS has, drawn at the edges of the definition."""
    draw = random.Random(kind)
    rows = [[draw.gauss(0, 1) for _ in range(LENGTH)] for _ in range(GIVERS)]
    for i in range(LENGTH):
        for giver, row in enumerate(rows):
            sign = draw.choice((-1, 1))
            if kind == "denormals":
                row[i] = sign * draw.randrange(1 << draw.choice((1, 12, 24))) * 2.0**-149
            elif kind == "cancelling" and giver % 2:
                row[i] = -rows[giver - 1][i]
            elif kind == "ties":  # the sum lies in the middle between two float32, or beside it
                row[i] = (1.0, 2.0**-24, 2.0**-24 if i % 2 else 0.0, 0.0, sign * 2.0**-50)[
                    giver % 5
                ]
            elif kind == "window":  # the block's largest, and others around its unit
                row[i] = (
                    1.5 if i % BLOCK == 0 else sign * (1 + draw.random()) * 2.0 ** -(26 + i % 40)
                )
            elif kind == "large":  # a sum may be too large for the type
                row[i] = sign * draw.uniform(0.5, 1) * 2.0**127.9
    if kind == "special":
        rows[1][3], rows[2][3] = math.inf, -math.inf
        rows[3][20], rows[4][50], rows[5][50], rows[6][76] = math.nan, math.inf, 1.0, -math.inf
    return [torch.tensor(row, dtype=torch.float32) for row in rows]


KINDS = "normal", "denormals", "cancelling", "ties", "window", "large", "special"


def nearest(total):
    """The float32 nearest to a fraction, ties to even."""
    if total == 0:
        return 0.0
    size = abs(total)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    step = Fraction(2) ** max(exponent - 23, -149)
    value = round(total / step) * step
    return float(value) if abs(value) < 2**128 else math.copysign(math.inf, value)


def defined(rows, mean):
    """The result of the definition, element by element."""
    columns, results = list(zip(*(row.tolist() for row in rows))), []
    bits = 62 - (len(rows) - 1).bit_length()
    for first in range(0, len(columns), BLOCK):
        block = columns[first : first + BLOCK]
        finite = [abs(x) for column in block for x in column if math.isfinite(x)]
        unit = Fraction(2) ** (max(math.frexp(max(finite))[1], -125) - bits)
        if max(finite) == 0:
            unit = Fraction(1)
        for column in block:
            odd = [x for x in column if not math.isfinite(x)]
            if odd:
                results.append(sum(odd))  # NaN of infinities that disagree
                continue
            total = sum(round(Fraction(x) / unit) for x in column) * unit
            results.append(nearest(total / len(rows) if mean else total))
    return torch.tensor(results, dtype=torch.float32)


def in_pieces(rank, world):
    _reduce._CHUNK = _reduce._OWNERS_CHUNK = 16  # this process only
    _reduce._OWNERS_FROM = _reduce._OWNERS_BLOCK = 1
    found = {}
    for kind in KINDS:
        rows = edges(kind)
        mine = [rows[m] for m in _data.share(GIVERS, rank, world)]
        for mean in (False, True):
            found[kind, mean] = exact.exact_allreduce(mine, GIVERS, mean=mean, block=BLOCK).tolist()
    return found


@pytest.mark.parametrize("world", range(1, 8))
def test_allreduce_in_pieces_is_what_is_defined(world):
    """Five pieces in memory for two: each rank has what fractions give, the sign of zero too."""
    for found in ranks(world, in_pieces):
        for (kind, mean), values in found.items():
            expected = defined(edges(kind), mean)
            values = torch.tensor(values, dtype=torch.float32)
            assert torch.equal(values.isnan(), expected.isnan()), (kind, mean)
            kept = ~expected.isnan()
            assert hash_of(values[kept]) == hash_of(expected[kept]), (kind, mean)
