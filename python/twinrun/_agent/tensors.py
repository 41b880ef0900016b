# SPDX-License-Identifier: Apache-2.0
"""From tensors to records: dtype, place in memory, shape and strides; whatever has no plain memory
is taken apart, copied to the host, or recorded as unobserved, never passed over.
"""

import contextlib
import ctypes
import sys
from time import perf_counter_ns

from . import core, device, faults, native, shards, swift
from .core import S
from .native import (
    DIGESTED,
    ITEM_BYTES,
    OFFSET,
    SKETCH,
    STATS,
    UNOBSERVED,
    Items,
    pack_item,
    pack_pointer,
)

LONG_BYTES = 1 << 18  # from here on a digest is long enough to let other threads run
KEEP_BYTES = 32 << 20  # host copies alive at one time

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
    _is_wrapped = getattr(
        getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", None
    )
    device.arm(torch)
    S.on_fork.append(shards.forget)
    numbers = {
        "uint8": native.U8,
        "int8": native.I8,
        "bool": native.BOOL,
        "uint16": native.U16,
        "int16": native.I16,
        "float16": native.F16,
        "bfloat16": native.BF16,
        "uint32": native.U32,
        "int32": native.I32,
        "float32": native.F32,
        "uint64": native.U64,
        "int64": native.I64,
        "float64": native.F64,
        "complex64": native.C64,
        "complex128": native.C128,
        "float8_e4m3fn": native.F8_E4M3FN,
        "float8_e5m2": native.F8_E5M2,
    }
    for name, code in numbers.items():
        if hasattr(torch, name):
            _codes[getattr(torch, name)] = code


def is_tensor(value):
    return isinstance(value, _torch.Tensor)


# ---------------------------------------------------------------- one tensor


def _memory(t):
    """(pointer, code, count, shape, strides or None) of a strided tensor; None when it has no
    memory.
    """
    count = t.numel()
    shape = tuple(t.shape)
    code = _codes.get(t.dtype)
    pointer = t.data_ptr()
    if code is None:
        if not t.is_contiguous():
            return None
        size = t.element_size()
        return (
            pointer,
            native.BYTES,
            count * size,
            shape[:-1] + (shape[-1] * size,) if shape else (size,),
            None,
        )
    if count == 0:
        return 0, code, 0, shape, None
    if not pointer or len(shape) > 64:
        return None
    strides = None if t.is_contiguous() else tuple(t.stride())
    extent = count if strides is None else 1 + sum((n - 1) * s for n, s in zip(shape, strides))
    storage = (
        t.untyped_storage().nbytes() if hasattr(t, "untyped_storage") else t.storage().nbytes()
    )
    if (t.storage_offset() + extent) * t.element_size() > storage:
        return None  # its storage was shrunk under it
    return pointer, code, count, shape, strides


def without_gradients(function):
    """The function, which then is called without gradients, as in `with torch.no_grad()`. That ends
    in Python, where an exception of a signal handler or of another thread may come first, and the
    job would go on without gradients; this ends in one call of C.
    """

    def called(*args):
        torch = _torch or sys.modules["torch"]  # recorder.py works without the agent, too
        before = torch.is_grad_enabled()
        try:
            try:
                torch._C._set_grad_enabled(False)
                return function(*args)
            finally:
                torch._C._set_grad_enabled(before)
        finally:  # again: Python 3.8 and 3.9 run signal handlers also within a `finally`
            torch._C._set_grad_enabled(before)

    return called


@without_gradients
def _plain_on_host(t):
    t = t.detach()
    if t.is_conj():
        t = t.resolve_conj()
    if _has_is_neg and t.is_neg():
        t = t.resolve_neg()
    return t if t.device.type == "cpu" else t.cpu()


def unseen():
    """A context whose operations are not shown to modes of the job, as TorchDispatchMode and
    FakeTensorMode, where PyTorch has one.
    """
    return getattr(_torch._C, "_DisableTorchDispatch", contextlib.nullcontext)()


def _to_host(t):
    """A plain, strided copy in host memory of what is not."""
    torch = _torch
    if t.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        return None
    with unseen():
        return _plain_on_host(t)


TRACED = {"FakeTensor", "FunctionalTensor"}  # a compiler's stand-ins, without values


def traced(t):
    return (
        is_tensor(t)
        and type(t) not in _plain
        and not TRACED.isdisjoint(c.__name__ for c in type(t).__mro__)
    )


def parts(t, host=True):
    """Takes a tensor apart into (suffix, plain tensor or None): in the host's memory, or wherever
    the library can read it.
    """
    kind = type(t)
    if kind not in _plain:
        names = {c.__name__ for c in kind.__mro__}
        if names & (TRACED | {"AsyncCollectiveTensor"}):
            return [("", None)]
        if "DTensor" in names:
            return parts(t._local_tensor, host)
        if hasattr(kind, "__tensor_flatten__"):
            inner = t.__tensor_flatten__()[0]
            return [
                ("." + name + suffix, part)
                for name in inner
                for suffix, part in parts(getattr(t, name), host)
            ]
        if kind.__torch_dispatch__ is not _torch.Tensor.__torch_dispatch__ and not t.data_ptr():
            return [("", None)]
    if t.device.type == "meta":
        return [("", None)]
    if _wrapped(t):
        return parts(_unwrapped(t), host)
    if _has_is_nested and t.is_nested:
        return _of_nested(t, host)
    if t.layout is not _strided:
        return _unstrided(t)
    if t.is_quantized:
        return _quantized(t)
    return [("", t if (_simple(t) if host else readable(t)) else _to_host(t))]


@without_gradients
def _of_nested(t, host):
    return [
        ("[%d]%s" % (i, suffix), part)
        for i, inner in enumerate(t.unbind())
        for suffix, part in parts(inner, host)
    ]


@without_gradients
def _quantized(t):
    """The whole numbers, and what makes values of them."""
    found = [("", _to_host(t.int_repr()))]
    if str(t.qscheme()).startswith("torch.per_channel"):
        return found + [
            (".scales", _to_host(t.q_per_channel_scales())),
            (".zero_points", _to_host(t.q_per_channel_zero_points())),
        ]
    return found + [
        (".scale", _torch.tensor([t.q_scale(), t.q_zero_point()], dtype=_torch.float64))
    ]


def _wrapped(t):
    return _is_wrapped is not None and _is_wrapped(t)


def _unwrapped(t):
    """What a transform (torch.func.vmap, grad) computes on: the plain tensor, with all samples of a
    batch in it.
    """
    while _wrapped(t):
        t = _torch._C._functorch.get_unwrapped(t)
    return t


@without_gradients
def _unstrided(t):
    if t.layout is _torch.sparse_coo:
        return [(".indices", _to_host(t._indices())), (".values", _to_host(t._values()))]
    if t.layout in (getattr(_torch, "sparse_csr", None), getattr(_torch, "sparse_bsr", None)):
        return [
            (".crow", _to_host(t.crow_indices())),
            (".col", _to_host(t.col_indices())),
            (".values", _to_host(t.values())),
        ]
    if t.layout in (getattr(_torch, "sparse_csc", None), getattr(_torch, "sparse_bsc", None)):
        return [
            (".ccol", _to_host(t.ccol_indices())),
            (".row", _to_host(t.row_indices())),
            (".values", _to_host(t.values())),
        ]
    if t.layout is getattr(_torch, "_mkldnn", None):
        return [("", _to_host(t.to_dense()))]
    return [("", None)]


class Pending:
    """Records gathered for one call of the library, in order."""

    def __init__(self):
        self.items = Items()
        self.count = self.bytes = self.kept = 0
        self.keep = []
        self.devices = 0  # the GPUs that something lies on, a set

    def add(
        self, phase, kind, name, t, scope="", op="", site=None, flags=STATS | SKETCH, role=None
    ):
        """One tensor, of whatever sort."""
        kept = self.count
        try:
            pieces = [("", t)] if type(t) in _plain and readable(t) else parts(t, host=False)
        except RuntimeError as error:
            faults.pass_on(error)
            pieces = [("", None)]
        cut = type(t) not in _plain and len(pieces) == 1
        if cut and self._add_shard(t, pieces[0], flags, (phase, kind, name, scope), op, site, role):
            return self.count - kept
        for suffix, part in pieces:
            memory = None
            if part is not None:
                try:
                    memory = _memory(part)
                except RuntimeError as error:
                    faults.pass_on(error)
            number = core.series(phase, kind, name + suffix, scope, op, site, role)
            if memory is None:
                self.put(number, 0, native.BYTES, 0, (0,), None, flags | UNOBSERVED)
                continue
            if part is not t:
                self.keep.append(part)
                self.kept += part.numel() * part.element_size()
            self.put(number, *memory, flags=flags | self.place(part))
        if self.kept > KEEP_BYTES:
            self.flush()
        return self.count - kept

    def _add_shard(self, t, piece, flags, key, op, site, role):
        """The local part of a DTensor, at its place in the whole. False, and nothing is added: it
        is none, or holds the whole.
        """
        suffix, part = piece
        if suffix or part is None or not shards.is_distributed(t):
            return False
        try:
            box, memory = shards.box_of(t), _memory(part)
        except (AttributeError, RuntimeError) as error:  # of a version that says it otherwise
            faults.pass_on(error)
            return False
        if box is None or memory is None or memory[1] == native.BYTES:
            return False
        phase, kind, name, scope = key
        number = core.series(phase, kind, name, scope, op, site, role)
        pointer, code, count, shape, strides = memory
        if part is not t._local_tensor:
            self.keep.append(part)
            self.kept += part.numel() * part.element_size()
        flags |= OFFSET | self.place(part)
        if box is shards.UNKNOWN:  # a part, and no more is said of it
            self.put(number, *memory, flags=flags)
            return True
        adds, edges = box.adds(native.WIDTH[code]), ()
        if count == 0 or box.runs == 1:
            self.put(number, *memory, flags=flags, offset=box.first if count else 0)
            cuts = box.cuts(native.WIDTH[code])
            adds = not cuts or (
                kind in (native.WEIGHT, native.MOMENT) and strides is None and is_host(part)
            )
            if cuts and adds:
                edges = self._add_edges(box, cuts, memory, key, op, site, role)
        elif adds and box.runs <= shards.RUNS and strides is None and is_host(part):
            digest = self._digest_of_runs(box, pointer, code)
            self.keep.append(digest)
            self.put(number, ctypes.addressof(digest), code, count, shape, None, flags | DIGESTED)
        else:
            adds = False
            self.put(number, *memory, flags=flags)
        shards.note(number, box, adds, edges)
        return True

    def _add_edges(self, box, cuts, memory, key, op, site, role):
        """The bytes of the blocks that a part shares with its neighbours, from which whoever adds up
        makes these blocks again. Returns the series of the records.
        """
        phase, kind, name, scope = key
        pointer, code = memory[:2]
        found = []
        for cut in cuts:
            place = shards.range_of(box, native.WIDTH[code], cut[0])
            number = core.series(phase, kind, name + place, scope, op, site, role)
            held = shards.edge_bytes(pointer, box, native.WIDTH[code], cut)
            self.keep.append(held)
            self.put(
                number,
                ctypes.addressof(held),
                native.BYTES,
                shards.BLOCK,
                (shards.BLOCK,),
                None,
                OFFSET | DIGESTED,
                cut[0] * shards.BLOCK,
            )
            found.append(number)
        return found

    @staticmethod
    def _digest_of_runs(box, pointer, code):
        """Of a part whose elements do not lie side by side in the whole: each run is digested where
        it lies there, and raw sums add up.
        """
        items, stride = Items(box.runs), box.run * native.WIDTH[code]
        for i, offset in enumerate(box.offsets()):
            at = pointer + i * stride
            pack_item(items.buffer, i * ITEM_BYTES, at, 0, 0, box.run, offset, 0, 0, 0, code, 1, 0)
        found = (ctypes.c_uint64 * (2 * box.runs))()
        S.lib.digests(items.address, box.runs, found)
        return shards.sum_of(zip(found[::2], found[1::2]))

    def place(self, t):
        """place_of() for a tensor of which a record is added."""
        place = place_of(t)
        self.devices |= device.bit(place)
        return place

    def put(self, number, pointer, code, count, shape, strides, flags, offset=0, whole=None):
        """whole: the element count of the tensor that this is a part of, from element
        `offset` on.
        """
        items = self.items
        if self.count == items.capacity:
            items.grow()
        if strides is None:
            shapes, steps = 0, 0 if whole is None else ctypes.addressof(core.sizes((whole,)))
        else:
            shapes, steps = (
                ctypes.addressof(core.sizes(shape)),
                ctypes.addressof(core.sizes(strides)),
            )
        pack_item(
            items.buffer,
            self.count * ITEM_BYTES,
            pointer,
            shapes,
            steps,
            count,
            offset,
            number,
            core.layout(code, shape),
            flags,
            code,
            len(shape),
            0,
        )
        self.count += 1
        self.bytes += count * native.WIDTH[code]

    def add_bytes(self, number, data, flags=0):
        """Opaque bytes: their address must stay good until flush, so they are kept."""
        held = (
            ctypes.create_string_buffer(data, len(data)) if data else ctypes.create_string_buffer(1)
        )
        self.keep.append(held)
        self.put(number, ctypes.addressof(held), native.BYTES, len(data), (len(data),), None, flags)

    def drop(self):
        """Forgets what was gathered."""
        self.count = self.bytes = self.kept = 0
        self.devices = 0
        self.keep.clear()

    def flush(self, links=None):
        """Sends everything off; returns the links of the records."""
        if not self.count:
            return ()
        count = self.count
        links_at, links_count = (
            (None, 0) if not links else ((ctypes.c_uint64 * len(links))(*links), len(links))
        )
        began = perf_counter_ns()
        if self.devices:
            device.all_at_once.end()  # what is kept here does not outlive this call
        sender(self.bytes, self.devices)(self.items.address, count, links_at, links_count)
        S.native_ns += perf_counter_ns() - began
        self.drop()
        return [self.items.link(i) for i in range(count)] if links is not None else ()


def sender(size, devices):
    """The library's function that records so many bytes."""
    if devices:
        # what cannot be read there is recorded as unobserved
        return device.sender(devices) or S.lib.records_long
    return S.lib.records_long if size >= LONG_BYTES else S.lib.records


def pending():
    """The calling thread's own."""
    found = core.T.pending
    if found is None:
        found = core.T.pending = Pending()
    return found


def address(t):
    """Where its elements lie; 0 for a tensor that has no memory of its own, such as a
    sparse one.
    """
    if type(t) not in _plain or t.layout is not _strided:
        return 0
    try:
        return t.data_ptr()
    except RuntimeError as error:  # inside of a transform of torch.func it stands for others
        faults.pass_on(error)
        return 0


def contiguous_bytes(t):
    """(address, bytes) of a plain contiguous tensor; None for others."""
    if type(t) not in _plain or not _simple(t) or not t.is_contiguous() or not t.data_ptr():
        return None
    return t.data_ptr(), t.numel() * t.element_size()


def is_host(t):
    return t.is_cpu if _has_is_cpu else t.device.type == "cpu"


def place_of(t):
    """The flags that say where a readable tensor lies."""
    return 0 if is_host(t) else device.place(t)


def _strided_values(t):
    """Whether its memory holds its elements as they are."""
    return (
        t.layout is _strided
        and not t.is_quantized
        and not t.is_conj()
        and not (_has_is_neg and t.is_neg())
        and (not (_has_is_nested and t.is_nested))
        and not _wrapped(t)
    )


def _simple(t):
    """The common case: strided memory of this process, to be read as it is."""
    return is_host(t) and _strided_values(t)


def readable(t):
    """Whether the library reads it where it is: in this process's memory, or in that of a GPU."""
    if is_host(t):
        return _strided_values(t)
    return (
        _strided_values(t)
        # bytes of a type that twinrun has no number for are read side by side (_memory)
        and (t.dtype in _codes or t.is_contiguous())
        and device.here(t)
    )


def _still_readable(t, place):
    """readable() for a plain tensor of the type of elements that a readable one had in this place:
    that rules out quantized ones.
    """
    if place or not (_has_is_cpu and _has_is_nested and _has_is_neg):
        return readable(t) and place_of(t) == place
    return (
        t.is_cpu
        and t.layout is _strided
        and not t.is_neg()
        and not t.is_conj()
        and not t.is_nested
        and not _wrapped(t)
    )


# ---------------------------------------------------------------- the same tensors, step after step


class Table:
    """Tensors that are recorded together again and again, kept as one array whose rows change only
    where they must.
    """

    def __init__(self, phase, kind, flags=STATS | SKETCH):
        self.phase, self.kind, self.flags = phase, kind, flags
        self.items = Items(16)
        # (pointer, shape, dtype, strides, place_of()) of each readable tensor, None for what needs
        # a closer look
        self.rows = []
        self.names = None
        self.bytes = 0
        self.devices = 0  # the GPUs that rows lie on, a set
        self.epoch = 0  # S.interrupted when the rows were made
        self.swift = None  # the same rows for the swift path, which may have moved them since
        self.places = None  # of the tensors among all parameters, where somebody asks for them

    def record(self, names, tensors, flags=None):
        """Records tensors[i] as names[i] = (name, scope, op, site). `names` is compared by
        identity: a new list, a new table.
        """
        flags = self.flags if flags is None else flags
        known = names is self.names and self.epoch == S.interrupted
        if self.swift is not None:
            if known and swift.record(self.swift, tensors, flags):
                return
            known = False
        if not known or len(tensors) != len(self.rows):
            self._rebuild(names, tensors, flags)
        elif flags != self.flags:
            self._reflag(flags)
        buffer, plain, i = self.items.buffer, _plain, 0
        for t, row in zip(tensors, self.rows):
            if row is None or type(t) not in plain:
                return self._one_by_one(names, tensors, flags)
            pointer, shape, dtype, strides, place = row
            now = t.data_ptr()
            if (
                t.shape != shape
                or t.dtype is not dtype
                or not (t.is_contiguous() if strides is None else t.stride() == strides)
            ):
                return self._again(names, tensors, flags)
            if now != pointer:
                if not now or not _still_readable(t, place):
                    return self._again(names, tensors, flags)
                self.rows[i] = (now, shape, dtype, strides, place)
                pack_pointer(buffer, i * ITEM_BYTES, now)
            i += 1
        if not self._send():
            self._one_by_one(names, tensors, flags)

    def _again(self, names, tensors, flags):
        self._rebuild(names, tensors, flags)
        if None in self.rows or not self._send():
            self._one_by_one(names, tensors, flags)

    def _one_by_one(self, names, tensors, flags):
        held = pending()
        for (name, scope, op, site), t in zip(names, tensors):
            held.add(self.phase, self.kind, name, t, scope, op, site, flags, role="")
        held.flush()

    def again(self, flags):
        """record() with the same names and tensors, for who knows that each is where it was. False:
        it takes record().
        """
        if self.swift is not None:
            return swift.again(self.swift, flags)
        if None in self.rows:
            return False
        if flags != self.flags:
            self._reflag(flags)
        return self._send()

    def _send(self):
        """Whether the rows could be sent: they are not when the library cannot read the GPU from
        this thread.
        """
        if not self.rows:
            return True
        began = perf_counter_ns()
        send = device.sender(self.devices) if self.devices else sender(self.bytes, 0)
        if send is None:
            return False
        send(self.items.address, len(self.rows), None, 0)
        S.native_ns += perf_counter_ns() - began
        return True

    def _reflag(self, flags):
        self.flags = flags
        for i, row in enumerate(self.rows):
            if row is not None:
                native.pack_flags(
                    self.items.buffer, i * ITEM_BYTES + native.FLAGS_AT, flags | row[4]
                )

    def _rebuild(self, names, tensors, flags):
        self.swift = None
        self.names, self.flags, self.rows, self.bytes, self.devices, self.epoch = (
            names,
            flags,
            [],
            0,
            0,
            S.interrupted,
        )
        while self.items.capacity < len(tensors):
            self.items.grow()
        for i, t in enumerate(tensors):
            memory = _memory(t) if type(t) in _plain and readable(t) else None
            if memory is None or not memory[0] or memory[1] == native.BYTES:
                self.rows.append(None)
                continue
            pointer, code, count, shape, strides = memory
            name, scope, op, site = names[i]
            at = [
                0 if numbers is None else ctypes.addressof(core.sizes(numbers))
                for numbers in (strides and shape, strides)
            ]
            place = place_of(t)
            self.devices |= device.bit(place)
            pack_item(
                self.items.buffer,
                i * ITEM_BYTES,
                pointer,
                *at,
                count,
                0,
                core.series(self.phase, self.kind, name, scope, op, site, ""),
                core.layout(code, shape),
                flags | place,
                code,
                len(shape),
                0,
            )
            self.rows.append((pointer, t.shape, t.dtype, strides, place))
            self.bytes += count * native.WIDTH[code]
        if swift.ON and not self.devices and self.rows and None not in self.rows:
            self.swift = swift.new_table(
                self.items.buffer,
                self.items.address,
                self.bytes,
                flags,
                [
                    (shape, dtype, strides, pointer, i if self.places is None else self.places[i])
                    for i, (pointer, shape, dtype, strides, _place) in enumerate(self.rows)
                ],
            )
