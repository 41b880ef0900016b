# SPDX-License-Identifier: Apache-2.0
"""The library libtwinrun.so, called through ctypes (agents/common/agent.h), and the numbers it
shares with us.
"""

import ctypes
import os
import struct

ABI = 1

# enum twin_phase, enum twin_kind (src/trace/trace.h)
(
    DATA,
    RNG,
    INIT,
    FORWARD,
    BACKWARD,
    COLLECTIVE,
    OPTIMIZER,
    CHECKPOINT,
    ENVIRONMENT,
    KERNEL,
    OUTPUT,
) = range(1, 12)
(
    BATCH,
    INDICES,
    STATE,
    WEIGHT,
    ACTIVATION,
    GRADIENT_LOCAL,
    GRADIENT,
    MOMENT,
    LOSS,
    IN,
    OUT,
    MATCH,
    ORDER,
    FILE,
    LINE,
    VALUE,
    HYPER,
) = range(1, 18)

# enum twin_dtype (include/twin/fingerprint.h)
(
    BYTES,
    U8,
    I8,
    BOOL,
    U16,
    I16,
    F16,
    BF16,
    U32,
    I32,
    F32,
    U64,
    I64,
    F64,
    C64,
    C128,
    F8_E4M3FN,
    F8_E5M2,
) = range(18)
WIDTH = (1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 8, 8, 8, 8, 16, 1, 1)  # bytes of an element

# TW_ITEM_*, and TWIN_REC_* << 8
STATS, SKETCH, DIGESTED, DEVICE = 1, 2, 4, 8
DEVICE_AT, DEVICES = 24, 32  # the number of the GPU stands from this bit on; as many are known
OFFSET, RECOMPUTED, UNOBSERVED, UNORDERED, PART = (
    (1 << 2) << 8,
    (1 << 5) << 8,
    (1 << 6) << 8,
    (1 << 7) << 8,
    (1 << 8) << 8,
)

STEPS, TENSORS, MODULES, OPS = range(4)  # enum tw_agent_level

# struct tw_agent_item: data, shape, strides, count, global_offset, series, layout, flags, dtype,
# ndim, link
ITEM = struct.Struct("=QQQQQIIIHHQ")
ITEM_BYTES = 64
POINTER_AT, LINK_AT, FLAGS_AT = 0, 56, 48
pack_item = ITEM.pack_into
pack_pointer = struct.Struct("=Q").pack_into
pack_flags = struct.Struct("=I").pack_into

_u32, _u64, _i32, _int, _size, _ptr, _str = (
    ctypes.c_uint32,
    ctypes.c_uint64,
    ctypes.c_int32,
    ctypes.c_int,
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_char_p,
)

_SIGNATURES = {
    "abi": (_int, []),
    "on": (_int, []),
    "level": (_int, []),
    "window": (_int, [_ptr, _ptr]),
    "in_window": (_int, []),
    "sketch_every": (_u32, []),
    "identify": (None, [_i32, _i32, _str, _int]),
    "string": (_u32, [_str, _size]),
    "series": (_u32, [_int, _int, _str, _str, _str, _str, _str]),
    "layout": (_u32, [_int, _u32, _ptr]),
    "records": (_size, [_ptr, _size, _ptr, _size]),
    "digests": (None, [_ptr, _size, _ptr]),
    "device": (_int, [_u32, _u64]),
    "gather": (None, [_int]),
    "bytes": (_u64, [_u32, _ptr, _size, _u32]),
    "now_ns": (_u64, []),
    "add_observer_ns": (None, [_u64]),
    "step": (_u32, []),
    "step_end": (_u32, []),
    "note": (None, [_str, _str]),
    "flush": (None, []),
    "close": (None, []),
    "quick_digest": (_u64, [_ptr, _size]),
    "quiet_alerts": (None, [_int]),
    "alerts": (_size, [_str, _size]),
    "factor_calls": (_u64, [_int, _int]),
    "masked": (_size, [_str, _size, _str, _size]),
    "factor_other": (None, [_int]),
    "quick_digests": (None, [_ptr, _size, _ptr]),
}


class Library:
    """The functions of libtwinrun.so as attributes, without their prefix `tw_agent_`.

    They are called with the interpreter lock held: a call takes less than handing the lock over.
    `records_long` and its like do without the lock, for arrays whose digest takes long enough to
    let other threads run.
    """

    def __init__(self, path):
        self.path = path
        held = ctypes.PyDLL(path)
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(held, "tw_agent_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        free = ctypes.CDLL(path)
        for name in ("records", "digests", "gather"):
            function = getattr(free, "tw_agent_" + name)
            function.restype, function.argtypes = _SIGNATURES[name]
            setattr(self, name + "_long", function)
        if self.abi() != ABI:
            raise OSError(
                "%s speaks version %d of the agent interface, %d was expected"
                % (path, self.abi(), ABI)
            )


_library = None


def library():
    """The library, loaded at the first call. Raises OSError when there is none."""
    global _library
    if _library is None:
        path = os.environ.get("TWINRUN_LIB")
        if not path:
            raise OSError("TWINRUN_LIB is not set")
        _library = Library(path)
    return _library


def masked(text):
    """The text without its secrets. Whoever writes down words of the job writes these."""
    raw = text.encode("utf-8", "replace")
    out = ctypes.create_string_buffer(2 * len(raw) + 64)
    length = library().masked(raw, len(raw), out, len(out))
    return out.raw[:length].decode("utf-8", "replace")


def install(double):
    """Puts `double` in the library's place: for the unit tests, before anything is armed."""
    global _library
    _library = double


class Items:
    """A growable array of struct tw_agent_item."""

    def __init__(self, capacity=64):
        self._allocate(capacity)

    def _allocate(self, capacity):
        buffer = bytearray(ITEM_BYTES * capacity)
        address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
        # all or, when a signal comes, none
        self.capacity, self.buffer, self.address = capacity, buffer, address

    def grow(self):
        old = self.buffer
        self._allocate(self.capacity * 2)
        self.buffer[: len(old)] = old

    def add_flags(self, index, flags):
        (before,) = struct.unpack_from("=I", self.buffer, index * ITEM_BYTES + FLAGS_AT)
        pack_flags(self.buffer, index * ITEM_BYTES + FLAGS_AT, before | flags)

    def link(self, index):
        return struct.unpack_from("=Q", self.buffer, index * ITEM_BYTES + LINK_AT)[0]
