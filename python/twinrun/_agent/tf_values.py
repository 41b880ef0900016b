# SPDX-License-Identifier: Apache-2.0
"""The contents of TensorFlow's tensors, as records.

A tensor in the host's memory is read where it lies (`EagerTensor._numpy()` makes no copy of it);
one on a device is copied to the host. Tensors do not change, so whoever holds one may read it later
as well; but nothing is held longer than until the records are made, since TensorFlow writes to a
variable in place only where nobody else holds what it read from there.
"""

import sys

from . import buffers, core, faults, native
from .native import UNOBSERVED

NAMES = 4096  # tensors of one structure
DEPTH = 16  # containers in containers

_Tensor = _EagerTensor = _Composite = _Resource = None
_nest = _resource = _variant = None


def arm(tensorflow):
    global _Tensor, _EagerTensor, _Composite, _nest, _resource, _variant
    ops = sys.modules["tensorflow.python.framework.ops"]
    _Tensor, _EagerTensor = tensorflow.Tensor, ops.EagerTensor
    _Composite = sys.modules["tensorflow.python.framework.composite_tensor"].CompositeTensor
    _nest = tensorflow.nest
    _resource, _variant = tensorflow.resource, tensorflow.variant


def is_tensor(value):
    return isinstance(value, _Tensor)


def is_eager(value):
    return isinstance(value, _EagerTensor)


def is_handle(tensor):
    """Whether it stands for something else: a variable, an iterator, a dataset."""
    return tensor.dtype in (_resource, _variant)


def walk(value, name, found, depth=0):
    """Lists the tensors, arrays and plain numbers inside of `value` as (name, leaf), in order. Sparse
    and ragged tensors, IndexedSlices and their like are taken apart. Calls no code of the job.
    """
    if len(found) >= NAMES or depth > DEPTH:
        core.unseen("%s holds more than is looked at" % name.partition("[")[0])
    elif value is None or isinstance(value, (str, bytes)):
        pass
    elif isinstance(value, _Composite) and not hasattr(value, "_handle"):
        for i, part in enumerate(_nest.flatten(value, expand_composites=True)):
            found.append(("%s.part[%d]" % (name, i), part))
    elif isinstance(value, dict):
        for key in list(dict.keys(value)):
            walk(dict.__getitem__(value, key), "%s[%r]" % (name, key), found, depth + 1)
    elif isinstance(value, (list, tuple)):
        fields = getattr(type(value), "_fields", None)
        for i, part in enumerate(value):
            suffix = ".%s" % fields[i] if fields else "[%d]" % i
            walk(part, name + suffix, found, depth + 1)
    else:
        found.append((name, value))


def walk_flat(structure, found):
    """Lists the leaves of nested lists and dictionaries, tensors of several parts as one."""
    if isinstance(structure, dict):
        for key in sorted(structure):
            walk_flat(structure[key], found)
    elif isinstance(structure, (list, tuple)) and not isinstance(structure, _Composite):
        for part in structure:
            walk_flat(part, found)
    else:
        found.append(structure)


def array_of(value):
    """An array of NumPy with the contents of an eager tensor, an array or a number."""
    if isinstance(value, _EagerTensor):
        value = value._numpy()
    return sys.modules["numpy"].asarray(value)


def add(pending, number, value, flags):
    """Adds one leaf to the pending records; one that cannot be read is recorded as unobserved."""
    try:
        if isinstance(value, _Tensor) and not isinstance(value, _EagerTensor):
            raise TypeError("a tensor without a value")
        add_array(pending, number, array_of(value), flags)
    except Exception as error:
        faults.pass_on(error)
        pending.put(number, 0, native.BYTES, 0, (0,), None, flags | UNOBSERVED)


def add_array(pending, number, array, flags):
    code = buffers.NAMED.get(array.dtype.name)
    if code is not None and array.dtype.isnative and array.flags.c_contiguous:
        pending.keep.append(array)
        count = array.size
        pointer = array.ctypes.data if count else 0
        pending.put(number, pointer, code, count, array.shape, None, flags)
    elif array.dtype.hasobject:  # strings
        text = b"".join(b"%d:%b" % (len(s), s) for s in map(_bytes, array.ravel().tolist()))
        pending.add_bytes(number, text, flags)
    else:
        pending.add_bytes(number, array.tobytes(), flags)


def _bytes(value):
    if not isinstance(value, bytes):
        raise TypeError(type(value).__name__)
    return value
