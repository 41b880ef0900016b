# SPDX-License-Identifier: Apache-2.0
"""Files of tensors as twinrun reads them (src/formats), against the libraries that wrote them:
every name, type, shape and byte.
"""

import collections
import io
import json
import os
import pickle
import struct
import subprocess
import zipfile

import numpy as np
import pytest

torch = pytest.importorskip("torch")
HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("TWINRUN_BUILD", os.path.join(HERE, "..", "..", "build"))
DUMP = os.path.join(BUILD, "tests", "agents", "tensors_dump")
NAMES = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "bool": "bool",
    "complex64": "c64",
    "complex128": "c128",
}


def dump(path, piece=None):
    done = subprocess.run(
        [DUMP, str(path)] + ([str(piece)] if piece else []),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=60,
    )
    assert done.returncode in (0, 1), done
    lines = done.stdout.decode().splitlines()
    if done.returncode:
        return None, done.stderr.decode(), []
    entries = [json.loads(line) for line in lines[1:] if not line.startswith("skipped ")]
    return lines[0], entries, [line[8:] for line in lines if line.startswith("skipped ")]


def torch_bytes(t):
    t = t.detach().contiguous()
    return t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""


def same(path, expected, piece=None):
    """expected: name -> (dtype, shape, bytes). Gives what was skipped."""
    _kind, entries, skipped = dump(path, piece)
    assert isinstance(entries, list), entries
    assert [e["name"] for e in entries] == list(expected)
    for e in entries:
        dtype, shape, data = expected[e["name"]]
        assert e["unreadable"] is None, e
        assert (NAMES[dtype], list(shape)) == (e["dtype"], e["shape"]), e["name"]
        assert bytes.fromhex(e["data"]) == data, e["name"]
    return skipped


def of_numpy(a):
    little = a.astype(a.dtype.newbyteorder("<"))
    return a.dtype.newbyteorder("=").name, a.shape, little.tobytes("C")


def of_torch(t):
    return str(t.dtype)[6:], tuple(t.shape), torch_bytes(t)


# ---- NumPy

ARRAYS = [
    np.arange(24.0).reshape(2, 3, 4),
    np.float32(3.5) * np.ones(()),
    np.zeros((0, 3), np.float16),
    np.arange(7, dtype=">f8"),
    np.arange(6, dtype=">i2").reshape(2, 3),
    np.arange(60, dtype=np.float32).reshape(3, 4, 5, order="F"),
    np.asfortranarray(np.arange(12.0).reshape(3, 4)).astype(">f4", order="K"),
    np.array([True, False]),
    np.arange(3, dtype=np.complex64) * 1j,
    np.arange(2, dtype=">c16"),
    np.arange(5, dtype=np.uint64),
]


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy(tmp_path, version):
    for i, a in enumerate(ARRAYS):
        path = tmp_path / ("%d.npy" % i)
        with open(path, "wb") as f:
            np.lib.format.write_array(f, a, version=version)
        for piece in (None, 1, 5):
            same(path, {"array": of_numpy(a)}, piece)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path, save):
    arrays = {"a%02d" % i: a for i, a in enumerate(ARRAYS)}
    arrays["deep/name with space"] = np.random.default_rng(1).standard_normal(100000)
    save(tmp_path / "x.npz", **arrays)
    for piece in (None, 4096):
        same(tmp_path / "x.npz", {k: of_numpy(a) for k, a in arrays.items()}, piece)


def test_arrays_that_hold_no_numbers_are_named(tmp_path):
    np.savez(
        tmp_path / "x.npz",
        o=np.array([{}, None], dtype=object),
        r=np.zeros(3, dtype=[("a", "<f4"), ("b", ">i8", (2,))]),
        s=np.array(["x"]),
        good=np.ones(3),
    )
    _kind, entries, _ = dump(tmp_path / "x.npz")
    why = {e["name"]: e["unreadable"] for e in entries}
    assert (
        "Python objects" in why["o"]
        and "several fields" in why["r"]
        and "does not know" in why["s"]
        and why["good"] is None
    )


# ---- safetensors


def test_safetensors(tmp_path):
    st = pytest.importorskip("safetensors.torch")
    tensors = {
        "w": torch.randn(3, 5),
        "b": torch.randn(4).to(torch.bfloat16),
        "h": torch.randn(2, 2).half(),
        "d": torch.randn(3, dtype=torch.float64),
        "i": torch.arange(5),
        "empty": torch.zeros(0, 4),
        "scalar": torch.tensor(2.5),
        "mask": torch.tensor([True, False]),
    }
    st.save_file(tensors, tmp_path / "x.safetensors", metadata={"format": "pt"})
    _kind, entries, _ = dump(tmp_path / "x.safetensors")
    assert sorted(e["name"] for e in entries) == sorted(tensors)
    same(tmp_path / "x.safetensors", {e["name"]: of_torch(tensors[e["name"]]) for e in entries})


# ---- PyTorch


def flat(value, path=""):
    """Names as the header says, from the live objects."""
    if isinstance(value, torch.Tensor):
        yield path or "tensor", value
    elif isinstance(value, dict):
        for k, v in value.items():
            text = str(k)
            if isinstance(k, str) and (
                not k or k.lstrip("-").isdigit() or any(c in '/[]()"\\' for c in k)
            ):
                text = '"%s"' % k.replace("\\", "\\\\").replace('"', '\\"')
            yield from flat(v, path + "/" + text if path else text)
    elif isinstance(value, (list, tuple)):
        for i, v in enumerate(value):
            yield from flat(v, "%s[%d]" % (path, i))


def checkpoint():
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.randn(8, 4)).sum().backward()
    optimizer.step()
    base = torch.randn(6, 7)
    return {
        "model": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "grads": {n: p.grad for n, p in net.named_parameters()},
        "step": 17,
        "lr": 1e-3,
        "odd": {
            1: torch.ones(2),
            "1": torch.zeros(2),
            "a/b": torch.ones(1),
            "": torch.ones(3),
            'q"\\': torch.ones(1),
        },
        "nested": [base, (base.t(), base[2:5, ::2], [base[:, 3]])],
        "expanded": torch.tensor([1.5]).expand(3, 4),
        "parameter": torch.nn.Parameter(torch.randn(3)),
        "half": base.half(),
        "bf16": base.bfloat16(),
        "u16": torch.tensor([1, 65535], dtype=torch.uint16),
        "c": torch.randn(3, dtype=torch.complex64),
        "empty": torch.zeros(0, 2),
        "size": torch.Size([1, 2]),
        "device": torch.device("cpu"),
        "loss": [0.5, 0.25],
        "big": 1 << 80,
        "text": "é" * 300,
        "none": None,
        "set": {1, 2},
        "ordered": collections.OrderedDict(x=torch.ones(1)),
        "default": collections.defaultdict(list, y=torch.ones(1)),
    }


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("protocol", [2, 4])
def test_torch(tmp_path, old, protocol):
    value = checkpoint()
    if old:
        del value["u16"]  # the old format has no such storage
    torch.save(
        value, tmp_path / "x.pt", _use_new_zipfile_serialization=not old, pickle_protocol=protocol
    )
    for piece in (None, 3):
        skipped = same(tmp_path / "x.pt", {n: of_torch(t) for n, t in flat(value)}, piece)
    assert skipped == ["torch.device"]
    kind, entries, _ = dump(tmp_path / "x.pt")
    assert kind == ("PyTorch, old format" if old else "PyTorch")


def test_torch_names_what_shows_the_same_memory(tmp_path):
    w = torch.randn(4, 4)
    torch.save(
        {"a": w, "tied": w, "view": w[:], "transposed": w.t(), "half": w[:2]}, tmp_path / "x.pt"
    )
    _kind, entries, _ = dump(tmp_path / "x.pt")
    assert [e["alias_of"] for e in entries] == [0, 0, 0, 3, 4]


def test_torch_module_and_unknown_classes(tmp_path):
    """A whole module: its class is named, nothing of it is loaded, and its parameters are there all
    the same.
    """
    net = torch.nn.Linear(3, 2)
    torch.save(
        {"net": net, "array": np.ones(3), "sparse": torch.eye(3).to_sparse()}, tmp_path / "x.pt"
    )
    _kind, entries, skipped = dump(tmp_path / "x.pt")
    names = [e["name"] for e in entries]
    assert names[:2] == ["net/_parameters/weight", "net/_parameters/bias"]
    assert bytes.fromhex(entries[0]["data"]) == torch_bytes(net.weight)
    assert (
        "torch.nn.modules.linear.Linear" in skipped
        and any("multiarray" in s for s in skipped)
        and "torch._utils._rebuild_sparse_tensor" in skipped
    )


def test_torch_big_endian(tmp_path):
    w = torch.randn(3, 5)
    torch.save({"w": w}, tmp_path / "x.pt")
    with zipfile.ZipFile(tmp_path / "x.pt") as source, zipfile.ZipFile(
        tmp_path / "big.pt", "w"
    ) as target:
        for name in source.namelist():
            data = source.read(name)
            if name.endswith("/byteorder"):
                data = b"big"
            elif name.endswith("/data/0"):
                data = np.frombuffer(data, "<f4").astype(">f4").tobytes()
            target.writestr(name, data, zipfile.ZIP_DEFLATED)
    same(tmp_path / "big.pt", {"w": of_torch(w)})


# ---- what must be refused


class Bomb:
    def __reduce__(self):
        return os.system, ("touch executed",)


def test_nothing_is_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"w": torch.ones(2), "x": Bomb()}, "x.pt")
    skipped = same("x.pt", {"w": of_torch(torch.ones(2))})
    assert any(s.endswith(".system") for s in skipped)
    assert os.listdir(".") == ["x.pt"]


def repickled(tmp_path, data):
    """A checkpoint whose pickle is `data`."""
    torch.save({"w": torch.ones(4)}, tmp_path / "plain.pt")
    with zipfile.ZipFile(tmp_path / "plain.pt") as source, zipfile.ZipFile(
        tmp_path / "x.pt", "w"
    ) as target:
        for name in source.namelist():
            target.writestr(name, data if name.endswith("data.pkl") else source.read(name))
    return tmp_path / "x.pt"


def tensor_pickle(offset, size, stride, key=b"0", numel=4):
    storage = b"(X\7\0\0\0storagectorch\nFloatStorage\nX%sX\3\0\0\0cpuK%stQ" % (
        struct.pack("<I", len(key)) + key,
        bytes([numel]),
    )
    integer = lambda n: b"\x8a\x08" + struct.pack("<q", n)
    return (
        b"\x80\2}X\1\0\0\0wctorch._utils\n_rebuild_tensor_v2\n("
        + storage
        + integer(offset)
        + b"("
        + b"".join(map(integer, size))
        + b"t("
        + b"".join(map(integer, stride))
        + b"t\x89}tRs."
    )


@pytest.mark.parametrize(
    "offset, size, stride, key, message",
    [
        (0, [4], [1], b"0", None),
        (3, [2, 1], [0, 5], b"0", None),
        (1, [4], [1], b"0", "only 16 are stored"),
        (-1, [1], [1], b"0", "makes no sense"),
        (0, [4], [-1], b"0", "makes no sense"),
        (0, [-4], [1], b"0", "makes no sense"),
        (0, [4], [1, 1], b"0", "makes no sense"),
        (0, [2, 2], [1 << 62, 1], b"0", "impossible shape"),
        (0, [1 << 62, 1 << 62], [0, 0], b"0", "impossible shape"),
        (1 << 62, [1], [1], b"0", "outside of its storage"),
        (0, [4], [1], b"../../etc/passwd", "not there"),
        (0, [1 << 40], [0], b"0", "unreadable"),
    ],
)
def test_torch_ranges(tmp_path, offset, size, stride, key, message):
    path = repickled(tmp_path, tensor_pickle(offset, size, stride, key))
    _kind, entries, _ = dump(path)
    if message == "unreadable":
        assert "very often" in entries[0]["unreadable"]
    elif message:
        assert isinstance(entries, str) and message in entries, entries
    else:
        assert len(bytes.fromhex(entries[0]["data"])) == entries[0]["bytes"]


def doubling(levels):
    """A tuple of two of a tuple of two of...: small, and 2^levels paths long."""
    return (
        b"\x80\2]q\0"
        + b"".join(
            b"h%sh%s\x86q%s" % (bytes([i]), bytes([i]), bytes([i + 1])) for i in range(levels)
        )
        + b"."
    )


@pytest.mark.parametrize(
    "data, message",
    [
        (doubling(60), "more than"),
        (b"\x80\2" + b"(" * 1000000 + b".", "nothing on its stack"),
        (b"\x80\2" + b"]" * 2000 + b"a" * 1999 + b".", "beyond 100"),
        (b"\x80\2]q\0h\0a.", None),  # a list in itself
        (b"\x80\2N" + b"2" * 10000000 + b".", "more than"),
        (b"\x80\2X\xff\xff\xff\xff.", "ends early"),
        (b"\x80\2\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", "too long"),
        (b"\x80\2Nr\xff\xff\xff\xff.", "more than"),
        (b"\x80\2j\xff\xff\xff\xff.", "not kept"),
        (b"\x80\2}NNuN.", "mark"),
        (b"\x80\2(}NNNuN.", "without their container"),
        (b"\x80\2}(NNNu.", "without its value"),
        (b"\x80\2K\1K\1a.", "hold"),
        (b"\x80\2ios\nsystem\n.", "0x69"),
        (b"", "ends early"),
    ],
)
def test_torch_pickles(tmp_path, data, message):
    _kind, entries, _ = dump(repickled(tmp_path, data))
    if message:
        assert isinstance(entries, str) and message in entries, entries
    else:
        assert entries == []


@pytest.mark.parametrize(
    "header, message",
    [
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, None),
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, "needs 8 bytes"),
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 8]}}, "do not fit"),
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}, "behind the end"),
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, "gap"),
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, "longer"),
        (
            {
                "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                "b": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]},
            },
            "overlap",
        ),
        ({"a": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}}, "no number"),
        (
            {"a": {"dtype": "F32", "shape": [1 << 40, 1 << 40], "data_offsets": [0, 8]}},
            "impossible",
        ),
        ({"a": {"dtype": "F32", "shape": "x", "data_offsets": [0, 8]}}, "expected dtype"),
        ({"a": 1}, "expected dtype"),
        ([1], "something else"),
    ],
)
def test_safetensors_headers(tmp_path, header, message):
    text = json.dumps(header).encode()
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    _kind, entries, _ = dump(tmp_path / "x.safetensors")
    if message:
        assert isinstance(entries, str) and message in entries, entries
    else:
        assert entries[0]["data"] == "00" * 8


def test_same_key_twice_is_refused(tmp_path):
    text = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}'
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    assert "duplicate" in dump(tmp_path / "x.safetensors")[1]


def test_zip_files_that_two_readers_would_see_differently(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.ones(4), b=np.zeros(4))
    good = bytearray((tmp_path / "x.npz").read_bytes())
    central = good.index(b"PK\1\2")
    second = good.index(b"PK\1\2", central + 1)

    def refused(edit, message):
        data = bytearray(good)
        edit(data)
        (tmp_path / "y.npz").write_bytes(data)
        found = dump(tmp_path / "y.npz")[1]
        assert isinstance(found, str) and message in found, found

    def overlap(d):
        d[second + 42 : second + 46] = d[central + 42 : central + 46]
        d[second + 46 : second + 47] = b"a"

    refused(overlap, "overlap")
    refused(lambda d: d.__setitem__(slice(second + 46, second + 47), b"c"), "another name")
    refused(
        lambda d: d.__setitem__(
            slice(central + 20, central + 28), struct.pack("<II", 1 << 30, 1 << 30)
        ),
        "outside",
    )
    refused(
        lambda d: d.__setitem__(slice(central + 20, central + 28), struct.pack("<II", 300, 300)),
        "overlap",
    )
    refused(lambda d: d.__setitem__(slice(central + 10, central + 12), b"\x08\0"), "damaged")
    refused(
        lambda d: d.__setitem__(slice(-6, -2), b"\xff\0\0\0"),
        "more than the central directory says",
    )


def test_bombs_and_damage(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", a=np.zeros(100000))
    data = bytearray((tmp_path / "x.npz").read_bytes())
    central = data.index(b"PK\1\2")
    huge = bytearray(data)
    huge[central + 24 : central + 28] = struct.pack("<I", (1 << 32) - 2)
    (tmp_path / "huge.npz").write_bytes(huge)
    assert "smaller than deflate" in dump(tmp_path / "huge.npz")[1]
    data[central - 100] ^= 1
    (tmp_path / "bad.npz").write_bytes(data)
    found = dump(tmp_path / "bad.npz")[1]
    assert isinstance(found, str) and ("damaged" in found or "checksum" in found)
    good = bytearray((tmp_path / "x.npz").read_bytes())
    good[central + 16] ^= 1
    (tmp_path / "crc.npz").write_bytes(good)
    assert "checksum" in dump(tmp_path / "crc.npz")[1]


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "c.npz", "x.pt", "old.pt"])
def test_cut_off_files_give_errors(tmp_path, name):
    a = np.random.default_rng(0).standard_normal(50)
    np.save(tmp_path / "x.npy", a)
    np.savez(tmp_path / "x.npz", a=a)
    np.savez_compressed(tmp_path / "c.npz", a=a)
    torch.save({"a": torch.from_numpy(a)}, tmp_path / "x.pt")
    torch.save(
        {"a": torch.from_numpy(a)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False
    )
    data = (tmp_path / name).read_bytes()
    for n in sorted(
        {0, 1, 5, 7, 9, 20, len(data) // 3, len(data) // 2, len(data) - 17, len(data) - 1}
    ):
        (tmp_path / "cut").write_bytes(data[:n])
        assert isinstance(dump(tmp_path / "cut")[1], str), n


def test_other_files_are_named(tmp_path):
    for data, found in (
        (b"", "an empty file"),
        (pickle.dumps({"a": 1}), "a Python pickle"),
        (b"\x1f\x8b" + bytes(30), "gzip"),
        (b"hello, world, this is text", "something else"),
    ):
        (tmp_path / "x").write_bytes(data)
        assert "found " + found in dump(tmp_path / "x")[1]
    # one of torch.distributed.checkpoint is read
    assert "found another folder" in dump(tmp_path)[1]
    os.mkfifo(tmp_path / "pipe")
    assert "pipe" in dump(tmp_path / "pipe")[1]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as z:
        z.writestr("readme.txt", "x")
    (tmp_path / "x").write_bytes(buffer.getvalue())
    assert "neither a PyTorch checkpoint" in dump(tmp_path / "x")[1]
