# SPDX-License-Identifier: Apache-2.0
"""Every operation of the first step with its values, for `check --explain rounding`.

TWINRUN_ROUNDING is the number of bytes that one process may write. The recording is a folder,
`values/rounding.<rank>.<pid>` of the run: `operations.jsonl`, one object a line, and `values.bin`,
raw values. A tensor is written as the place that it has in its storage, so that a reader can follow
what is written through views; the storages are held until the recording ends, so that no address
means two of them. docs/internals/rounding.md has the fields.
"""

import ctypes
import hashlib
import json
import os

from . import tensors

# Collectives that are followed: the place of what goes in and of what comes out.
COLLECTIVES = {
    "c10d::allreduce_": (0, 0),
    "c10d::allreduce_coalesced_": (0, 0),
    "c10d::broadcast_": (0, 0),
    "c10d::allgather_": (1, 0),
    "c10d::_allgather_base_": (1, 0),
    "c10d::reduce_scatter_": (1, 0),
    "c10d::_reduce_scatter_base_": (1, 0),
    "c10d::barrier": (None, None),
}


def _tensors(torch, value):
    if isinstance(value, torch.Tensor):
        return [value]
    return (
        [t for v in value for t in _tensors(torch, v)] if isinstance(value, (list, tuple)) else []
    )


class Recorder:
    """Writes what it is shown into a folder. Knows nothing of the agent, so that a test can use it
    without one.
    """

    def __init__(self, torch, folder, limit):
        os.makedirs(folder, exist_ok=True)
        self.torch, self.left, self.folder = torch, limit, folder
        self.lines = open(os.path.join(folder, "operations.jsonl"), "w", encoding="utf-8")
        self.values = open(os.path.join(folder, "values.bin"), "wb")
        self.storages = {}  # address -> (number, the storage, which keeps the address its own)
        self.at = 0
        self.ended = None
        self.begun = 0  # collectives
        self.flying = {}  # storage -> [(collective, place of the output, tensor)] not read yet

    def _bytes(self, tensor):
        tensor = tensor.detach().cpu().contiguous()
        return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())

    def _put(self, data):
        if len(data) > self.left:
            self.end("more values than the limit allows")
            return None
        self.left -= len(data)
        self.values.write(data)
        self.at += len(data)
        return [self.at - len(data), len(data)]

    def _tensor(self, tensor, made):
        """The place of a tensor, and its values where nothing recorded made them."""
        plain = type(tensor) in (self.torch.Tensor, self.torch.nn.Parameter)
        if not plain or tensor.layout is not self.torch.strided or tensor.is_quantized:
            return {"opaque": type(tensor).__name__}
        storage = tensor.untyped_storage()
        key = (str(tensor.device), storage.data_ptr(), storage.nbytes())
        known = self.storages.get(key)
        found = {}
        self._settle(tensor)
        if known is None:
            known = self.storages[key] = (len(self.storages), storage)
            if not made and storage.nbytes():
                size = tensor.element_size()
                whole = self.torch.empty(0, dtype=tensor.dtype, device=tensor.device)
                whole.set_(storage, 0, (storage.nbytes() // size,), (1,))
                found["leaf"] = self._put(self._bytes(whole))
                found["elements"] = storage.nbytes() // size
        found.update(
            s=known[0],
            at=tensor.storage_offset(),
            shape=list(tensor.shape),
            strides=list(tensor.stride()),
            type=str(tensor.dtype)[6:],
        )
        data = self._bytes(tensor)
        if made:
            found["v"] = self._put(data)
            found["elements"] = storage.nbytes() // max(tensor.element_size(), 1)
        else:
            found["h"] = hashlib.blake2b(data, digest_size=8).hexdigest()
        return found

    def _value(self, value):
        torch = self.torch
        if isinstance(value, torch.Tensor):
            return {"tensor": self._tensor(value, False)}
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return {"float": value.hex()}
        if isinstance(value, (list, tuple)):
            return [self._value(v) for v in value]
        if isinstance(value, torch.dtype):
            return {"dtype": str(value)[6:]}
        return {"other": str(value)}

    def _settle(self, tensor):
        """Before memory is read or written that a collective may have received into."""
        storage = tensor.untyped_storage()
        known = self.storages.get((str(tensor.device), storage.data_ptr(), storage.nbytes()))
        if known is not None and known[0] in self.flying:
            self._arrive(known[0])

    def _arrive(self, storage):
        """What a collective received is there: somebody reads it. It is written before that line."""
        for collective, slot, tensor in self.flying.pop(storage):
            place = self._tensor(tensor, True)
            if self.ended is None:
                line = {"arrived": collective, "slot": slot, "place": place}
                self.lines.write(json.dumps(line) + "\n")

    @tensors.without_gradients
    def collective(self, operation, args, scope, site):
        """A collective, before it is called: what goes in; what comes out is written when somebody
        reads it. A ValueError: it cannot be followed.
        """
        if self.ended is not None:
            return
        name = operation._schema.name
        if name not in COLLECTIVES:
            raise ValueError("a collective that is not followed")
        given, taken = COLLECTIVES[name]
        line = {"op": str(operation), "collective": self.begun, "scope": scope, "site": site}
        self.begun += 1
        sent = [] if given is None else _tensors(self.torch, args[given])
        line["inputs"] = [{"tensor": self._tensor(t, False)} for t in sent]
        line["outs"] = []
        line["members"] = self._members(args)
        line["root"] = args[2] if name == "c10d::broadcast_" else None
        received = [] if taken is None else _tensors(self.torch, args[taken])
        for slot, tensor in enumerate(received):
            storage = self._tensor(tensor, taken != given)["s"]
            self.flying.setdefault(storage, []).append((line["collective"], slot, tensor))
        if self.ended is None:
            self.lines.write(json.dumps(line) + "\n")

    def _members(self, args):
        """The ranks of its group, in the group's order."""
        distributed = self.torch.distributed
        kind = distributed.ProcessGroup
        for value in args:
            if "ProcessGroup" in str(getattr(value, "_type", lambda: "")()):
                return distributed.get_process_group_ranks(kind.unbox(value))
        raise ValueError("its process group is not among its arguments")

    @tensors.without_gradients
    def before(self, operation, args, kwargs):
        """What an operation is given; for after(). None once the recording has ended."""
        if self.ended is not None or self._of_a_collective(operation, args):
            return None
        return {
            "op": str(operation),
            "args": self._value(args),
            "kwargs": {k: self._named(k, v) for k, v in kwargs.items()},
        }

    def _of_a_collective(self, operation, args):
        """Is it how a backend hands over what it received: a copy from memory that nobody has seen?"""
        if operation._schema.name != "aten::copy_" or not self.flying:
            return False
        numbers = []
        for tensor in args[:2]:
            storage = tensor.untyped_storage()
            key = (str(tensor.device), storage.data_ptr(), storage.nbytes())
            numbers.append(self.storages.get(key, (None,))[0])
        return numbers[0] in self.flying and numbers[1] is None

    def _named(self, name, value):
        if name != "out" or not isinstance(value, self.torch.Tensor):
            return self._value(value)
        self._settle(value)  # what was there before means nothing
        return True

    @tensors.without_gradients
    def after(self, line, outputs, scope, site):
        """What it made, and wrote to."""
        if self.ended is not None:
            return
        line["outs"] = [self._tensor(t, True) for t in outputs]
        line["scope"], line["site"] = scope, site
        if self.ended is None:
            self.lines.write(json.dumps(line) + "\n")

    def end(self, why=""):
        """Nothing is recorded from here on; why: what is missing, empty where nothing is."""
        if self.ended is not None:
            return
        self.ended = why
        self.lines.write(json.dumps({"end": why}) + "\n")
        self.lines.close()
        self.values.close()
        self.storages.clear()
