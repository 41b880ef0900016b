# SPDX-License-Identifier: Apache-2.0
"""twinrun.torch: exact sums and sums by index, against Python's fractions; autograd; wrong use.

Known answers against MPFR, for every type and instruction set, are in tests/unit/test_exact.c and
test_scatter.c.
"""

import os
import sys
from fractions import Fraction

import pytest

from conftest import ROOT

torch = pytest.importorskip("torch")
hypothesis = pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, given, settings, strategies as st  # noqa: E402

sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault(
    "TWINRUN_NUMERICS",
    os.path.join(
        os.environ.get("TWINRUN_BUILD", str(ROOT / "build")), "src/numerics/libtwinnumerics.so"
    ),
)
import twinrun.torch as exact  # noqa: E402

TYPES = torch.float64, torch.float32, torch.float16, torch.bfloat16
# it goes by the clock
quick = settings(
    max_examples=40,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
gradcheck, gradgradcheck = torch.autograd.gradcheck, torch.autograd.gradgradcheck


def bits(x):
    return x.detach().contiguous().reshape(-1).view(torch.uint8).tolist()


def rounded(total, dtype):
    """A fraction as the nearest number of the type, ties to even: float() rounds to f64 rightly,
    but rounding that on would do it twice; so the neighbours of the type are compared.
    """
    near = torch.tensor(float(total), dtype=torch.float64).to(dtype)
    if not torch.isfinite(near):
        return near
    best, tie = None, False
    for candidate in (
        near,
        torch.nextafter(near, torch.tensor(float("inf"), dtype=dtype)),
        torch.nextafter(near, torch.tensor(float("-inf"), dtype=dtype)),
    ):
        if torch.isfinite(candidate):
            error = abs(Fraction(float(candidate)) - total)
            if best is None or error < best[0]:
                best, tie = (error, candidate), False
            elif error == best[0] and float(candidate) != float(best[1]):
                tie = True
    return near if tie else best[1]  # on a tie, RNE of the f64 is right: the tie itself is an f64


finite = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e30, max_value=1e30)


@quick
@given(st.lists(finite, max_size=200), st.sampled_from(TYPES[:2]), st.randoms())
def test_sum_is_the_rounded_fraction(values, dtype, random):
    x = torch.tensor(values, dtype=dtype)
    expected = rounded(sum((Fraction(v) for v in x.tolist()), Fraction(0)), dtype)
    assert float(exact.exact_sum(x)) == float(expected)
    shuffled = x.tolist()
    random.shuffle(shuffled)
    shuffled = torch.tensor(shuffled, dtype=dtype)
    assert bits(exact.exact_sum(shuffled)) == bits(exact.exact_sum(x))
    squares = sum((Fraction(v) ** 2 for v in x.tolist()), Fraction(0))
    if squares < Fraction(10) ** 38:
        assert (
            float(exact.exact_norm2(x))
            == float(rounded(squares, dtype))
            == float(exact.exact_dot(x, x))
        )


@quick
@given(
    st.lists(st.tuples(st.integers(0, 6), finite), max_size=60),
    st.lists(finite, min_size=7, max_size=7),
    st.sampled_from(TYPES[:2]),
    st.randoms(),
)
def test_by_index(pairs, base, dtype, random):
    def add(pairs):
        index = torch.tensor([i for i, _ in pairs], dtype=torch.int64)
        values = torch.tensor([v for _, v in pairs], dtype=dtype)
        answer = exact.scatter_add(start, 0, index, values)
        assert bits(answer) == bits(exact.index_add(start, 0, index, values))
        rows = exact.index_add(
            start.reshape(7, 1).expand(7, 3), 0, index, values.reshape(-1, 1).expand(-1, 3)
        )
        assert all(bits(answer) == bits(rows[:, c]) for c in range(3))
        return answer

    start = torch.tensor(base, dtype=dtype)
    answer = add(pairs)
    for t in range(7):
        into = [v for i, v in pairs if i == t]
        total = Fraction(float(start[t])) + sum(
            (Fraction(v) for v in torch.tensor(into, dtype=dtype).tolist()), Fraction(0)
        )
        assert float(answer[t]) == float(rounded(total, dtype))
    random.shuffle(pairs)
    assert bits(add(pairs)) == bits(answer)


def test_dimensions():
    """Values that every order adds up exactly, in all layouts."""
    x = torch.randint(-50, 50, (3, 4, 5, 2)).double()
    layouts = (
        x,
        x.transpose(0, 2).contiguous().transpose(0, 2),
        x.flip(1),
        x[:, ::2],
        x[:, :1].expand(3, 4, 5, 2),
        x[:0],
        x[:, :, :0],
    )
    for y in layouts:
        for dtype in TYPES:
            z = y.to(dtype)
            for dim in (None, (), 0, 1, -1, (0, 1), (1, 2), (0, 2), (3, 1), (0, 1, 2, 3), [2]):
                for keepdim in (False, True):
                    expected = torch.sum(
                        z.double(),
                        dim=tuple(range(4)) if dim is None or dim == () else dim,
                        keepdim=keepdim,
                    )
                    found = exact.exact_sum(z, dim, keepdim, dtype=torch.float64)
                    assert (
                        found.dtype == torch.float64
                        and found.shape == expected.shape
                        and torch.equal(found, expected)
                    )
                    assert exact.exact_sum(z, dim, keepdim).dtype == dtype
    scalar = torch.tensor(2.5)
    assert (
        exact.exact_sum(scalar)
        == exact.exact_sum(scalar, 0)
        == exact.exact_sum(scalar, -1)
        == scalar
    )
    nothing = exact.exact_sum(torch.empty(0))
    assert nothing == 0 and not torch.signbit(nothing)


def test_known_answers():
    big = torch.tensor([1e16, 1.0, -1e16])
    assert exact.exact_sum(big.double()) == 1.0
    half = torch.full((4096,), 1.0, dtype=torch.float16)
    assert (
        exact.exact_sum(half * 100) == float("inf")
        and exact.exact_sum(half * 100, dtype=torch.float64) == 409600
    )
    infinity, nan = float("inf"), float("nan")
    for dtype in TYPES:
        assert exact.exact_sum(torch.tensor([1, infinity], dtype=dtype)) == infinity
        assert torch.isnan(exact.exact_sum(torch.tensor([-infinity, infinity], dtype=dtype)))
        index = torch.tensor([0, 0, 1, 2, 2])
        answer = exact.scatter_add(
            torch.ones(4, dtype=dtype),
            0,
            index,
            torch.tensor([infinity, -infinity, infinity, nan, 0], dtype=dtype),
        )
        assert torch.isnan(answer[[0, 2]]).all() and answer[1] == infinity and answer[3] == 1
    # torch's own sums differ from order to order on these; twinrun's may not
    x, order = torch.randn(20000, generator=torch.Generator().manual_seed(1)), torch.randperm(20000)
    assert bits(exact.exact_sum(x)) == bits(exact.exact_sum(x[order]))
    index = torch.randint(0, 10, (20000,))
    plain = (
        torch.zeros(10).scatter_add(0, index, x),
        torch.zeros(10).scatter_add(0, index[order], x[order]),
    )
    assert bits(plain[0]) != bits(plain[1])
    assert bits(exact.scatter_add(torch.zeros(10), 0, index, x)) == bits(
        exact.scatter_add(torch.zeros(10), 0, index[order], x[order])
    )


def test_like_torch():
    """Integers in floating point, which torch's functions add exactly too: shapes, dimensions,
    types of index.
    """

    def draw(*shape):
        return torch.randint(-9, 9, shape).double()

    for shape, dim, index_shape, src_shape in (
        ((5,), 0, (8,), (9,)),
        ((5, 4), 0, (8, 4), (8, 4)),
        ((5, 4), 1, (3, 7), (5, 8)),
        ((3, 4, 5), -2, (2, 9, 5), (3, 9, 6)),
        ((5, 4), 0, (0, 4), (2, 4)),
        ((5, 4), 0, (6, 2), (6, 4)),
    ):
        x, src = draw(*shape), draw(*src_shape)
        index = torch.randint(0, shape[dim], index_shape)
        assert torch.equal(
            exact.scatter_add(x, dim, index, src), torch.scatter_add(x, dim, index, src)
        )
    x, index = draw(5, 4), torch.randint(0, 5, (8,))
    rows = index[:, None].expand(8, 4)
    assert torch.equal(
        exact.scatter_add(x, 0, rows, draw(8, 4) * 0 + 3),
        torch.scatter_add(x, 0, rows, torch.full((8, 4), 3.0).double()),
    )
    for dim in (0, 1, -1, 2):
        x, index = draw(3, 4, 5), torch.randint(0, (3, 4, 5)[dim], (6,))
        source = draw(*[6 if d == dim % 3 else n for d, n in enumerate((3, 4, 5))])
        for alpha in (1, -2):
            expected = torch.index_add(x, dim, index, source, alpha=alpha)
            for kind in (torch.int64, torch.int32):
                assert torch.equal(
                    exact.index_add(x, dim, index.to(kind), source, alpha=alpha), expected
                )
        assert torch.equal(
            exact.index_add(x.transpose(0, 2).contiguous().transpose(0, 2), dim, index, source),
            torch.index_add(x, dim, index, source),
        )
    counted = torch.randint(0, 7, (50,))
    for weights in (None, draw(50), draw(50).float(), draw(50).half(), draw(50).long()):
        for minlength in (0, 20):
            expected = torch.bincount(counted, weights, minlength)
            found = exact.bincount(counted, weights, minlength)
            assert found.dtype == expected.dtype and torch.equal(found, expected)
    assert torch.equal(exact.bincount(counted[:0], draw(0), 3), torch.zeros(3).double())


def test_gradients():
    def draw(*shape):
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    x, y = draw(3, 4), draw(3, 4)
    for dim in (None, 0, 1, (0, 1)):
        assert gradcheck(lambda t: exact.exact_sum(t, dim), x) and gradgradcheck(
            lambda t: exact.exact_sum(t, dim), x
        )
    assert gradcheck(exact.exact_dot, (x, y)) and gradgradcheck(exact.exact_dot, (x, y))
    assert gradcheck(exact.exact_norm2, x) and gradgradcheck(exact.exact_norm2, x)
    index = torch.tensor([2, 0, 2, 2, 1])
    for call, source in (
        (lambda a, b: exact.index_add(a, 0, index, b, alpha=3), draw(5, 4)),
        (
            lambda a, b: exact.scatter_add(
                a, 1, torch.randint(0, 4, (2, 5), generator=torch.Generator().manual_seed(1)), b
            ),
            draw(3, 6),
        ),
    ):
        assert gradcheck(call, (x, source)) and gradgradcheck(call, (x, source))
    assert gradcheck(lambda w: exact.bincount(index, w), draw(5)) and gradgradcheck(
        lambda w: exact.bincount(index, w), draw(5)
    )
    places = torch.tensor([[0, 3, 3], [1, 3, 0]])
    for padding in (None, 3, -1):
        table = draw(4, 2)
        assert gradgradcheck(lambda w: exact.embedding(places, w, padding), table)
        (found,) = torch.autograd.grad((exact.embedding(places, table, padding) * 3).sum(), table)
        (expected,) = torch.autograd.grad(
            (torch.nn.functional.embedding(places, table, padding) * 3).sum(), table
        )
        assert torch.equal(found, expected)
    assert exact.exact_sum(x.float(), dtype=torch.float64).requires_grad
    half = torch.randn(4, dtype=torch.float16, requires_grad=True)
    exact.exact_sum(half, dtype=torch.float64).backward()
    assert half.grad.dtype == torch.float16 and half.grad.eq(1).all()


def test_embedding_module():
    plain, ours = torch.nn.Embedding(50, 8, padding_idx=3), exact.Embedding(50, 8, padding_idx=3)
    ours.load_state_dict(plain.state_dict())
    tokens = torch.randint(0, 50, (4, 300), generator=torch.Generator().manual_seed(2))
    slope = torch.randn(4, 300, 8, generator=torch.Generator().manual_seed(3))
    assert torch.equal(ours(tokens), plain(tokens))
    (ours(tokens) * slope).sum().backward()
    (plain(tokens) * slope).sum().backward()
    assert (
        torch.allclose(ours.weight.grad, plain.weight.grad, atol=1e-4)
        and ours.weight.grad[3].eq(0).all()
    )
    for row in (0, 17):
        exactly = slope.reshape(-1, 8)[tokens.reshape(-1) == row].double()
        expected = [
            rounded(sum((Fraction(v) for v in column.tolist()), Fraction(0)), torch.float32)
            for column in exactly.T
        ]
        assert [float(v) for v in expected] == ours.weight.grad[row].tolist()
    order = torch.randperm(1200)
    table = ours.weight.detach().clone().requires_grad_()
    (
        exact.embedding(tokens.reshape(-1)[order], table, 3) * slope.reshape(-1, 8)[order]
    ).sum().backward()
    assert bits(table.grad) == bits(ours.weight.grad)


@pytest.mark.parametrize(
    "kind, part, wrong",
    [
        (TypeError, "must be a tensor, not list", lambda: exact.exact_sum([1.0])),
        (TypeError, "torch's own function does it", lambda: exact.exact_sum(torch.arange(3))),
        (TypeError, "view_as_real", lambda: exact.exact_sum(torch.zeros(3, dtype=torch.complex64))),
        (TypeError, "layout", lambda: exact.exact_sum(torch.eye(3).to_sparse())),
        (TypeError, "dtype=torch.int64", lambda: exact.exact_sum(torch.ones(3), dtype=torch.int64)),
        (ValueError, "is on meta", lambda: exact.exact_sum(torch.ones(3, device="meta"))),
        (IndexError, "dim 2", lambda: exact.exact_sum(torch.ones(3, 3), 2)),
        (ValueError, "twice", lambda: exact.exact_sum(torch.ones(3, 3), (1, -1))),
        (ValueError, "one shape", lambda: exact.exact_dot(torch.ones(3), torch.ones(4))),
        (
            TypeError,
            "expected one type",
            lambda: exact.scatter_add(
                torch.ones(3), 0, torch.zeros(3).long(), torch.ones(3).double()
            ),
        ),
        (
            TypeError,
            "int64 or int32",
            lambda: exact.scatter_add(torch.ones(3), 0, torch.zeros(3), torch.ones(3)),
        ),
        (
            IndexError,
            "index 3; expected 0 to 2",
            lambda: exact.scatter_add(torch.ones(3), 0, torch.tensor([0, 3]), torch.ones(2)),
        ),
        (
            IndexError,
            "index -1; expected 0 to 2",
            lambda: exact.scatter_add(torch.ones(3, 3), 1, torch.tensor([[-1]]), torch.ones(1, 1)),
        ),
        (
            ValueError,
            "no larger than src",
            lambda: exact.scatter_add(torch.ones(3), 0, torch.tensor([0, 1]), torch.ones(1)),
        ),
        (
            IndexError,
            "index 5",
            lambda: exact.index_add(torch.ones(3, 2), 0, torch.tensor([5]), torch.ones(1, 2)),
        ),
        (
            ValueError,
            "expected index of one dimension",
            lambda: exact.index_add(torch.ones(3, 2), 0, torch.tensor([1]), torch.ones(2, 2)),
        ),
        (ValueError, "input has -1", lambda: exact.bincount(torch.tensor([-1]), torch.ones(1))),
        (TypeError, "integers", lambda: exact.bincount(torch.ones(1), torch.ones(1))),
        (IndexError, "index 4", lambda: exact.embedding(torch.tensor([4]), torch.ones(4, 2))),
        (ValueError, "max_norm", lambda: exact.Embedding(4, 2, max_norm=1.0)),
    ],
)
def test_wrong_use(kind, part, wrong):
    with pytest.raises(kind, match=part):
        wrong()


def test_other_floating_point_mode():
    assert torch.set_flush_denormal(True)
    try:
        with pytest.raises(ValueError, match="default floating-point mode"):
            exact.exact_sum(torch.ones(3))
    finally:
        torch.set_flush_denormal(False)
    assert exact.exact_sum(torch.ones(3)) == 3


def test_no_library(run, python, tmp_path):
    """Without the library everything else works, and the error says what to do."""
    (tmp_path / "alone").mkdir()
    os.symlink(ROOT / "python/twinrun", tmp_path / "alone/twinrun")
    code = (
        "import sys, ctypes; sys.path.insert(0, %r)\nimport twinrun.torch as t, torch\nt.seed_all(1)\n"
        "import twinrun.torch._library as l\nl._places = lambda: ['/nowhere/x.so']\n"
        "try: t.exact_sum(torch.ones(3))\nexcept ImportError as e: print(e)"
        % str(tmp_path / "alone")
    )
    done = run([python, "-c", code])
    assert done.rc == 0 and "TWINRUN_NUMERICS" in done.out and "/nowhere/x.so" in done.out, done
