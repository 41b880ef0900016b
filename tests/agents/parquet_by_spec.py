# SPDX-License-Identifier: Apache-2.0
"""A second reader of the Parquet files that twinrun writes, in plain Python and from the spec alone,
not from the writer. It takes what the writer says it writes (src/formats/parquet.h) and nothing
else, and checks what other readers believe: lengths, offsets, counts and ranges.
"""

import gzip
import math
import struct

BOOLEAN, INT32, INT64, DOUBLE, BYTE_ARRAY = 0, 1, 2, 5, 6
FIXED = {INT32: ("<i", 4), INT64: ("<q", 8), DOUBLE: ("<d", 8)}


class Thrift:
    """The compact protocol: a structure becomes a dictionary from the numbers of its fields."""

    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def zigzag(self):
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def value(self, kind):
        if kind in (1, 2):
            return kind == 1
        if kind in (4, 5, 6):
            return self.zigzag()
        if kind == 8:
            length = self.varint()
            self.at += length
            assert self.at <= len(self.data)
            return self.data[self.at - length : self.at]
        if kind == 9:
            head = self.byte()
            count = head >> 4 if head >> 4 < 15 else self.varint()
            return [self.value(head & 15) for _ in range(count)]
        assert kind == 12, kind
        return self.struct()

    def struct(self):
        fields, last = {}, 0
        while True:
            head = self.byte()
            if head == 0:
                return fields
            last = last + (head >> 4) if head >> 4 else self.zigzag()
            assert last not in fields
            fields[last] = self.value(head & 15)


def levels(data, rows):
    """RLE and bit-packed runs of one bit each."""
    found, t = [], Thrift(data)
    while t.at < len(data):
        head = t.varint()
        if head & 1:
            for _ in range(head >> 1):
                byte = t.byte()
                found += [byte >> k & 1 for k in range(8)]
        else:
            found += [t.byte()] * (head >> 1)
    assert rows <= len(found) < rows + 8
    return found[:rows]


def plain(data, kind, count):
    if kind == BOOLEAN:
        assert len(data) == (count + 7) // 8
        return [bool(data[i // 8] >> i % 8 & 1) for i in range(count)]
    if kind in FIXED:
        form, size = FIXED[kind]
        assert len(data) == size * count
        return [v for (v,) in struct.iter_unpack(form, data)]
    found, at = [], 0
    for _ in range(count):
        (length,) = struct.unpack_from("<I", data, at)
        found.append(data[at + 4 : at + 4 + length].decode("utf-8"))
        assert at + 4 + length <= len(data)
        at += 4 + length
    assert at == len(data)
    return found


def check_range(statistics, kind, values):
    """A range holds all values, and is as narrow as it may be; a column with NaN has none."""
    given = [v for v in values if v is not None]
    assert statistics[3] == len(values) - len(given)
    if 5 not in statistics:
        long = kind == BYTE_ARRAY and any(len(v.encode()) > 64 for v in given)
        nan = kind == DOUBLE and any(math.isnan(v) for v in given)
        assert not given or kind == BOOLEAN or long or nan
        return
    if kind == BYTE_ARRAY:
        low, high = statistics[6], statistics[5]
        assert [low, high] == [f(v.encode() for v in given) for f in (min, max)]
        return
    (low,), (high,) = (struct.unpack(FIXED[kind][0], statistics[n]) for n in (6, 5))
    assert (low, high) == (min(given), max(given)) and not any(v != v for v in given)
    assert low or kind != DOUBLE or math.copysign(1, low) < 0
    assert high or kind != DOUBLE or math.copysign(1, high) > 0


def read_column(data, chunk, leaf, rows, at):
    """The values of a column of a row group, and where its bytes end."""
    meta = chunk[3]
    assert meta[1] == leaf[1] and meta[3] == [leaf[4]] and meta[5] == rows
    assert chunk[2] == meta[9] == at, "each column lies behind the one before"
    t = Thrift(data, at)
    page = t.struct()
    assert page[1] == 0 and page[5] == {1: rows, 2: 0, 3: 3, 4: 3}
    assert meta[7] == t.at - at + page[3] and meta[6] == t.at - at + page[2]
    body = data[t.at : t.at + page[3]]
    assert meta[4] in (0, 2)
    body = gzip.decompress(body) if meta[4] == 2 else body
    assert len(body) == page[2]
    there = [1] * rows
    if leaf[3] == 1:
        (length,) = struct.unpack_from("<I", body)
        there = levels(body[4 : 4 + length], rows)
        body = body[4 + length :]
    given = iter(plain(body, leaf[1], sum(there)))
    values = [next(given) if has else None for has in there]
    check_range(meta[12], leaf[1], values)
    return values, t.at + page[3]


def read(path):
    """(schema's name, column names, row groups): a row group is a dictionary of columns."""
    data = path.read_bytes()
    assert data[:4] == data[-4:] == b"PAR1"
    (length,) = struct.unpack_from("<I", data, len(data) - 8)
    t = Thrift(data, len(data) - 8 - length)
    footer_at, footer = t.at, t.struct()
    assert t.at == len(data) - 8 and footer[1] == 1
    root, *leaves = footer[2]
    assert root[5] == len(leaves) and footer[7] == [{1: {}}] * len(leaves)
    for leaf in leaves:
        assert (leaf.get(6), leaf.get(10)) == ((0, {1: {}}) if leaf[1] == 6 else (None, None))
    names, groups, at = [leaf[4].decode() for leaf in leaves], [], 4
    for group in footer[4]:
        columns, begin = {}, at
        for name, leaf, chunk in zip(names, leaves, group[1]):
            columns[name], at = read_column(data, chunk, leaf, group[3], at)
        assert len(group[1]) == len(leaves) and group[5] == begin and group[6] == at - begin
        assert group[2] == sum(chunk[3][6] for chunk in group[1])
        groups.append(columns)
    assert at == footer_at and footer[3] == sum(group[3] for group in footer[4])
    (pair,) = footer[5]
    assert pair[1] == b"schema"
    return pair[2].decode(), names, groups


def rows(path):
    """All rows as dictionaries."""
    _, names, groups = read(path)
    return [dict(zip(names, row)) for g in groups for row in zip(*(g[n] for n in names))]
