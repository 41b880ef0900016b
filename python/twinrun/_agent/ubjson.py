# SPDX-License-Identifier: Apache-2.0
"""Where the trees lie in a model of XGBoost, which is Universal Binary JSON (ubjson.org, draft 12):
each value begins with a letter that says its type, containers may say the type and the number of
their values once for all. Only places are asked for; no number of a tree is read.
"""

import struct

_SIZES = {"Z": 0, "N": 0, "T": 0, "F": 0, "i": 1, "U": 1, "C": 1, "I": 2, "l": 4, "d": 4}
_SIZES.update({"L": 8, "D": 8})
_CLOSE, _LONG = b"}L"
_length = struct.Struct(">Q").unpack_from
_INTEGERS = {"i": ">b", "U": ">B", "I": ">h", "l": ">i", "L": ">q"}


def trees(data):
    """([(first, end) of each tree], [how many trees were there before each round, and in all]).
    ValueError: the data are no such model.
    """
    reader = _Reader(data)
    try:
        reader.value(0, ())
    except (IndexError, KeyError, struct.error, RecursionError, UnicodeDecodeError) as error:
        raise ValueError("no model of XGBoost that we know: %r" % error) from error
    return reader.trees, reader.rounds or [0]


class _Reader:
    def __init__(self, data):
        self.data, self.trees, self.rounds = data, [], []

    def letter(self, at):
        return chr(self.data[at])

    def integer(self, at):
        """(value, end) of an integer that begins with its type."""
        form = _INTEGERS[self.letter(at)]
        (found,) = struct.unpack_from(form, self.data, at + 1)
        if found < 0:
            raise ValueError("a negative length")
        return found, at + 1 + struct.calcsize(form)

    def text(self, at):
        """(bytes, end): a length and so many bytes."""
        length, at = self.integer(at)
        if at + length > len(self.data):
            raise IndexError(at)
        return self.data[at : at + length], at + length

    def value(self, at, path):
        """The end of a value that begins with its type."""
        return self.inside(self.letter(at), at + 1, path)

    def inside(self, kind, at, path):
        """The end of a value of this type, whose letter was before `at`."""
        if kind in _SIZES:
            at += _SIZES[kind]
        elif kind in "SH":
            _text, at = self.text(at)
        elif kind == "[":
            at = self.array(at, path)
        elif kind == "{":
            at = self.object(at, path)
        else:
            raise ValueError("type %r" % kind)
        if at > len(self.data):
            raise IndexError(at)
        return at

    def head(self, at):
        """(type or None, count or None, end) of a container."""
        kind = count = None
        if self.letter(at) == "$":
            kind, at = self.letter(at + 1), at + 2
        if self.letter(at) == "#":
            count, at = self.integer(at + 1)
        elif kind is not None:
            raise ValueError("a type without a count")
        return kind, count, at

    def object(self, at, path):
        kind, count, at = self.head(at)
        done = 0
        while done != count if count is not None else self.letter(at) != "}":
            name, at = self.text(at)
            inner = (*path[-1:], name)
            at = self.value(at, inner) if kind is None else self.inside(kind, at, inner)
            done += 1
        return at if count is not None else at + 1

    def array(self, at, path):
        kind, count, at = self.head(at)
        if kind in _SIZES:
            return at + count * _SIZES[kind]
        done = 0
        while done != count if count is not None else self.letter(at) != "]":
            if path == (b"model", b"iteration_indptr"):
                self.rounds.append(self.integer(at)[0])
            first = at
            if path == (b"model", b"trees"):
                at = self.tree(at)
                self.trees.append((first, at))
            else:
                at = self.value(at, ()) if kind is None else self.inside(kind, at, ())
            done += 1
        return at if count is not None else at + 1

    def tree(self, at):
        """The end of a tree: quick where it is as XGBoost writes it, with arrays of a type."""
        data = self.data
        if data[at : at + 2] != b"{L":
            raise ValueError("a tree that begins otherwise")
        at += 1
        while data[at] != _CLOSE:
            if data[at] != _LONG:
                raise ValueError("a name that begins otherwise")
            at += 9 + _length(data, at + 1)[0]
            if data[at : at + 2] == b"[$" and data[at + 3 : at + 5] == b"#L":
                at += 13 + _SIZES[chr(data[at + 2])] * _length(data, at + 5)[0]
            else:
                at = self.value(at, ())
        return at + 1
