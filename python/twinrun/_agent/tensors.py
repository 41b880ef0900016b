# SPDX-License-Identifier: Apache-2.0
"""From tensors to records: dtype, place in memory, shape and strides; whatever has no plain memory is taken apart, copied
to the host, or recorded as unobserved, never passed over."""
import ctypes
import sys
import types
from time import perf_counter_ns

from . import core, native
from .core import S
from .native import ITEM_BYTES, SKETCH, STATS, UNOBSERVED, Items, pack_item, pack_pointer

LONG_BYTES = 1 << 18     # from here on a digest is long enough to let other threads run
KEEP_BYTES = 32 << 20    # host copies alive at one time
NAMES = 4096             # tensors recorded of one nested structure
DEPTH = 8                # of containers in containers
VALUES = 65536           # plain values digested of one nested structure

_codes = {}
_widths = {}
_plain = ()
_torch = None
_strided = None
_has_is_cpu = _has_is_neg = _has_is_nested = False
_is_wrapped = None


def arm(torch):
    """Learns torch's element types; those that twinrun has no number for are digested as bytes."""
    global _torch, _strided, _plain, _has_is_cpu, _has_is_neg, _has_is_nested, _is_wrapped
    _torch = torch
    _strided = torch.strided
    _plain = (torch.Tensor, torch.nn.Parameter)
    _has_is_cpu, _has_is_neg = hasattr(torch.Tensor, "is_cpu"), hasattr(torch.Tensor, "is_neg")
    _has_is_nested = hasattr(torch.Tensor, "is_nested")
    _is_wrapped = getattr(getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", None)
    numbers = {
        "uint8": native.U8, "int8": native.I8, "bool": native.BOOL, "uint16": native.U16, "int16": native.I16,
        "float16": native.F16, "bfloat16": native.BF16, "uint32": native.U32, "int32": native.I32, "float32": native.F32,
        "uint64": native.U64, "int64": native.I64, "float64": native.F64, "complex64": native.C64,
        "complex128": native.C128, "float8_e4m3fn": native.F8_E4M3FN, "float8_e5m2": native.F8_E5M2,
    }
    for name, code in numbers.items():
        if hasattr(torch, name):
            _codes[getattr(torch, name)] = code


def is_tensor(value):
    return isinstance(value, _torch.Tensor)


# ---------------------------------------------------------------- one tensor

def _memory(t):
    """(pointer, code, count, shape, strides or None) of a strided tensor in host memory; None when it has none."""
    count = t.numel()
    shape = tuple(t.shape)
    code = _codes.get(t.dtype)
    pointer = t.data_ptr()
    if code is None:
        if not t.is_contiguous():
            return None
        size = t.element_size()
        return (pointer, native.BYTES, count * size, shape[:-1] + (shape[-1] * size,) if shape else (size,), None)
    if count == 0:
        return 0, code, 0, shape, None
    if not pointer or len(shape) > 64:
        return None
    strides = None if t.is_contiguous() else tuple(t.stride())
    extent = count if strides is None else 1 + sum((n - 1) * s for n, s in zip(shape, strides))
    storage = t.untyped_storage().nbytes() if hasattr(t, "untyped_storage") else t.storage().nbytes()
    if (t.storage_offset() + extent) * t.element_size() > storage:
        return None  # its storage was shrunk under it
    return pointer, code, count, shape, strides


def _to_host(t):
    """A plain, strided copy in host memory of what is not."""
    torch = _torch
    if t.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        return None
    with torch._C._DisableTorchDispatch() if hasattr(torch._C, "_DisableTorchDispatch") else torch.no_grad():
        with torch.no_grad():
            t = t.detach()
            if t.is_conj():
                t = t.resolve_conj()
            if _has_is_neg and t.is_neg():
                t = t.resolve_neg()
            return t if t.device.type == "cpu" else t.cpu()


TRACED = {"FakeTensor", "FunctionalTensor"}    # a compiler's stand-ins, without values


def traced(t):
    return is_tensor(t) and type(t) not in _plain and not TRACED.isdisjoint(c.__name__ for c in type(t).__mro__)


def parts(t):
    """Takes a tensor apart into (suffix, plain host tensor or None); global offset of a shard as third."""
    kind = type(t)
    if kind not in _plain:
        names = {c.__name__ for c in kind.__mro__}
        if names & (TRACED | {"AsyncCollectiveTensor"}):
            return [("", None)]
        if "DTensor" in names:
            return parts(t._local_tensor)
        if hasattr(kind, "__tensor_flatten__"):
            inner = t.__tensor_flatten__()[0]
            return [("." + name + suffix, part) for name in inner for suffix, part in parts(getattr(t, name))]
        if kind.__torch_dispatch__ is not _torch.Tensor.__torch_dispatch__ and not t.data_ptr():
            return [("", None)]
    if t.device.type == "meta":
        return [("", None)]
    if _wrapped(t):
        return parts(_unwrapped(t))
    if _has_is_nested and t.is_nested:
        with _torch.no_grad():
            return [("[%d]%s" % (i, suffix), part) for i, inner in enumerate(t.unbind()) for suffix, part in parts(inner)]
    if t.layout is not _strided:
        return _unstrided(t)
    if t.is_quantized:
        with _torch.no_grad():
            return _quantized(t)
    if t.device.type != "cpu" or t.is_conj() or (_has_is_neg and t.is_neg()):
        return [("", _to_host(t))]
    return [("", t)]


def _quantized(t):
    """The whole numbers, and what makes values of them."""
    found = [("", _to_host(t.int_repr()))]
    if str(t.qscheme()).startswith("torch.per_channel"):
        return found + [(".scales", _to_host(t.q_per_channel_scales())), (".zero_points", _to_host(t.q_per_channel_zero_points()))]
    return found + [(".scale", _torch.tensor([t.q_scale(), t.q_zero_point()], dtype=_torch.float64))]


def _wrapped(t):
    return _is_wrapped is not None and _is_wrapped(t)


def _unwrapped(t):
    """What a transform (torch.func.vmap, grad) computes on: the plain tensor, with all samples of a batch in it."""
    while _wrapped(t):
        t = _torch._C._functorch.get_unwrapped(t)
    return t


def _unstrided(t):
    with _torch.no_grad():
        if t.layout is _torch.sparse_coo:
            return [(".indices", _to_host(t._indices())), (".values", _to_host(t._values()))]
        if t.layout in (getattr(_torch, "sparse_csr", None), getattr(_torch, "sparse_bsr", None)):
            return [(".crow", _to_host(t.crow_indices())), (".col", _to_host(t.col_indices())),
                    (".values", _to_host(t.values()))]
        if t.layout in (getattr(_torch, "sparse_csc", None), getattr(_torch, "sparse_bsc", None)):
            return [(".ccol", _to_host(t.ccol_indices())), (".row", _to_host(t.row_indices())), (".values", _to_host(t.values()))]
        if t.layout is getattr(_torch, "_mkldnn", None):
            return [("", _to_host(t.to_dense()))]
    return [("", None)]


class Pending:
    """Records gathered for one call of the library, in order."""

    def __init__(self):
        self.items = Items()
        self.count = self.bytes = self.kept = 0
        self.keep = []

    def add(self, phase, kind, name, t, scope="", op="", site=None, flags=STATS | SKETCH, role=None):
        """One tensor, of whatever sort."""
        kept = self.count
        try:
            pieces = [("", t)] if type(t) in _plain and _simple(t) else parts(t)
        except RuntimeError:
            pieces = [("", None)]
        for suffix, part in pieces:
            memory = None
            if part is not None:
                try:
                    memory = _memory(part)
                except RuntimeError:
                    pass
            number = core.series(phase, kind, name + suffix, scope, op, site, role)
            if memory is None:
                self.put(number, 0, native.BYTES, 0, (0,), None, flags | UNOBSERVED)
                continue
            if part is not t:
                self.keep.append(part)
                self.kept += part.numel() * part.element_size()
            self.put(number, *memory, flags=flags)
        if self.kept > KEEP_BYTES:
            self.flush()
        return self.count - kept

    def put(self, number, pointer, code, count, shape, strides, flags, offset=0, whole=None):
        """whole: the element count of the tensor that this is a part of, from element `offset` on."""
        items = self.items
        if self.count == items.capacity:
            items.grow()
        if strides is None:
            shapes, steps = 0, 0 if whole is None else ctypes.addressof(core.sizes((whole,)))
        else:
            shapes, steps = ctypes.addressof(core.sizes(shape)), ctypes.addressof(core.sizes(strides))
        pack_item(items.buffer, self.count * ITEM_BYTES, pointer, shapes, steps, count, offset, number,
                  core.layout(code, shape), flags, code, len(shape), 0)
        self.count += 1
        self.bytes += count * _WIDTH[code]

    def add_bytes(self, number, data, flags=0):
        """Opaque bytes: their address must stay good until flush, so they are kept."""
        held = ctypes.create_string_buffer(data, len(data)) if data else ctypes.create_string_buffer(1)
        self.keep.append(held)
        self.put(number, ctypes.addressof(held), native.BYTES, len(data), (len(data),), None, flags)

    def flush(self, links=None):
        """Sends everything off; returns the links of the records."""
        if not self.count:
            return ()
        count, long = self.count, self.bytes >= LONG_BYTES
        links_at, links_count = (None, 0) if not links else ((ctypes.c_uint64 * len(links))(*links), len(links))
        began = perf_counter_ns()
        send = S.lib.records_long if long else S.lib.records
        send(self.items.address, count, links_at, links_count)
        S.native_ns += perf_counter_ns() - began
        self.count = self.bytes = self.kept = 0
        self.keep.clear()
        return [self.items.link(i) for i in range(count)] if links is not None else ()


def pending():
    """The calling thread's own."""
    found = core.T.pending
    if found is None:
        found = core.T.pending = Pending()
    return found


def contiguous_bytes(t):
    """(address, bytes) of a plain contiguous tensor; None for others."""
    if type(t) not in _plain or not _simple(t) or not t.is_contiguous() or not t.data_ptr():
        return None
    return t.data_ptr(), t.numel() * t.element_size()


_OPAQUE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_WIDTH = (1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 8, 8, 8, 8, 16, 1, 1)


def _simple(t):
    """The common case: strided memory of this process, to be read as it is."""
    return t.layout is _strided and (t.is_cpu if _has_is_cpu else t.device.type == "cpu") and not t.is_quantized and (
        not t.is_conj()) and not (_has_is_neg and t.is_neg()) and not (_has_is_nested and t.is_nested) and not _wrapped(t)


# ---------------------------------------------------------------- the same tensors, step after step

class Table:
    """Tensors that are recorded together again and again, kept as one array whose rows change only where they must."""

    def __init__(self, phase, kind, flags=STATS | SKETCH):
        self.phase, self.kind, self.flags = phase, kind, flags
        self.items = Items(16)
        self.rows = []      # (pointer, shape, dtype, strides) of each tensor in plain memory, None for what needs a closer look
        self.names = None
        self.bytes = 0

    def record(self, names, tensors, flags=None):
        """Records tensors[i] as names[i] = (name, scope, op, site). `names` is compared by identity: a new list, a new table."""
        flags = self.flags if flags is None else flags
        if names is not self.names or len(tensors) != len(self.rows):
            self._rebuild(names, tensors, flags)
        elif flags != self.flags:
            self._reflag(flags)
        buffer, plain, i = self.items.buffer, _plain, 0
        for t, row in zip(tensors, self.rows):
            if row is None or type(t) not in plain:
                return self._one_by_one(names, tensors, flags)
            pointer, shape, dtype, strides = row
            now = t.data_ptr()
            if t.shape != shape or t.dtype is not dtype or not (t.is_contiguous() if strides is None else t.stride() == strides):
                return self._again(names, tensors, flags)
            if now != pointer:
                if not now or not _simple(t):
                    return self._again(names, tensors, flags)
                self.rows[i] = (now, shape, dtype, strides)
                pack_pointer(buffer, i * ITEM_BYTES, now)
            i += 1
        self._send()

    def _again(self, names, tensors, flags):
        self._rebuild(names, tensors, flags)
        if None in self.rows:
            self._one_by_one(names, tensors, flags)
        else:
            self._send()

    def _one_by_one(self, names, tensors, flags):
        held = pending()
        for (name, scope, op, site), t in zip(names, tensors):
            held.add(self.phase, self.kind, name, t, scope, op, site, flags, role="")
        held.flush()

    def again(self, flags):
        """record() with the same names and tensors, for who knows that each is where it was."""
        if flags != self.flags:
            self._reflag(flags)
        self._send()

    def _send(self):
        if not self.rows:
            return
        began = perf_counter_ns()
        send = S.lib.records_long if self.bytes >= LONG_BYTES else S.lib.records
        send(self.items.address, len(self.rows), None, 0)
        S.native_ns += perf_counter_ns() - began

    def _reflag(self, flags):
        self.flags = flags
        for i in range(len(self.rows)):
            native.pack_flags(self.items.buffer, i * ITEM_BYTES + native.FLAGS_AT, flags)

    def _rebuild(self, names, tensors, flags):
        self.names, self.flags, self.rows, self.bytes = names, flags, [], 0
        while self.items.capacity < len(tensors):
            self.items.grow()
        for i, t in enumerate(tensors):
            memory = _memory(t) if type(t) in _plain and _simple(t) else None
            if memory is None or not memory[0] or memory[1] == native.BYTES:
                self.rows.append(None)
                continue
            pointer, code, count, shape, strides = memory
            name, scope, op, site = names[i]
            at = [0 if numbers is None else ctypes.addressof(core.sizes(numbers)) for numbers in (strides and shape, strides)]
            pack_item(self.items.buffer, i * ITEM_BYTES, pointer, *at, count, 0,
                      core.series(self.phase, self.kind, name, scope, op, site, ""), core.layout(code, shape), flags, code,
                      len(shape), 0)
            self.rows.append((pointer, t.shape, t.dtype, strides))
            self.bytes += count * _WIDTH[code]


# ---------------------------------------------------------------- nested structures

def walk(value, name, found, values=None, depth=0):
    """Lists the tensors (and NumPy arrays) inside `value` as (name, tensor), in order; plain values go to `values`.

    Runs no code of the job: only exact containers, dataclasses and attribute dictionaries are opened.
    """
    if len(found) >= NAMES or depth > DEPTH:
        if _holds_tensor(value):
            more = "more than %d tensors" % NAMES if len(found) >= NAMES else "a tensor more than %d containers deep" % DEPTH
            core.unseen("%s holds %s: not all were recorded" % (name.partition("[")[0].partition(".")[0], more))
        return
    if isinstance(value, _torch.Tensor):
        found.append((name, value))
    elif value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        if values is not None and len(values) < VALUES:
            values.append(value)
        elif values is not None:
            core.unseen("%s holds more than %d plain values: not all were recorded" % (name.partition("[")[0], VALUES))
    elif isinstance(value, dict):
        for key in list(dict.keys(value)):
            walk(dict.__getitem__(value, key), "%s[%s]" % (name, _key(key)), found, values, depth + 1)
    elif isinstance(value, (list, tuple)):
        whole = list if isinstance(value, list) else tuple
        for i, inner in enumerate(whole.__iter__(value)):
            walk(inner, "%s[%d]" % (name, i), found, values, depth + 1)
    elif _is_array(value):
        found.append((name, value))
    elif isinstance(value, _OPAQUE) or isinstance(value, _torch.nn.Module):
        return
    else:
        inside = getattr(value, "__dict__", None)
        if type(inside) is dict:
            data = inside.get("data")
            if type(data) is dict:  # collections.UserDict and its kin
                walk(data, name, found, values, depth + 1)
                return
            for key in list(inside):
                walk(inside[key], "%s.%s" % (name, key), found, values, depth + 1)


def _holds_tensor(value, levels=8):
    """Whether there is a tensor in a container that is too deep, as far as a short look tells."""
    if isinstance(value, _torch.Tensor) or levels == 0:
        return levels > 0
    if type(value) is dict:
        value = list(dict.values(value))
    return type(value) in (list, tuple) and any(_holds_tensor(inner, levels - 1) for inner in value[:8])


def _key(key):
    return repr(key) if isinstance(key, (str, int, bool, float, bytes, type(None))) else type(key).__name__


def _is_array(value):
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is getattr(numpy, "ndarray", None)


def add_any(pending, phase, kind, name, value, scope="", op="", site=None, flags=STATS | SKETCH):
    """A tensor, or a NumPy array by way of the buffer protocol."""
    if isinstance(value, _torch.Tensor):
        return pending.add(phase, kind, name, value, scope, op, site, flags)
    from . import buffers

    return buffers.add(pending, phase, kind, name, value, scope, op, site, flags)


def plain_bytes(values):
    """A byte string that is equal for equal plain values, in every process."""
    return "\x1f".join("%s:%r" % (type(v).__name__, v) for v in values).encode("utf-8", "backslashreplace")
