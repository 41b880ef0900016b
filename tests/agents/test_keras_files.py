# SPDX-License-Identifier: Apache-2.0
"""`twinrun digest` of HDF5 and of Keras's archives. The samples are h5py's and Keras's own
(tests/golden/tensors/make_keras.py); mutants of them are made here by their bytes, so no
h5py is needed.
"""

import pathlib
import shutil
import struct
import zipfile

import numpy
import pytest

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "tensors"
W = (numpy.arange(12, dtype="f4") / 8).reshape(3, 4)


@pytest.fixture
def changed(tmp_path):
    """The sample with one stretch of bytes replaced, wherever it stands."""

    def make(sample, old, new, name="changed"):
        data = (GOLDEN / sample).read_bytes()
        assert old in data
        path = tmp_path / name
        path.write_bytes(data.replace(old, new))
        return path

    return make


def repacked(path, change):
    """model.keras written anew, by a function of name and bytes; None leaves a member out."""
    with zipfile.ZipFile(GOLDEN / "model.keras") as old, zipfile.ZipFile(path, "w") as new:
        for i in reversed(old.infolist()):
            data = change(i.filename, old.read(i))
            if data is not None:
                new.writestr(zipfile.ZipInfo(i.filename, (2030, 1, 1, 0, 0, 0)), data)
    return path


def test_all_types_as_numpy_has_them(twinrun, tmp_path):
    """The same tensors as .npz have the same digest, which test_content.py makes again by hand."""
    types = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">f4", ">i8", "?")
    arrays = {
        "types/" + t.replace(">", "big-"): numpy.arange(6).reshape(2, 3).astype(t) for t in types
    }
    arrays |= {
        "layers/dense/w": W,
        "scalar": numpy.float64(0.1),
        "empty": numpy.zeros((0, 3), "f4"),
    }
    numpy.savez(tmp_path / "a.npz", **arrays)
    r = twinrun("digest", "--json", str(tmp_path / "a.npz"), str(GOLDEN / "old-groups.h5"))
    assert [d["name"] for d in r.json["differences"]] == ["bfloat16"]
    h5 = {t["name"]: t for t in r.json["items"][1]["tensors"]}
    assert (h5["bfloat16"]["dtype"], h5["bfloat16"]["shape"]) == ("bf16", [3, 4])
    assert h5["types/?"]["dtype"] == "bool"


def test_a_tree_of_several_levels(twinrun, tmp_path):
    numpy.savez(tmp_path / "a.npz", **{str(i): numpy.float32(0.5) for i in range(150)})
    assert twinrun("digest", str(tmp_path / "a.npz"), str(GOLDEN / "many.h5")).rc == 0


def test_attributes_are_values(twinrun, changed):
    old = GOLDEN / "old-groups.h5"
    for a, b in ((b"three", b"thred"), (b"\xc3\xb6", b"\xc3\xa4")):
        r = twinrun("digest", str(old), str(changed("old-groups.h5", a, b)))
        assert r.rc == 0 and "SAME    the same tensors; what is no tensor differs" in r.out
        assert "layers@" in r.out


def test_archive_and_weights_have_one_digest(twinrun, tmp_path):
    plain = repacked(tmp_path / "m.keras", lambda n, d: None if n.startswith("assets") else d)
    r = twinrun("digest", "--json", str(plain), str(GOLDEN / "model.weights.h5"))
    assert r.rc == 0
    assert r.json["items"][0]["content"] == r.json["items"][1]["content"]


def test_two_saves_of_one_model_are_same(twinrun, tmp_path):
    """Times, order of members, the date, and the addresses of shared objects differ."""

    def later(name, data):
        if name == "config.json":
            at = data.index(b'"shared_object_id": ') + len(b'"shared_object_id": ')
            end = min(data.index(c, at) for c in (b"}", b","))
            return data.replace(data[at:end], b"77")
        return (
            data.replace(b"date_saved", b"date_saved")
            if name != "metadata.json"
            else (data.split(b'"date_saved"')[0] + b'"date_saved": "2031-01-01@00:00:00"}')
        )

    r = twinrun(
        "digest", "--json", str(GOLDEN / "model.keras"), str(repacked(tmp_path / "k", later))
    )
    assert r.rc == 0
    first, second = r.json["items"]
    assert (first["content"], first["values"]) == (second["content"], second["values"])
    assert first["file"] != second["file"]


@pytest.mark.parametrize(
    "member, old, new, named",
    [
        ("config.json", b'"rate": 0.5', b'"rate": 0.4', "rate"),
        ("config.json", b'"units": 3', b'"units": 4', "units"),
    ],
)
def test_another_configuration_is_named(twinrun, tmp_path, member, old, new, named):
    other = repacked(tmp_path / "k", lambda n, d: d.replace(old, new) if n == member else d)
    r = twinrun("digest", str(GOLDEN / "model.keras"), str(other))
    assert r.rc == 0 and "what is no tensor differs" in r.out
    assert f"/{named}" in r.out


def test_another_vocabulary_is_another_model(twinrun, tmp_path):
    other = repacked(tmp_path / "k", lambda n, d: b"the\nb\n" if "vocabulary" in n else d)
    r = twinrun("digest", str(GOLDEN / "model.keras"), str(other))
    assert r.rc == 1 and "assets/words/vocabulary.txt" in r.out


def test_mutants(twinrun, changed, tmp_path):
    """A bit; two names that change places; another shape, another type of the same bytes."""
    old = str(GOLDEN / "new-groups.h5")
    one = struct.pack("<f", 0.125)
    bit = changed("new-groups.h5", W.tobytes(), W.tobytes().replace(one, one[:3] + b"\x3f"))
    r = twinrun("digest", old, str(bit))
    assert r.rc == 1 and "a/w" in r.out and "b/w" not in r.out
    # the type of a/w by its sign's and exponent's places: as an integer it has the same bytes
    float32 = struct.pack("<IIHHBBBBI", 0x1F2011, 4, 0, 32, 23, 8, 0, 23, 127)
    data = (GOLDEN / "new-groups.h5").read_bytes()
    assert data.count(float32) == 1
    integer = struct.pack("<IIHHBBBBI", 0x000810, 4, 0, 32, 0, 0, 0, 0, 0)
    other = changed("new-groups.h5", float32, integer)
    r = twinrun("digest", old, str(other))
    assert r.rc == 1 and "i32" in r.out
    # 3 x 4 as 4 x 3, in both
    three, four = struct.pack("<QQ", 3, 4), struct.pack("<QQ", 4, 3)
    r = twinrun("digest", old, str(changed("new-groups.h5", three, four)))
    assert r.rc == 1 and "[4, 3]" in r.out
    # names that change places: those of the two last tensors of one group
    data = (GOLDEN / "old-groups.h5").read_bytes()
    swapped = data.replace(b"i4\0", b"XX\0").replace(b"u4\0", b"i4\0").replace(b"XX\0", b"u4\0")
    path = tmp_path / "swapped"
    path.write_bytes(swapped)
    r = twinrun("digest", str(GOLDEN / "old-groups.h5"), str(path))
    assert r.rc == 1 and "types/i4" in r.out and "types/u4" in r.out


@pytest.mark.parametrize(
    "sample, why",
    [
        ("chunked.h5", "stored in chunks"),
        ("texts.h5", "of a type that twinrun does not know"),
        ("soft-link.h5", "soft link"),
        ("external-link.h5", "a link to another file, which is not followed"),
        ("external-data.h5", "its elements lie in another file"),
        ("virtual.h5", "its elements lie in another file"),
        ("cycle.h5", "does a group hold itself?"),
        ("unwritten.h5", "never written"),
        ("huge.h5", "never written"),
        ("dense-links.h5", "indexed in a way that twinrun does not read"),
    ],
)
def test_what_cannot_be_read_is_never_same(twinrun, sample, why):
    r = twinrun("digest", str(GOLDEN / sample), str(GOLDEN / sample))
    assert r.rc == 2 and why in r.err and r.out == ""


def test_a_file_that_was_cut_off(twinrun, tmp_path):
    data = (GOLDEN / "old-groups.h5").read_bytes()
    path = tmp_path / "cut"
    for n in (8, 40, 97, 1000, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:n])
        r = twinrun("digest", str(path))
        assert r.rc == 2 and "HDF5" in r.err, n


def test_hostile_archives(twinrun, tmp_path):
    """Bombs, packed weights, configurations that are none, and a name that leaves the folder."""
    path = tmp_path / "k"
    deep = b"[" * 5000 + b"]" * 5000
    for text, why in ((b"{", "is no JSON"), (deep, ""), (b'{"a": 1, "a": 2}', "is no JSON")):
        repacked(path, lambda n, d: text if n == "config.json" else d)
        r = twinrun("digest", str(path))
        assert r.rc == 2 and why in r.err
    weights = (GOLDEN / "model.weights.h5").read_bytes()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("model.weights.h5", weights)
    r = twinrun("digest", str(path))
    assert r.rc == 2 and "is compressed, which Keras does not do" in r.err
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr(zipfile.ZipInfo("model.weights.h5"), weights)
        z.writestr("config.json", b" " * (65 << 20))
    r = twinrun("digest", str(path))
    assert r.rc == 2 and "expected at most" in r.err
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("model.weights.h5", weights)
        z.writestr("../../out.txt", b"x")
    r = twinrun("digest", str(path))
    assert r.rc == 0 and not (tmp_path.parent.parent / "out.txt").exists()
    # two files of weights that hold one name
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("model_00000.weights.h5", weights)
        z.writestr("model_00001.weights.h5", weights)
    assert "two files hold a tensor" in twinrun("digest", str(path)).err


def test_weights_in_a_folder(twinrun, tmp_path):
    """A folder of checkpoints: names begin with the file."""
    for run in ("a", "b"):
        (tmp_path / run).mkdir()
        shutil.copy(GOLDEN / "model.weights.h5", tmp_path / run / "epoch-1.weights.h5")
    r = twinrun("digest", str(tmp_path / "a"), str(tmp_path / "b"))
    assert r.rc == 0 and "6 tensors" in r.out
