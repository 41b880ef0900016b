# SPDX-License-Identifier: Apache-2.0
"""A recording as a graph of values: each has one operation that made it.

Tensors share memory and are written in place. A recording says where in which storage each stands;
here what was written last is followed from storage to storage, and a read that covers several
writes becomes an operation of its own, `assemble`, which rounds nothing.
"""

import hashlib
import json
import os

import torch


class Broken(Exception):
    """The recording is not one that can be followed."""


class Value:
    """One tensor at one moment. maker: an Operation, or None: it was there before."""

    __slots__ = (
        "maker",
        "slot",
        "data",
        "readers",
        "exact",
        "error",
        "number",
        "match",
        "weak",
        "part",
        "lead",
        "rank",
    )

    def __init__(self, maker, slot, data, number):
        self.maker, self.slot, self.data, self.number = maker, slot, data, number
        self.readers = []
        self.exact = self.error = None  # in float64: the value, and how far it may be wrong
        self.match = None  # the value of the other arm that is the same quantity
        self.weak = False  # so ill-conditioned that a match says nothing
        self.part = None  # a value of an arm with other ranks that this is a part of, or made of
        self.lead = False  # of a rank: what it adds to, or a multiple of a part; lawful on the way
        self.rank = 0


class Operation:
    """One call. args and kwargs hold a Value where a tensor stood."""

    __slots__ = (
        "name",
        "args",
        "kwargs",
        "outs",
        "inputs",
        "scope",
        "site",
        "number",
        "line",  # of operations.jsonl, from 1; 0: none
        "rank",
        "members",  # of a collective: its ranks; else None
        "root",
        "shares",  # of a collective: what each member gives
    )

    def __init__(self, name, scope, site, number, line=0):
        self.name, self.scope, self.site, self.number = name, scope, site, number
        self.line = line
        self.args, self.kwargs, self.outs, self.inputs = [], {}, [], []
        self.rank, self.members, self.root, self.shares = 0, None, None, None


class Recording:
    """values and operations, in the order of the program."""

    def __init__(self, folder):
        self.values, self.operations = [], []
        self.storages = {}  # number -> list of (place, Value), the last write last
        self.versions = {}
        self.assembled = {}
        self.collectives = []
        self.ranks, self.alone = 1, None
        self.gap = None  # why something is missing; None: whole
        with open(os.path.join(folder, "values.bin"), "rb") as file:
            self.raw = file.read()
        ended = False
        with open(os.path.join(folder, "operations.jsonl"), encoding="utf-8") as file:
            for at, text in enumerate(file, 1):
                line = json.loads(text)
                if "end" in line:
                    ended, self.gap = True, line["end"] or None
                    break
                self._take(line, at)
        if not ended:
            self.gap = "the recording has no end: the job was stopped in its first step"

    def _load(self, where, dtype, shape):
        if where is None:
            raise Broken("values are missing: the limit was reached")
        at, size = where
        if at + size > len(self.raw):
            raise Broken("values.bin is cut short")
        dtype = getattr(torch, dtype)
        if not size:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(bytearray(self.raw[at : at + size]), dtype=dtype).reshape(shape)

    def _new(self, maker, slot, data):
        value = Value(maker, slot, data, len(self.values))
        self.values.append(value)
        return value

    def _read(self, place):
        number = place["s"]
        if "leaf" in place:
            flat = self._load(place["leaf"], place["type"], (place["elements"],))
            whole = {
                "at": 0,
                "shape": [place["elements"]],
                "strides": [1],
                "type": place["type"],
                "elements": place["elements"],
            }
            self.storages[number] = [(whole, self._new(None, 0, flat))]
        writes = self.storages.get(number)
        if writes is None:
            # an empty tensor, or memory that nothing recorded has filled
            if 0 in place["shape"]:
                empty = torch.empty(place["shape"], dtype=getattr(torch, place["type"]))
                return self._new(None, 0, empty)
            raise Broken("storage %d is read before it is written" % number)
        key = (number, self.versions.get(number, 0), json.dumps(_geometry(place)))
        found = self.assembled.get(key)
        if found is None:
            found = self.assembled[key] = self._assemble(place, writes)
        memory = found.data.contiguous().flatten()
        data = memory.view(torch.uint8).numpy().tobytes() if memory.numel() else b""
        if hashlib.blake2b(data, digest_size=8).hexdigest() != place["h"]:
            # somebody wrote to it whom we do not see
            raise Broken("a value changed between two operations, and no operation wrote it")
        return found

    def _assemble(self, place, writes):
        place = _geometry(place)
        if _geometry(writes[-1][0]) == place:
            return writes[-1][1]
        first = 0
        for i, (where, value) in enumerate(writes):
            if value.data.numel() == where["elements"] and where["at"] == 0:
                first = i
        parts = writes[first:]
        if any(w["type"] != place["type"] for w, _v in parts):
            raise Broken("memory of one type is read as another")
        op = Operation("assemble", "", "", len(self.operations))
        op.inputs = [v for _w, v in parts]
        op.args = [[(_geometry(w), v) for w, v in parts], place, parts[0][0]["elements"]]
        data = assemble(op.args, lambda v: v.data)
        op.outs = [self._new(op, 0, data)]
        for v in op.inputs:
            v.readers.append(op)
        self.operations.append(op)
        return op.outs[0]

    def _argument(self, value, found):
        if isinstance(value, list):
            return [self._argument(v, found) for v in value]
        if not isinstance(value, dict):
            return value
        if "float" in value:
            return float.fromhex(value["float"])
        if "dtype" in value:
            return getattr(torch, value["dtype"])
        if "other" in value:
            return None
        if "opaque" in value["tensor"]:
            raise Broken("a tensor of type %s" % value["tensor"]["opaque"])
        made = self._read(value["tensor"])
        found.append(made)
        return made

    def _take(self, line, at):
        if "arrived" in line:
            self._made(self.collectives[line["arrived"]], line["slot"], line["place"])
            return
        op = Operation(line["op"], line["scope"], line["site"], 0, at)
        if "collective" in line:
            for value in line["inputs"]:
                self._argument(value, op.inputs)
            op.members, op.root = line["members"], line["root"]
            op.number = len(self.operations)
            self.operations.append(op)
            self.collectives.append(op)
            return
        try:
            op.args = self._argument(line["args"], op.inputs)
            op.kwargs = {k: self._argument(v, op.inputs) for k, v in line["kwargs"].items()}
        except Broken:
            if not _overwrites(op.name):
                raise
            op.args, op.kwargs = self._without_memory(line, op)
        op.number = len(self.operations)
        self.operations.append(op)
        op.outs = []
        for slot, place in enumerate(line["outs"]):
            self._made(op, slot, place)
        # what only asks for a shape does not read: a loss is read by nobody but the begin of its
        # backward, which fills its shape with ones
        if not op.name.split(".")[1].endswith("_like"):
            for value in op.inputs:
                value.readers.append(op)

    def _made(self, op, slot, place):
        if "opaque" in place:
            raise Broken("a tensor of type %s" % place["opaque"])
        value = self._new(op, slot, self._load(place["v"], place["type"], place["shape"]))
        op.outs.append(value)
        self.storages.setdefault(place["s"], []).append((place, value))
        self.versions[place["s"]] = self.versions.get(place["s"], 0) + 1

    def _without_memory(self, line, op):
        """Arguments of an operation that only fills memory: what was there before means nothing."""
        op.inputs = []
        args = [None] + [self._argument(v, op.inputs) for v in line["args"][1:]]
        return args, {k: self._argument(v, op.inputs) for k, v in line["kwargs"].items()}


FILLS = (
    "fill_",
    "zero_",
    "copy_",
    "normal_",
    "uniform_",
    "bernoulli_",
    "random_",
    "exponential_",
)


def _overwrites(name):
    return name.split(".")[1] in FILLS


def _geometry(place):
    return {k: place[k] for k in ("at", "shape", "strides", "type")}


def assemble(args, of):
    """What the last of several writes left in a part of a storage; of(Value): the tensor."""
    parts, place, elements = args
    first = of(parts[0][1])
    flat = torch.zeros(elements, dtype=first.dtype)
    for where, value in parts:
        flat.as_strided(where["shape"], where["strides"], where["at"]).copy_(of(value))
    return flat.as_strided(place["shape"], place["strides"], place["at"]).clone()
