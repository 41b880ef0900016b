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


class Recorder:
    """Writes what it is shown into a folder. Knows nothing of the agent, so that a test can use it
    without one.
    """

    def __init__(self, torch, folder, limit):
        os.makedirs(folder, exist_ok=True)
        self.torch, self.left = torch, limit
        self.lines = open(os.path.join(folder, "operations.jsonl"), "w", encoding="utf-8")
        self.values = open(os.path.join(folder, "values.bin"), "wb")
        self.storages = {}  # address -> (number, the storage, which keeps the address its own)
        self.at = 0
        self.ended = None

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

    def before(self, operation, args, kwargs):
        """What an operation is given; for after(). None once the recording has ended."""
        if self.ended is not None:
            return None
        with self.torch.no_grad():
            return {
                "op": str(operation),
                "args": self._value(args),
                "kwargs": {k: self._value(v) for k, v in kwargs.items()},
            }

    def after(self, line, outputs, scope, site):
        """What it made, and wrote to."""
        if self.ended is not None:
            return
        with self.torch.no_grad():
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
