# SPDX-License-Identifier: Apache-2.0
"""Where the contents of a JAX array lie, so that they are digested in place.

No view of NumPy or DLPack is made of an array: as long as one lives, JAX copies what it was to
donate, and the job would need twice the memory. The address alone is asked for, after the array is
ready. What lies on a device is copied to the host. An array cut into shards is one record for each
shard of this process.
"""

import sys

from . import buffers, faults, native
from .native import UNOBSERVED

_codes = {}  # dtype -> element code of ours, or None
_places = {}  # sharding -> number of its devices where all are the host's; 0 where they are not
PLACES = 4096
_array = _key = ()  # classes of JAX
Array = None  # the class of all arrays that are no keys
_wait = None  # for all of a list at once


def arm(jax):
    global _array, _key, Array, _wait
    _array = jax.Array
    Array = getattr(sys.modules.get("jax._src.array"), "ArrayImpl", None)
    client = sys.modules.get("jax._src.lib.xla_client") or sys.modules.get("jaxlib.xla_client")
    _wait = getattr(client, "batched_block_until_ready", None)
    _key = getattr(sys.modules.get("jax._src.random.prng"), "PRNGKeyArray", None) or getattr(
        sys.modules.get("jax._src.prng"), "PRNGKeyArray", ()
    )


def code_of(dtype):
    if dtype not in _codes:
        _codes[dtype] = buffers.NAMED.get(dtype.name)
    return _codes[dtype]


def host_shards(sharding):
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


def count_of(shape):
    count = 1
    for n in shape:
        count *= n
    return count


def wait(values):
    """Waits for all arrays among the values. False: some of them may not be read where they lie,
    and each is to be looked at by itself: one was deleted, or what makes it has failed.
    """
    arrays = [value for value in values if type(value) is Array]
    if not arrays:
        return True
    if _wait is None:
        return False
    try:
        _wait(arrays)
    except Exception as error:
        faults.pass_on(error)
        return False
    return True


def is_joint(values):
    """Does another process hold a part of one of them?"""
    state = sys.modules["jax._src.distributed"].global_state
    if state.num_processes in (None, 1):
        return False
    return any(not getattr(value, "is_fully_addressable", True) for value in values)


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


def _add_array(pending, series, array, flags):
    code, shards = code_of(array.dtype), host_shards(array.sharding)
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
    count = count_of(shape)
    pointer = array.unsafe_buffer_pointer() if count else 0
    pending.put(number, pointer, code, count, shape, None, flags)


def _add_numpy(pending, number, array, flags):
    found = buffers.view(array) if array.dtype.name in buffers.NAMED else None
    if found is None:
        pending.add_bytes(number, array.tobytes(), flags)
        return
    pending.keep.append(found.keep)
    pending.put(number, found.pointer, found.code, found.count(), found.shape, found.strides, flags)
