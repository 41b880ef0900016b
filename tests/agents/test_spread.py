# SPDX-License-Identifier: Apache-2.0
"""twinrun spread and simulate, held against NumPy, exact fractions, and collectives played rank by
rank in Python.
"""

import heapq
import json
import math
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from turn import FULL

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
from twinrun import seeds  # noqa: E402

TWINRUN = os.path.join(os.environ.get("TWINRUN_BUILD", ROOT / "build"), "cmd", "twinrun")


def twinrun(*argv, rc=0):
    done = subprocess.run(
        [TWINRUN] + [str(a) for a in argv] + ["--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=300,
    )
    assert done.returncode == rc, done
    return json.loads(done.stdout)


# ---- additions in a type: NumPy's own, and for bf16 a rounding by fractions


def bf16(x):
    x = float(x)
    if x == 0 or not math.isfinite(x):
        return np.float32(x)
    exponent = max(math.frexp(x)[1] - 8, -133)
    # Python rounds halves to even
    return np.float32(float(round(Fraction(x) / Fraction(2) ** exponent)) * 2.0**exponent)


class Type:
    def __init__(self, name):
        self.name = name
        self.of = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": bf16}[name]

    def add(self, a, b):
        return bf16(float(a) + float(b)) if self.name == "bf16" else self.of(a + b)

    def chain(self, x):
        total = x[0]
        for v in x[1:]:
            total = self.add(total, v)
        return total


TYPES = {n: Type(n) for n in ("f64", "f32", "f16", "bf16")}


def exact(x):
    return sum(map(Fraction, map(float, x)))


# ---- collectives as messages between ranks; x[rank] is one element's contribution


def ring(t, x, chunk):
    """Patarasuk and Yuan: in step s rank r sends chunk r - s to r + 1, which adds it to its own."""
    p = len(x)
    held = [{c: x[r] for c in range(p)} for r in range(p)]
    for s in range(p - 1):
        sent = [((r + 1) % p, (r - s) % p, held[r][(r - s) % p]) for r in range(p)]
        for to, c, v in sent:
            held[to][c] = t.add(held[to][c], v)
    return held[(chunk - 1) % p][chunk]


def tree(t, x):
    """MPICH's binomial reduce, round by round."""
    x, mask = list(x), 1
    while mask < len(x):
        for r in range(0, len(x), 2 * mask):
            if r + mask < len(x):
                x[r] = t.add(x[r], x[r + mask])
        mask *= 2
    return x[0]


def recursive_doubling(t, x):
    """MPICH: the first ranks fold in pairs, then all exchange."""
    power = 1 << (len(x).bit_length() - 1)
    rest = len(x) - power
    y = [t.add(x[2 * i], x[2 * i + 1]) for i in range(rest)] + list(x[2 * rest :])
    mask = 1
    while mask < power:
        y = [t.add(y[i], y[i ^ mask]) for i in range(power)]
        mask *= 2
    assert len({v.tobytes() for v in y}) == 1  # every rank has the same bits
    return y[0]


def parent(p, r):
    """In the tree in which odd ranks are leaves: the parent is one bit up, or, where there is none,
    the bit is cleared.
    """
    low = r & -r
    up = (r ^ low) | 2 * low
    return up if up < p else r ^ low


def double_tree(t, x, half):
    p = len(x)
    name = (
        (lambda i: i) if not half else (lambda i: (i + 1) % p) if p % 2 else (lambda i: p - 1 - i)
    )
    children = {i: [] for i in range(p)}
    for i in range(1, p):
        children[parent(p, i)].append(i)

    def total(i):
        s = x[name(i)]
        for c in sorted(children[i]):  # the left one first
            s = t.add(s, total(c))
        return s

    return total(0)


def collective(algorithm, t, x, element, all_elements):
    if algorithm == "ring":
        p = len(x)
        chunk = max(c for c in range(p) if c * all_elements // p <= element)
        return ring(t, x, chunk)
    if algorithm == "double-tree":
        return double_tree(t, x, element >= (all_elements + 1) // 2)
    return {
        "rank-order": t.chain,
        "arrival": t.chain,
        "tree": lambda v: tree(t, v),
        "recursive-doubling": lambda v: recursive_doubling(t, v),
    }[algorithm](x)


# ---- one sum


def sequential(x):
    return float(np.add.accumulate(x)[-1])


def test_the_demonstration_of_the_design(tmp_path):
    rng = np.random.default_rng(7)
    x = rng.standard_normal(1_000_000)
    x[::3] *= 1e8
    np.save(tmp_path / "x.npy", x)
    found = twinrun("spread", tmp_path / "x.npy", "--orders", 10)
    orders = {o["order"]: o for o in found["sum"]["orders"]}
    ascending, descending = orders["ascending"]["sum"], orders["descending"]["sum"]
    shuffled = []
    for name in "AB":
        np.save(tmp_path / "s.npy", x[rng.permutation(1_000_000)])
        r = twinrun("spread", tmp_path / "s.npy", "--orders", 2)
        assert r["sum"]["orders"][0]["order"] == "as stored"
        shuffled.append(r["sum"]["orders"][0]["sum"])
    assert [repr(v) for v in [ascending, descending] + shuffled] == [
        "-20189323766.140797",
        "-20189323766.132816",
        "-20189323766.296597",
        "-20189323766.29571",
    ]
    all_four = [ascending, descending] + shuffled
    assert "%.6e" % (max(all_four) - min(all_four)) == "1.637802e-01"
    assert "%.2e" % ((max(all_four) - min(all_four)) / abs(found["sum"]["exact"])) == "8.11e-12"
    assert repr(found["sum"]["exact"]) == "-20189323766.297913" == repr(math.fsum(x))
    assert all(v > found["sum"]["exact"] for v in all_four)
    assert found["sum"]["floor"] < 0.02  # sorted orders are shown, and do not count


def shuffle(x, seed):
    """Durstenfeld's, from the draws 0 to n - 1."""
    x = list(x)
    for i in range(len(x)):
        j = i + (seeds.u64(seed, i) * (len(x) - i) >> 64)
        x[i], x[j] = x[j], x[i]
    return x


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize(
    "n, ranks", [(1, 3), (5, 8), (700, 6), (701, 7), (333, 1), (640, 16), (300, 70)]
)
def test_one_sum(tmp_path, name, n, ranks):
    t = TYPES[name]
    rng = np.random.default_rng(n)
    scale = 2.0 ** rng.integers(-6, 6, n) if name != "f16" else 1
    x = [t.of(v) for v in rng.standard_normal(n) * scale]
    np.save(tmp_path / "x.npy", np.array(x, dtype=np.float64 if name == "f64" else np.float32))
    found = twinrun(
        "spread",
        tmp_path / "x.npy",
        "--ranks",
        ranks,
        "--orders",
        5,
        "--seed",
        11,
        "--add-in",
        name,
    )["sum"]
    true = exact(x)
    assert Fraction(found["exact"]) == Fraction(float(true))
    assert found["count"] == n
    if true:
        assert found["condition"] == pytest.approx(
            float(sum(abs(Fraction(float(v))) for v in x) / abs(true)), rel=1e-12
        )
    parts = [x[n * r // ranks : n * (r + 1) // ranks] for r in range(ranks)]
    partial = [t.chain(p) if len(p) else t.of(-0.0) for p in parts]
    ordered = sorted(x, key=float)
    starts = [ranks * i // min(ranks, 64) for i in range(min(ranks, 64))]
    rings = [float(t.chain(partial[s:] + partial[:s])) for s in starts]
    expected = {
        "as stored": t.chain(x),
        "last first": t.chain(x[::-1]),
        "ascending": t.chain(ordered),
        "descending": t.chain(ordered[::-1]),
        "rank-order": t.chain(partial),
        "tree": tree(t, partial),
        "double-tree": double_tree(t, partial, 0),
        "recursive-doubling": recursive_doubling(t, partial),
        "ring, lowest chunk": min(rings),
        "ring, highest chunk": max(rings),
    }
    assert {o["order"]: o["sum"] for o in found["orders"]} == {
        k: float(v) for k, v in expected.items()
    }
    for o in found["orders"]:
        assert o["off"] == float(Fraction(o["sum"]) - true)
    sums = [float(t.chain(shuffle(x, seeds.seed(11, "spread/order=%d" % i)))) for i in range(5)]
    random = found["random"]
    assert random["sums"] == sums
    off = [float(Fraction(s) - true) for s in sums]
    assert random["distinct"] == len(set(sums)) and (random["min"], random["max"]) == (
        min(sums),
        max(sums),
    )
    assert random["bias"] == pytest.approx(np.mean(off), rel=1e-9, abs=1e-300)
    assert random["sd"] == pytest.approx(np.std(off, ddof=1), rel=1e-9, abs=1e-300)
    counted = off + [o["off"] for o in found["orders"] if "scending" not in o["order"]]
    # chi-square, 4 degrees, 5%
    upper = (
        np.std(off, ddof=1) * math.sqrt(4 / 0.7107230213973241) * 1.959963984540054 * math.sqrt(2)
    )
    assert found["floor"] == pytest.approx(
        max(max(counted) - min(counted), upper), rel=1e-9, abs=1e-300
    )


def test_precision_rounds_the_numbers_first(tmp_path):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(1).standard_normal(5000).astype(np.float32) * np.float32(3)
    np.save(tmp_path / "x.npy", x)
    bits = x.view(np.uint32).astype(np.uint64)
    tf32 = ((bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000).astype(np.uint32).view(np.float32)
    for name, rounded in (
        ("fp16", x.astype(np.float16)),
        ("bf16", torch.from_numpy(x).bfloat16().float().numpy()),
        ("tf32", tf32),
    ):
        found = twinrun("spread", tmp_path / "x.npy", "--precision", name, "--orders", 2)
        assert found["add_in"] == "f32" and Fraction(found["sum"]["exact"]) == Fraction(
            float(exact(rounded))
        )
        assert Fraction(found["exact_before_rounding"]) == Fraction(float(exact(x)))
        assert found["sum"]["orders"][0]["sum"] == sequential(rounded.astype(np.float32))
    np.save(tmp_path / "x.npy", x * np.float32(1e5))
    assert (
        "too large for fp16"
        in twinrun("spread", tmp_path / "x.npy", "--precision", "fp16", rc=2)["message"]
    )


def test_several_tensors_are_also_told_apart(tmp_path):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    w, b = torch.randn(30, 20), torch.randn(7)
    torch.save({"w": w, "tied": w, "b": b, "step": torch.tensor(3)}, tmp_path / "x.pt")
    found = twinrun("spread", tmp_path / "x.pt")
    # what is tied counts once
    assert [t["name"] for t in found["tensors"]] == ["w", "b"] and found["sum"]["count"] == 607
    assert [Fraction(t["exact"]) for t in found["tensors"]] == [
        Fraction(float(exact(v.flatten().tolist()))) for v in (w, b)
    ]
    assert twinrun("spread", tmp_path / "x.pt", "--tensor", "b")["sum"]["count"] == 7


# ---- element by element


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("ranks", [2, 3, 5, 8, 13])
def test_several_files_are_an_all_reduce(tmp_path, name, ranks):
    torch = pytest.importorskip("torch")
    t, n = TYPES[name], 70
    rng = np.random.default_rng(ranks)
    x = np.array([[float(t.of(v)) for v in rng.standard_normal(n)] for _ in range(ranks)])
    own = {
        "f64": torch.float64,
        "f32": torch.float32,
        "f16": torch.float16,
        "bf16": torch.bfloat16,
    }[name]
    paths = [tmp_path / ("g%02d.pt" % r) for r in range(ranks)]
    for r, path in enumerate(paths):
        torch.save({"w": torch.from_numpy(x[r]).to(own)}, path)
    found = twinrun("spread", *paths, "--orders", 4, "--seed", 5)
    assert (found["mode"], found["add_in"], found["ranks"]) == ("elementwise", name, ranks)
    columns = [[t.of(v) for v in x[:, e]] for e in range(n)]
    values = [
        [float(collective(a, t, columns[e], e, n)) for e in range(n)]
        for a in ("rank-order", "ring", "tree", "double-tree", "recursive-doubling")
    ]
    for i in range(4):
        order = seeds.Shuffle(ranks, seeds.seed(5, "spread/order=%d" % i))
        values.append([float(t.chain([c[order[r]] for r in range(ranks)])) for c in columns])
    judge(found["elementwise"], values, [exact(c) for c in columns], t)
    spread = np.array(values).max(0) - np.array(values).min(0)
    truth = np.array([float(exact(c)) for c in columns])
    assert found["floor_relative_l2"] == pytest.approx(
        np.linalg.norm(spread) / np.linalg.norm(truth), rel=1e-9
    )


def judge(found, values, truth, t):
    """values[order][element] against what was reported."""
    v, true = np.array(values), np.array([float(x) for x in truth])
    distinct = [len(set(v[:, e])) for e in range(v.shape[1])]
    assert found["elements"] == v.shape[1] and found["not_finite"] == 0
    assert found["vary"] == sum(d > 1 for d in distinct) and found["distinct_max"] == max(distinct)
    assert found["distinct_mean"] == pytest.approx(np.mean(distinct), rel=1e-12)
    assert found["distinct_vectors"] == len({tuple(row) for row in values})
    spread = v.max(0) - v.min(0)
    assert found["largest_range"] == spread.max()
    relative = np.sort(np.float32(spread / abs(true)))
    n = len(relative)
    assert found["relative"][:2] == pytest.approx(
        [relative[(n - 1) // 2], relative[-(-n * 95 // 100) - 1]], rel=1e-6
    )
    assert found["relative"][2] == pytest.approx((spread / abs(true)).max(), rel=1e-12)
    orders = found.get("orders", found.get("trials"))
    for row, o in zip(v, orders):
        assert o["relative_l2"] == pytest.approx(
            np.linalg.norm(row - true) / np.linalg.norm(true), rel=1e-9
        )
        assert o["largest_error"] == pytest.approx(abs(row - true).max(), rel=1e-12)
        assert o["bias"] == pytest.approx((row - true).sum(), rel=1e-6, abs=1e-14 * abs(true).sum())
        nearest = [float(t.of(float(x))) if t.name != "f64" else float(x) for x in truth]
        assert o["not_nearest"] == sum(a != b for a, b in zip(row, nearest))


# ---- simulated ranks


class Network:
    """Messages late by draws 0, 1, 2... of the trial's seed."""

    def __init__(self, alpha, beta, kind, mean, seed):
        self.alpha, self.beta, self.kind, self.mean, self.seed, self.next = (
            alpha,
            beta,
            kind,
            mean,
            seed,
            0,
        )

    def late(self):
        if self.kind == "none":
            return 0.0
        u = ((seeds.u64(self.seed, self.next) >> 11) + 0.5) * 2.0**-53
        self.next += 1
        return self.mean * (2 * u if self.kind == "uniform" else -math.log(u))

    def down(self, p, m, start):
        have, mask = {0: start}, 1 << max(p - 1, 0).bit_length() - 1 if p > 1 else 0
        while mask:
            for r in sorted(have):
                if r + mask < p:
                    have[r] += m + self.late()
                    have[r + mask] = have[r]
            mask //= 2
        return max(have.values())

    def time(self, algorithm, p, size):
        m = self.alpha + size * self.beta
        if algorithm == "rank-order":
            return self.down(p, m, sum(m + self.late() for _ in range(p - 1))), None
        if algorithm == "arrival":
            queue = [(self.alpha + self.late(), r) for r in range(1, p)]
            heapq.heapify(queue)
            now, order = 0.0, [0]
            while queue:
                at, r = heapq.heappop(queue)
                now = max(now, at) + size * self.beta
                order.append(r)
            return self.down(p, m, now), order
        if algorithm == "ring":
            m, t = self.alpha + size / p * self.beta, [0.0] * p
            for _ in range(2 * (p - 1)):
                t = [max(t[r], t[r - 1] + m + self.late()) for r in range(p)]
            return max(t), None
        if algorithm == "tree":
            t, mask = [0.0] * p, 1
            while mask < p:
                for r in range(0, p - mask, 2 * mask):
                    t[r] = max(t[r], t[r + mask]) + m + self.late()
                mask *= 2
            return self.down(p, m, t[0]), None
        if algorithm == "recursive-doubling":
            power = 1 << p.bit_length() - 1
            t, mask = [m + self.late() if r < p - power else 0.0 for r in range(power)], 1
            while mask < power:
                t = [max(t[r], t[r ^ mask]) + m + self.late() for r in range(power)]
                mask *= 2
            return max([max(t)] + [t[r] + m + self.late() for r in range(p - power)]), None
        return None, None  # double-tree: below


def numbers(seed, ranks, element, wide=False):
    own = seeds.seed(seeds.seed(seed, "simulate/numbers"), "element=%d" % element)
    x = [float(seeds.normal(own, r)) for r in range(ranks)]
    if wide:
        scale = seeds.seed(seeds.seed(seed, "simulate/scales"), "element=%d" % element)
        x = [math.ldexp(v, int(seeds.below(scale, r, 41)) - 20) for r, v in enumerate(x)]
    return x


ALGORITHMS = ("rank-order", "ring", "tree", "double-tree", "recursive-doubling", "arrival")


@pytest.mark.parametrize(
    "ranks, name, jitter, placement",
    [
        (1, "f32", "1us", "random"),
        (2, "f32", "1us", "random"),
        (3, "f64", "uniform:2us", "random"),
        (4, "f16", "0", "random"),
        (5, "bf16", "exponential:3us", "random"),
        (6, "f32", "5us", "fixed"),
        (7, "f32", "1us", "random"),
        (9, "f64", "0", "fixed"),
        (16, "f32", "1us", "random"),
        (33, "f32", "uniform:1us", "random"),
    ],
)
def test_simulated_small(ranks, name, jitter, placement):
    t, elements, trials, seed = TYPES[name], 37, 3, 21
    found = twinrun(
        "simulate",
        "--ranks",
        ranks,
        "--algorithm",
        "all",
        "--elements",
        elements,
        "--trials",
        trials,
        "--seed",
        seed,
        "--type",
        name,
        "--jitter",
        jitter,
        "--placement",
        placement,
        "--alpha",
        "3us",
        "--beta",
        "0.5ns",
        "--draw",
        "wide" if ranks % 3 == 0 else "normal",
    )
    assert [a["algorithm"] for a in found["algorithms"]] == list(ALGORITHMS) and found[
        "sampled"
    ] == elements
    kind = "none" if jitter == "0" else jitter.partition(":")[0] if ":" in jitter else "exponential"
    mean = float(jitter.rpartition(":")[2].rstrip("us")) * 1e-6 if kind != "none" else 0
    base = seeds.seed(seed, "simulate")
    columns = [[t.of(v) for v in numbers(seed, ranks, e, ranks % 3 == 0)] for e in range(elements)]
    truth = [exact(c) for c in columns]
    size = elements * {"f64": 8, "f32": 4}.get(name, 2)
    for a in found["algorithms"]:
        values, times = [], []
        for trial in range(trials):
            took, order = Network(
                3e-6, 0.5e-9, kind, mean, seeds.seed(base, "network/trial=%d" % trial)
            ).time(a["algorithm"], ranks, size)
            times.append(took)
            stands = seeds.Shuffle(ranks, seeds.seed(base, "placement/trial=%d" % trial))
            place = [stands[r] if placement == "random" else r for r in (order or range(ranks))]
            values.append(
                [
                    float(collective(a["algorithm"], t, [c[r] for r in place], e, elements))
                    for e, c in enumerate(columns)
                ]
            )
        judge(a, values, truth, t)
        if times[0] is not None:
            assert a["seconds"] == pytest.approx(sorted(times), rel=1e-12, abs=1e-18)
        if placement == "fixed" and a["algorithm"] != "arrival":
            assert a["distinct_vectors"] == 1 and a["vary"] == 0


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 8, 11, 32])
def test_double_tree_takes_the_time_of_its_messages(ranks):
    """No jitter: events of one tree and one half played message by message, by time and not by
    rank.
    """
    alpha, beta, elements = 2e-6, 1e-9, 5000
    found = twinrun(
        "simulate",
        "--ranks",
        ranks,
        "--algorithm",
        "double-tree",
        "--elements",
        elements,
        "--trials",
        2,
        "--jitter",
        "0",
        "--alpha",
        "2us",
        "--beta",
        "1ns",
    )
    half = elements * 4 / 2 * beta
    segments = min(max(int(math.sqrt(2 * math.ceil(math.log2(ranks)) * half / alpha)), 1), 64)
    m = alpha + half / segments
    children = {
        r: sorted(c for c in range(1, ranks) if parent(ranks, c) == r) for r in range(ranks)
    }

    def arrivals_up(r):  # when segment s of r's subtree has reached r's parent
        got = [arrivals_up(c) for c in children[r]]
        sent, out = 0.0, []
        for s in range(segments):
            sent = max([sent] + [g[s] for g in got]) + m
            out.append(sent)
        return out

    ready = [max([0.0] + [g[s] for g in map(arrivals_up, children[0])]) for s in range(segments)]

    def last_down(r, at):
        free, sent = 0.0, {c: [] for c in children[r]}
        for s in range(segments):
            for c in children[r]:
                free = max(free, at[s]) + m
                sent[c].append(free)
        return max([at[-1]] + [last_down(c, sent[c]) for c in children[r]])

    assert found["algorithms"][0]["seconds"] == pytest.approx([last_down(0, ready)] * 2, rel=1e-12)


def test_numbers_of_a_file(tmp_path):
    x = np.random.default_rng(2).standard_normal(11)
    np.save(tmp_path / "x.npy", x)
    found = twinrun(
        "simulate",
        "--ranks",
        4,
        "--algorithm",
        "tree",
        "--elements",
        9,
        "--trials",
        2,
        "--type",
        "f64",
        "--data",
        tmp_path / "x.npy",
        "--placement",
        "fixed",
        "--alpha",
        "1us",
        "--beta",
        "1ns",
    )
    seed = seeds.seed(7, "simulate/numbers")
    columns = [
        [
            np.float64(x[int(seeds.below(seeds.seed(seed, "element=%d" % e), r, 11))])
            for r in range(4)
        ]
        for e in range(9)
    ]
    judge(
        found["algorithms"][0],
        [[float(tree(TYPES["f64"], c)) for c in columns]] * 2,
        [exact(c) for c in columns],
        TYPES["f64"],
    )


def test_a_sample_is_a_part_of_the_whole_and_threads_change_nothing():
    options = [
        "simulate",
        "--ranks",
        12,
        "--elements",
        3000,
        "--trials",
        5,
        "--alpha",
        "1us",
        "--beta",
        "1ns",
        "--algorithm",
        "ring",
        "--algorithm",
        "double-tree",
    ]
    whole = twinrun(*options)
    assert whole == twinrun(*options, "--threads", 1) == twinrun(*options, "--threads", 5)
    assert whole != twinrun(*options, "--seed", 8)
    part = twinrun(*options, "--sample", 600)
    assert part["sampled"] == 600 and part == twinrun(*options, "--sample", 600, "--threads", 3)
    for a, b in zip(whole["algorithms"], part["algorithms"]):
        low, high = b["vary_share"]
        assert low < b["vary"] / 600 < high and high - low > 0.02
        assert low - 0.03 < a["vary"] / 3000 < high + 0.03
        assert a["vary_share"] == [a["vary"] / 3000] * 2
        assert a["largest_range"] >= b["largest_range"]
        assert a["seconds"] == b["seconds"]


def test_a_large_ring_is_carried_over():
    """The time of each step hardly depends on the ring's size."""
    time = {}
    for ranks in (1024, 4096):
        a = twinrun(
            "simulate",
            "--ranks",
            ranks,
            "--elements",
            ranks,
            "--sample",
            1,
            "--trials",
            3,
            "--alpha",
            "1us",
            "--beta",
            "1ns",
        )["algorithms"][0]
        assert a["ring_ranks"] == 1024
        time[ranks] = np.mean(a["seconds"])
    assert time[4096] / time[1024] == pytest.approx(4095 / 1023, rel=0.002)


@pytest.mark.skipif(not FULL, reason="minutes; set TWINRUN_FULL=1")
def test_many_ranks_in_a_minute():
    began = os.times()
    found = twinrun(
        "simulate", "--ranks", 65536, "--elements", 100000, "--alpha", "5us", "--beta", "0.04ns"
    )
    ended = os.times()
    cpu = ended.children_user + ended.children_system - began.children_user - began.children_system
    assert found["sampled"] >= 1000 and cpu < 120
