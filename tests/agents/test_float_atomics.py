# SPDX-License-Identifier: Apache-2.0
"""tools/float_atomics.py: kernels that nvcc compiles here, with and without atomic additions of
floats, are told apart on each architecture; compressed or not, as machine code and as PTX. Hostile
files are refused in words.
"""

import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

TOOL = ROOT / "tools" / "float_atomics.py"
spec = importlib.util.spec_from_file_location("float_atomics", TOOL)
float_atomics = importlib.util.module_from_spec(spec)
spec.loader.exec_module(float_atomics)

# name: (its body, what the first architecture with it contains), "" where nothing may be listed
RED = 'asm volatile("red.%s [%%0], %%1;" ::"l"(x), "%s"(%s) : "memory");'
KERNELS = {
    "plain": ("((float *)x)[threadIdx.x] += 1.5f;", ""),
    "int_red": (RED % ("global.add.u32", "r", "threadIdx.x"), ""),
    "int_atom": ("((int *)x)[threadIdx.x] = atomicAdd((int *)x + 999, 3);", ""),
    "long_red": (RED % ("global.add.u64", "l", "(long long)threadIdx.x"), ""),
    "int_max": (RED % ("global.max.s32", "r", "threadIdx.x"), ""),
    "float_exchange": ("((float *)x)[threadIdx.x] = atomicExch((float *)x + 999, 1.5f);", ""),
    "f32_red": (RED % ("global.add.f32", "f", "threadIdx.x * 1.5f"), "F32"),
    "f32_atom": ("((float *)x)[threadIdx.x] = atomicAdd((float *)x + 999, 1.5f);", "F32"),
    "f64_red": (RED % ("global.add.f64", "d", "threadIdx.x * 1.5"), "F64"),
    "f64_atom": ("((double *)x)[threadIdx.x] = atomicAdd((double *)x + 999, 1.5);", "F64"),
    "f16x2_red": (RED % ("global.add.noftz.f16x2", "r", "threadIdx.x"), "F16x2"),
}
SWAP = "atomicCAS((int *)x, 1, (int)threadIdx.x);"  # of integers, or of floats: not known
CODES = (80, 90, 100, 120)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """{name: path} of what nvcc makes of the kernels."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not os.path.exists(nvcc):
        pytest.skip("no nvcc")
    folder = tmp_path_factory.mktemp("atomics")
    known = subprocess.run([nvcc, "--list-gpu-code"], capture_output=True, text=True, timeout=60)
    codes = [c for c in CODES if "sm_%d" % c in known.stdout.split()]
    if not codes:
        pytest.skip("this nvcc knows none of %s" % (CODES,))
    source = folder / "kernels.cu"
    source.write_text(
        "".join(
            'extern "C" __global__ void %s(void *x) { %s }\n' % (name, body)
            for name, body in [*((k, v[0]) for k, v in KERNELS.items()), ("swap", SWAP)]
        )
    )
    wanted = ["-gencode=arch=compute_%d,code=sm_%d" % (c, c) for c in codes]
    wanted.append("-gencode=arch=compute_80,code=compute_80")
    files = {}
    for name, more in (("plain", ["-no-compress"]), ("packed", ["--compress-mode=size"])):
        files[name] = folder / (name + ".fatbin")
        done = subprocess.run(
            [nvcc, "-fatbin", *wanted, *more, "-o", str(files[name]), str(source)],
            capture_output=True,
            text=True,
            timeout=300,
        )
        if done.returncode and name == "packed":  # CUDA before 12.8 has no such word
            del files[name]
        else:
            assert done.returncode == 0, done.stderr
    return files, codes


def listed(path):
    found = float_atomics.scan(str(path))
    return found, {(r["architecture"], r["function"]): r for r in found["listed"]}


@pytest.mark.parametrize("form", ["plain", "packed"])
def test_kernels_with_and_without(compiled, form):
    files, codes = compiled
    if form not in files:
        pytest.skip("this nvcc does not compress by size")
    found, rows = listed(files[form])
    architectures = ["sm_%d" % c for c in codes] + ["compute_80"]
    assert sorted(found["functions"]) == sorted(architectures)
    assert set(found["functions"].values()) == {len(KERNELS) + 1}
    for architecture in architectures:
        for name, (_, kind) in KERNELS.items():
            row = rows.pop((architecture, name), None)
            if not kind:
                assert row is None, (architecture, name, row)
                continue
            assert row["adds_floats"] and row["kernel"], (architecture, name)
            adding = [w for w in row["instructions"] if ".add." in w.lower()]
            assert [w.split(".")[-1].lower() for w in adding] == [kind.lower()]
        row = rows.pop((architecture, "swap"), None)
        if architecture != "compute_80":
            assert not row["adds_floats"] and list(row["instructions"]) == ["ATOMG.CAS"]
    assert not rows


def test_both_forms_say_the_same(compiled):
    files, _ = compiled
    if "packed" not in files:
        pytest.skip("this nvcc does not compress by size")
    assert listed(files["plain"])[1] == listed(files["packed"])[1]
    assert files["packed"].stat().st_size < files["plain"].stat().st_size / 2


def test_as_a_program(compiled, tmp_path):
    """A file that holds the fatbin somewhere, as a library does; and one that holds none."""
    files, codes = compiled
    library = tmp_path / "lib.so"
    library.write_bytes(b"\x7fELF" + bytes(60) + float_atomics.MAGIC * 3 + bytes(52))
    with open(library, "ab") as f:
        f.write(files["plain"].read_bytes() + b"the end")
    out = tmp_path / "catalogue.json"
    command = [sys.executable, str(TOOL), "-o", str(out), str(library)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    adding = sum(bool(kind) for _, kind in KERNELS.values())
    assert (
        "lib.so: sm_%d: %d functions, %d contain atomic additions of floats, 1 others"
        % (codes[0], len(KERNELS) + 1, adding)
    ) in done.stdout
    catalogue = json.loads(out.read_text())
    assert catalogue["schema"] == "twinrun.float-atomics/1"
    assert catalogue["files"][0]["listed"] == listed(files["plain"])[0]["listed"]

    none = tmp_path / "none.so"
    none.write_bytes(b"nothing of a GPU")
    done = subprocess.run([*command[:2], str(none)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "none.so: no code for a GPU\n")


def test_damage_is_told(compiled, tmp_path):
    """Cut anywhere, or with bytes turned over: a list or a refusal in words, and no crash."""
    files, _ = compiled
    draw = random.Random(20)
    for path in files.values():
        whole = path.read_bytes()
        for k in range(40):
            end = draw.randrange(1, 200 if k % 4 == 1 else len(whole))
            bad = bytearray(whole[:end] if k % 2 else whole)
            for _ in range(k % 4):
                bad[draw.randrange(len(bad))] ^= 1 << draw.randrange(8)
            (tmp_path / "bad").write_bytes(bad)
            try:
                found = float_atomics.scan(str(tmp_path / "bad"))
                assert isinstance(found["listed"], list)
            except ValueError as e:
                assert str(e)
    done = subprocess.run(
        [sys.executable, str(TOOL), str(tmp_path / "absent")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2 and "absent" in done.stderr and "Traceback" not in done.stderr


def test_lz4_block():
    """Older libraries are packed by LZ4. Literals, a match, one that overlaps itself, a long one."""
    block = bytes([0x42]) + b"abcd" + b"\x04\x00"  # abcd, 6 more from 4 back
    block += bytes([0x1F]) + b"x" + b"\x01\x00" + bytes([255, 3])  # x, 277 more from 1 back
    block += bytes([0xC0]) + b"at least five"[:12]  # literals end it
    want = b"abcdabcdab" + b"x" * 278 + b"at least fiv"
    assert float_atomics.unpack_lz4_slowly(block, len(want)) == want
    if float_atomics._library("lz4"):
        assert float_atomics.unpack_lz4(block, len(want)) == want
    for bad, size in ((block[:-14], len(want)), (block, len(want) - 1), (b"\x0f\x05\x00\x00", 99)):
        with pytest.raises(float_atomics.Bad):
            float_atomics.unpack_lz4_slowly(bad, size)
