# SPDX-License-Identifier: Apache-2.0
"""The leaves of one side of the calls of a JAX program, recorded together.

Shapes and types of a program's leaves are always the same, so what lies in the host's memory as one
run is a row of an array that stays as it is from call to call, but for the address. All else
(arrays of NumPy, generators' keys, shards, what lies on a device) is looked at one by one.
"""

import functools

from . import core, faults, jax_arrays, native, parts, tensors
from .native import ITEM_BYTES, SKETCH, STATS, Items, pack_item, pack_pointer

ODD, LARGE = -1, -2  # places of arrays that are no rows


class Side:
    """series(place, suffix): the number of a leaf's record."""

    def __init__(self, series):
        self.series = series
        self.rows = []  # of each leaf: (aval, sharding, row, ODD or LARGE); None: no array of JAX
        self.items, self.used, self.bytes = Items(16), 0, 0
        self.large, self.others = [], []  # places of leaves

    def record(self, values):
        """Records all but the large arrays, and returns their places."""
        ready = jax_arrays.wait(values)
        if ready and not self._fill(values):
            self._look(values)
            ready = self._fill(values)
        if not ready:
            self._one_by_one(range(len(values)), values)
            return ()
        if self.used:
            tensors.sender(self.bytes, False)(self.items.address, self.used, None, 0)
        if self.others:
            self._one_by_one(self.others, values)
        return self.large

    def _one_by_one(self, places, values):
        pending = tensors.pending()
        for place in places:
            series = functools.partial(self.series, place)
            jax_arrays.add(pending, series, values[place], STATS | SKETCH)
        pending.flush()

    def _fill(self, values):
        """Writes down where the arrays lie. False: some of them are not what the rows say."""
        if len(values) != len(self.rows):
            return False
        buffer, array = self.items.buffer, jax_arrays.Array
        try:
            for place, (value, row) in enumerate(zip(values, self.rows)):
                if type(value) is not array:
                    if row is not None:
                        return False
                    continue
                if row is None:
                    return False
                aval, sharding, at = row
                if value.aval is not aval or value.sharding is not sharding:
                    if value.aval != aval or value.sharding != sharding:
                        return False
                    self.rows[place] = value.aval, value.sharding, at
                if at >= 0:
                    pack_pointer(buffer, at * ITEM_BYTES, value.unsafe_buffer_pointer())
        except Exception as error:  # one was deleted, for one
            faults.pass_on(error)
            return False
        return True

    def _look(self, values):
        self.rows, self.large, self.others, self.used, self.bytes = [], [], [], 0, 0
        while self.items.capacity < len(values):
            self.items.grow()
        for place, value in enumerate(values):
            if type(value) is not jax_arrays.Array:
                self.rows.append(None)
                self.others.append(place)
                continue
            self.rows.append((value.aval, value.sharding, self._place(place, value)))

    def _place(self, place, value):
        shape, code = value.shape, jax_arrays.code_of(value.dtype)
        count = jax_arrays.count_of(shape)
        if code is None or count == 0 or jax_arrays.host_shards(value.sharding) != 1:
            self.others.append(place)
            return ODD
        if count >= parts.LARGE:
            self.large.append(place)
            return LARGE
        at = self.used
        pack_item(
            self.items.buffer,
            at * ITEM_BYTES,
            0,
            0,
            0,
            count,
            0,
            self.series(place, ""),
            core.layout(code, shape),
            STATS | SKETCH,
            code,
            len(shape),
            0,
        )
        self.used += 1
        self.bytes += count * native.WIDTH[code]
        return at
