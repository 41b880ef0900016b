# SPDX-License-Identifier: Apache-2.0
"""docs/format/fingerprint.md, executed: its Python and its test vectors against the library."""

import ctypes
import math
import os
import random
import re
import struct
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/format/fingerprint.md").read_text(encoding="utf-8")
SPEC = {}
for _block in re.findall(r"```python\n(.*?)```", PAGE, re.S):
    exec(_block, SPEC)  # the reference implementation is what the page prints

CODES = {
    name: code
    for code, name in enumerate(
        "bytes u8 i8 bool u16 i16 f16 bf16 u32 i32 f32 u64 i64 f64 c64 c128 f8_e4m3fn f8_e5m2".split()
    )
}


class Stats(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint64) for n in ("count", "nan", "pos_inf", "neg_inf", "zeros")] + [
        (n, ctypes.c_double) for n in ("min", "max", "absmax", "sum", "sumsq")
    ]


class Sketch(ctypes.Structure):
    _fields_ = [
        ("k", ctypes.c_uint32),
        ("skipped", ctypes.c_uint64),
        ("bucket", ctypes.c_double * 64),
    ]


@pytest.fixture(scope="module")
def library():
    folder = Path(os.environ.get("TWINRUN_BUILD", ROOT / "build"))
    path = folder / "tests/unit/libfingerprint_test.so"
    if not path.exists():
        pytest.skip(
            f"no {path}: build with the unit tests (cmocka), or name the build folder in TWINRUN_BUILD"
        )
    lib = ctypes.CDLL(str(path.resolve()))
    u64 = ctypes.c_uint64
    lib.export_raw.argtypes = [ctypes.c_char_p, u64, u64, ctypes.POINTER(u64)]
    lib.export_finish.argtypes = [
        ctypes.POINTER(u64),
        u64,
        ctypes.c_int,
        ctypes.c_uint32,
        ctypes.POINTER(ctypes.c_int64),
        u64,
        ctypes.POINTER(u64),
    ]
    lib.export_statistics.argtypes = [
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_int64,
        u64,
        ctypes.POINTER(Stats),
        ctypes.POINTER(Sketch),
    ]
    return lib


def c_raw(lib, data, offset=0):
    out = (ctypes.c_uint64 * 2)()
    lib.export_raw(data, len(data), offset, out)
    return tuple(out)


def c_finish(lib, a, b, length, dtype, shape, seed=0):
    out = (ctypes.c_uint64 * 2)()
    lib.export_finish(
        (ctypes.c_uint64 * 2)(a, b),
        length,
        dtype,
        len(shape),
        (ctypes.c_int64 * len(shape))(*shape),
        seed,
        out,
    )
    return tuple(out)


def test_dtype_table():
    row = re.search(r"^\| dtype \|(.*)\|$", PAGE, re.M).group(1)
    assert {name.strip(): code for code, name in enumerate(row.split("|"))} == CODES


def test_printed_vectors():
    rows = re.findall(r"^\| `([^|]*)` \| `0x([0-9A-F]{16})` \| `0x([0-9A-F]{16})` \|$", PAGE, re.M)
    assert len(rows) == 5
    for expression, a, b in rows:
        assert eval(expression, dict(SPEC, P=bytes(range(100)))) == (
            int(a, 16),
            int(b, 16),
        ), expression


def test_digest(library):
    rng = random.Random(1)
    for n in [*range(0, 140), 1000, 5000]:
        data, offset = (
            rng.randbytes(n),
            rng.choice([0, 16 * rng.randrange(1000), rng.randrange(10**6), 2**62 + 5]),
        )
        assert c_raw(library, data, offset) == SPEC["raw"](data, offset), (n, offset)


def test_final_digest(library):
    rng = random.Random(2)
    for ndim in range(0, 9):
        shape = [rng.randrange(1 << rng.randrange(1, 40)) for _ in range(ndim)]
        a, b, length, seed = (rng.getrandbits(64) for _ in range(4))
        dtype = rng.choice(list(CODES.values()))
        assert c_finish(library, a, b, length, dtype, shape, seed) == SPEC["finish"](
            a, b, length, dtype, shape, seed
        )


def decode(name, data):
    """The elements as Python floats, by Python's own means."""
    formats = {
        "u8": "B",
        "i8": "b",
        "bool": "?",
        "u16": "H",
        "i16": "h",
        "f16": "e",
        "u32": "I",
        "i32": "i",
        "f32": "f",
        "u64": "Q",
        "i64": "q",
        "f64": "d",
        "c64": "f",
        "c128": "d",
    }
    if name == "bf16":
        return [struct.unpack("<f", b"\0\0" + data[i : i + 2])[0] for i in range(0, len(data), 2)]
    code = formats[name]
    return [
        float(v) for v in struct.unpack(f"<{len(data) // struct.calcsize('<' + code)}{code}", data)
    ]


def same(x, y):
    return struct.pack("<d", x) == struct.pack("<d", y) or (math.isnan(x) and math.isnan(y))


@pytest.mark.parametrize("name", [n for n in CODES if n != "bytes" and not n.startswith("f8")])
def test_statistics_and_sketch(library, name):
    rng = random.Random(name)
    size = {"c64": 8, "c128": 16}.get(name) or struct.calcsize(
        "<"
        + {
            "bf16": "H",
            "u8": "B",
            "i8": "b",
            "bool": "?",
            "u16": "H",
            "i16": "h",
            "f16": "e",
            "u32": "I",
            "i32": "i",
            "f32": "f",
            "u64": "Q",
            "i64": "q",
            "f64": "d",
        }[name]
    )
    parts = 2 if name in ("c64", "c128") else 1
    for n in (0, 1, 15, 16, 17, 600, 4500):
        data = rng.randbytes(n * size)
        if n % 2 == 0 and name == "f32":  # finite ones, for the fast way
            data = struct.pack(f"<{n}f", *(rng.gauss(0, 1) for _ in range(n)))
        for k in (1, 16, 64):
            first = rng.choice([0, rng.randrange(10000)])
            stats, sketch = Stats(), Sketch(k=k)
            assert library.export_statistics(data, CODES[name], n, first, stats, sketch) == 0
            expected, buckets = SPEC["statistics_and_sketch"](decode(name, data), first * parts, k)
            for field, value in expected.items():
                assert same(float(getattr(stats, field)), float(value)), (field, n, k)
            assert sketch.skipped == buckets["skipped"]
            assert all(same(x, y) for x, y in zip(sketch.bucket, buckets["bucket"])), (n, k)
