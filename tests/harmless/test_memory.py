# SPDX-License-Identifier: Apache-2.0
"""What reading a hostile file may cost: memory in proportion to the file, and seconds.

Each file is made to cost as much as its format allows: many tiny entries, names that multiply,
declared lengths, deep nesting, bombs, sparse files. A command reads it in a process of its own;
its peak memory (ru_maxrss) and time are held against what docs/security.md states:

    a fixed part + so many bytes for each byte of the file

A file may be read or refused; a crash, a signal or a time-out is neither.
"""

import io
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("TWINRUN_BUILD", "build")).resolve()
TWINRUN = BUILD / "cmd" / "twinrun"
FULL = os.environ.get("TWINRUN_FULL", "") not in ("", "0")
pytestmark = pytest.mark.skipif(not TWINRUN.exists(), reason=f"no build: {TWINRUN}")

MIB = 1 << 20
OURS = 48 * MIB  # the program itself, its libraries and buffers
SECONDS = 60  # of processor time; the slowest took 6 here
SIZE = 16 * MIB if FULL else 3 * MIB  # of a file whose kind has no size of its own

# Bytes of memory: (whatever the file, for each byte of it). docs/security.md has the same table.
JSON = (128 * MIB, 16 + 2)
SAFETENSORS = (64 * MIB, 16 + 1)
PICKLE = (64 * MIB, 256)
ZIP = (64 * MIB, 16 + 8)
YAML = (64 * MIB, 128)
TOML = (256 * MIB, 256)


# ru_maxrss of a process counts what its parent had when it forked: pytest with PyTorch in it has
# 250 MiB. So a small Python, with nothing loaded, starts the command, waits for it and says what it
# took.
STARTER = """
import os, resource, sys
pid = os.fork()
if pid == 0:
    resource.setrlimit(resource.RLIMIT_CPU, (%d, %d))
    os.execv(sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(pid, 0)
print(status, usage.ru_maxrss, usage.ru_utime + usage.ru_stime)
""" % (2 * SECONDS, 2 * SECONDS)


def measured(*words, cwd):
    """(exit status, peak bytes, processor seconds, what it said) of a command that reads a file."""
    env = {**os.environ, "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "TWINRUN_HOME": str(cwd / "home")}
    env.pop("LD_PRELOAD", None)
    argv = [sys.executable, "-I", "-S", "-c", STARTER, str(TWINRUN), *words]
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, cwd=cwd, env=env, check=True
    )
    *said, told = done.stdout.decode("utf-8", "replace").splitlines()
    status, kib, seconds = told.split()
    return (
        int(status),
        int(kib) * 1024,
        float(seconds),
        "\n".join(said)[:4000] + done.stderr.decode("utf-8", "replace")[:4000],
    )


# ---- safetensors


def safetensors(header, data=b""):
    return struct.pack("<Q", len(header)) + header + data


def repeated(make, size):
    """make(0), make(1), ... until there are so many bytes, joined by commas."""
    parts, total, i = [], 0, 0
    while total < size:
        parts.append(make(i))
        total += len(parts[-1]) + 1
        i += 1
    return b",".join(parts)


TINY = b'{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'


def many_tensors():
    return safetensors(b"{" + repeated(lambda i: b'"%x":' % i + TINY, SIZE) + b"}")


def many_metadata():
    return safetensors(b'{"__metadata__":{' + repeated(lambda i: b'"%x":""' % i, SIZE) + b"}}")


def header_of_objects():
    return safetensors(b'{"a":[' + repeated(lambda i: b"{}", SIZE) + b"]}")


def header_of_brackets():
    return safetensors(b'{"a":' + b"[" * SIZE)


def header_of_keys():
    return safetensors(b'{"a":{' + repeated(lambda i: b'"%x":{}' % i, SIZE) + b"}}")


def one_long_name():
    return safetensors(b'{"' + b"a" * SIZE + b'":' + TINY + b"}")


# ---- pickles


def legacy(body):
    """PyTorch's old format: magic, version, system, the object, no storages."""
    system = pickle.dumps({"little_endian": True}, 2)
    return (
        pickle.dumps(0x1950A86A20F9469CFC6C, 2)
        + pickle.dumps(1001, 2)
        + system
        + b"\x80\x02"
        + body
        + b"."
        + pickle.dumps([], 2)
    )


def archive(body, compress=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compress) as z:
        z.writestr("a/data.pkl", b"\x80\x02" + body + b".")
    return out.getvalue()


def doubling(levels, leaf=b"K\x01"):
    """A list of twice the list before, over and over: 2 to the power of `levels` numbers in a few
    bytes.
    """
    body = b"]" + leaf + b"a" + b"q\x00"
    for i in range(levels):
        body += b"](h%ch%ce" % (i, i) + b"q%c" % (i + 1)
    return body


def small_bomb():
    return legacy(doubling(40))


def small_bomb_with_names():
    """The same with a key of 100 letters on each level: names grow with every step down."""
    key = b"X" + struct.pack("<I", 100) + b"k" * 100
    body = b"]K\x01aq\x00"
    for i in range(30):
        body += b"}(" + key[:-1] + b"1h%c" % i + key[:-1] + b"2h%cu" % i + b"q%c" % (i + 1)
    return legacy(body)


def large_memo():
    return legacy(b"Nr\xf0\xff\x3f\x00")  # 5 bytes that name place 4,194,288


def many_values():
    return archive(b"](" + b"K\x01" * (SIZE // 2) + b"e")


def many_lists():
    return archive(b"](" + b"]" * SIZE + b"e")


def many_nones():
    return archive(b"(" + b"N" * SIZE + b"t")


def many_dicts():
    return archive(b"](" + b"}NNs" * (SIZE // 4) + b"e")


def deep_pickle():
    return archive(b"]" * SIZE + b"a" * (SIZE - 1))


def many_marks():
    return archive(b"(" * SIZE)


def packed_pickle():
    """A zip bomb: a pickle of 32 MB in 32 KB."""
    return archive(b"](" + b"N" * (32 * MIB) + b"e", zipfile.ZIP_DEFLATED)


def declared_length():
    return archive(b"\x8e" + struct.pack("<Q", 1 << 40))


# ---- zip and npy


def npy(shape, fortran=False, data=b"", pad=0):
    header = (
        b"{'descr': '<f8', 'fortran_order': %s, 'shape': %s, }"
        % (b"True" if fortran else b"False", shape)
        + b" " * pad
        + b"\n"
    )
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(header)) + header + data


def declared_shape():
    return npy(b"(1152921504606846976, 8)")


def long_npy_header():
    return npy(b"(0,)", pad=SIZE)


def long_npy_length():
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", 0xFFFFFFF0) + b"{'descr'"


def many_arrays():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for i in range(SIZE // 220):
            z.writestr(f"{i:x}.npy", npy(b"(0,)"))
    return out.getvalue()


def sorted_bomb():
    """Columns first, so it has to be held whole: 128 MB of zeros in 128 KB."""
    out = io.BytesIO()
    columns = 4096
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z, z.open(
        "a.npy", "w", force_zip64=True
    ) as f:
        f.write(npy(b"(%d, %d)" % (columns, columns), fortran=True))
        for _ in range(columns * columns * 8 // (8 * MIB)):
            f.write(bytes(8 * MIB))
    return out.getvalue()


def directory_of_nothing():
    """A zip's end record that declares a directory of 65,534 files and has none."""
    return b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 65534, 65534, 46 * 65534, 0, 0)


# ---- JSON, YAML, TOML


def json_of(item):
    return b"[" + repeated(lambda i: item, SIZE) + b"]"


def json_keys():
    return b"{" + repeated(lambda i: b'"k%07d":%d' % (i, i % 10), 3 * SIZE) + b"}"


def json_deep():
    return b"[" * SIZE + b"]" * SIZE


def yaml_aliases():
    text = "a0: &a0 [x,x,x,x,x,x,x,x]\n"
    for i in range(1, 12):
        text += f"a{i}: &a{i} [" + ",".join([f"*a{i - 1}"] * 8) + "]\n"
    return text.encode()


def yaml_alias_keys():
    """A long key that is no text, again and again by three letters."""
    return (
        b"a: &a {"
        + repeated(lambda i: b"k%d: 1" % i, 50000)
        + b"}\n"
        + b"".join(b"b%d: {? *a : 1}\n" % i for i in range(20000))
    )


def yaml_merged():
    """A large mapping merged into thousands of others."""
    return (
        b"a: &a {"
        + repeated(lambda i: b"k%d: 1" % i, 200000)
        + b"}\n"
        + b"".join(b"b%d: {<<: *a}\n" % i for i in range(20000))
    )


def of_run(text):
    return b'{"schema":"twinrun.run/1","files":' + text + b"}"


# ---- what reads them: (file's name, bytes, command, cap, and of a sparse file the size that it
# claims)

DIGEST = ["digest", "{}"]
CONFIG = ["digest", "--config", "{}"]
FOLDER = ["digest", "{dir}/d"]
RUN = ["show", "{dir}"]
CASES = {
    "safetensors, many tensors": ("x.safetensors", many_tensors, DIGEST, SAFETENSORS),
    "safetensors, many metadata": ("x.safetensors", many_metadata, DIGEST, SAFETENSORS),
    "safetensors, objects": ("x.safetensors", header_of_objects, DIGEST, SAFETENSORS),
    "safetensors, brackets": ("x.safetensors", header_of_brackets, DIGEST, SAFETENSORS),
    "safetensors, keys": ("x.safetensors", header_of_keys, DIGEST, SAFETENSORS),
    "safetensors, a long name": ("x.safetensors", one_long_name, DIGEST, SAFETENSORS),
    "pickle, doubled lists": ("x.pt", small_bomb, DIGEST, PICKLE),
    "pickle, doubled names": ("x.pt", small_bomb_with_names, DIGEST, PICKLE),
    "pickle, a large memo": ("x.pt", large_memo, DIGEST, PICKLE),
    "pickle, many values": ("x.pt", many_values, DIGEST, PICKLE),
    "pickle, many lists": ("x.pt", many_lists, DIGEST, PICKLE),
    "pickle, many nones": ("x.pt", many_nones, DIGEST, PICKLE),
    "pickle, many dicts": ("x.pt", many_dicts, DIGEST, PICKLE),
    "pickle, deep": ("x.pt", deep_pickle, DIGEST, PICKLE),
    "pickle, marks": ("x.pt", many_marks, DIGEST, PICKLE),
    "pickle, packed": ("x.pt", packed_pickle, DIGEST, PICKLE),
    "pickle, a declared length": ("x.pt", declared_length, DIGEST, PICKLE),
    "dcp, many lists": ("d/.metadata", lambda: b"\x80\x02](" + b"]" * SIZE + b"e.", FOLDER, PICKLE),
    "dcp, doubled lists": (
        "d/.metadata",
        lambda: b"\x80\x02" + doubling(40) + b".",
        FOLDER,
        PICKLE,
    ),
    "npy, sparse": (
        "x.npy",
        lambda: npy(b"(32768, 16384)", fortran=True),
        DIGEST,
        ZIP,
        (4 << 30) + 4096,
    ),
    "safetensors, sparse": (
        "x.safetensors",
        lambda: struct.pack("<Q", 99000000) + b'{"a":' + b" " * 100,
        DIGEST,
        (64 * MIB + 99000000, 16),
        99000008,
    ),
    "npy, a declared shape": ("x.npy", declared_shape, DIGEST, ZIP),
    "npy, a long header": ("x.npy", long_npy_header, DIGEST, ZIP),
    "npy, a declared header": ("x.npy", long_npy_length, DIGEST, ZIP),
    "npz, many arrays": ("x.npz", many_arrays, DIGEST, ZIP),
    "npz, to be sorted": ("x.npz", sorted_bomb, DIGEST, ZIP),
    "zip, a declared directory": ("x.npz", directory_of_nothing, DIGEST, ZIP),
    "json, objects": ("x.json", lambda: json_of(b"{}"), CONFIG, JSON),
    "json, lists": ("x.json", lambda: json_of(b"[]"), CONFIG, JSON),
    "json, numbers": ("x.json", lambda: json_of(b"1"), CONFIG, JSON),
    "json, texts": ("x.json", lambda: json_of(b'""'), CONFIG, JSON),
    "json, keys": ("x.json", json_keys, CONFIG, JSON),
    "json, deep": ("x.json", json_deep, CONFIG, JSON),
    "json, one text": ("x.json", lambda: b'"' + b"a" * SIZE + b'"', CONFIG, JSON),
    "run.json, objects": ("run.json", lambda: of_run(json_of(b"{}")), RUN, JSON),
    "run.json, keys": ("run.json", lambda: of_run(json_keys()), RUN, JSON),
    "yaml, aliases": ("x.yaml", yaml_aliases, CONFIG, YAML),
    "yaml, keys in keys": ("x.yaml", lambda: b"{" * 60 + b"a" + b"}" * 60, CONFIG, YAML),
    "yaml, an alias as a key": ("x.yaml", yaml_alias_keys, CONFIG, YAML),
    "yaml, merged": ("x.yaml", yaml_merged, CONFIG, YAML),
    "yaml, lists": ("x.yaml", lambda: b"- []\n" * (SIZE // 5), CONFIG, YAML),
    "yaml, flow": ("x.yaml", lambda: json_of(b"[]"), CONFIG, YAML),
    "yaml, keys": (
        "x.yaml",
        lambda: b"".join(b"k%d: 1\n" % i for i in range(SIZE // 12)),
        CONFIG,
        YAML,
    ),
    "yaml, deep": ("x.yaml", lambda: b"[" * 200000, CONFIG, YAML),
    "yaml, one text": ("x.yaml", lambda: b"a: " + b"b" * SIZE, CONFIG, YAML),
    "toml, keys": (
        "x.toml",
        lambda: b"".join(b"k%d = 1\n" % i for i in range(SIZE // 12)),
        CONFIG,
        TOML,
    ),
    "toml, tables": (
        "x.toml",
        lambda: b"".join(b"[t%d]\n" % i for i in range(SIZE // 9)),
        CONFIG,
        TOML,
    ),
    "toml, deep": ("x.toml", lambda: b"a = " + b"[" * 200000, CONFIG, TOML),
    "toml, dotted": ("x.toml", lambda: b".".join([b"a"] * 100000) + b" = 1\n", CONFIG, TOML),
    "toml, lists": ("x.toml", lambda: b"a = " + json_of(b"[]"), CONFIG, TOML),
}


@pytest.mark.parametrize("case", CASES)
def test_of_a_hostile_file(tmp_path, case):
    name, make, words, (fixed, each), *claimed = CASES[case]
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(make())
    size = path.stat().st_size
    if claimed:
        os.truncate(path, claimed[0])
    status, peak, seconds, said = measured(
        *[w.format(path, dir=tmp_path) for w in words], cwd=tmp_path
    )
    most = OURS + fixed + each * size
    told = f"{case}: {size:,} bytes, peak {peak >> 20} of {most >> 20} MiB, {seconds:.1f} s, status {status:#x}: {said[:300]}"
    print(told)
    assert os.WIFEXITED(status) and os.WEXITSTATUS(status) in (0, 1, 2, 3), told
    assert peak <= most, told
    assert seconds <= SECONDS, told
