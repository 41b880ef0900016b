# SPDX-License-Identifier: Apache-2.0
"""Arrays that are not torch tensors: NumPy, the buffer protocol, __array_interface__, DLPack."""

import ctypes
import sys
from array import array as numbers_of

from . import core, faults, native
from .native import UNOBSERVED

_FORMATS = {
    "?": native.BOOL,
    "b": native.I8,
    "B": native.U8,
    "c": native.U8,
    "h": native.I16,
    "H": native.U16,
    "i": native.I32,
    "I": native.U32,
    "q": native.I64,
    "Q": native.U64,
    "e": native.F16,
    "f": native.F32,
    "d": native.F64,
    "Zf": native.C64,
    "Zd": native.C128,
}
_INTERFACE = {
    "b1": native.BOOL,
    "i1": native.I8,
    "u1": native.U8,
    "i2": native.I16,
    "u2": native.U16,
    "f2": native.F16,
    "i4": native.I32,
    "u4": native.U32,
    "f4": native.F32,
    "i8": native.I64,
    "u8": native.U64,
    "f8": native.F64,
    "c8": native.C64,
    "c16": native.C128,
}
# Element types of ours by the names that NumPy and ml_dtypes give them, for JAX and TensorFlow; all
# others are digested there as the bytes that NumPy makes of them.
NAMED = {
    "bool": native.BOOL,
    "int8": native.I8,
    "uint8": native.U8,
    "int16": native.I16,
    "uint16": native.U16,
    "int32": native.I32,
    "uint32": native.U32,
    "int64": native.I64,
    "uint64": native.U64,
    "float16": native.F16,
    "bfloat16": native.BF16,
    "float32": native.F32,
    "float64": native.F64,
    "complex64": native.C64,
    "complex128": native.C128,
    "float8_e4m3fn": native.F8_E4M3FN,
    "float8_e5m2": native.F8_E5M2,
}


class Own(numbers_of):
    """Numbers ("d") or bytes ("B") of ours, which nobody else changes: they lie where they say,
    which costs a tenth of what a view does.
    """

    __slots__ = ()


class View:
    """Where an array lies: pointer, element code, shape, strides in elements (None: contiguous),
    what keeps it alive.
    """

    __slots__ = ("pointer", "code", "shape", "strides", "keep")

    def __init__(self, pointer, code, shape, strides, keep):
        self.pointer, self.code, self.keep = pointer, code, keep
        self.shape = tuple(map(int, shape))
        self.strides = None if strides is None else tuple(map(int, strides))
        if self.strides is not None and self.strides == _row_major(self.shape):
            self.strides = None

    def count(self):
        total = 1
        for n in self.shape:
            total *= n
        return total


def _row_major(shape):
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def _element_strides(strides, code):
    """Byte strides in elements; None for the impossible (a field of a structured array)."""
    width = native.WIDTH[code]
    return None if any(s % width for s in strides) else tuple(s // width for s in strides)


def from_interface(array):
    """By __array_interface__, version 3; None when it is not a plain array in native byte order."""
    interface = array.__array_interface__
    text = interface["typestr"]
    native_order = "<" if sys.byteorder == "little" else ">"
    code = _INTERFACE.get(text[1:]) if text[0] in ("|", native_order, "=") else None
    if code is None or interface.get("data") is None:
        return None
    shape = interface["shape"]
    strides = interface.get("strides")
    if strides is not None:
        strides = _element_strides(strides, code)
        if strides is None:
            return None
    return View(interface["data"][0], code, shape, strides, array)


def from_memoryview(array):
    """By the buffer protocol; None for formats that have no element type of ours."""
    view = memoryview(array)
    form = view.format.lstrip("@=<") if sys.byteorder == "little" else view.format.lstrip("@=>")
    if form in ("l", "L"):
        form = {4: "iI", 8: "qQ"}[view.itemsize]["lL".index(form)]
    code = _FORMATS.get(form)
    if code is None or native.WIDTH[code] != view.itemsize or view.format[:1] == ">":
        return None
    strides = _element_strides(view.strides or (), code)
    if view.readonly or not view.contiguous:
        # ctypes takes no address of a read-only buffer: a copy is as good.
        data = view.tobytes()
        held = ctypes.create_string_buffer(data, len(data))
        return View(ctypes.addressof(held), code, view.shape, None, held)
    if not view.nbytes:
        return View(0, code, view.shape, None, view)
    flat = view.cast("B") if view.format != "B" or view.ndim != 1 else view
    held = (ctypes.c_char * view.nbytes).from_buffer(flat)
    return View(ctypes.addressof(held), code, view.shape, strides, (held, view))


class _Managed(ctypes.Structure):
    """DLManagedTensor (DLPack 0.x and 1.x without the versioned head)."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_DLPACK = {
    (0, 8): native.I8,
    (0, 16): native.I16,
    (0, 32): native.I32,
    (0, 64): native.I64,
    (1, 8): native.U8,
    (1, 16): native.U16,
    (1, 32): native.U32,
    (1, 64): native.U64,
    (2, 16): native.F16,
    (2, 32): native.F32,
    (2, 64): native.F64,
    (4, 16): native.BF16,
    (5, 64): native.C64,
    (5, 128): native.C128,
    (6, 8): native.BOOL,
}


def from_dlpack(array):
    """By DLPack, host memory only; None for other devices and vector types."""
    if array.__dlpack_device__()[0] != 1:
        return None
    capsule = array.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _Managed.from_address(pointer(capsule, b"dltensor"))
    code = _DLPACK.get((tensor.code, tensor.bits))
    if code is None or tensor.lanes != 1:
        return None
    shape = tensor.shape[: tensor.ndim]
    strides = tensor.strides[: tensor.ndim] if tensor.strides else None
    return View((tensor.data or 0) + tensor.byte_offset, code, shape, strides, capsule)


def view(array):
    """The array's memory by the first protocol that it speaks; None when there is none."""
    if hasattr(type(array), "__array_interface__") or hasattr(array, "__array_interface__"):
        found = from_interface(array)
        if found is not None:
            return found
    try:
        found = from_memoryview(array)
    except (TypeError, BufferError, NotImplementedError) as error:
        faults.pass_on(error)
        found = None
    if found is None and hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        found = from_dlpack(array)
    return found


def add(pending, phase, kind, name, array, scope, op, site, flags):
    """Adds an array to pending records (tensors.Pending); one that cannot be read is recorded as
    unobserved.
    """
    number = core.series(phase, kind, name, scope, op, site)
    if type(array) is Own and array:
        at, count = array.buffer_info()
        pending.keep.append(array)
        pending.put(number, at, _FORMATS[array.typecode], count, (count,), None, flags)
        return 1
    found = None
    try:
        found = view(array)
    except Exception as error:
        faults.pass_on(error)
    if found is None:
        pending.put(number, 0, native.BYTES, 0, (0,), None, flags | UNOBSERVED)
        return 1
    pending.keep.append(found.keep)
    pending.put(number, found.pointer, found.code, found.count(), found.shape, found.strides, flags)
    return 1
