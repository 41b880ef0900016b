#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which kernels of CUDA libraries add floats atomically: a catalogue, made without a GPU.

    tools/float_atomics.py [-o FILE] LIBRARY...

LIBRARY is anything that holds code for NVIDIA GPUs: a shared library, a program, a .fatbin, a
.cubin. Of each function with such an instruction the catalogue has its (mangled) name, the
architecture, and which instructions how often. It is read from the machine code; of code that is
there as PTX alone, from that. No tool of NVIDIA's is needed; libzstd (and liblz4, if it is to go
faster) is.

"Contains" is all that is said. Whether a kernel runs, whether it gets to that instruction, and
whether two threads then add to one address, no file tells. A function that is called and not inlined
is listed by its own name, and not by its callers'. Exit code: 0 done, 1 nothing of a GPU in one of
the files, 2 trouble.

docs/internals/float-atomics.md has the encodings, and what was compared with NVIDIA's disassembler.
"""

import argparse
import ctypes
import ctypes.util
import hashlib
import json
import mmap
import re
import struct
import sys
from collections import Counter

FATBIN = struct.Struct("<IHHQ")  # magic, version, bytes of this header, bytes of all entries
MAGIC = struct.pack("<I", 0xBA55ED50)
VERSION = struct.pack("<HH", 1, FATBIN.size)
# kind, ., header bytes, bytes, compressed bytes, ., minor, major, architecture, name, its bytes,
# flags, ., bytes when decompressed
ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
PTX, CODE = 1, 2
LZ4, ZSTD = 0x2000, 0x8000
PART_MOST = 1 << 30  # bytes of one piece of code, decompressed

# ---- instructions: 16 bytes, of which the lowest 9 bits say which one it is

TYPED = {0x18E: "RED", 0x1A8: "ATOMG", 0x18A: "ATOM"}  # up to sm_89: of any type; later: integers
FLOATS = {0x1A6: "REDG", 0x1A3: "ATOMG", 0x1A2: "ATOM"}  # from sm_90 on
SWAPS = {0x1A9: "ATOMG.CAS", 0x18B: "ATOM.CAS", 0x18D: "ATOMS.CAS"}
BULK, BULK_TENSOR = 0x1BB, 0x1B6
OLD_TYPES = {3: "F32", 4: "F16x2", 6: "F64"}
TYPES = {
    0: "F16x2",
    1: "F16x4",
    2: "F16x8",
    3: "BF16x2",
    4: "BF16x4",
    5: "BF16x8",
    9: "F32",
    10: "F32x2",
    11: "F32x4",
    15: "F64",
}
BULK_TYPES = {4: "F16", 5: "F32", 7: "F64", 8: "BF16"}
# The low half of an instruction has these 9 bits at its beginning: most are passed over by them.
INTERESTING = frozenset([*TYPED, *FLOATS, *SWAPS, BULK, BULK_TENSOR])


def decode(low, high, sm):
    """What an instruction adds atomically, "REDG.ADD.F32"; None: no float, as far as it shows."""
    opcode = low & 0x1FF
    if opcode in SWAPS:
        return SWAPS[opcode]
    if high >> 23 & 7:  # other than ADD: MIN and MAX do not depend on the order
        return None
    if opcode in TYPED and sm < 90:
        kind = OLD_TYPES.get(high >> 9 & 15)
        return kind and "%s.ADD.%s" % (TYPED[opcode], kind)
    if opcode in FLOATS and sm >= 90:
        kind = high >> 9 & 15
        return "%s.ADD.%s" % (FLOATS[opcode], TYPES.get(kind, "type %d" % kind))
    if opcode == BULK and sm >= 90:
        kind = BULK_TYPES.get(high >> 17 & 15)
        return kind and "UBLKRED.ADD." + kind
    if opcode == BULK_TENSOR and sm >= 90:
        return "UTMAREDG.ADD"  # its type stands in the tensor map, which the program makes
    return None


def of_code(code, sm):
    """Counter of the instructions of a function."""
    found = Counter()
    for low, high in struct.iter_unpack("<QQ", code[: len(code) & ~15]):
        if low & 0x1FF in INTERESTING:
            what = decode(low, high, sm)
            if what:
                found[what] += 1
    return found


def adds(found):
    """Are there additions of floats among them? A compare-and-swap may be of integers as well, and
    what a tensor map says is not known.
    """
    return any(".ADD." in what.upper() for what in found)


# ---- PTX

ENTRIES = re.compile(rb"^\s*(?:\.\w+\s+)*\.(entry|func)\b[^{;]*?([\w$]+)\s*\(", re.M)
ATOMIC = re.compile(rb"\b(red|atom|multimem\.red|cp\.reduce\.async\.bulk)\.[\w.:]*\badd\b[\w.:]*")
FLOAT = re.compile(rb"\.(f16x2|bf16x2|f16|bf16|f32|f64)\b")


def of_ptx(text, _=None):
    """[(name, is it a kernel, Counter)] of a PTX module."""
    found = []
    heads = list(ENTRIES.finditer(text))
    for head, after in zip(heads, heads[1:] + [None]):
        body = text[head.end() : after.start() if after else len(text)]
        n = Counter()
        for m in ATOMIC.finditer(body):
            kind = FLOAT.search(m[0])
            if kind:
                n["ptx %s.add.%s" % (m[1].decode(), kind[1].decode())] += 1
        found.append((head[2].decode("ascii", "replace"), head[1] == b"entry", n))
    return found


# ---- ELF


class Bad(ValueError):
    """The file is not what it should be: what, where."""


def sections(elf):
    """[(name, type, bytes, index of the linked section, information)] of an ELF file of 64 bits."""
    if elf[:5] != b"\x7fELF\x02" or len(elf) < 64:
        raise Bad("no ELF file of 64 bits")
    (at,) = struct.unpack_from("<Q", elf, 40)
    size, count, names = struct.unpack_from("<HHH", elf, 58)
    if size != 64 or at + size * count > len(elf) or names >= count:
        raise Bad("its table of sections leads out of the file")
    heads = [struct.unpack_from("<IIQQQQIIQQ", elf, at + size * i) for i in range(count)]

    def bytes_of(head):
        if head[1] not in (1, 2, 3):  # code, symbols, strings; others may take no bytes
            return b""
        if head[4] + head[5] > len(elf):
            raise Bad("a section leads out of the file")
        return elf[head[4] : head[4] + head[5]]

    words = bytes_of(heads[names])
    return [(words[h[0] : words.find(b"\0", h[0])], h[1], bytes_of(h), h[6], h[7]) for h in heads]


def kernels_of(parts):
    """Names of functions that are kernels: a bit of their symbol's."""
    found = set()
    for _, kind, table, link, _ in parts:
        if kind != 2 or link >= len(parts):
            continue
        words = parts[link][2]
        for name, info, other, *_ in struct.iter_unpack("<IBBHQQ", table[: len(table) // 24 * 24]):
            if info & 15 == 2 and other & 0x10:
                found.add(words[name : words.find(b"\0", name)])
    return found


def architecture(elf):
    """By the flags of a .cubin: newer ones have it in the second byte."""
    (flags,) = struct.unpack_from("<I", elf, 48)
    return flags >> 8 & 255 if elf[8] >= 8 else flags & 255


def of_cubin(elf, sm):
    """[(name, is it a kernel, Counter)] of a .cubin."""
    parts = sections(elf)
    kernels = kernels_of(parts)
    found = []
    for name, kind, code, _, _ in parts:
        if kind == 1 and name.startswith(b".text."):
            name = name[len(b".text.") :]
            found.append((name.decode("utf-8", "replace"), name in kernels, of_code(code, sm)))
    return found


# ---- compression


def _library(name):
    path = ctypes.util.find_library(name)
    try:
        return ctypes.CDLL(path) if path else None
    except OSError:
        return None


def unpack_zstd(data, size):
    library = _library("zstd")
    if not library:
        raise Bad("it is compressed by zstd, and there is no libzstd: try apt-get install libzstd1")
    library.ZSTD_decompress.restype = ctypes.c_size_t
    out = ctypes.create_string_buffer(size)
    n = library.ZSTD_decompress(out, ctypes.c_size_t(size), bytes(data), ctypes.c_size_t(len(data)))
    if n != size:
        raise Bad("its zstd frame does not give the %d bytes that it should" % size)
    return out.raw


def unpack_lz4(data, size):
    library = _library("lz4")
    if library:
        out = ctypes.create_string_buffer(size)
        if library.LZ4_decompress_safe(bytes(data), out, len(data), size) != size:
            raise Bad("its LZ4 block does not give the %d bytes that it should" % size)
        return out.raw
    return unpack_lz4_slowly(data, size)


def unpack_lz4_slowly(data, size):
    """A block of LZ4: literals, then a match of what came before, again and again."""
    out, at = bytearray(), 0

    def length_of(n):
        nonlocal at
        more = 255
        while n >= 15 and more == 255:
            more = data[at]
            at += 1
            n += more
        return n

    try:
        while at < len(data):
            token = data[at]
            at += 1
            literals = length_of(token >> 4)
            out += data[at : at + literals]
            at += literals
            if at >= len(data):
                break
            back = data[at] | data[at + 1] << 8
            at += 2
            n = length_of(token & 15) + 4
            if not 0 < back <= len(out) or len(out) + n > size:
                raise Bad("its LZ4 block leads out of the data")
            for i in range(0, n, back):
                out += out[-back:][: n - i] if back <= n else out[-back : len(out) - back + n]
    except IndexError:
        raise Bad("its LZ4 block ends too early")
    if len(out) != size:
        raise Bad("its LZ4 block does not give the %d bytes that it should" % size)
    return bytes(out)


# ---- fatbins


def entries(data, at):
    """(kind, architecture, bytes) of a fatbin; and where it ends, as the generator's return."""
    magic, _, header, total = FATBIN.unpack_from(data, at)
    at += header
    end = at + total
    if end > len(data):
        raise Bad("a fatbin leads out of the file")
    while at + ENTRY.size <= end:
        (kind, _, head, size, packed, _, _, _, sm, _, _, flags, _, whole) = ENTRY.unpack_from(
            data, at
        )
        if head < ENTRY.size or at + head + size > end or packed > size or whole > PART_MOST:
            raise Bad("an entry of a fatbin leads out of it")
        part = data[at + head : at + head + (packed or size)]
        at += head + size
        if kind not in (PTX, CODE):
            continue
        if flags & ZSTD:
            part = unpack_zstd(part, whole)
        elif flags & LZ4:
            part = unpack_lz4(part, whole)
        yield kind, sm, part
    return end


def parts_of(data):
    """(kind, architecture, bytes) of all code in a file."""
    if data[:4] == b"\x7fELF" and data[18:20] == b"\xbe\0":
        yield CODE, architecture(data), bytes(data)
        return
    at = data.find(MAGIC)
    while at >= 0:
        after = at + len(MAGIC)  # the four bytes may stand in any data
        if data[after : after + 4] == VERSION:
            after = yield from entries(data, at)
        at = data.find(MAGIC, after)


def scan(path):
    """What the catalogue says of a file."""
    functions, listed, seen = Counter(), {}, Counter()
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
        digest = hashlib.sha256(data).hexdigest()
        try:
            for kind, sm, part in parts_of(data):
                name = ("sm_%d" if kind == CODE else "compute_%d") % sm
                seen[name] += 1
                for function, kernel, counts in (of_cubin if kind == CODE else of_ptx)(part, sm):
                    functions[name] += 1
                    if counts:
                        row = listed.setdefault(
                            (function, name), {"kernel": kernel, "counts": Counter()}
                        )
                        row["counts"] |= counts  # of copies of it, the most
        except struct.error:
            raise Bad("it is cut off")
    rows = [
        {
            "function": function,
            "architecture": name,
            "kernel": row["kernel"],
            "adds_floats": adds(row["counts"]),
            "instructions": dict(sorted(row["counts"].items())),
        }
        for (function, name), row in sorted(listed.items())
    ]
    return {
        "file": path.rsplit("/", 1)[-1],
        "sha256": digest,
        "parts": dict(sorted(seen.items())),
        "functions": dict(sorted(functions.items())),
        "listed": rows,
    }


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", metavar="FILE", help="the catalogue; default: no file")
    parser.add_argument("library", nargs="+", metavar="LIBRARY")
    options = parser.parse_args(argv)
    found, empty = [], False
    for path in options.library:
        try:
            found.append(scan(path))
        except (OSError, ValueError) as e:
            print("float_atomics: %s: %s" % (path, e), file=sys.stderr)
            return 2
        one = found[-1]
        empty |= not one["parts"]
        if not one["parts"]:
            print("%s: no code for a GPU" % one["file"])
        for name, n in one["functions"].items():
            rows = [r for r in one["listed"] if r["architecture"] == name]
            adding = sum(r["adds_floats"] for r in rows)
            print(
                "%s: %s: %d functions, %d contain atomic additions of floats, %d others a "
                "compare-and-swap or a bulk reduction of a type that is not known"
                % (one["file"], name, n, adding, len(rows) - adding)
            )
    if options.output:
        with open(options.output, "w", encoding="utf-8") as f:
            json.dump({"schema": "twinrun.float-atomics/1", "files": found}, f, indent=1)
            f.write("\n")
    return 1 if empty else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
