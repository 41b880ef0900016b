# SPDX-License-Identifier: Apache-2.0
"""A writer of traces for tests: takes a trace apart, lets a test change it, and seals it anew.

What comes out is well-formed: checksums, seals, sums and prefixes are right, so that a reader can
find the change in what the records say and nowhere else. Written from docs/format/trace.md; the C
writer has no part in it.

    trace = Edited.read(path)
    trace.records[7] = trace.records[7]._replace(digest=(1, 2))
    path.write_bytes(trace.sealed())
"""

import struct

from twinrun.trace import (
    ALIGN,
    BLOCK,
    BLOCK_MAGIC,
    DATA,
    DICT,
    END,
    ENTRY,
    FILE_HEADER,
    LINKS,
    M64,
    OFFSET,
    RECORD,
    SEALED,
    SKETCH,
    STATS,
    STEP_END,
    UNOBSERVED,
    Layout,
    Record,
    Series,
    Trace,
    crc32c,
    hash_bytes,
    jump_index,
    key_hash,
    layout_hash,
    order_element,
    order_finish,
    order_push,
    payload_hash,
    prefix_push,
    record_value,
    step_element,
)

UNORDERED = 1 << 7
PAYLOAD = 64 << 10


class Edited:
    """A trace as lists that a test may change."""

    def __init__(self, trace):
        self.header = list(FILE_HEADER.unpack_from(trace._data))
        self.strings = dict(trace.strings)
        self.series = dict(trace.series)
        self.layouts = dict(trace.layouts)
        self.notes = list(trace.notes)
        self.closed = trace.info.closed
        self.steps = trace.info.steps
        self.records = sorted(trace.records(), key=lambda r: (r.step, r.seq))
        self.dropped = dict(trace.gaps)  # step -> records without details
        self.kept = {s.step: s for s in trace.steps() if s.dropped}  # the sums of what is not there
        self.lost = trace.info.lost
        self.observer_ns = trace.info.observer_ns
        self.last_time_ns = trace.info.last_time_ns

    @classmethod
    def read(cls, path):
        with Trace.open(path) as t:
            return cls(t)

    # ---- header

    @property
    def rank(self):
        return self.header[8]

    @rank.setter
    def rank(self, rank):
        self.header[8] = rank

    @property
    def role(self):
        return self.header[14][: self.header[12]]

    @role.setter
    def role(self, role):
        self.header[12], self.header[14] = len(role), role.ljust(256, b"\0")

    # ---- definitions

    def string(self, text):
        """Id of a string, new when it has to be."""
        data = text.encode() if isinstance(text, str) else text
        if not data:
            return 0
        for i, s in self.strings.items():
            if s == data:
                return i
        self.strings[len(self.strings) + 1] = data
        return len(self.strings)

    def series_like(self, record, **changes):
        """Id of a series that is a record's but for these fields."""
        new = self.series[record.series]._replace(**changes)
        for i, s in self.series.items():
            if s == new:
                return i
        self.series[len(self.series) + 1] = new
        return len(self.series)

    def layout(self, dtype, shape):
        for i, known in self.layouts.items():
            if known == Layout(dtype, tuple(shape)):
                return i
        self.layouts[len(self.layouts) + 1] = Layout(dtype, tuple(shape))
        return len(self.layouts)

    # ---- order

    def renumber(self):
        """Numbers records as a writer does, in the order of the list; links follow along."""
        moved, seq, seen, out = {}, {}, {}, []
        self.records.sort(key=lambda r: r.step)
        for r in self.records:
            s = self.series.get(r.series, Series(0, 0, 0, 0, 0, 0, 0))
            key = (r.step, s.phase, s.kind, s.name, s.scope, s.role)
            seq[r.step] = seq.get(r.step, 0) + 1
            moved[r.step << 32 | r.seq] = r.step << 32 | seq[r.step]
            out.append(r._replace(seq=seq[r.step], occurrence=seen.get(key, 0)))
            seen[key] = seen.get(key, 0) + 1
        self.records = [
            r._replace(links=tuple(moved[k] for k in r.links if k in moved)) if r.links else r
            for r in out
        ]
        return self

    # ---- sealing

    def _step_ends(self):
        """Bodies of the ends of all steps, by step."""
        keys = {
            i: key_hash(
                s.phase, s.kind, *(self.strings.get(x, b"") for x in (s.name, s.scope, s.role))
            )
            for i, s in self.series.items()
        }
        layouts = {i: layout_hash(x.dtype, x.shape) for i, x in self.layouts.items()}
        layouts[0] = (0, 0)
        by_step = {}
        for r in self.records:
            by_step.setdefault(r.step, []).append(r)
        prefix = order_prefix = 0
        for step in range(self.steps):
            phases, threads, rows = {}, {}, by_step.get(step, [])
            for r in rows:
                s, key = self.series[r.series], keys[r.series]
                digest = None if r.flags & UNOBSERVED else r.digest
                value = record_value(key, r.occurrence, layouts[r.layout], digest)
                lo, hi = phases.get(s.phase, (0, 0))
                phases[s.phase] = (lo + value[0] & M64, hi + value[1] & M64)
                if s.role == 0 and not r.flags & UNORDERED:
                    threads[r.thread] = order_push(threads.get(r.thread, 0), key, r.occurrence)
            dropped, order = self.dropped.get(step, 0), order_finish(threads.values())
            if step in self.kept and dropped:
                phases, order = self.kept[step].phases, self.kept[step].order
            count = len(rows) + dropped
            prefix = prefix_push(prefix, step_element(count, phases))
            order_prefix = prefix_push(order_prefix, order_element(order))
            body = STEP_END.pack(
                step,
                count,
                dropped,
                sum(1 << p for p in phases),
                order,
                prefix & M64,
                prefix >> 64,
                order_prefix & M64,
                order_prefix >> 64,
            )
            yield (
                step,
                rows,
                body + b"".join(struct.pack("<QQ", *phases[p]) for p in sorted(phases)),
                prefix,
                order_prefix,
            )

    def sealed(self):
        """The bytes of the trace."""
        self.header[16] = 0
        raw = FILE_HEADER.pack(*self.header)
        self.header[16] = crc32c(raw[:508])
        out = _Blocks(FILE_HEADER.pack(*self.header), self.header[16], self)
        out.define(
            [
                _entry(16, 0, struct.pack("<II", i, len(s)) + s)
                for i, s in sorted(self.strings.items())
            ]
        )
        out.define(
            [
                _entry(
                    17,
                    0,
                    struct.pack(
                        "<IBBHIIIIII",
                        i,
                        s.phase,
                        s.kind,
                        0,
                        s.name,
                        s.scope,
                        s.role,
                        s.op,
                        s.site,
                        0,
                    ),
                )
                for i, s in sorted(self.series.items())
            ]
        )
        out.define(
            [
                _entry(
                    18,
                    0,
                    struct.pack("<IBBH%dq" % len(x.shape), i, x.dtype, len(x.shape), 0, *x.shape),
                )
                for i, x in sorted(self.layouts.items())
            ]
        )
        out.define(
            [_entry(19, 0, struct.pack("<II", len(k), len(v)) + k + v) for k, v in self.notes]
        )
        for step, n in sorted(self.dropped.items()):
            out.dropped += n
            out.define([_entry(20, 0, struct.pack("<II", step, n))])
        for step, rows, end, prefix, order_prefix in self._step_ends():
            for r in rows:
                out.record(r)
            out.step(step, end, prefix, order_prefix)
        for r in self.records:
            if r.step >= self.steps:
                out.record(r)
        out.flush()
        if self.closed:
            out.block(END, b"", 0, 0)
        return bytes(out.data)


def _entry(type_, flags, body):
    body += b"\0" * (-len(body) % 8)
    return ENTRY.pack(8 + len(body), type_, 0, flags) + body


def _record_entry(r):
    body = RECORD.pack(
        r.series, r.layout, r.step, r.seq, r.occurrence, r.thread, r.time_ns, *r.digest
    )
    if r.flags & STATS:
        body += struct.pack("<5Q4d", *r.stats)
    if r.flags & OFFSET:
        body += struct.pack("<Q", r.global_offset)
    if r.flags & SKETCH:
        body += struct.pack("<IIQ%dd" % len(r.sketch), len(r.sketch), 0, r.skipped, *r.sketch)
    if r.flags & LINKS:
        body += struct.pack("<II%dQ" % len(r.links), len(r.links), 0, *r.links)
    return _entry(1, r.flags, body)


class _Blocks:
    """The file as it grows: entries are gathered into blocks, blocks are chained and sealed."""

    def __init__(self, header, seed, source):
        self.data, self.seed, self.source = bytearray(header), seed, source
        self.seal = hash_bytes(header, 0)
        self.index = self.previous = self.last_dict = self.records_total = self.dropped = 0
        self.data_offsets, self.jumps = [], []
        self.steps, self.prefix, self.order_prefix = 0, 0, 0
        self._clear()

    def _clear(self):
        self.payload, self.entries, self.records = bytearray(), 0, 0
        self.first = self.last = None
        self.seqs = {}

    def define(self, entries):
        payload, n = bytearray(), 0
        for e in entries:
            if payload and len(payload) + len(e) > PAYLOAD:
                self.block(DICT, bytes(payload), n, 0)
                payload, n = bytearray(), 0
            payload += e
            n += 1
        if n:
            self.block(DICT, bytes(payload), n, 0)

    def _add(self, entry, step):
        if self.payload and len(self.payload) + len(entry) > PAYLOAD:
            self.flush()
        self.payload += entry
        self.entries += 1
        self.first = step if self.first is None else self.first
        self.last = step

    def record(self, r):
        self._add(_record_entry(r), r.step)
        self.records += 1
        self.records_total += 1
        self.seqs.setdefault(r.step, []).append(r.seq)

    def step(self, step, body, prefix, order_prefix):
        self._add(_entry(2, 0, body), step)
        self.steps, self.prefix, self.order_prefix = step + 1, prefix, order_prefix

    def flush(self):
        if self.entries:
            low, high = self.seqs.get(self.first, [0]), self.seqs.get(self.last, [0])
            self.block(
                DATA,
                bytes(self.payload),
                self.entries,
                self.records,
                (self.first, self.last, min(low), max(high)),
            )
            self._clear()

    def block(self, type_, payload, entries, records, where=(0, 0, 0, 0)):
        at, jump = len(self.data), 0
        if type_ == DATA:
            self.jumps.append(jump_index(self.jumps))
            jump = self.data_offsets[self.jumps[-1]] if self.data_offsets else 0
        fields = [
            BLOCK_MAGIC,
            type_,
            b"",
            len(payload),
            at,
            self.index,
            self.previous,
            len(self.data_offsets),
            self.data_offsets[-1] if self.data_offsets else 0,
            jump,
            self.last_dict,
            entries,
            records,
            *where,
            self.steps,
            self.prefix & M64,
            self.prefix >> 64,
            self.order_prefix & M64,
            self.order_prefix >> 64,
            self.records_total,
            self.dropped,
            self.source.lost,
            self.source.observer_ns,
            self.source.last_time_ns,
            b"",
            *self.seal,
            0,
            0,
            crc32c(payload, self.seed),
            0,
        ]
        raw = BLOCK.pack(*fields)
        seal = hash_bytes(
            raw[:SEALED] + struct.pack("<2Q", *payload_hash(payload)), 0x7365616C2E746E31
        )
        fields[-4:-2] = seal
        raw = BLOCK.pack(*fields)
        fields[-1] = crc32c(raw[:252], self.seed)
        self.data += BLOCK.pack(*fields) + payload
        self.data += b"\0" * (-len(self.data) % ALIGN)
        self.seal, self.previous, self.index = seal, at, self.index + 1
        if type_ == DATA:
            self.data_offsets.append(at)
        elif type_ == DICT:
            self.last_dict = at


def record(step, seq, series, layout, digest, **more):
    """A record as recorded, with what is not given left out."""
    fields = dict(
        step=step,
        seq=seq,
        occurrence=0,
        series=series,
        layout=layout,
        thread=0,
        flags=0,
        time_ns=0,
        digest=digest,
        stats=None,
        global_offset=None,
        skipped=None,
        sketch=None,
        links=None,
    )
    fields.update(more)
    return Record(**fields)
