# SPDX-License-Identifier: Apache-2.0
"""twinrun.seeds: C against Python, with NumPy and without it. Known answers and statistics are in
tests/unit/test_random.c.
"""

import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
M64 = (1 << 64) - 1


def load(name, without_numpy=False):
    """A copy of the module of its own; as where NumPy is not installed."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "python/twinrun/seeds.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if without_numpy:
        module.numpy = None
    return module


plain = load("seeds_plain", True)
seeds = load("seeds_numpy")
both = pytest.mark.parametrize(
    "s",
    [plain, pytest.param(seeds, marks=pytest.mark.skipif(seeds.numpy is None, reason="no NumPy"))],
    ids=["plain", "numpy"],
)

SEEDS = 0, 1, 7, 1 << 32, 0x0123456789ABCDEF, M64
INDICES = [
    0,
    1,
    2,
    3,
    1000,
    (1 << 32) - 1,
    1 << 32,
    (1 << 33) + 1,
    (1 << 63) - 1,
    1 << 63,
    M64 - 1,
    M64,
] + list(range(4, 300))


class Shuffle(ctypes.Structure):
    _fields_ = [
        ("n", ctypes.c_uint64),
        ("columns", ctypes.c_uint64),
        ("rows", ctypes.c_uint64),
        ("key", ctypes.c_uint64 * 24),
    ]


class Order(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint64) for n in ("samples", "batch", "seed")] + [
        ("shuffle", ctypes.c_bool),
        ("drop_last", ctypes.c_bool),
    ]


class Part(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint64) for n in ("epoch", "first", "count")]


@pytest.fixture(scope="module")
def c():
    path = Path(os.environ.get("TWINRUN_BUILD", ROOT / "build")) / "src/numerics/libtwinnumerics.so"
    if not path.exists():
        pytest.skip(f"no {path}: build it, or name the build folder in TWINRUN_BUILD")
    lib = ctypes.CDLL(str(path.resolve()))
    u64, f64 = ctypes.c_uint64, ctypes.c_double
    for name, result, arguments in (
        ("twin_seed", u64, [u64, ctypes.c_char_p]),
        ("twin_seed_index", u64, [u64, ctypes.c_char_p, u64]),
        ("twin_random_u64", u64, [u64, u64]),
        ("twin_random_uniform", f64, [u64, u64]),
        ("twin_random_normal", f64, [u64, u64]),
        ("twin_random_bernoulli", ctypes.c_bool, [u64, u64, f64]),
        ("twin_random_below", u64, [u64, u64, u64]),
        ("twin_random_fill_normal", None, [u64, u64, ctypes.c_size_t, ctypes.POINTER(f64)]),
        ("twin_shuffle_init", None, [ctypes.POINTER(Shuffle), u64, u64]),
        ("twin_shuffle_at", u64, [ctypes.POINTER(Shuffle), u64]),
        ("twin_shuffle_find", u64, [ctypes.POINTER(Shuffle), u64]),
        ("twin_order_steps", u64, [ctypes.POINTER(Order)]),
        (
            "twin_order_part",
            ctypes.c_int,
            [ctypes.POINTER(Order), u64, u64, u64, ctypes.POINTER(Part), ctypes.c_void_p],
        ),
        (
            "twin_order_take",
            None,
            [ctypes.POINTER(Order), ctypes.POINTER(Part), ctypes.POINTER(u64)],
        ),
    ):
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


def as_list(values):
    return values if isinstance(values, list) else values.tolist()


def test_philox():
    assert seeds.philox4x32(
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)
    ) == (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)
    with pytest.raises(ValueError):
        seeds.philox4x32((1 << 32, 0, 0, 0), (0, 0))


def test_seed_tree(c):
    for parent in SEEDS:
        for path in (
            "",
            "a",
            "data/epoch=3/sample=17",
            "//a//b/",
            "x" * 127,
            "x" * 128,
            "y" * 300,
            "größe/日本",
        ):
            assert seeds.seed(parent, path) == c.twin_seed(parent, path.encode())
        for index in 0, 9, 10, M64:
            assert seeds.seed(parent, "data", epoch=index) == c.twin_seed_index(
                parent, b"data/epoch", index
            )
    leaf = seeds.seed(7, "data/epoch=3/sample=17")
    assert (
        leaf
        == seeds.seed(7, "data", epoch=3, sample=17)
        == seeds.seed(seeds.seed(7, "data"), "epoch=3/sample=17")
    )
    assert len({seeds.seed(7, rank=r, worker=w) for r in range(50) for w in range(50)}) == 2500
    for wrong in -1, 1 << 64:
        with pytest.raises(ValueError):
            seeds.seed(wrong, "a")
    with pytest.raises(TypeError):
        seeds.seed(1.5, "a")


@both
def test_draws(c, s):
    for seed in SEEDS:
        assert (
            as_list(s.u64(seed, INDICES))
            == [c.twin_random_u64(seed, i) for i in INDICES]
            == [s.u64(seed, i) for i in INDICES]
        )
        for name in "uniform", "normal":
            expected = [getattr(c, "twin_random_" + name)(seed, i) for i in INDICES]
            assert (
                as_list(getattr(s, name)(seed, INDICES))
                == expected
                == [getattr(s, name)(seed, i) for i in INDICES]
            )
        for p in 0, 0.3, 1:
            expected = [c.twin_random_bernoulli(seed, i, p) for i in INDICES]
            assert (
                as_list(s.bernoulli(seed, INDICES, p))
                == expected
                == [s.bernoulli(seed, i, p) for i in INDICES]
            )
        # every second draw or so is rejected for some of them
        for n in 1, 2, 10, (1 << 32) + 1, 3 << 62, (1 << 63) + 1, M64:
            expected = [c.twin_random_below(seed, i, n) for i in INDICES]
            assert (
                as_list(s.below(seed, INDICES, n))
                == expected
                == [s.below(seed, i, n) for i in INDICES]
            )


@both
def test_many_draws(c, s):
    """Enough for both tails of the quantile."""
    n = 200000 if s is seeds else 2000
    out = (ctypes.c_double * n)()
    c.twin_random_fill_normal(42, 1 << 40, n, out)
    drawn = as_list(s.normal(42, range(1 << 40, (1 << 40) + n)))
    assert drawn == list(out) and max(map(abs, drawn)) > 3


@both
def test_wrong_draws(s):
    for call in (
        lambda: s.u64(1, -1),
        lambda: s.u64(1, 1 << 64),
        lambda: s.u64(-1, 0),
        lambda: s.u64(1, [-1]),
        lambda: s.below(1, 0, 0),
        lambda: s.below(1, 0, 1 << 64),
        lambda: s.bernoulli(1, 0, 1.5),
        lambda: s.bernoulli(1, 0, float("nan")),
        lambda: s.u64(1, range(-1, 3)),
    ):
        with pytest.raises(ValueError):
            call()
    with pytest.raises((ValueError, TypeError)):
        s.u64(1, [0.5])
    assert as_list(s.u64(1, [])) == [] and as_list(s.u64(1, range(0))) == []
    assert as_list(s.u64(1, range(9, 0, -3))) == [s.u64(1, i) for i in (9, 6, 3)]


@both
def test_shuffle(c, s):
    for n in list(range(20)) + [100, 60000, 1281167, 1 << 32, (1 << 32) + 1, 1 << 63, M64]:
        p, q = s.Shuffle(n, n + 5 & M64), Shuffle()
        c.twin_shuffle_init(q, n, n + 5 & M64)
        places = range(min(n, 30))
        assert (
            [p[i] for i in places] == as_list(p[:30]) == [c.twin_shuffle_at(q, i) for i in places]
        )
        assert [p.find(i) for i in places] == [c.twin_shuffle_find(q, i) for i in places]
        with pytest.raises(IndexError):
            p[n]
        if n:
            assert p[-1] == p[n - 1] and p.find(p[n - 1]) == n - 1
    p = s.Shuffle(1000, 3)
    assert sorted(as_list(p[:])) == list(range(1000)) and as_list(p[900:10:-7]) == [
        p[i] for i in range(900, 10, -7)
    ]
    with pytest.raises(IndexError):
        p.find(1000)


@both
def test_order(c, s):
    for samples, batch, shuffle, drop_last in (
        (53, 10, True, False),
        (53, 10, True, True),
        (48, 24, False, False),
        (5, 64, True, False),
    ):
        order, other = (
            s.Order(samples, batch, 21, shuffle, drop_last),
            Order(samples, batch, 21, shuffle, drop_last),
        )
        assert order.steps == c.twin_order_steps(other)
        for epoch in range(2):
            seen = []
            for step in range(epoch * order.steps, (epoch + 1) * order.steps):
                together = order.take(step)
                seen += together
                for world in 1, 2, 3, 4, 6, 8:
                    mine = []
                    for rank in range(world):
                        part, out = Part(), (ctypes.c_uint64 * 64)()
                        assert c.twin_order_part(other, step, rank, world, part, None) == 0
                        assert order.slice(step, rank, world) == (
                            part.epoch,
                            part.first,
                            part.first + part.count,
                        )
                        c.twin_order_take(other, part, out)
                        assert order.take(step, rank, world) == list(out)[: part.count]
                        mine += order.take(step, rank, world)
                    assert mine == together
            assert len(set(seen)) == len(seen) == (order.steps * batch if drop_last else samples)
    for wrong in (0, 1), (1, 0):
        with pytest.raises(ValueError):
            s.Order(*wrong, seed=1)
    with pytest.raises(ValueError, match="do not fill one batch"):
        s.Order(3, 4, 1, drop_last=True)
    for rank, world in (2, 2), (-1, 2), (0, 0):
        with pytest.raises(ValueError):
            s.Order(3, 4, 1).take(0, rank, world)


def test_the_page(c):
    """docs/format/random.md, executed: its Python is the definition."""
    page = (ROOT / "docs/format/random.md").read_text(encoding="utf-8")
    spec = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(block, spec)
    for seed in SEEDS:
        assert spec["seed"](seed, "data/epoch=3") == c.twin_seed(seed, b"data/epoch=3")
        for i in INDICES:
            assert spec["bits"](seed, i) == c.twin_random_u64(seed, i)
            assert spec["uniform"](seed, i) == c.twin_random_uniform(seed, i)
            assert spec["below"](seed, i, 3 << 62) == c.twin_random_below(seed, i, 3 << 62)
    for n in 1, 2, 7, 1000, M64:
        p = Shuffle()
        c.twin_shuffle_init(p, n, 9)
        assert [spec["place"](n, 9, i) for i in range(min(n, 50))] == [
            c.twin_shuffle_at(p, i) for i in range(min(n, 50))
        ]


@pytest.mark.skipif(
    os.environ.get("TWINRUN_FULL", "") in ("", "0"), reason="TWINRUN_FULL is not set"
)
@pytest.mark.parametrize("name", ["draws", "order"])
def test_dieharder(name):
    """The draws of a seed, and the high bits of a long order, through three tests of a packaged
    battery.
    """
    if shutil.which("dieharder") is None:
        pytest.skip("no dieharder (Debian: dieharder)")
    if seeds.numpy is None:
        pytest.skip("no NumPy")
    order, size = seeds.Shuffle(1 << 62, 7), 1 << 18

    def block(k):
        if name == "draws":
            return seeds.u64(7, range(k * size, (k + 1) * size)).astype("<u8")
        return (order[k * size : (k + 1) * size] >> seeds.numpy.uint64(30)).astype("<u4")

    for test in "100", "15", "8":  # monobit, runs, count the 1s in a stream
        battery = subprocess.Popen(
            ["dieharder", "-g", "200", "-d", test], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            k = 0
            while battery.poll() is None:
                battery.stdin.write(block(k).tobytes())
                k += 1
        except BrokenPipeError:  # it has seen enough
            pass
        out = battery.communicate()[0].decode()
        assert "PASSED" in out and "FAILED" not in out and "WEAK" not in out, out
