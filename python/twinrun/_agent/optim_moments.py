# SPDX-License-Identifier: Apache-2.0
"""Where an optimizer keeps its state: moments and counts, found again in each step."""

from . import refs, swift, tensors
from .core import S


class Moments:
    """The tensors and numbers in an optimizer's state, found again in every step without looking
    for them anew, nor holding them.
    """

    def __init__(self):
        # (position of the parameter, number of entries, rows, numbers) of each state
        self.groups = []
        self.names = []  # (name, scope, op, site) of each tensor
        self.size = 0  # parameters with a state
        self.epoch = S.interrupted
        self.nested = False  # something deeper than one level: looked for anew in every step
        self.swift = None  # what look() has found, for the swift path
        # position of the parameter -> place, among the tensors, of its count that lies in memory
        self.counts = {}

    def look(self, followed, state, parameters):
        """Looks for them. Returns the tensors in the order of their names, [(name, value)] of the
        numbers, and whether each tensor is where it was.
        """
        self.size = len(state)
        values, numbers = [], []
        for position, p in enumerate(parameters):
            entries = state.get(p)
            if not isinstance(entries, dict) or not entries:
                continue
            base, scope = followed.names[position][:2]
            rows, plain = [], []
            for key, value in dict.items(entries):
                if (
                    key == "step"
                    and _on_device(value)
                    and followed.names[position][:2] != min(n[:2] for n in followed.names)
                ):
                    # each costs a copy to the host: one of them stands for all, whatever their
                    # order
                    continue
                name = base + "." + str(key)
                if tensors.is_tensor(value):
                    rows.append([key, refs.to(value), tensors.address(value)])
                elif isinstance(value, (bool, int, float)):
                    plain.append((name, key))
                self._add(name, scope, followed.op, value, values, numbers, 0)
            self.groups.append((position, len(entries), rows, plain))
        if swift.ON and not self.nested:
            self._hand_over(state, parameters)
        return values, numbers, False

    def _hand_over(self, state, parameters):
        """To the swift path, where the state is tensors alone that have memory."""
        self.swift, entries, found = None, {}, []
        for position, count, rows, plain in self.groups:
            if plain or not all(row[2] for row in rows):
                return
            entries[id(parameters[position])] = count, len(found), len(rows)
            for row in rows:
                if row[0] == "step" and tensors._simple(row[1]()):
                    self.counts[position] = len(found)
                found.append(tuple(row))
        if found and isinstance(state, dict) and len(entries) == len(state):
            ids = list(map(id, dict.keys(state)))
            if all(key in entries for key in ids):
                self.swift = swift.new_moments([(key, *entries[key]) for key in ids], found)

    def swiftly(self, state):
        """The tensors, where each is the one that it was, in its place; else None."""
        if self.swift is None or self.epoch != S.interrupted:
            return None
        return swift.moments(self.swift, state)

    def _add(self, name, scope, op, value, values, numbers, depth):
        if tensors.is_tensor(value):
            values.append(value)
            self.names.append((name, scope, op, ""))
        elif isinstance(value, (bool, int, float)):
            numbers.append((name, float(value)))
        elif isinstance(value, dict) and depth < 3:
            self.nested = True
            for inner in dict.keys(value):
                self._add(
                    "%s[%r]" % (name, inner),
                    scope,
                    op,
                    dict.__getitem__(value, inner),
                    values,
                    numbers,
                    depth + 1,
                )
        elif isinstance(value, (list, tuple)) and depth < 3:
            self.nested = True
            for i in range(len(value)):
                self._add("%s[%d]" % (name, i), scope, op, value[i], values, numbers, depth + 1)

    def again(self, state, parameters):
        """look() for a state that has kept its shape; None where it has another one."""
        if self.nested or len(state) != self.size or self.epoch != S.interrupted:
            return None
        values, numbers, steady = [], [], True
        for position, count, rows, plain in self.groups:
            entries = state.get(parameters[position])
            if entries is None or len(entries) != count:
                return None
            for row in rows:
                value = entries.get(row[0])
                values.append(value)
                if row[2] and row[1]() is value and tensors.address(value) == row[2]:
                    continue
                if not tensors.is_tensor(value):
                    return None
                steady = False
                row[1], row[2] = refs.to(value), tensors.address(value)
            for name, key in plain:
                value = entries.get(key)
                if not isinstance(value, (int, float)):
                    return None
                numbers.append((name, float(value)))
        if swift.ON and not steady:
            self._hand_over(state, parameters)
        return values, numbers, steady


def _on_device(value):
    return tensors.is_tensor(value) and value.device.type != "cpu"
