# SPDX-License-Identifier: Apache-2.0
"""Where the contents of a JAX array lie, so that they are digested in place.

No view of NumPy or DLPack is made of an array: as long as one lives, JAX copies what it was to
donate, and the job would need twice the memory. The address alone is asked for, after the array is
ready. What lies on a device is copied to the host. An array cut into shards is one record for each
shard of this process.
"""

import ctypes
import sys

from . import buffers, faults, native, refs
from .core import S
from .native import DIGESTED, ITEM_BYTES, UNOBSERVED, Items, pack_item
from .tensors import LONG_BYTES

# Element types of ours by the names that NumPy and ml_dtypes give them; all others are digested as
# the bytes that NumPy makes of them.
_NAMES = {
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
_codes = {}  # dtype -> element code of ours, or None
_places = {}  # sharding -> number of its devices where all are the host's; 0 where they are not
PLACES = 4096
LARGE = 1 << 16  # elements: from here on an array is read once, and its digest kept
_kept = refs.AtOnce()  # large arrays that a call gave back -> (digest as two words, code, count)
_array = _key = ()  # classes of JAX


def arm(jax):
    global _array, _key
    _array = jax.Array
    _key = getattr(sys.modules.get("jax._src.random.prng"), "PRNGKeyArray", None) or getattr(
        sys.modules.get("jax._src.prng"), "PRNGKeyArray", ()
    )


def _code(dtype):
    if dtype not in _codes:
        _codes[dtype] = _NAMES.get(dtype.name)
    return _codes[dtype]


def _host_shards(sharding):
    """How many devices hold the array, where all of them are the host's own; else 0."""
    found = _places.get(sharding)
    if found is None:
        devices = sharding.device_set
        host = all(device.platform == "cpu" for device in devices)
        found = len(devices) if host and sharding.is_fully_addressable else 0
        if len(_places) >= PLACES:
            _places.clear()
        _places[sharding] = found
    return found


def is_array(value):
    return isinstance(value, _array)


def _plain(value):
    """The array that holds what `value` means: a generator's key is an array of words, a literal
    of the program text an array of NumPy or a number.
    """
    if _key and isinstance(value, _key):
        return value._base_array
    if isinstance(value, (bool, int, float, complex)):
        return sys.modules["numpy"].asarray(value)
    if type(value).__name__ == "TypedNdArray":
        return value.val
    return value


def add(pending, series, value, flags):
    """Adds the contents of one leaf to `pending`. series(suffix): the number of its record.

    What cannot be read is recorded as unobserved. Until pending.flush() nothing may be donated.
    """
    known = _kept.get(value)
    if known is not None:
        _put_known(pending, series(""), value, known, flags)
        return
    value = _plain(value)
    try:
        if is_array(value):
            _add_array(pending, series, value, flags)
        elif isinstance(value, (sys.modules["numpy"].ndarray, sys.modules["numpy"].generic)):
            _add_numpy(pending, series(""), value, flags)
        else:
            raise TypeError(type(value).__name__)
    except Exception as error:
        faults.pass_on(error)
        pending.put(series(""), 0, native.BYTES, 0, (0,), None, flags | UNOBSERVED)


def keep_digests(values):
    """Digests the large ones of what a call gives back. Where they are given to the next call, as
    weights are, they are not read again: an array of JAX does not change.
    """
    large = []
    for value in values:
        try:
            if is_array(value) and value.size >= LARGE and _host_shards(value.sharding) == 1:
                code = _code(value.dtype)
                if code is not None:
                    value.block_until_ready()
                    large.append((value, value.unsafe_buffer_pointer(), code, value.size))
        except Exception as error:
            faults.pass_on(error)
    if not large:
        return
    items, found = Items(len(large)), (ctypes.c_uint64 * (2 * len(large)))()
    for i, (_value, pointer, code, count) in enumerate(large):
        pack_item(items.buffer, i * ITEM_BYTES, pointer, 0, 0, count, 0, 0, 0, 0, code, 1, 0)
    size = sum(value.nbytes for value, *_rest in large)
    digests = S.lib.digests_long if size >= LONG_BYTES else S.lib.digests
    digests(items.address, len(large), found)
    for i, (value, _pointer, code, count) in enumerate(large):
        digest = (ctypes.c_uint64 * 2)(found[2 * i], found[2 * i + 1])
        _kept.put(value, (digest, code, count))


def _put_known(pending, number, value, known, flags):
    digest, code, count = known
    pending.keep.append(digest)
    at = ctypes.addressof(digest)
    pending.put(number, at, code, count, value.shape, None, flags | DIGESTED)


def _add_array(pending, series, array, flags):
    code, shards = _code(array.dtype), _host_shards(array.sharding)
    array.block_until_ready()
    if shards == 1 and code is not None:
        _put(pending, series(""), array, code, flags)
        return
    for shard in array.addressable_shards:
        suffix = "" if shards == 1 else " on device %d" % shard.device.id
        if shards and code is not None:
            _put(pending, series(suffix), shard.data, code, flags)
        else:
            # a new array of Python over the same memory: what NumPy makes of it goes with it
            copied = sys.modules["numpy"].array(shard.data)
            _add_numpy(pending, series(suffix), copied, flags)


def _put(pending, number, array, code, flags):
    shape = array.shape
    count = 1
    for n in shape:
        count *= n
    pointer = array.unsafe_buffer_pointer() if count else 0
    pending.put(number, pointer, code, count, shape, None, flags)


def _add_numpy(pending, number, array, flags):
    found = buffers.view(array) if array.dtype.name in _NAMES else None
    if found is None:
        pending.add_bytes(number, array.tobytes(), flags)
        return
    pending.keep.append(found.keep)
    pending.put(number, found.pointer, found.code, found.count(), found.shape, found.strides, flags)
