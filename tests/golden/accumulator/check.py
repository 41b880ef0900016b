#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the golden accumulators by docs/format/accumulator.md alone, with fractions, and compares them with the numbers that
make.c put in. With the name of exact_make_golden as argument: also that today's program still writes these bytes."""
import pathlib
import struct
import subprocess
import sys
import tempfile
from fractions import Fraction

HERE = pathlib.Path(__file__).resolve().parent
MIXED = [1e300, -1.5, 2.0**-1074, -1e300, 0.1, -0.0, 3e-200]
NOT_MINUS_ZERO, POS_INF = 8, 2
EXPECTED = {  # file: flags, count, finite sum
    "v1-empty.twac": (0, 0, Fraction(0)),
    "v1-mixed.twac": (NOT_MINUS_ZERO, 7, sum(map(Fraction, MIXED))),
    "v1-products.twac": (NOT_MINUS_ZERO, 6, sum(Fraction(a) * Fraction(b) for a, b in zip(MIXED, MIXED[1:]))),
    "v1-infinite.twac": (NOT_MINUS_ZERO | POS_INF, 3, Fraction(-1)),
    "v1-minus-zero.twac": (0, 3, Fraction(0)),
}


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def read(data):
    magic, version, flags, count = struct.unpack_from("<4sHHQ", data)
    assert (len(data), magic, version) == (560, b"TWAC", 1), (len(data), magic, version)
    assert struct.unpack_from("<Q", data, 552)[0] == crc32c(data[:552])
    return flags, count, Fraction(int.from_bytes(data[16:552], "little", signed=True), 2**2148)


def main():
    for name, expected in EXPECTED.items():
        found = read((HERE / name).read_bytes())
        assert found == expected, f"{name}: expected {expected}, found {found}"
    if len(sys.argv) > 1:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.argv[1], folder], check=True)
            for name in EXPECTED:
                assert (pathlib.Path(folder) / name).read_bytes() == (HERE / name).read_bytes(), f"{name} has changed"
    print(f"{len(EXPECTED)} golden accumulators, as expected")


if __name__ == "__main__":
    main()
