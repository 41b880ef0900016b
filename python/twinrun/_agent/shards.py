# SPDX-License-Identifier: Apache-2.0
"""Where the part of a tensor that this rank holds lies in the whole: DTensor's shards, as fully_shard
and tensor parallelism make them.

A digest depends on the places of the elements, and digests of parts that are made at their places
add up to that of the whole. So what a rank holds is recorded under the parameter's own name, at its
place: the sum over ranks is the record of a job that was not sharded. Only what a tensor knows of
itself is read: nothing is communicated, and the whole is never made.
"""

import ctypes
from itertools import product

from . import core

RUNS = 1 << 16  # stretches of a tensor that one shard may consist of
BLOCK = 16  # bytes: parts that begin at a multiple of them add up

# (place in the mesh, its shape, placements, the whole's shape) -> Box or None. No mesh is kept
# alive.
_boxes = {}
UNKNOWN = object()  # in the place of a Box
_noted = {}  # series -> Box that was noted for it


class Box:
    """A part of a tensor: from `start` on, `shape` elements in each dimension, of `whole`."""

    def __init__(self, whole, start, shape):
        self.whole, self.start, self.shape = whole, start, shape
        steps = [1] * len(whole)
        for i in range(len(whole) - 1, 0, -1):
            steps[i - 1] = steps[i] * whole[i]
        self.first = sum(s * n for s, n in zip(start, steps))
        cut = max((i for i, n in enumerate(whole) if n != shape[i]), default=0)
        self.run = 1  # elements that lie side by side in the whole
        for n in shape[cut:]:
            self.run *= n
        self.runs = 1
        for n in shape[:cut]:
            self.runs *= n
        self._outer = [(n, step) for n, step in zip(shape[:cut], steps)]

    def offsets(self):
        """The element of the whole at which each run begins, in the order of the part's memory."""
        for at in product(*(range(n) for n, _ in self._outer)):
            yield self.first + sum(i * step for i, (_, step) in zip(at, self._outer))

    def adds(self, width):
        """Whether its digest, with elements of so many bytes, adds up with those of its
        neighbours.
        """
        steps = [step for n, step in self._outer if n > 1]
        return all(at * width % BLOCK == 0 for at in [self.first, *steps])

    def cuts(self, width):
        """Of a single run: [(block, from, to)], the blocks of 16 bytes of which it has only the bytes
        from .. to, where a digest of its own bytes does not add up.
        """
        first = self.first * width
        end = first + self.run * self.runs * width
        whole = width
        for n in self.whole:
            whole *= n
        found = []
        if first == end:
            return found
        if first % BLOCK:
            block = first // BLOCK
            found.append((block, first % BLOCK, min(BLOCK, end - block * BLOCK)))
        block = end // BLOCK
        # where the tensor ends there is nothing behind to share the block with
        if end % BLOCK and end != whole and not (found and found[0][0] == block):
            found.append((block, max(0, first - block * BLOCK), end % BLOCK))
        return found


def edge_bytes(pointer, box, width, cut):
    """The bytes of such a block that a part in memory has, zero around them: two words, as memory
    that a record of a digest may point to.
    """
    block, start, end = cut
    at = pointer + block * BLOCK + start - box.first * width
    found = (ctypes.c_uint64 * 2)()
    ctypes.memmove(ctypes.addressof(found) + start, at, end - start)
    return found


def range_of(box, width, block):
    """A block as elements of the whole: "[4:8]"."""
    most = 1
    for n in box.whole:
        most *= n
    return "[%d:%d]" % (block * BLOCK // width, min((block + 1) * BLOCK // width, most))


def is_distributed(t):
    return any(c.__name__ == "DTensor" for c in type(t).__mro__)


def box_of(t):
    """The place of a DTensor's local part; None where it holds the whole. UNKNOWN: a term of a sum
    (Partial), or a way of cutting that is not known here.
    """
    spec = t._spec
    at = spec.mesh.get_coordinate()
    if at is None:
        return UNKNOWN
    placements = tuple(
        (type(p).__name__, getattr(p, "dim", None), getattr(p, "split_factor", None))
        for p in spec.placements
    )
    key = (tuple(at), tuple(spec.mesh.shape), placements, tuple(spec.shape))
    if key not in _boxes:
        if len(_boxes) >= 1 << 14:
            _boxes.clear()
        _boxes[key] = _cut(*key)
    found = _boxes[key]
    # what it says of itself and what it is must agree
    shape = tuple(spec.shape) if found is None else getattr(found, "shape", None)
    return found if tuple(t._local_tensor.shape) == shape else UNKNOWN


def _cut(at, mesh, placements, whole):
    """As torch.chunk() cuts, one dimension of the mesh after the other; where fully_shard cuts what
    tensor parallelism has cut (_StridedShard), the later dimensions come first.
    """
    order = _order(mesh, placements) if len(at) == len(mesh) == len(placements) else None
    if order is None:
        return UNKNOWN
    start, shape = [0] * len(whole), list(whole)
    for i in order:
        dim = placements[i][1]
        length = -(-shape[dim] // mesh[i])
        first = min(at[i] * length, shape[dim])
        shape[dim] = min(length, shape[dim] - first)
        start[dim] += first
    return None if tuple(shape) == whole else Box(whole, tuple(start), tuple(shape))


def _order(mesh, placements):
    """The dimensions of the mesh that cut, in the order in which they do; None where that is not
    known.
    """
    plain = [i for i, p in enumerate(placements) if p[0] == "Shard"]
    strided = [i for i, p in enumerate(placements) if p[0] == "_StridedShard"]
    if len(plain) + len(strided) + sum(p[0] == "Replicate" for p in placements) < len(mesh):
        return None
    for i in strided:
        # it says into how many parts those behind it have cut the same dimension of the tensor
        same = [k for k in plain + strided if placements[k][1] == placements[i][1]]
        factor = 1
        for k in same:
            factor *= mesh[k] if k > i else 1
        if placements[i][2] != factor or any(k < i and k in plain for k in same):
            return None
    return plain + strided[::-1]


def forget():
    """A child of fork has a trace of its own, to which notes are given anew."""
    _noted.clear()


def note(series, box, adds, edges=()):
    """Says of a series what its records are parts of, and of which series its edges are; once, and
    when that changes.
    """
    if _noted.get(series) is not box:
        _noted[series] = box
        place = (",".join(map(str, n)) for n in (box.whole, box.start, box.shape))
        core.note("shard", " ".join([str(series), *place, str(int(adds)), *map(str, edges)]))


def sum_of(digests):
    """The sum of digests of two words each, as memory that a record of a digest may point to."""
    mask = (1 << 64) - 1
    digests = list(digests)
    return (ctypes.c_uint64 * 2)(*(sum(d[i] for d in digests) & mask for i in (0, 1)))
