# SPDX-License-Identifier: Apache-2.0
"""Tensors that are cut over ranks, for twinrun.recheck: the parts of all ranks of a run make records
of wholes, by a sum of its own, where they are proven to be that.
"""

import math
from collections import defaultdict

from ._between import STATE_OF_RANKS
from ._held import (
    NO_PLACE,
    NOT_ADDING,
    Held,
    in_any_phase,
    in_one_phase,
    is_part,
    of_all_ranks,
    tensor_at,
)
from ._recorded import WEIGHT, Steps
from .trace import NOT_COMPOSABLE, OFFSET, PART, UNOBSERVED

MASK = (1 << 64) - 1
BLOCK = 16  # bytes that are digested together
EDGE = (0, BLOCK)  # type and shape of the record of an edge: bytes
WIDTHS = (1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 8, 8, 8, 8, 16, 1, 1)  # bytes of an element, by type


def _numbers(text):
    return tuple(int(n) for n in text.split(b","))


def places(steps):
    """{key: (whole, start, shape, adds, keys of its edges)} that a process notes; None for a key with
    two places, EDGE for that of an edge.
    """
    t, found = steps.trace, {}
    names = {i: t.string(i) for i in t.strings}

    def key_of(series):
        s = t.series[series]
        return (s.phase, s.kind) + tuple(names.get(i, "") for i in (s.name, s.scope, s.role))

    def keep(key, place):
        found[key] = place if found.get(key, place) == place else None

    for name, value in t.notes:
        if name != b"shard":
            continue
        try:
            series, whole, start, shape, adds, *edges = value.split(b" ")
            key, edges = key_of(int(series)), tuple(key_of(int(i)) for i in edges)
            place = _numbers(whole), _numbers(start), _numbers(shape), adds == b"1", edges
        except (ValueError, KeyError):
            continue
        if not len(place[0]) == len(place[1]) == len(place[2]):
            continue
        keep(key, place)
        for edge in edges:
            keep(edge, EDGE)
    return found


def is_edge(row, place):
    return place == EDGE and row.content[0] == EDGE


def _first(whole, start):
    at = 0
    for n, i in zip(whole, start):
        at = at * n + i
    return at


def _one_run(whole, shape):
    cut = max((i for i, n in enumerate(whole) if n != shape[i]), default=0)
    return all(n == 1 for n in shape[:cut])


def _cuts(place, width):
    """{block: (from, to)}: of the blocks of a single run that are not wholly its own, the bytes that
    are. What ends with the tensor shares nothing behind it.
    """
    first = _first(place[0], place[1]) * width
    end, last = first + math.prod(place[2]) * width, math.prod(place[0]) * width
    found = {}
    for block in {first // BLOCK, (end - 1) // BLOCK} if end > first else ():
        start, stop = max(first, block * BLOCK), min(end, (block + 1) * BLOCK)
        if start > block * BLOCK or stop < min((block + 1) * BLOCK, last):
            found[block] = start - block * BLOCK, stop - block * BLOCK
    return found


def _fits(row, place, edges):
    """Is the record what the place says? edges: the records of its edges, None for one that is not
    there.
    """
    whole, start, shape, adds = place[:4]
    inside = all(i + n <= w for i, n, w in zip(start, shape, whole))
    if not inside or row.content[0] is None or row.content[0][1:] != shape or row.unread:
        return False
    if math.prod(shape) == 0:
        return True
    if not adds or row.flags & UNOBSERVED:
        return False
    if not _one_run(whole, shape):
        return not row.flags & NOT_COMPOSABLE and row.content[1] == 0
    cuts = _cuts(place, WIDTHS[row.content[0][0]])
    if row.content[1] != _first(whole, start) or len(edges) != len(cuts):
        return False
    return all(_is_of(edge, cut) for edge, cut in zip(edges, sorted(cuts.items())))


def _is_of(edge, cut):
    """Does the record of an edge hold bytes of this cut, and none around them?"""
    block, (start, stop) = cut
    if edge is None or edge.unread or edge.content[:2] != (EDGE, block * BLOCK):
        return False
    held = _bytes(edge)
    return not any(held[:start]) and not any(held[stop:])


def _bytes(edge):
    return b"".join(word.to_bytes(8, "little") for word in edge.digest)


def _product(x):
    return (x & 0xFFFFFFFF) * (x >> 32)


def _swap(x):
    return (x << 32 | x >> 32) & MASK


def digest_of_block(words, block):
    """What a digest adds for 16 bytes (docs/format/fingerprint.md)."""
    key = (block * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) & MASK
    x, y = (words[0] + key) & MASK, words[1] ^ key
    x = (x + _product(y)) & MASK
    for _ in range(2):
        y = _swap(y) ^ _product(x)
        x = (_swap(x) + _product(y)) & MASK
    return x, y


def _disjoint(x, y):
    return any(i + n <= k or k + m <= i for i, n, k, m in zip(x[1], x[2], y[1], y[2]))


def _sum(parts):
    """The digest of parts that are all of a tensor: each has digested a block that it shares with
    zeros in the place of its neighbours' bytes, so such blocks are taken out and made again.
    """
    blocks, total = defaultdict(lambda: [0, 0]), [0, 0]
    for row, _, edges in parts:
        taken = [digest_of_block(e.digest, e.content[1] // BLOCK) for e in edges]
        for i in (0, 1):
            total[i] += row.digest[i] - sum(d[i] for d in taken)
            for e in edges:
                blocks[e.content[1] // BLOCK][i] |= e.digest[i]
    for block, words in blocks.items():
        digest = digest_of_block(words, block)
        total = [total[i] + digest[i] for i in (0, 1)]
    return tuple(n & MASK for n in total)


def whole_of(parts):
    """(type and shape, digest) of a list of (row, place, edges); None where they are no whole."""
    if not parts or any(p in (None, EDGE) or not is_part(row) for row, p, _ in parts):
        return None
    whole, dtype = parts[0][1][0], parts[0][0].content[0] and parts[0][0].content[0][0]
    seen = []
    for row, place, edges in parts:
        if not _fits(row, place, edges) or place[0] != whole or row.content[0][0] != dtype:
            return None
        if math.prod(place[2]) == 0:
            continue
        same = [(r, e) for r, p, e in seen if p[1:3] == place[1:3]]
        for r, others in same:
            if r.digest != row.digest or [e.digest for e in others] != [e.digest for e in edges]:
                return None
        if not same:
            if not all(_disjoint(place, p) for _, p, _ in seen):
                return None
            seen.append((row, place, edges))
    if sum(math.prod(p[2]) for _, p, _ in seen) != math.prod(whole):
        return None
    return (dtype,) + whole, _sum(seen)


class Whole(Steps):
    """The steps of one process, with wholes in the place of its parts. Of gradients and optimizer state
    what does not stand for all ranks is listed in `left_out`.

    ranks: {key: the ranks that hold parts of it}.
    """

    def __init__(self, steps, run):
        self.__dict__.update(steps.__dict__)
        self.original, self.ranks = steps, defaultdict(set)
        others = of_all_ranks(steps, run)
        noted = [places(s) for s in others]
        self.held = Held(steps, run, others)
        self.rows, self.left_out = {}, defaultdict(set)
        own = places(steps)
        for step, rows in steps.rows.items():
            held = defaultdict(list)
            for s, where in zip(others, noted):
                mine = [r for r in s.rows.get(step, ()) if r.key[:2] in STATE_OF_RANKS]
                at = {(r.key, r.occurrence): r for r in mine}
                for r in mine:
                    place = where.get(r.key)
                    named = place[4] if place not in (None, EDGE) else ()
                    edges = [at.get((key, r.occurrence)) for key in named]
                    held[r.key, r.occurrence].append((r, place, edges))
                    if is_part(r):
                        self.ranks[r.key].add(s.info.rank)
            out, here = self.held.left_out(step)
            self.left_out[step] |= out
            mine = {r.key for r in rows}
            for (key, _), parts in held.items():  # of which rank 0 has none
                if key not in mine and any(is_part(r) for r, _, _ in parts):
                    self.left_out[step] |= in_any_phase(key)
            rows = [r for r in rows if not is_edge(r, own.get(r.key)) and r.key not in here]
            self.rows[step] = [self._row(step, r, held) for r in rows]

    def _row(self, step, row, held):
        if row.key[:2] not in STATE_OF_RANKS or not is_part(row):
            return row
        found = whole_of(held[row.key, row.occurrence])
        if found is None:
            self.left_out[step] |= in_any_phase(row.key)
            self._say_why(row, held[row.key, row.occurrence])
            return row
        shape, digest = found
        return row._replace(
            content=(shape, None, digest),
            digest=digest,
            flags=row.flags & ~OFFSET,
            stats=None,
            sketch=None,
        )

    def _say_why(self, row, parts):
        """What cannot be added up because the agent could not make it so is named, where it is no
        weight: else it is a reason against "same".
        """
        said = [p for _, p, _ in parts if p not in (None, EDGE)]
        if row.key[1] != WEIGHT and not said:
            self.held.say(row, NO_PLACE)
        elif row.key[1] != WEIGHT and not all(p[3] for p in said):
            self.held.say(row, NOT_ADDING)

    def complete(self, step):
        return self.original.complete(step)


def _pieces(rows):
    """{(key of the tensor, occurrence): its rows} of records of large tensors in parts by turns."""
    found = defaultdict(list)
    for r in rows:
        if r.key[:2] in STATE_OF_RANKS and tensor_at(r) != r.key:
            found[tensor_at(r), r.occurrence].append(r)
    return found


def _joined(pieces, whole):
    """(type and element count, digest) of pieces that are all of a tensor of so many elements; None
    where they are not.
    """
    pieces = sorted(pieces, key=lambda r: r.content[1] or 0)
    at, digest = 0, [0, 0]
    for r in pieces:
        same = r.content[0] and r.content[0][0] == pieces[0].content[0][0]
        if not same or (r.content[1] or 0) != at or r.unread or r.flags & NOT_COMPOSABLE:
            return None
        at += math.prod(r.content[0][1:])
        digest = [(digest[i] + r.digest[i]) & MASK for i in (0, 1)]
    return ((pieces[0].content[0][0], whole), tuple(digest)) if at == whole else None


def _flat(row):
    shape = row.content[0]
    return row._replace(content=((shape[0], math.prod(shape[1:])), None, row.digest))


def join(rows, others):
    """Two lists of rows of a step, where tensors that the first has in pieces and the second whole
    are joined, or left out of both where the pieces are not all of them.
    """
    mine, theirs = _pieces(rows), _pieces(others)
    own = {(r.key, r.occurrence) for r in rows if not r.flags & PART}
    at = {(r.key, r.occurrence): i for i, r in enumerate(others) if not r.flags & PART}
    cut = {key for key, _ in theirs}  # in pieces there, too
    gone, made, others = set(), {}, list(others)
    for which, pieces in mine.items():
        if which[0] in cut:
            continue
        if which not in own and which not in at:
            continue
        gone.update(r.seq for r in pieces)
        if which in own:
            continue
        joined = _joined(pieces, math.prod(others[at[which]].content[0][1:]))
        if joined is None:
            others[at[which]] = None
            continue
        first = min(pieces, key=lambda r: r.content[1] or 0)
        made[first.seq] = first._replace(
            key=which[0],
            content=(joined[0], None, joined[1]),
            digest=joined[1],
            flags=first.flags & ~(PART | OFFSET),
            stats=None,
            sketch=None,
        )
        others[at[which]] = _flat(others[at[which]])
    rows = [made.get(r.seq, r) for r in rows if r.seq in made or r.seq not in gone]
    return rows, [r for r in others if r is not None]


def put_together(x, run_x, y, run_y, shift):
    """Both sides of a comparison of other numbers of ranks, without what one of them has not whole,
    or not on all ranks.
    """
    x, y = Whole(x, run_x), Whole(y, run_y)
    for step in x.rows:
        other = step + shift
        if other not in y.rows:
            continue
        out = x.left_out[step] | y.left_out[other]
        for side, at in ((x, step), (y, other)):
            side.rows[at] = [r for r in side.rows[at] if tensor_at(r) not in out]
        out = in_one_phase(x.held, y.held, x.rows[step], y.rows[other])
        for side, at in ((x, step), (y, other)):
            side.rows[at] = [r for r in side.rows[at] if r.key not in out]
        x.rows[step], y.rows[other] = join(x.rows[step], y.rows[other])
        y.rows[other], x.rows[step] = join(y.rows[other], x.rows[step])
    return x, y
