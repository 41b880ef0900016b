# SPDX-License-Identifier: Apache-2.0
"""`twinrun digest` of TensorFlow's checkpoints. The sample is TensorFlow's own
(tests/golden/tensors/make_tensorflow.py); other indexes are written here, with right checksums, so
that a reader cannot rely on them.
"""

import pathlib
import random
import shutil
import struct

import numpy
import pytest

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "tensors" / "tensorflow"
VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
FLOAT, INT32, TEXT = 1, 3, 7


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def entry(kind, shape, at, size, shard=0, more=b""):
    dims = b"".join(field(2, field(1, n)) for n in shape)
    return field(1, kind) + field(2, dims) + field(3, shard) + field(4, at) + field(5, size) + more


def block(rows):
    out = b"".join(
        varint(0) + varint(len(k)) + varint(len(v)) + k + v for k, v in rows
    ) + struct.pack("<II", 0, 1)
    return out


def closed(data, kind=0):
    crc = crc32c(data + bytes([kind]))
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return data + bytes([kind]) + struct.pack("<I", masked)


def table(rows, kind=0):
    """rows: (key, value), or the bytes of a block as they are."""
    data = rows if isinstance(rows, bytes) else block(rows)
    first = closed(data, kind)
    last = closed(block([(b"z", varint(0) + varint(len(data)))]))
    place = varint(len(first)) + varint(len(last) - 5)
    foot = (varint(0) + varint(0) + place).ljust(40, b"\0")
    return first + last + foot + bytes.fromhex("57fb808b247547db")


HEADER = (b"", field(1, 1))
DATA = numpy.arange(12, dtype="f4").tobytes()


@pytest.fixture
def written(tmp_path):
    def write(name, rows, data=DATA, **more):
        index = tmp_path / (name + ".index")
        index.write_bytes(table(rows, **more))
        (tmp_path / (name + ".data-00000-of-00001")).write_bytes(data)
        return str(index)

    return write


@pytest.fixture
def copied(tmp_path):
    """The sample, with a stretch of its data replaced."""

    def copy(name, old=b"", new=b""):
        for f in GOLDEN.iterdir():
            data = f.read_bytes()
            if ".data-" in f.name and old:
                assert data.count(old) == 1
                data = data.replace(old, new)
            (tmp_path / f.name.replace("ckpt", name)).write_bytes(data)
        return str(tmp_path / (name + ".index"))

    return copy


def test_all_types_as_numpy_has_them(twinrun, tmp_path):
    types = "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool".split()
    arrays = {t: numpy.arange(6).reshape(2, 3).astype(t) for t in types}
    arrays |= {"many/layer%03d" % i: numpy.full((1,), i, "f4") for i in range(120)}
    arrays |= {"scalar": numpy.float32(0.5), "empty": numpy.zeros((0, 3), "f4")}
    numpy.savez(tmp_path / "a.npz", **{k + VALUE: v for k, v in arrays.items()})
    r = twinrun("digest", "--json", str(tmp_path / "a.npz"), str(GOLDEN / "ckpt.index"))
    assert [d["name"] for d in r.json["differences"]] == ["bfloat16" + VALUE]
    both = {t["name"]: t for t in r.json["items"][1]["tensors"]}
    assert (both["bfloat16" + VALUE]["dtype"], both["bfloat16" + VALUE]["shape"]) == ("bf16", [4])


def test_a_changed_weight_behind_the_same_index(twinrun, copied):
    """The index is byte for byte the same; the bytes lie elsewhere."""
    seventeen, eighteen = (struct.pack("<ff", n, n + 1) for n in (17.0, 17.5))
    a, b = copied("a"), copied("b", seventeen, eighteen)
    r = twinrun("digest", a, b)
    assert r.rc == 1 and f"many/layer017{VALUE}" in r.out
    r = twinrun("digest", a, copied("c"))
    assert r.rc == 0 and "SAME    the same tensors\n" in r.out


def test_texts_are_values(twinrun, copied):
    r = twinrun("digest", copied("a"), copied("b", b"three", b"thred"))
    assert r.rc == 0 and "SAME    the same tensors; what is no tensor differs" in r.out
    assert f"texts{VALUE}[1]  three -> thred" in r.out and "byte for byte" not in r.out


def test_mutants(twinrun, written):
    rows = [HEADER, (b"a", entry(FLOAT, (2, 3), 0, 24)), (b"b", entry(FLOAT, (2, 3), 24, 24))]
    a = written("a", rows)
    swapped = [HEADER, (b"a", entry(FLOAT, (2, 3), 24, 24)), (b"b", entry(FLOAT, (2, 3), 0, 24))]
    shape = [HEADER, (b"a", entry(FLOAT, (3, 2), 0, 24)), rows[2]]
    kind = [HEADER, (b"a", entry(INT32, (2, 3), 0, 24)), rows[2]]
    for name, other in (("swapped", swapped), ("shape", shape), ("kind", kind), ("less", rows[:2])):
        assert twinrun("digest", a, written(name, other)).rc == 1, name
    # the same tensors at other places of the file are the same
    moved = [HEADER, (b"a", entry(FLOAT, (2, 3), 28, 24)), (b"b", entry(FLOAT, (2, 3), 4, 24))]
    data = bytes(4) + DATA[24:] + DATA[:24]
    assert twinrun("digest", a, written("moved", moved, data)).rc == 0


def test_a_saved_model(twinrun, tmp_path):
    """A folder: names begin with the index's path, and the graph counts as a file."""
    for run in ("a", "b"):
        (tmp_path / run / "variables").mkdir(parents=True)
        for f in GOLDEN.iterdir():
            name = f.name.replace("ckpt", "variables")
            shutil.copy(f, tmp_path / run / "variables" / name)
        (tmp_path / run / "fingerprint.pb").write_text(run)
    r = twinrun("digest", str(tmp_path / "a"), str(tmp_path / "b"))
    assert r.rc == 0 and "135 tensors" in r.out and "fingerprint.pb" in r.out


HUGE = entry(FLOAT, (2**31, 2**31), 0, 2**64 - 1)


@pytest.mark.parametrize(
    "rows, why",
    [
        ([], "no header"),
        ([(b"a", entry(FLOAT, (2,), 0, 8))], "expected a header first"),
        ([(b"", field(1, 2))], "data-00000-of-00002"),
        ([(b"", field(1, 2**40))], "a number of data files that makes no sense"),
        ([(b"", field(1, 1) + field(2, 1))], "big-endian"),
        ([HEADER, HEADER], "a number of data files that makes no sense"),
        ([HEADER, (b"a", entry(FLOAT, (3,), 0, 8))], "do not fit"),
        ([HEADER, (b"a", entry(FLOAT, (3,), 40, 12))], "its data file ends before"),
        ([HEADER, (b"a", entry(FLOAT, (3,), 2**63, 12))], "its data file ends before"),
        ([HEADER, (b"a", entry(FLOAT, (3,), 0, 12, shard=1))], "its data file ends before"),
        ([HEADER, (b"a", HUGE)], "impossible shape"),
        ([HEADER, (b"a", entry(TEXT, (2**40,), 0, 48))], "more texts than bytes"),
        ([HEADER, (b"a", entry(TEXT, (40,), 0, 48))], "texts end too early"),
        ([HEADER, (b"a", entry(FLOAT, (3,), 0, 12))] * 2, "a number of data files"),
        ([HEADER] + [(b"a", entry(FLOAT, (3,), 0, 12))] * 2, "two files hold a tensor"),
        ([HEADER, (b"a", entry(20, (3,), 0, 12))], "of a type that twinrun does not know"),
        ([HEADER, (b"a", entry(FLOAT, (3,), 0, 12, more=field(7, b"")))], "saved in slices"),
        ([HEADER, (b"a", b"\xff")], "an entry makes no sense"),
        (block([HEADER])[:-4] + b"\xff" * 4, "a block of its index makes no sense"),
    ],
)
def test_what_cannot_be_read_is_never_same(twinrun, written, rows, why):
    path = written("a", rows)
    r = twinrun("digest", path, path)
    assert r.rc == 2 and why in r.err and r.out == ""


def test_checksums_names_and_cut_files(twinrun, written, tmp_path):
    rows = [HEADER, (b"a", entry(FLOAT, (3,), 0, 12))]
    index = pathlib.Path(written("a", rows))
    data = index.read_bytes()
    index.write_bytes(data[:3] + bytes([data[3] ^ 1]) + data[4:])
    assert "a checksum of its index is wrong" in twinrun("digest", str(index)).err
    assert "its index is compressed" in twinrun("digest", written("b", rows, kind=1)).err
    (tmp_path / "other").write_bytes(data)
    assert "to be called NAME.index" in twinrun("digest", str(tmp_path / "other")).err
    for n in range(0, len(data), 7):
        index.write_bytes(data[:n])
        assert twinrun("digest", str(index)).rc == 2, n


def test_any_row_is_an_error_or_tensors(twinrun, written):
    """Mutated rows behind right checksums; the numbers are drawn anew from one seed."""
    draw = random.Random(19)
    rows = [HEADER, (b"a", entry(FLOAT, (2, 3), 0, 24)), (b"t", entry(TEXT, (2,), 24, 20))]
    for _ in range(80):
        data = bytearray(block(rows))
        for _ in range(draw.randint(1, 3)):
            data[draw.randrange(len(data))] = draw.choice(
                (0, 1, 127, 128, 255, draw.randrange(256))
            )
        r = twinrun("digest", written("a", bytes(data)))
        assert r.rc in (0, 2) and (r.rc == 0 or r.err), bytes(data)
