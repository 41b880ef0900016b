# SPDX-License-Identifier: Apache-2.0
"""Second reader of the trace format (docs/format/trace.md), in plain Python.

Written from the specification, not from the C reader, so that the two can be held against each
other. Slow and simple: for checks, small tools and notebooks. Shares nothing with the recording
side of the package.

    with Trace.open("ranks/0.4711.twt") as t:
        for record in t.records():
            print(record.step, t.key(record), record.digest)
        print(t.verify())        # [] when intact

`python -m twinrun.trace FILE` prints everything as one JSON object.
"""

import json
import re
import struct
import sys
from collections import namedtuple

MAGIC = b"\x89TWT\r\n\x1a\n"
BLOCK_MAGIC = 0x314B4C4257540A8B
FILE_HEADER = struct.Struct("<8sIHHIIQ16siiqQII256s172sI")
BLOCK = struct.Struct("<QB3sIQQQQQQQIIIIIIQQQQQQQQQQ40sQQQQII")
ENTRY = struct.Struct("<IBBH")
RECORD = struct.Struct("<IIIIIIQQQ")
STEP_END = struct.Struct("<IIIIQQQQQ")
ALIGN = 64
SEALED = 232  # bytes of a block header that the seal covers: all before itself
PAYLOAD_MAX = 256 << 10
DATA, DICT, END = 1, 2, 3
VERSION = 1
PHASES = (
    "none",
    "data",
    "rng",
    "init",
    "forward",
    "backward",
    "collective",
    "optimizer",
    "checkpoint",
    "environment",
    "kernel",
    "output",
)
KINDS = (
    "none",
    "batch",
    "indices",
    "state",
    "weight",
    "activation",
    "gradient (local)",
    "gradient",
    "moment",
    "loss",
    "in",
    "out",
    "match",
    "order",
    "file",
    "line",
    "value",
    "hyper",
)
STATS, SKETCH, OFFSET, LINKS, NOT_COMPOSABLE, RECOMPUTED, UNOBSERVED, UNORDERED, PART = (
    1 << n for n in range(9)
)

M64 = (1 << 64) - 1
P127 = (1 << 127) - 1
POINT = 0x5A1D7C3E9B2F4683 << 64 | 0xD3C5B7A91F2E6D4B
W0, W1 = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03


class TraceError(ValueError):
    """The file is no trace, is damaged where it must not be, or is of an unknown version."""


# ---- checksums and hashes


def _crc_table():
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
        table.append(i)
    return table


_CRC = _crc_table()


def crc32c(data, seed=0):
    """CRC-32C (Castagnoli) of bytes, continued from seed."""
    c = seed ^ 0xFFFFFFFF
    for byte in data:
        c = c >> 8 ^ _CRC[(c ^ byte) & 255]
    return c ^ 0xFFFFFFFF


def mix64(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & M64
    x = (x ^ x >> 27) * 0x94D049BB133111EB & M64
    return x ^ x >> 31


def hash_bytes(data, seed):
    """128 bits (a, b) of a string of bytes, as the format defines it."""
    a = mix64(seed ^ W0) ^ len(data)
    b = mix64((seed + W1) & M64) + len(data) & M64
    for i in range(0, len(data), 8):
        w = int.from_bytes(data[i : i + 8], "little")
        a = mix64(a ^ w)
        b = mix64(b + w * 0x9FB21C651E98DF25 & M64) ^ a >> 32
    return mix64(a), mix64(b ^ a)


def _pack(*words):
    return struct.pack("<%dQ" % len(words), *words)


def string_hash(data):
    return hash_bytes(data, 0x7374722E74776E31)


def key_hash(phase, kind, name, scope, role):
    """Hash of an alignment key; name, scope and role are bytes."""
    return hash_bytes(
        _pack(phase | kind << 8, *(string_hash(name) + string_hash(scope) + string_hash(role))),
        0x6B65792E74776E31,
    )


def layout_hash(dtype, shape):
    return hash_bytes(
        _pack(dtype | len(shape) << 8) + struct.pack("<%dq" % len(shape), *shape),
        0x6C61792E74776E31,
    )


def payload_hash(payload):
    seed = 0x7061792E74776E31
    lane = [mix64(seed + k) for k in range(4)]
    for i, (word,) in enumerate(struct.iter_unpack("<Q", payload)):
        lane[i % 4] = mix64(lane[i % 4] ^ word)
    return hash_bytes(_pack(*(lane + [len(payload)])), seed)


def record_value(key, occurrence, layout, digest):
    """What a record adds to the two sums of its phase; digest None when it was not observed."""
    n = occurrence + 1
    ka, kb = mix64(key[0] + n * W0 & M64), mix64(key[1] ^ n * W1 & M64)
    if digest is None:
        return mix64(ka ^ 0xA24BAED4963EE407), mix64(kb + 0xA24BAED4963EE407 & M64)
    a, b = digest
    return (
        mix64(mix64(mix64(ka ^ layout[0]) + a & M64) ^ b),
        mix64(mix64(mix64(kb + layout[1] & M64) ^ b) + a & M64),
    )


def order_push(state, key, occurrence):
    """Next state of one thread's order hash; 0 before the first record."""
    return (
        mix64(
            (state or 0x9FB21C651E98DF25) * W0 + mix64(key[0] + (occurrence + 1) * W0 & M64) & M64
        )
        | 1
    )


def order_finish(states):
    """Order hash of a step from the states of its threads."""
    return sum(mix64(s + W1 & M64) for s in states) & M64


def _reduce(a, b):
    x = (b << 64 | a) & P127
    return 0 if x == P127 else x


def step_element(records, phases):
    """Element of the polynomial for a step; phases: {phase: (lo, hi)} of those that were seen."""
    a, b = mix64(W0 + records & M64), mix64(W1 ^ records)
    for p in sorted(phases):
        lo, hi = phases[p]
        a = mix64(a ^ mix64(lo + (p + 1) * W0 & M64))
        b = mix64(b + mix64(hi ^ (p + 1) * W1 & M64) & M64) ^ a >> 32
    return _reduce(a, b)


def order_element(order):
    return _reduce(mix64(order + W0 & M64), mix64(order ^ W1))


def prefix_push(prefix, element):
    return (prefix * POINT + element) % P127


def prefix_window(last, before, steps):
    """Hash of a window: equal windows have equal hashes, wherever they lie."""
    return (last - before * pow(POINT, steps, P127)) % P127


# ---- what is read

Info = namedtuple(
    "Info",
    "version run_id rank world pid role start_realtime_ns start_monotonic_ns closed blocks file_bytes "
    "tail_bytes records dropped steps observer_ns last_time_ns lost",
)
Block = namedtuple(
    "Block",
    "offset type index previous data_index last_data jump last_dict entries records first_step last_step "
    "first_seq last_seq steps prefix order_prefix records_total dropped_total lost_total observer_ns "
    "time_ns previous_seal seal payload_bytes payload_crc raw",
)
Stats = namedtuple("Stats", "count nan pos_inf neg_inf zeros min max sum sumsq")
Record = namedtuple(
    "Record",
    "step seq occurrence series layout thread flags time_ns digest stats global_offset skipped sketch "
    # whole: elements of the tensor that a part belongs to
    "links whole",
    defaults=(None,),
)
Step = namedtuple("Step", "step records dropped order phases prefix order_prefix")
Series = namedtuple("Series", "phase kind name scope role op site")
Layout = namedtuple("Layout", "dtype shape")


def _align(n, to):
    return (n + to - 1) // to * to


def _unpack_record(flags, body):
    series, layout, step, seq, occurrence, thread, time_ns, a, b = RECORD.unpack_from(body)
    at = RECORD.size
    stats = offset = sketch = links = skipped = whole = None
    if flags & STATS:
        stats = Stats(*struct.unpack_from("<5Q4d", body, at))
        at += 72
    if flags & OFFSET:
        (offset,) = struct.unpack_from("<Q", body, at)
        at += 8
    if flags & PART:
        (whole,) = struct.unpack_from("<Q", body, at)
        at += 8
    if flags & SKETCH:
        k, _, skipped = struct.unpack_from("<IIQ", body, at)
        if k > 64:
            raise TraceError("a sketch of %d buckets: at most 64" % k)
        sketch = struct.unpack_from("<%dd" % k, body, at + 16)
        at += 16 + 8 * k
    if flags & LINKS:
        count, _ = struct.unpack_from("<II", body, at)
        if count > 64:
            raise TraceError("a record with %d links: at most 64" % count)
        links = struct.unpack_from("<%dQ" % count, body, at + 8)
        at += 8 + 8 * count
    if at != len(body):
        raise TraceError("a record of %d bytes where %d were expected" % (len(body), at))
    return Record(
        step,
        seq,
        occurrence,
        series,
        layout,
        thread,
        flags,
        time_ns,
        (a, b),
        stats,
        offset,
        skipped,
        sketch,
        links,
        whole,
    )


def _unpack_step(body):
    step, records, dropped, mask, order, plo, phi, olo, ohi = STEP_END.unpack_from(body)
    phases, at = {}, STEP_END.size
    for p in range(len(PHASES)):
        if mask >> p & 1:
            phases[p] = struct.unpack_from("<QQ", body, at)
            at += 16
    if mask >> len(PHASES) or at != len(body):
        raise TraceError("the end of a step of %d bytes where %d were expected" % (len(body), at))
    return Step(step, records, dropped, order, phases, phi << 64 | plo, ohi << 64 | olo)


class Trace:
    """One trace file. Definitions are read at the start, records when asked for."""

    def __init__(self, data, name="trace"):
        self.name = name
        self._data = data
        self._header(data)
        self._blocks, self.faults, self._end = self._scan()
        self.strings, self.series, self.layouts, self.notes, self.gaps = {}, {}, {}, [], []
        for block in self._blocks:
            if block.type == DICT:
                self._definitions(block)
        last = self._blocks[-1] if self._blocks else None
        left = (last.dropped_total if last else 0) - sum(n for _, n in self.gaps)
        if left > 0:  # dropped in steps that are not finished
            self.gaps.append((last.steps, left))
        h = self._h
        rank, world, role = self._identity()
        self.info = Info(
            h[2],
            h[7],
            rank,
            world,
            h[5],
            role,
            h[10],
            h[11],
            bool(last and last.type == END),
            last.index + 1 if last else 0,
            len(data),
            len(data) - self._end,
            last.records_total + last.dropped_total if last else 0,
            last.dropped_total if last else 0,
            last.steps if last else 0,
            last.observer_ns if last else 0,
            last.time_ns if last else 0,
            last.lost_total if last else 0,
        )

    @classmethod
    def open(cls, path):
        """Reads a whole trace into memory."""
        with open(path, "rb") as f:
            return cls(f.read(), str(path))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._data = b""

    def _header(self, data):
        if data[:8] != MAGIC:
            raise TraceError(
                "%s is no trace: its first 8 bytes are not the magic number" % self.name
            )
        if len(data) < FILE_HEADER.size:
            raise TraceError(
                "%s: header cut short: expected %d bytes, found %d"
                % (self.name, FILE_HEADER.size, len(data))
            )
        self._h = h = FILE_HEADER.unpack_from(data)
        if h[1] != 0x01020304 or h[3] > VERSION or h[6] & 0xFFFFFFFF:
            raise TraceError(
                "%s: version %d for readers of version %d, features 0x%x: unknown to this reader"
                % (self.name, h[2], h[3], h[6])
            )
        if crc32c(data[:508]) != h[16]:
            raise TraceError(
                "%s: header damaged: CRC32C is %08x, expected %08x"
                % (self.name, crc32c(data[:508]), h[16])
            )
        if h[4] != FILE_HEADER.size or h[12] > 256:
            raise TraceError(
                "%s: header of %d bytes, role of %d: expected 512, at most 256"
                % (self.name, h[4], h[12])
            )

    def _block_at(self, at):
        """The block at an offset; None when there is no good header, False when its contents are
        damaged.
        """
        data, seed = self._data, self._h[16]
        if len(data) - at < BLOCK.size:
            return None
        (
            magic,
            type_,
            _,
            payload_bytes,
            offset,
            index,
            previous,
            data_index,
            last_data,
            jump,
            last_dict,
            entries,
            records,
            first_step,
            last_step,
            first_seq,
            last_seq,
            steps,
            plo,
            phi,
            olo,
            ohi,
            records_total,
            dropped_total,
            lost_total,
            observer_ns,
            time_ns,
            _,
            psa,
            psb,
            sa,
            sb,
            payload_crc,
            crc,
        ) = BLOCK.unpack_from(data, at)
        if (
            magic != BLOCK_MAGIC
            or offset != at
            or type_ not in (DATA, DICT, END)
            or payload_bytes > PAYLOAD_MAX
            or payload_bytes % 8
            or at + _align(BLOCK.size + payload_bytes, ALIGN) > len(data)
            or crc32c(data[at : at + 252], seed) != crc
        ):
            return None
        block = Block(
            offset,
            type_,
            index,
            previous,
            data_index,
            last_data,
            jump,
            last_dict,
            entries,
            records,
            first_step,
            last_step,
            first_seq,
            last_seq,
            steps,
            phi << 64 | plo,
            ohi << 64 | olo,
            records_total,
            dropped_total,
            lost_total,
            observer_ns,
            time_ns,
            (psa, psb),
            (sa, sb),
            payload_bytes,
            payload_crc,
            data[at : at + BLOCK.size],
        )
        return block if crc32c(self.payload(block), seed) == payload_crc else False

    def _scan(self):
        """Good blocks in file order, faults met on the way, and where the last good block ends."""
        blocks, faults, at, end, hole = [], [], FILE_HEADER.size, FILE_HEADER.size, None
        while at < len(self._data):
            block = self._block_at(at)
            if block:
                if hole is not None:
                    faults.append("%d bytes at %d are no good block" % (at - hole, hole))
                    hole = None
                blocks.append(block)
                at = end = at + _align(BLOCK.size + block.payload_bytes, ALIGN)
            else:
                hole = at if hole is None else hole
                at += ALIGN
        if end != len(self._data):
            faults.append(
                "%d bytes after the last good block, at %d" % (len(self._data) - end, end)
            )
        return blocks, faults, end

    def payload(self, block):
        return self._data[
            block.offset + BLOCK.size : block.offset + BLOCK.size + block.payload_bytes
        ]

    def entries(self, block):
        """(type, flags, body) of each entry of a block."""
        data, at = self.payload(block), 0
        while at < len(data):
            if len(data) - at < 8:
                raise TraceError(
                    "%s: block at %d: no whole entry at %d" % (self.name, block.offset, at)
                )
            size, type_, _, flags = ENTRY.unpack_from(data, at)
            if size < 8 or size % 8 or size > len(data) - at:
                raise TraceError(
                    "%s: block at %d: entry of %d bytes at %d" % (self.name, block.offset, size, at)
                )
            yield type_, flags, data[at + 8 : at + size]
            at += size

    def _definitions(self, block):
        for type_, _, body in self.entries(block):
            if type_ == 16:
                id_, n = struct.unpack_from("<II", body)
                self.strings.setdefault(id_, body[8 : 8 + n])
            elif type_ == 17:
                id_, phase, kind, _, name, scope, role, op, site, _ = struct.unpack(
                    "<IBBHIIIIII", body
                )
                self.series.setdefault(id_, Series(phase, kind, name, scope, role, op, site))
            elif type_ == 18:
                id_, dtype, ndim, _ = struct.unpack_from("<IBBH", body)
                self.layouts.setdefault(
                    id_, Layout(dtype, struct.unpack_from("<%dq" % ndim, body, 8))
                )
            elif type_ == 19:
                k, v = struct.unpack_from("<II", body)
                self.notes.append((body[8 : 8 + k], body[8 + k : 8 + k + v]))
            elif type_ == 20:
                self.gaps.append(struct.unpack("<II", body))

    def _identity(self):
        """Rank, world and role: what the header says, or the last note `rank` of the right form."""
        rank, world, role = self._h[8], self._h[9], self._h[14][: self._h[12]]
        for key, value in self.notes:
            if key != b"rank":
                continue
            words = re.fullmatch(rb"([0-9]{1,15}) of ([0-9]{1,15})", value)
            if words and int(words[1]) < int(words[2]) < 1 << 31:
                rank, world, role = int(words[1]), int(words[2]), b"main"
        return rank, world, role

    def blocks(self):
        return list(self._blocks)

    def events(self):
        """Every record and step end in file order."""
        for block in self._blocks:
            if block.type == DATA:
                for type_, flags, body in self.entries(block):
                    if type_ == 1:
                        yield _unpack_record(flags, body)
                    elif type_ == 2:
                        yield _unpack_step(body)

    def records(self):
        return (e for e in self.events() if isinstance(e, Record))

    def steps(self):
        return (e for e in self.events() if isinstance(e, Step))

    def string(self, id_):
        """Text of a string id; "" when unknown. Bytes that are no UTF-8 are kept as surrogates."""
        return self.strings.get(id_, b"").decode("utf-8", "surrogateescape")

    def key(self, record):
        """(phase, kind, name, scope, role, occurrence) of a record: what runs are aligned by."""
        s = self.series.get(record.series, Series(0, 0, 0, 0, 0, 0, 0))
        return (
            PHASES[s.phase],
            KINDS[s.kind],
            self.string(s.name),
            self.string(s.scope),
            self.string(s.role),
            record.occurrence,
        )

    # ---- verification

    def verify(self):
        """What is wrong, as a list of lines; empty when the trace is intact."""
        faults = list(self.faults)
        if not faults:
            self._verify_chain(faults)
        if not faults:
            self._verify_values(faults)
        return faults

    def _verify_chain(self, faults):
        seal = hash_bytes(self._data[: FILE_HEADER.size], 0)
        before, data_offsets, jumps, last_dict, records = None, [], [], 0, 0
        for n, b in enumerate(self._blocks):

            def check(what, expected, found, at=b.offset):
                if expected != found:
                    faults.append(
                        "block at %d: %s: expected %s, found %s" % (at, what, expected, found)
                    )

            payload = self.payload(b)
            jump = 0
            if b.type == DATA:
                jumps.append(jump_index(jumps))
                jump = data_offsets[jumps[-1]] if data_offsets else 0
            check("number", n, b.index)
            check("previous block", before.offset if before else 0, b.previous)
            check("data blocks", len(data_offsets), b.data_index)
            check("last data block", data_offsets[-1] if data_offsets else 0, b.last_data)
            check("last definition block", last_dict, b.last_dict)
            check("jump", jump, b.jump)
            check("previous seal", seal, b.previous_seal)
            seal = hash_bytes(b.raw[:SEALED] + _pack(*payload_hash(payload)), 0x7365616C2E746E31)
            check("seal", seal, b.seal)
            end = b.offset + BLOCK.size + b.payload_bytes
            check("padding", b"", self._data[end : _align(end, ALIGN)].strip(b"\0"))
            entries = list(self.entries(b))
            records += sum(e[0] == 1 for e in entries)
            check("entries", len(entries), b.entries)
            check("records", records, b.records_total)
            if b.type == DATA:
                data_offsets.append(b.offset)
            elif b.type == DICT:
                last_dict = b.offset
            before = b

    def _verify_values(self, faults):
        keys = {
            i: key_hash(
                s.phase, s.kind, *(self.strings.get(x, b"") for x in (s.name, s.scope, s.role))
            )
            for i, s in self.series.items()
        }
        layouts = {i: layout_hash(x.dtype, x.shape) for i, x in self.layouts.items()}
        layouts[0] = (0, 0)
        prefix = order_prefix = step = stored = 0
        phases, orders = {}, {}
        for e in self.events():

            def check(what, expected, found, at=e):
                if expected != found:
                    faults.append(
                        "step %d: %s: expected %s, found %s" % (at.step, what, expected, found)
                    )

            check("number of the step", step, e.step)
            if isinstance(e, Record):
                s, key = self.series[e.series], keys[e.series]
                value = record_value(
                    key, e.occurrence, layouts[e.layout], None if e.flags & UNOBSERVED else e.digest
                )
                lo, hi = phases.get(s.phase, (0, 0))
                phases[s.phase] = (lo + value[0] & M64, hi + value[1] & M64)
                if s.role == 0 and not e.flags & UNORDERED:
                    orders[e.thread] = order_push(orders.get(e.thread, 0), key, e.occurrence)
                stored += 1
                continue
            check("records", stored + e.dropped, e.records)
            if e.dropped == 0:
                check("phases", phases, e.phases)
                check("order", order_finish(orders.values()), e.order)
            prefix = prefix_push(prefix, step_element(e.records, e.phases))
            order_prefix = prefix_push(order_prefix, order_element(e.order))
            check("prefix", prefix, e.prefix)
            check("order prefix", order_prefix, e.order_prefix)
            step, stored, phases, orders = step + 1, 0, {}, {}


def jump_index(jumps):
    """Number of the jump ancestor of the next DATA block, from those of all before it; 0 for the
    first.
    """
    n = len(jumps)
    if n == 0:
        return 0
    last = n - 1
    if last - jumps[last] == jumps[last] - jumps[jumps[last]]:
        return jumps[jumps[last]]
    return last


# ---- everything as JSON: the expectation of the golden files, and of the C reader's dump


def _text(data):
    return data.decode("latin-1")


def _hex(*words):
    return " ".join("%016x" % w for w in words)


def _bits(*doubles):
    return _hex(*(struct.unpack("<Q", struct.pack("<d", d))[0] for d in doubles))


def _prefix(x):
    return _hex(x >> 64, x & M64)


def _record_dump(r):
    out = {
        "step": r.step,
        "seq": r.seq,
        "occurrence": r.occurrence,
        "series": r.series,
        "layout": r.layout,
        "thread": r.thread,
        "flags": r.flags,
        "time_ns": r.time_ns,
        "digest": _hex(*r.digest),
    }
    if r.stats:
        out["stats"] = [
            r.stats.count,
            r.stats.nan,
            r.stats.pos_inf,
            r.stats.neg_inf,
            r.stats.zeros,
            _bits(r.stats.min, r.stats.max, r.stats.sum, r.stats.sumsq),
        ]
    if r.global_offset is not None:
        out["global_offset"] = r.global_offset
    if r.whole is not None:
        out["whole"] = r.whole
    if r.sketch is not None:
        out["sketch"] = [r.skipped, _bits(*r.sketch)]
    if r.links is not None:
        out["links"] = _hex(*r.links)
    return out


def dump(trace):
    """A trace as a JSON-ready object. Strings are Latin-1 views of their bytes; 64-bit words are
    hexadecimal.
    """
    i = trace.info
    return {
        "info": {
            "version": i.version,
            "run_id": i.run_id.hex(),
            "rank": i.rank,
            "world": i.world,
            "pid": i.pid,
            "role": _text(i.role),
            "start_realtime_ns": i.start_realtime_ns,
            "start_monotonic_ns": i.start_monotonic_ns,
            "closed": i.closed,
            "blocks": i.blocks,
            "file_bytes": i.file_bytes,
            "tail_bytes": i.tail_bytes,
            "records": i.records,
            "dropped": i.dropped,
            "steps": i.steps,
            "observer_ns": i.observer_ns,
            "last_time_ns": i.last_time_ns,
            "lost": i.lost,
        },
        "intact": not trace.verify(),
        "strings": {str(k): _text(v) for k, v in sorted(trace.strings.items())},
        "series": {str(k): list(v) for k, v in sorted(trace.series.items())},
        "layouts": {str(k): [v.dtype] + list(v.shape) for k, v in sorted(trace.layouts.items())},
        "notes": [[_text(k), _text(v)] for k, v in trace.notes],
        "gaps": [list(g) for g in trace.gaps],
        "steps": [
            {
                "step": s.step,
                "records": s.records,
                "dropped": s.dropped,
                "order": _hex(s.order),
                "phases": {PHASES[p]: _hex(*v) for p, v in s.phases.items()},
                "prefix": _prefix(s.prefix),
                "order_prefix": _prefix(s.order_prefix),
            }
            for s in trace.steps()
        ],
        "records": [_record_dump(r) for r in trace.records()],
    }


def main(argv):
    if len(argv) != 2:
        sys.stderr.write("usage: python -m twinrun.trace FILE\n")
        return 2
    try:
        with Trace.open(argv[1]) as trace:
            print(json.dumps(dump(trace), indent=1))
    except (OSError, TraceError) as e:
        sys.stderr.write("%s\n" % e)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
