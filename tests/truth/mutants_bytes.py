# SPDX-License-Identifier: Apache-2.0
"""Mutants in the bytes of traces: flips, cuts, holes, lies in the headers of blocks."""

import struct

from mutant_tools import HARMFUL, harmful
from twinrun.trace import BLOCK, BLOCK_MAGIC, SEALED, crc32c, hash_bytes, payload_hash


@harmful
def flip(copy, random):
    names = copy.traces()
    if not names:
        return None
    name = random.choice(names)
    data = bytearray((copy.folder / name).read_bytes())
    at = random.randrange(len(data))
    data[at] ^= 1 << random.randrange(8)
    copy.write(name, bytes(data))
    return "%s: byte %d of %d" % (name, at, len(data))


@harmful
def truncate(copy, random):
    names = copy.traces()
    if not names:
        return None
    name = random.choice(names)
    data = (copy.folder / name).read_bytes()
    at = random.randrange(len(data) - 1)
    copy.write(name, data[:at])
    return "%s: %d of %d bytes" % (name, at, len(data))


@harmful
def hole(copy, random):
    """A stretch of zeros, as a file system leaves after a crash."""
    names = copy.traces()
    if not names:
        return None
    name = random.choice(names)
    data = bytearray((copy.folder / name).read_bytes())
    at = random.randrange(0, len(data), 64)
    length = min(random.choice((64, 512, 4096)), len(data) - at)
    if not any(data[at : at + length]):
        return None
    data[at : at + length] = bytes(length)
    copy.write(name, bytes(data))
    return "%s: %d bytes at %d" % (name, length, at)


def reseal(data, change, random):
    """Lies in the header of one block: its checksums and seal fit, the chain behind does not."""
    blocks = [
        at
        for at in range(512, len(data), 64)
        if struct.unpack_from("<Q", data, at)[0] == BLOCK_MAGIC
    ]
    at = random.choice(blocks)
    seed = struct.unpack_from("<I", data, 508)[0]
    fields = list(BLOCK.unpack_from(data, at))
    if change(fields, random) is False:
        return None
    payload = bytes(data[at + 256 : at + 256 + fields[3]])
    raw = BLOCK.pack(*fields)
    fields[-4:-2] = hash_bytes(
        raw[:SEALED] + struct.pack("<2Q", *payload_hash(payload)), 0x7365616C2E746E31
    )
    raw = BLOCK.pack(*fields)
    fields[-1] = crc32c(raw[:252], seed)
    data[at : at + 256] = BLOCK.pack(*fields)
    return at


def lie(change):
    def mutant(copy, random):
        names = copy.traces()
        if not names:
            return None
        name = random.choice(names)
        data = bytearray((copy.folder / name).read_bytes())
        at = reseal(data, change, random)
        if at is None:
            return None
        copy.write(name, bytes(data))
        return "%s: block at %d" % (name, at)

    return mutant


def add_to(index, least=1, most=1):
    def change(fields, random):
        if fields[index] == 0:
            return False
        fields[index] = max(0, fields[index] + random.choice((-1, 1)) * random.randint(least, most))

    return change


HARMFUL["lie-steps"] = lie(add_to(17))
HARMFUL["lie-records"] = lie(add_to(22))
HARMFUL["lie-prefix"] = lie(add_to(18, 1, 1 << 40))
HARMFUL["lie-previous"] = lie(add_to(6, 64, 64))
HARMFUL["lie-jump"] = lie(add_to(9, 64, 64))
