# SPDX-License-Identifier: Apache-2.0
"""`twinrun digest FILE...`: the digest of a file's tensors, made again here from docs/digest.md by
hashlib and torch; what it must not see, what it must.
"""

import collections
import hashlib
import io
import struct
import zipfile

import numpy
import pytest
import torch
from safetensors.torch import save_file

NAMES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.bool: "bool",
}


def tensor_digest(name, tensor):
    def text(s):
        return struct.pack("<Q", len(s.encode())) + s.encode()

    values = (
        tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        if tensor.numel()
        else b""
    )
    return hashlib.sha256(
        b"twinrun.tensor/2\0"
        + text(name)
        + text(NAMES[tensor.dtype])
        + struct.pack("<Q", tensor.dim())
        + b"".join(struct.pack("<Q", n) for n in tensor.shape)
        + b"".join(
            hashlib.sha256(values[i : i + (1 << 20)]).digest()
            for i in range(0, len(values), 1 << 20)
        )
    )


def content_digest(tensors):
    every = sorted((name.encode(), tensor_digest(name, t).digest()) for name, t in tensors.items())
    return hashlib.sha256(b"twinrun.content/2\0" + b"".join(d for _, d in every)).hexdigest()


@pytest.fixture
def digest(twinrun):
    def of(*files):
        r = twinrun("digest", "--json", *map(str, files))
        assert r.rc in (0, 1), r
        return r.json

    return of


def tensors():
    torch.manual_seed(3)
    return {
        "w": torch.randn(7, 5),
        "b": torch.randn(5, dtype=torch.float64),
        "h": torch.randn(3, 1, 2).half(),
        "z": torch.randn(4).bfloat16(),
        "n": torch.arange(6),
        "empty": torch.zeros(0, 4),
        "large": torch.randn(700, 800),
        "larger": torch.randn((1 << 19) + 3),
        "scalar": torch.tensor(float("nan")),
        "m": torch.tensor([True, False]),
    }


def test_as_specified_in_every_format(digest, tmp_path):
    state = tensors()
    torch.save(state, tmp_path / "a.pt")
    torch.save(state, tmp_path / "legacy.pt", _use_new_zipfile_serialization=False)
    save_file(state, tmp_path / "c.safetensors", metadata={"made": "today"})
    wanted = content_digest(state)
    for name in ("a.pt", "legacy.pt", "c.safetensors"):
        (item,) = digest(tmp_path / name)["items"]
        assert item["content"] == wanted, name
        assert item["file"] == hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
        (only,) = digest("--tensors", tmp_path / name)["items"]
        assert only["file"] is None and {**only, "file": item["file"]} == item
        assert {t["name"]: t["sha256"] for t in item["tensors"]} == {
            n: tensor_digest(n, t).hexdigest() for n, t in state.items()
        }
    arrays = {n: t for n, t in state.items() if n not in ("z",)}  # NumPy has no bfloat16
    numpy.savez(tmp_path / "d.npz", **{n: t.numpy() for n, t in arrays.items()})
    numpy.savez_compressed(
        tmp_path / "e.npz",
        **{n: numpy.asarray(t.numpy(), order="F") for n, t in reversed(arrays.items())},
    )
    both = digest(tmp_path / "d.npz", tmp_path / "e.npz")
    assert both["outcome"] == "same" and both["items"][0]["content"] == content_digest(arrays)


def test_other_order_names_of_members_strides_and_time_do_not_count(digest, tmp_path):
    state = tensors()
    torch.save(state, tmp_path / "a.pt")
    strided = {
        n: (t.t().contiguous().t() if t.dim() == 2 else t) for n, t in reversed(state.items())
    }
    torch.save(collections.OrderedDict(strided), tmp_path / "other name.bin")
    both = digest(tmp_path / "a.pt", tmp_path / "other name.bin")
    assert both["outcome"] == "same" and both["items"][0]["file"] != both["items"][1]["file"]


def test_any_bit_name_shape_or_type_counts(digest, twinrun, tmp_path):
    state = tensors()
    torch.save(state, tmp_path / "a.pt")
    first = digest(tmp_path / "a.pt")["items"][0]["content"]

    def changed(**how):
        torch.save({**state, **how}, tmp_path / "b.pt")
        return digest(tmp_path / "a.pt", tmp_path / "b.pt")

    w = state["w"].clone()
    w.view(torch.int32)[3, 2] ^= 1
    w.view(torch.int32)[0, 0] ^= 6
    bits = changed(w=w)
    assert bits["outcome"] == "differ" and bits["items"][1]["content"] != first
    (difference,) = bits["differences"]
    assert (difference["name"], difference["changed"]) == ("w", 2) and 2 <= difference[
        "max_ulp"
    ] <= 6
    expected = ((w.double() - state["w"].double()).norm() / state["w"].double().norm()).item()
    assert difference["relative_l2"] == pytest.approx(expected, rel=1e-12)
    assert [d["name"] for d in changed(b=state["b"].reshape(5, 1))["differences"]] == ["b"]
    assert changed(b=state["b"].float())["differences"][0]["b"]["dtype"] == "f32"
    # another NaN
    assert (
        changed(scalar=torch.tensor(struct.unpack("<f", b"\1\0\xc0\x7f")[0]))["outcome"] == "differ"
    )
    more = changed(extra=torch.ones(1))
    assert more["differences"] == [
        {
            "name": "extra",
            "a": None,
            "b": {"dtype": "f32", "shape": [1]},
            "changed": None,
            "max_ulp": None,
            "relative_l2": None,
        }
    ]
    torch.save({"a.b": torch.ones(2)}, tmp_path / "flat.pt")
    torch.save({"a": {"b": torch.ones(2)}}, tmp_path / "nested.pt")
    assert digest(tmp_path / "flat.pt", tmp_path / "nested.pt")["outcome"] == "differ"
    shown = twinrun("digest", str(tmp_path / "flat.pt"), str(tmp_path / "nested.pt"))
    assert shown.rc == 1 and "only in the first" in shown.out and "only in the second" in shown.out


def test_the_files_own_digest_where_nobody_waits_for_it_or_asks(twinrun, digest, tmp_path):
    """Beyond 64 MiB it would take longer than the tensors."""
    large = {"t": torch.arange((64 << 18) + 7, dtype=torch.int32).float()}
    for name in ("a", "b"):
        save_file(large, tmp_path / f"{name}.safetensors", metadata={"made": name})
    a, b = (tmp_path / f"{name}.safetensors" for name in ("a", "b"))
    (item,) = digest(a)["items"]
    assert item["file"] is None and item["content"] == content_digest(large)
    (asked,) = digest("--file", a)["items"]
    assert asked["file"] == hashlib.sha256(a.read_bytes()).hexdigest()
    assert {**asked, "file": None} == item
    r = twinrun("digest", str(a), str(b))
    assert r.rc == 0 and "  file  " not in r.out and "SAME    the same tensors" in r.out
    assert "in other bytes" not in r.out and "byte for byte" not in r.out
    r = twinrun("digest", "--file", str(a), str(a))
    assert r.rc == 0 and r.out.count("  file  ") == 2 and "byte for byte" in r.out
    # one that is known beside one that is not
    small = tmp_path / "small.safetensors"
    save_file({"t": torch.ones(2)}, small)
    r = twinrun("digest", str(small), str(a))
    assert r.rc == 1 and r.out.count("  file  ") == 1
    for wrong in (["--file", "--tensors", str(a)], ["--file", "--argv", "--", "true"]):
        r = twinrun("digest", *wrong)
        assert r.rc == 2 and "--file" in r.err


def test_hostile_and_damaged_files_are_refused(twinrun, tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "touched"), "w"))

    torch.save({"w": torch.ones(2), "x": Bomb()}, tmp_path / "bomb.pt")
    assert (
        twinrun("digest", str(tmp_path / "bomb.pt")).rc == 0 and not (tmp_path / "touched").exists()
    )
    whole = io.BytesIO()
    torch.save({"w": torch.ones(2)}, whole)
    (tmp_path / "cut.pt").write_bytes(whole.getvalue()[:-40])
    r = twinrun("digest", str(tmp_path / "cut.pt"))
    assert r.rc == 2 and "cut.pt" in r.err
    with zipfile.ZipFile(tmp_path / "none.zip", "w") as z:
        z.writestr("readme", "no tensors here")
    assert twinrun("digest", str(tmp_path / "none.zip")).rc == 2


def test_other_values(digest, tmp_path):
    """Step counts and settings: a digest of their own, made again here; listed where they differ;
    no matter in which of PyTorch's formats.
    """

    def state(step, lr):
        return {
            "w": torch.ones(3),
            "step": step,
            "group": {
                "lr": lr,
                "betas": (0.9, 0.999),
                "on": True,
                "none": None,
                "name": "adam\u00e9",
                "raw": b"\x00\xff",
                "empty": [],
                "d": {},
            },
            "type": torch.float16,
            "nan": float("nan"),
            5: -7,
        }

    def text(s):
        s = s if isinstance(s, bytes) else s.encode()
        return struct.pack("<Q", len(s)) + s

    def values(step, lr):
        every = {
            "step": b"i" + struct.pack("<q", step),
            "group/lr": b"f" + struct.pack("<d", lr),
            "group/betas[0]": b"f" + struct.pack("<d", 0.9),
            "group/betas[1]": b"f" + struct.pack("<d", 0.999),
            "group/on": b"t" + struct.pack("<q", 1),
            "group/none": b"n",
            "group/name": b"s" + text("adam\u00e9"),
            "group/empty": b"e" + text("[]"),
            "group/d": b"e" + text("{}"),
            "type": b"c" + text("torch.float16"),
            "nan": b"f" + struct.pack("<d", float("nan")),
            "5": b"i" + struct.pack("<q", -7),
        }
        return hashlib.sha256(
            b"twinrun.values/1\0"
            + b"".join(text(n) + v for n, v in sorted(every.items(), key=lambda x: x[0].encode()))
        ).hexdigest()

    for i, (step, lr) in enumerate(((1, 0.1), (2, 0.1), (1, 0.2))):
        s = state(step, lr)
        del s["group"]["raw"]  # protocol 2 writes bytes as a call of codecs.encode
        torch.save(s, tmp_path / ("%d.pt" % i))
        torch.save(s, tmp_path / ("%d.old" % i), _use_new_zipfile_serialization=False)
        for suffix in ("pt", "old"):
            assert digest(tmp_path / ("%d.%s" % (i, suffix)))["items"][0]["values"] == values(
                step, lr
            )
    r = digest(tmp_path / "0.pt", tmp_path / "1.old")
    assert (
        r["outcome"] == "same"
        and r["differences"] == []
        and r["value_differences"] == [{"name": "step", "a": {"value": 1}, "b": {"value": 2}}]
    )
    assert [
        d["name"] for d in digest(tmp_path / "0.pt", tmp_path / "2.pt")["value_differences"]
    ] == ["group/lr"]
    torch.save(state(1, 0.1), tmp_path / "raw.pt")
    assert {
        d["name"] for d in digest(tmp_path / "0.pt", tmp_path / "raw.pt")["value_differences"]
    } >= {"group/raw"}
    for made in ("today", "tomorrow"):
        save_file({"w": torch.ones(3)}, tmp_path / made, metadata={"made": made})
    r = digest(tmp_path / "today", tmp_path / "tomorrow")
    assert r["outcome"] == "same" and [d["name"] for d in r["value_differences"]] == [
        "__metadata__/made"
    ]


def test_optimizer_state(digest, tmp_path):
    model = torch.nn.Linear(3, 2)
    adam = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.ones(1, 3)).sum().backward()
    adam.step()
    torch.save({"model": model.state_dict(), "adam": adam.state_dict()}, tmp_path / "a")
    adam.param_groups[0]["weight_decay"] = 0.5
    torch.save({"adam": adam.state_dict(), "model": model.state_dict()}, tmp_path / "b")
    r = digest(tmp_path / "a", tmp_path / "b")
    assert r["outcome"] == "same" and [d["name"] for d in r["value_differences"]] == [
        "adam/param_groups[0]/weight_decay"
    ]


def quiet_dcp():
    import warnings

    warnings.simplefilter("ignore")
    import torch.distributed.checkpoint as dcp

    return dcp


def nested():
    torch.manual_seed(5)
    return {
        "model": {
            "w.x": torch.randn(6, 4, 3),
            "b": torch.randn(5).bfloat16(),
            "big": torch.randn(700, 900),
        },
        "optimizer": {
            "state": {0: {"exp_avg": torch.ones(2)}},
            "groups": [{"lr": 0.1, "params": [0, 1]}],
        },
        "step": 7,
        "scalar": torch.tensor(3.5),
        "none": None,
        "text": "x",
    }


def test_distributed_checkpoint(digest, tmp_path):
    """The same tensors, and the same other values, as saved by torch.save."""
    state = nested()
    quiet_dcp().save(state, checkpoint_id=str(tmp_path / "dcp"), no_dist=True)
    torch.save(state, tmp_path / "plain.pt")
    r = digest(tmp_path / "dcp", tmp_path / "plain.pt")
    assert (
        r["outcome"] == "same"
        and r["value_differences"] == []
        and len(r["items"][0]["tensors"]) == 5
    ), r
    (only,) = digest("--tensors", tmp_path / "dcp")["items"]
    assert only["file"] is None and {**only, "file": r["items"][0]["file"]} == r["items"][0], only
    state["model"]["w.x"][2, 1, 1] += 1
    quiet_dcp().save(state, checkpoint_id=str(tmp_path / "other"), no_dist=True)
    r = digest(tmp_path / "dcp", tmp_path / "other")
    assert [(d["name"], d["changed"]) for d in r["differences"]] == [("model/w.x", 1)]


def sharded(folder, tensor, boxes):
    """A checkpoint of one tensor in these boxes, one file each, by PyTorch's own classes."""
    from torch.distributed.checkpoint import metadata as m
    from torch.distributed.checkpoint.filesystem import _StorageInfo
    import pickle

    folder.mkdir()
    chunks, places = [], {}
    for i, (offsets, sizes) in enumerate(boxes):
        part = tensor[tuple(slice(o, o + n) for o, n in zip(offsets, sizes))].clone()
        buffer = io.BytesIO()
        torch.save(part, buffer)
        with open(folder / ("__%d_0.distcp" % i), "wb") as f:
            f.write(b"x" * i + buffer.getvalue() + b"y")
        chunks.append(m.ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes)))
        places[m.MetadataIndex("t", torch.Size(offsets), i)] = _StorageInfo(
            "__%d_0.distcp" % i, i, len(buffer.getvalue())
        )
    meta = m.Metadata(
        {
            "t": m.TensorStorageMetadata(
                m.TensorProperties(dtype=tensor.dtype), tensor.size(), chunks
            )
        },
        {"t": ("t",)},
        places,
    )
    with open(folder / ".metadata", "wb") as f:
        pickle.dump(meta, f)
    return meta


def test_distributed_chunks(digest, tmp_path):
    torch.manual_seed(6)
    tensor = torch.randn(7, 5, 4)
    torch.save({"t": tensor}, tmp_path / "plain.pt")
    wanted = digest(tmp_path / "plain.pt")["items"][0]["content"]
    # rows
    for i, boxes in enumerate(
        (
            [((0, 0, 0), (3, 5, 4)), ((3, 0, 0), (4, 5, 4))],
            # columns
            [((0, 0, 0), (7, 2, 4)), ((0, 2, 0), (7, 3, 4))],
            [
                ((0, 0, 0), (4, 5, 1)),
                ((0, 0, 1), (4, 5, 3)),
                ((4, 0, 0), (3, 2, 4)),
                ((4, 2, 0), (3, 3, 4)),
            ],
        )
    ):
        sharded(tmp_path / str(i), tensor, boxes)
        assert digest(tmp_path / str(i))["items"][0]["content"] == wanted, i
        back = {"t": torch.zeros(7, 5, 4)}
        quiet_dcp().load(back, checkpoint_id=str(tmp_path / str(i)), no_dist=True)
        assert torch.equal(back["t"], tensor)  # and PyTorch takes it for one


def test_hostile_distributed_checkpoints(twinrun, tmp_path):
    import pickle

    tensor = torch.randn(4, 3)
    boxes = [((0, 0), (2, 3)), ((2, 0), (2, 3))]
    for i, (change, why) in enumerate(
        (
            (
                lambda m, d: m.storage_data.update(
                    {k: type(v)("../secret", 0, 10) for k, v in m.storage_data.items()}
                ),
                "not one of the folder",
            ),
            (
                lambda m, d: m.storage_data.update(
                    {k: type(v)("/etc/passwd", 0, 10) for k, v in m.storage_data.items()}
                ),
                "not one of the folder",
            ),
            (
                lambda m, d: m.storage_data.update(
                    {
                        k: type(v)(v.relative_path, v.offset, v.length + 100)
                        for k, v in m.storage_data.items()
                    }
                ),
                "cut off",
            ),
            (
                lambda m, d: m.storage_data.update(
                    {k: type(v)(v.relative_path, -1, 5) for k, v in m.storage_data.items()}
                ),
                "no place",
            ),
            (lambda m, d: m.storage_data.clear(), "no file has it"),
            (lambda m, d: m.state_dict_metadata["t"].chunks.pop(), "no chunk has element 6"),
            (
                lambda m, d: setattr(m.state_dict_metadata["t"], "size", torch.Size((1 << 40, 3))),
                "no chunk has element",
            ),
            (
                lambda m, d: setattr(m.state_dict_metadata["t"], "size", torch.Size((2, 3))),
                "outside of its tensor",
            ),
            (lambda m, d: (d / "__1_0.distcp").unlink(), "__1_0.distcp"),
            (
                lambda m, d: (
                    (d / "__1_0.distcp").unlink(),
                    (d / "__1_0.distcp").symlink_to("__0_0.distcp"),
                ),
                "__1_0.distcp",
            ),
            (lambda m, d: (d / "__1_0.distcp").write_bytes(b"x" * 5000), "expected"),
        )
    ):
        folder = tmp_path / str(i)
        meta = sharded(folder, tensor, boxes)
        change(meta, folder)
        with open(folder / ".metadata", "wb") as f:
            pickle.dump(meta, f)
        r = twinrun("digest", str(folder))
        assert r.rc == 2 and why in r.err, (i, r)

    class Evil:
        def __reduce__(self):
            import os

            return os.system, ("touch %s/ran" % tmp_path,)

    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / ".metadata").write_bytes(pickle.dumps(Evil()))
    assert twinrun("digest", str(tmp_path / "evil")).rc == 2 and not (tmp_path / "ran").exists()
    (tmp_path / "none").mkdir()
    assert (
        "expected tensors, found none in the 0 files"
        in twinrun("digest", str(tmp_path / "none")).err
    )


# ---------------------------------------------------------------- plain folders


def checkpoint(folder, state):
    """As trainers leave one: weights, optimizer, settings, a log."""
    (folder / "optim").mkdir(parents=True)
    save_file(
        {"w": state["w"], "b": state["b"]}, folder / "model.safetensors", metadata={"format": "pt"}
    )
    torch.save({"step": 3, "moment": state["large"]}, folder / "optim" / "rank0.pt")
    (folder / "config.json").write_text('{"layers": 2}')
    (folder / "run.log").write_bytes(b"loss 1.5\n" * 9)
    return folder


def test_plain_folder(digest, twinrun, tmp_path):
    state = tensors()
    a, b = checkpoint(tmp_path / "a", state), checkpoint(tmp_path / "b", state)
    inside = {
        "model.safetensors/w": state["w"],
        "model.safetensors/b": state["b"],
        "optim/rank0.pt/moment": state["large"],
    }
    (item,) = digest(a)["items"]
    assert item["format"] == "folder" and item["content"] == content_digest(inside)
    # other bytes, same tensors
    torch.save(
        {"moment": state["large"], "step": 3},
        b / "optim" / "rank0.pt",
        _use_new_zipfile_serialization=False,
    )
    same = digest(a, b)
    assert (
        same["outcome"] == "same"
        and same["value_differences"] == []
        and same["items"][0]["file"] != same["items"][1]["file"]
    )
    (b / "config.json").write_text('{"layers": 3}')
    torch.save({"moment": state["large"], "step": 4}, b / "optim" / "rank0.pt")
    values = {
        d["name"]: (d["a"]["value"], d["b"]["value"]) for d in digest(a, b)["value_differences"]
    }
    assert values == {
        "config.json": tuple(
            "sha256:" + hashlib.sha256(t).hexdigest() for t in (b'{"layers": 2}', b'{"layers": 3}')
        ),
        "optim/rank0.pt/step": (3, 4),
    }
    assert "what is no tensor differs" in twinrun("digest", str(a), str(b)).out
    state["large"][5, 7] += 1
    torch.save({"step": 3, "moment": state["large"]}, b / "optim" / "rank0.pt")
    numpy.save(b / "extra.npy", numpy.zeros(3))
    r = digest(a, b)
    assert [(d["name"], d["changed"]) for d in r["differences"]] == [
        ("extra.npy/array", None),
        ("optim/rank0.pt/moment", 1),
    ]


def test_a_model_in_several_files_is_one_model(digest, twinrun, tmp_path):
    """Hugging Face's layout: the index says which file has which tensor; where the cuts are does
    not count.
    """
    import json

    state, whole = tensors(), tmp_path / "model.safetensors"
    save_file(state, whole)
    names = sorted(state)
    for cut in (2, 5):
        folder = tmp_path / f"cut-{cut}"
        folder.mkdir()
        files = {
            f"model-{i + 1:05}-of-00002.safetensors": part
            for i, part in enumerate((names[:cut], names[cut:]))
        }
        for file, part in files.items():
            save_file({n: state[n] for n in part}, folder / file)
        (folder / "model.safetensors.index.json").write_text(
            json.dumps(
                {
                    "metadata": {},
                    "weight_map": {n: file for file, part in files.items() for n in part},
                }
            )
        )
        r = digest(folder, whole)
        assert r["outcome"] == "same" and r["items"][0]["content"] == content_digest(state)
    save_file({names[0]: state[names[0]]}, folder / "model-00002-of-00002.safetensors")
    assert f"two files hold a tensor {names[0]}" in twinrun("digest", str(folder)).err


def test_damaged_and_odd_folders(twinrun, tmp_path):
    folder = checkpoint(tmp_path / "f", tensors())
    (folder / "odd.index.json").write_text("{" * 5000)  # no index: a file like others
    (folder / "notes.pkl").write_bytes(b"\x80\x04cos\nsystem\n(S'touch ran'\ntR.")
    assert twinrun("digest", str(folder)).rc == 0 and not (folder / "ran").exists()
    cut = (folder / "model.safetensors").read_bytes()[:-4]
    (folder / "model.safetensors").write_bytes(cut)
    r = twinrun("digest", str(folder))
    assert r.rc == 2 and "model.safetensors" in r.err and "Traceback" not in r.err
