# SPDX-License-Identifier: Apache-2.0
"""Hyperparameters of an optimizer, as step() finds them."""

from array import array
from time import perf_counter_ns

from . import core, faults, swift, tensors
from .core import S
from .native import F64, HYPER, ITEM_BYTES, OPTIMIZER, STATS, Items, pack_item


class Numbers:
    """Hyperparameters: the numbers of every group, in an array that stays in place from step to
    step.
    """

    def __init__(self, label, op):
        self.label, self.op = label, op
        self.shape = None  # keys of each group when the plan was made
        self.plan = []  # (group, key, index in a tuple or None) of each number
        self.odd = []  # (name, group, key) of tensors
        self.values = array("d")
        self.items = Items(16)
        self.swift = None  # the plan for the swift path

    def _look(self, groups):
        self.shape = self.swift = None
        self.plan, self.odd, names = [], [], []
        for g, group in enumerate(groups):
            for key in group:
                if key != "params":
                    self._add(names, "%s[%d]" % (key, g), g, key, group[key])
        self.values = array("d", bytes(8 * len(names)))
        address = self.values.buffer_info()[0]
        while self.items.capacity < len(names):
            self.items.grow()
        for i, name in enumerate(names):
            pack_item(
                self.items.buffer,
                i * ITEM_BYTES,
                address + 8 * i,
                0,
                0,
                1,
                0,
                core.series(OPTIMIZER, HYPER, name, self.label, self.op, "", ""),
                core.layout(F64, ()),
                STATS,
                F64,
                0,
                0,
            )
        self.shape = [len(group) for group in groups]
        if swift.ON and self.plan and not self.odd:
            self.swift = swift.new_numbers(
                (self.items.buffer, self.values),
                self.items.address,
                address,
                self.shape,
                [(g, key, -1 if index is None else index) for g, key, index in self.plan],
            )

    def _add(self, names, name, g, key, value):
        if isinstance(value, bool):
            return  # a switch of the implementation, or of the program's text
        if isinstance(value, (int, float)):
            names.append(name)
            self.plan.append((g, key, None))
        elif (
            isinstance(value, (tuple, list))
            and 0 < len(value) <= 8
            and all(type(v) in (int, float) for v in value)
        ):
            for i in range(len(value)):
                names.append("%s[%d]" % (name, i))
                self.plan.append((g, key, i))
        elif tensors.is_tensor(value):
            self.odd.append((name, g, key))

    def record(self, groups):
        if self.swift is not None and swift.numbers(self.swift, groups):
            return
        if self.shape != [len(group) for group in groups]:
            self._look(groups)
        try:
            self._read(groups)
        except (KeyError, TypeError, IndexError, OverflowError) as error:
            faults.pass_on(error)
            self._look(groups)  # a number has become something else
            self._read(groups)
        if self.plan:
            began = perf_counter_ns()
            S.lib.records(self.items.address, len(self.plan), None, 0)
            S.native_ns += perf_counter_ns() - began
        if not self.odd:
            return
        pending = tensors.pending()
        for name, g, key in self.odd:
            pending.add(OPTIMIZER, HYPER, name, groups[g][key], self.label, self.op, flags=STATS)
        pending.flush()

    def _read(self, groups):
        values = self.values
        for i, (g, key, index) in enumerate(self.plan):
            value = groups[g][key]
            values[i] = value if index is None else value[index]
