# SPDX-License-Identifier: Apache-2.0
"""torch.save: the contents of what is saved, the container left out.

The record's digest covers the tensors, in the order of the structure, with names, types and shapes.
Plain values (an epoch, a time stamp) go into a note instead: some may differ between runs that are
equal in everything that matters. A second note has a digest of all of them, and how many objects
were not looked into, so that a file of other bytes is not taken for an equal one.
"""

import functools
import os
import sys

from . import core, nested, optim, tensors
from .core import S, T, hook, trim
from .native import CHECKPOINT, FILE

TENSORS = 65536
VALUES = 64  # plain values in the note
DIGESTED = 65536  # and in the digest
NOTE_BYTES = 4000
DEPTH = 12


def _state_of(value, torch):
    """What pickling would take apart, without running code of the job; None for what
    stays opaque.
    """
    if isinstance(value, torch.nn.Module):
        inside = value.__dict__
        return {
            key: inside[key]
            for key in ("_parameters", "_buffers", "_modules", "training")
            if key in inside
        }
    if isinstance(value, torch.optim.Optimizer):
        return {"state": list(value.state.values()), "param_groups": value.param_groups}
    inside = getattr(value, "__dict__", None)
    return inside if type(inside) is dict else None


@tensors.without_gradients
def _contiguous(part):
    return part.detach().contiguous()


class Contents:
    """Tensors and plain values of a structure, in order."""

    def __init__(self, torch):
        self.torch = torch
        self.parts = []  # what the digest covers
        self.values = []  # (path, text)
        self.digested = []  # all of them, whole
        self.hidden = 0  # objects and values that nobody looked at
        self.count = 0
        self.seen = {}  # id -> container; kept alive, so that no id comes back as another's

    def add(self, path, value, depth=0):
        if self.count >= TENSORS or depth > DEPTH:
            if isinstance(value, self.torch.Tensor) or nested.is_array(value):
                core.unseen(
                    "a checkpoint holds more than %d tensors, or one more than %d containers deep: not all were recorded"
                    % (TENSORS, DEPTH)
                )
            self.hidden += 1
            return
        if isinstance(value, self.torch.Tensor):
            self._tensor(path, value)
        elif value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
            self._plain(path, repr(value))
        elif isinstance(value, (self.torch.dtype, self.torch.device)):
            self._plain(path, repr(value))
        elif isinstance(value, nested.OPAQUE):  # pickled by its name
            name = getattr(value, "__qualname__", None) or getattr(value, "__name__", "")
            self._plain(path, "%s.%s" % (getattr(value, "__module__", ""), name))
        elif nested.is_array(value):
            self._array(path, value)
        elif id(value) in self.seen:
            return
        elif isinstance(value, dict):
            self.seen[id(value)] = value
            for key in list(dict.keys(value)):
                self.add(
                    "%s[%s]" % (path, nested.key_text(key)), dict.__getitem__(value, key), depth + 1
                )
        elif isinstance(value, (list, tuple)):
            self.seen[id(value)] = value
            for i, inner in enumerate((list if isinstance(value, list) else tuple).__iter__(value)):
                self.add("%s[%d]" % (path, i), inner, depth + 1)
        else:
            self.seen[id(value)] = value
            inside = _state_of(value, self.torch)
            # a module has more attributes than are looked at
            self.hidden += isinstance(value, self.torch.nn.Module)
            if inside is not None:
                self.add("%s<%s>" % (path, type(value).__name__), inside, depth + 1)
            else:
                self.hidden += 1

    def _plain(self, path, text):
        if len(self.values) < VALUES:
            self.values.append((path, text[:120]))
        if len(self.digested) < DIGESTED:
            self.digested.append("%s = %s" % (path, text))
        else:
            self.hidden += 1

    def digest_of_values(self):
        data = "\n".join(self.digested).encode("utf-8", "surrogatepass")
        return S.lib.quick_digest(data, len(data))

    def _tensor(self, path, tensor):
        for suffix, part in tensors.parts(tensor):
            self.count += 1
            if part is None:
                self.parts.append("%s%s unobserved" % (path, suffix))
                continue
            if not part.is_contiguous():
                part = _contiguous(part)
            size = part.numel() * part.element_size()
            digest = S.lib.quick_digest(part.data_ptr(), size) if size else 0
            self.parts.append(
                "%s%s %s %s %016x" % (path, suffix, part.dtype, tuple(part.shape), digest)
            )

    def _array(self, path, array):
        self.count += 1
        data = array.tobytes()
        digest = S.lib.quick_digest(data, len(data)) if data else 0
        self.parts.append("%s %s %s %016x" % (path, array.dtype.str, array.shape, digest))


def _name(file):
    if isinstance(file, (str, os.PathLike)):
        return os.path.basename(os.fspath(file)) or "file"
    name = getattr(file, "name", None)
    return os.path.basename(name) if isinstance(name, str) else "(%s)" % type(file).__name__


@hook
def _saved(value, file):
    if not core.begin():
        return
    name = _name(file)
    if isinstance(name, bytes):
        name = name.decode("utf-8", "replace")
    contents = Contents(sys.modules["torch"])
    contents.add("", value)
    pending = tensors.pending()
    pending.add_bytes(
        core.series(CHECKPOINT, FILE, name, "", "torch.save"), "\n".join(contents.parts).encode()
    )
    pending.flush()
    optim.look_at_checkpoint()
    core.saw("checkpoint")
    core.note(
        "checkpoint.digest", "%016x %d %s" % (contents.digest_of_values(), contents.hidden, name)
    )
    if contents.values:
        text = "\n".join("%s = %s" % pair for pair in contents.values)
        core.note("checkpoint.values", ("step %d %s\n%s" % (S.step, name, text))[:NOTE_BYTES])


def arm(torch):
    original = torch.save

    def save(*args, **kwargs):
        try:
            original(*args, **kwargs)
        except BaseException as error:
            trim(error)
            raise
        if S.on and not T.collective:  # there a tensor of an object is pickled (objects.py)
            _saved(
                args[0] if args else kwargs.get("obj"),
                args[1] if len(args) > 1 else kwargs.get("f"),
            )

    torch.save = torch.serialization.save = functools.update_wrapper(save, original)
    S.armed.append("torch.save")
    return [save]
