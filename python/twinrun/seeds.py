# SPDX-License-Identifier: Apache-2.0
"""One root number, and every random choice of a job from it: a tree of seeds, draws at any index,
an order of samples.

    from twinrun import seeds

    weights = seeds.seed(7, "model", layer=3)             # the seed of a place in the tree
    noise = seeds.normal(weights, range(1000))            # draws 0 to 999 of that seed
    order = seeds.Shuffle(60000, seeds.seed(7, epoch=2))
    order[17]                                             # the 18th sample of the epoch; no table is made

Nothing here has a state: each value is a function of its arguments, the same bits in C
(<twin/random.h>) and in Python, with NumPy and without it, on every machine. docs/format/random.md
is the definition. NumPy makes many draws at once fast; without it they come as lists. Not for
cryptography: who knows a seed knows all below it.
"""

import functools
import hashlib
import math
import numbers
import operator

try:
    import numpy
except ImportError:
    numpy = None

__all__ = [
    "seed",
    "philox4x32",
    "u64",
    "uniform",
    "normal",
    "bernoulli",
    "below",
    "Shuffle",
    "Order",
]

_M32, _M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


def _u64(value, what):
    value = operator.index(value)
    if not 0 <= value <= _M64:
        raise ValueError("%s must be 0 to 2**64 - 1, not %r" % (what, value))
    return value


# ---- the tree


def seed(parent, *path, **indices):
    """The seed of a place in the tree below `parent`: `seed(7, "data", epoch=3)` is `seed(7,
    "data/epoch=3")`.

    `path`: names, with slashes between them; empty ones count for nothing, so that `seed(7, "")` is
    7. `indices`: whole numbers by name, in the order written. A branch is the root of its own tree:
    `seed(seed(7, "data"), epoch=3)` is the same again, and a process that was given a branch cannot
    collide with its neighbours. Returns 0 to 2**64 - 1.
    """
    here = _u64(parent, "the parent seed")
    names = [name for part in path for name in part.split("/") if name]
    names += ["%s=%d" % item for item in indices.items()]
    for name in names:
        key = here.to_bytes(8, "little")
        here = int.from_bytes(
            hashlib.blake2b(name.encode("utf-8"), digest_size=8, key=key).digest(), "little"
        )
    return here


# ---- draws. What follows works alike on numbers and on arrays of uint64, whose arithmetic is
# modulo 2**64 by itself.


def _philox(counter, key):
    """Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011): ten rounds of two 32-bit
    multiplications.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p, q = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (q >> 32) ^ c1 ^ k0, q & _M32, (p >> 32) ^ c3 ^ k1, p & _M32
        k0, k1 = (k0 + 0x9E3779B9) & _M32, (k1 + 0xBB67AE85) & _M32
    return c0, c1, c2, c3


def philox4x32(counter, key):
    """One block: four words of 32 bits for a counter of four and a key of two. The bijection of
    Random123, nothing added.
    """
    for word in (*counter, *key):
        if not 0 <= word <= _M32:
            raise ValueError("words of counter and key must be 0 to 2**32 - 1, not %r" % word)
    return _philox(counter, key)


def _bits(seed, index, attempt=0, purpose=0):
    """64 bits: half `index % 2` of block `index // 2`. `attempt` counts rejected draws, `purpose`
    keeps users of one seed apart.
    """
    block = index >> 1
    words = _philox((block & _M32, block >> 32, attempt, purpose), (seed & _M32, seed >> 32))
    if isinstance(index, int):
        half = 2 * (index & 1)
        return words[half] | words[half + 1] << 32
    odd = (index & 1).astype(bool)
    return numpy.where(odd, words[2], words[0]) | numpy.where(odd, words[3], words[1]) << 32


def _each(draw):
    """Gives `draw(seed, index, ...)` also many indices at once: as an array with NumPy, as a list
    without it.
    """

    @functools.wraps(draw)
    def each(seed, index, *rest):
        seed = _u64(seed, "the seed")
        if isinstance(index, numbers.Integral):
            return draw(seed, _u64(index, "the index"), *rest)
        if numpy is None:
            return [draw(seed, _u64(i, "the index"), *rest) for i in index]
        if isinstance(index, range) and index.step == 1 and index:
            _u64(index[-1], "the index")
            index = numpy.arange(len(index), dtype=numpy.uint64) + numpy.uint64(
                _u64(index[0], "the index")
            )
        return draw(seed, _indices(index), *rest)

    return each


def _indices(index):
    """As an array of uint64. (NumPy alone makes floating-point numbers of lists with numbers above
    and below 2**63.)
    """
    if not isinstance(index, numpy.ndarray):
        return numpy.array([_u64(i, "the index") for i in index], dtype=numpy.uint64)
    if index.dtype.kind not in "iu" or (index.size and index.min() < 0):
        raise ValueError("indices must be whole numbers, 0 to 2**64 - 1")
    return numpy.atleast_1d(index.astype(numpy.uint64))


@_each
def u64(seed, index):
    """Draw `index` of `seed`: 64 random bits. `index`: a number, or many (range, list, array)."""
    return _bits(seed, index)


@_each
def uniform(seed, index):
    """Uniform on [0, 1), in steps of 2**-53."""
    return (_bits(seed, index) >> 11) * 2.0**-53


@_each
def bernoulli(seed, index, p):
    """True with probability `p`, to 2**-53: never for 0, always for 1."""
    if not 0 <= p <= 1:
        raise ValueError("the probability must be 0 to 1, not %r" % p)
    return (_bits(seed, index) >> 11) * 2.0**-53 < p


@_each
def below(seed, index, n):
    """A whole number from 0 to n - 1, each exactly equally likely (Lemire 2019: a product's high
    half; biased draws are made anew).
    """
    if not 1 <= n <= _M64:
        raise ValueError("the bound must be 1 to 2**64 - 1, not %r" % n)
    rejected = (1 << 64) % n
    if isinstance(index, int):
        attempt = 0
        while True:
            product = _bits(seed, index, attempt) * n
            if product & _M64 >= rejected:
                return product >> 64
            attempt += 1
    high, low = _product(_bits(seed, index), n)
    again, attempt = numpy.flatnonzero(low < numpy.uint64(rejected)), 0
    while again.size:
        attempt += 1
        high[again], low = _product(_bits(seed, index[again], attempt), n)
        again = again[low < numpy.uint64(rejected)]
    return high


def _product(x, n):
    """High and low half of the 128-bit products of an array and a number."""
    n0, n1 = numpy.uint64(n & _M32), numpy.uint64(n >> 32)
    x0, x1 = x & _M32, x >> 32
    middle = x1 * n0 + (x0 * n0 >> 32)
    other = x0 * n1 + (middle & _M32)
    return x1 * n1 + (middle >> 32) + (other >> 32), x * numpy.uint64(n)


# Wichura's algorithm AS 241 (PPND16), Applied Statistics 37 (1988): the normal quantile as ratios
# of polynomials, highest power first: around the median; in the tails, in sqrt(-ln p) up to 5;
# beyond.
_CENTRE = (
    (
        2509.0809287301226727,
        33430.575583588128105,
        67265.770927008700853,
        45921.953931549871457,
        13731.693765509461125,
        1971.5909503065514427,
        133.14166789178437745,
        3.387132872796366608,
    ),
    (
        5226.495278852854561,
        28729.085735721942674,
        39307.89580009271061,
        21213.794301586595867,
        5394.1960214247511077,
        687.1870074920579083,
        42.313330701600911252,
        1.0,
    ),
)
_TAIL = (
    (
        7.7454501427834140764e-4,
        2.27238449892691845833e-2,
        0.24178072517745061177,
        1.27045825245236838258,
        3.64784832476320460504,
        5.7694972214606914055,
        4.6303378461565452959,
        1.42343711074968357734,
    ),
    (
        1.05075007164441684324e-9,
        5.475938084995344946e-4,
        1.51986665636164571966e-2,
        0.14810397642748007459,
        0.68976733498510000455,
        1.6763848301838038494,
        2.05319162663775882187,
        1.0,
    ),
)
_FAR = (
    (
        2.01033439929228813265e-7,
        2.71155556874348757815e-5,
        1.2426609473880784386e-3,
        2.65321895265761230930e-2,
        0.29656057182850489123,
        1.7848265399172913358,
        5.4637849111641143699,
        6.6579046435011037772,
    ),
    (
        2.04426310338993978564e-15,
        1.4215117583164458887e-7,
        1.8463183175100546818e-5,
        7.868691311456132591e-4,
        1.48753612908506148525e-2,
        0.13692988092273580531,
        0.59983220655588793769,
        1.0,
    ),
)
_LN2 = 0.6931471805599453


def _horner(coefficients, x):
    value = coefficients[0]
    for c in coefficients[1:]:
        value = value * x + c
    return value


def _ratio(polynomials, x):
    return _horner(polynomials[0], x) / _horner(polynomials[1], x)


_ATANH = tuple(1.0 / (2 * k + 1) for k in range(11, -1, -1))


def _log(x):
    """ln x by additions, multiplications and divisions alone, which round alike everywhere; the
    system's log does not. x = m 2^e with m within sqrt(1/2) and sqrt(2); ln m = 2 atanh s, s = (m -
    1) / (m + 1), by its series.
    """
    if isinstance(x, float):
        m, e = math.frexp(x)
        if m < 0.7071067811865476:
            m, e = m * 2.0, e - 1
    else:
        m, e = numpy.frexp(x)
        small = m < 0.7071067811865476
        m, e = numpy.where(small, m * 2.0, m), e - small
    s = (m - 1.0) / (m + 1.0)
    return e * _LN2 + 2.0 * s * _horner(_ATANH, s * s)


def _tail(p):
    """The quantile's size for p below .075."""
    if isinstance(p, float):
        r = math.sqrt(-_log(p))
        return _ratio(_TAIL, r - 1.6) if r <= 5.0 else _ratio(_FAR, r - 5.0)
    r = numpy.sqrt(-_log(p))
    return numpy.where(r <= 5.0, _ratio(_TAIL, r - 1.6), _ratio(_FAR, r - 5.0))


@_each
def normal(seed, index):
    """Standard normal: the quantile of the middle of one of 2**52 equal parts, so at most 8.21 from
    0. AS 241, to about 1e-15.
    """
    q = ((_bits(seed, index) >> 12) + 0.5) * 2.0**-52 - 0.5
    if isinstance(q, float):
        if abs(q) <= 0.425:
            return q * _ratio(_CENTRE, 0.180625 - q * q)
        z = _tail(0.5 - abs(q))
        return -z if q < 0 else z
    z = q * _ratio(_CENTRE, 0.180625 - q * q)
    outer = numpy.flatnonzero(abs(q) > 0.425)
    z[outer] = numpy.copysign(_tail(0.5 - abs(q[outer])), q[outer])
    return z


# ---- orders

_ROUNDS = 24  # fewer leave some orders of 5 to 8 elements visibly rarer than others


def _scatter(x):
    # splitmix64's finaliser (Steele, Lea and Flood 2014)
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _M64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _M64
    return x ^ (x >> 31)


class Shuffle:
    """A random order of 0 to n - 1 that is computed where it is asked for: no table, no state, the
    same time at any place.

    `p[i]`: who stands at place i; `p[first:last]`: the places first to last - 1, as an array (a
    list without NumPy); `p.find(x)`: the place where x stands. A generalised Feistel network over a
    grid of a x b >= n cells with cycle walking (Black and Rogaway 2002).
    """

    def __init__(self, n, seed):
        self.n = _u64(n, "the length")
        self.seed = _u64(seed, "the seed")
        side = math.isqrt(max(n, 1) - 1) + 1
        # shifts of an odd ring are even permutations, and half of all orders would be out of reach
        self._a = side + side % 2
        self._b = max(n - 1, 0) // self._a + 1
        self._keys = [_bits(seed, j, 0, 1) for j in range(_ROUNDS)]

    def __len__(self):
        return self.n

    def __repr__(self):
        return "Shuffle(%d, %d)" % (self.n, self.seed)

    def _shift(self, j, x, size):
        return ((_scatter((x + self._keys[j]) & _M64) >> 32) * size) >> 32

    def _forward(self, x):
        a, b = self._a, self._b
        row, column = x // a, x % a
        for j in range(0, _ROUNDS, 2):
            column = (column + self._shift(j, row, a)) % a
            row = (row + self._shift(j + 1, column, b)) % b
        return row * a + column

    def _backward(self, x):
        a, b = self._a, self._b
        row, column = x // a, x % a
        for j in range(_ROUNDS - 2, -1, -2):
            row = (row + b - self._shift(j + 1, column, b)) % b
            column = (column + a - self._shift(j, row, a)) % a
        return row * a + column

    def _walk(self, step, x):
        x = operator.index(x)
        if not 0 <= x < self.n:
            raise IndexError(
                "a place in an order of %d must be 0 to %d, not %r" % (self.n, self.n - 1, x)
            )
        x = step(x)
        while x >= self.n:
            x = step(x)
        return x

    def __getitem__(self, place):
        if not isinstance(place, slice):
            return self._walk(self._forward, place + self.n if place < 0 else place)
        places = range(*place.indices(self.n))
        if numpy is None or self.n > 1 << 62:
            return [self._walk(self._forward, i) for i in places]
        x = numpy.arange(places.start, places.stop, places.step, dtype=numpy.int64).astype(
            numpy.uint64
        )
        x = self._forward(x)
        outside = numpy.flatnonzero(x >= self.n)
        while outside.size:
            x[outside] = self._forward(x[outside])
            outside = outside[x[outside] >= self.n]
        return x

    def find(self, x):
        """The place at which x stands: p[p.find(x)] is x."""
        return self._walk(self._backward, x)


class Order:
    """Which samples a training takes at each step, whatever the number of ranks: epoch after epoch,
    each a new random order of all samples (or the order as it is), cut into global batches; a
    global batch is split between the ranks in one piece each.

    Epoch e is `Shuffle(samples, seed(seed, epoch=e))`. The last batch of an epoch is short, or left
    out with `drop_last`.
    """

    def __init__(self, samples, batch, seed, shuffle=True, drop_last=False):
        self.samples, self.batch = _u64(samples, "the number of samples"), _u64(batch, "the batch")
        if not self.samples or not self.batch:
            raise ValueError(
                "an order needs at least one sample and a batch of at least one, not %r and %r"
                % (samples, batch)
            )
        self.seed, self.shuffle, self.drop_last = (
            _u64(seed, "the seed"),
            bool(shuffle),
            bool(drop_last),
        )
        #: steps of one epoch
        self.steps = self.samples // self.batch if drop_last else -(-self.samples // self.batch)
        if not self.steps:
            raise ValueError(
                "%d samples do not fill one batch of %d, and drop_last leaves short ones out"
                % (samples, batch)
            )
        self._epoch, self._shuffled = None, None

    def slice(self, step, rank=0, world=1):
        """(epoch, first, last): rank `rank` of `world` takes the places first to last - 1 of the
        epoch's order at this step, which counts over all epochs. The split is as even as it can be;
        a batch smaller than `world` leaves some ranks without.
        """
        if not 0 <= rank < world:
            raise ValueError("the rank must be 0 to %d, not %r" % (world - 1, rank))
        epoch, step = divmod(_u64(step, "the step"), self.steps)
        first = step * self.batch
        size = min(self.batch, self.samples - first)
        return epoch, first + size * rank // world, first + size * (rank + 1) // world

    def take(self, step, rank=0, world=1):
        """The samples that this rank takes at this step, as a list of numbers."""
        epoch, first, last = self.slice(step, rank, world)
        if not self.shuffle:
            return list(range(first, last))
        if epoch != self._epoch:
            self._epoch, self._shuffled = epoch, Shuffle(self.samples, seed(self.seed, epoch=epoch))
        taken = self._shuffled[first:last]
        return taken if isinstance(taken, list) else taken.tolist()
