# SPDX-License-Identifier: Apache-2.0
"""An in-memory double of libtwinrun.so for the unit tests of the Python agent: the same calls,
records kept as dictionaries.

Digests are SHA-256 over dtype, shape and the logical bytes, gathered element by element: an oracle
of its own. The folder fake_site, put into PYTHONPATH, arms every Python below with this double
instead of the library.
"""

import ctypes
import hashlib
import json
import os
import struct

DIGESTED, PART = 4, 1 << 8
ITEM = struct.Struct("=QQQQQIIIHHQ")
WIDTH = (1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 8, 8, 8, 8, 16, 1, 1)
PHASES = (
    "none",
    "data",
    "rng",
    "init",
    "forward",
    "backward",
    "collective",
    "optimizer",
    "checkpoint",
    "environment",
    "kernel",
    "output",
)
KINDS = (
    "none",
    "batch",
    "indices",
    "state",
    "weight",
    "activation",
    "gradient (local)",
    "gradient",
    "moment",
    "loss",
    "in",
    "out",
    "match",
    "order",
    "file",
    "line",
    "value",
    "hyper",
)
LEVELS = {"steps": 0, "tensors": 1, "modules": 2, "ops": 3}


def logical_bytes(data, width, shape, strides):
    """The elements in row-major order, gathered one by one: slow and plain."""
    count = 1
    for n in shape:
        count *= n
    if count == 0:
        return b""
    if strides is None:
        return ctypes.string_at(data, count * width)
    out = []
    index = [0] * len(shape)
    for _ in range(count):
        at = data + width * sum(i * s for i, s in zip(index, strides))
        out.append(ctypes.string_at(at, width))
        for d in reversed(range(len(shape))):
            index[d] += 1
            if index[d] < shape[d]:
                break
            index[d] = 0
    return b"".join(out)


class FakeLibrary:
    """Same attributes as _twinrun_agent.native.Library."""

    def __init__(self, level="tensors", window=None, out=None, max_steps=0):
        self._level, self._window, self._out, self._max = LEVELS[level], window, out, max_steps
        self._series, self._layouts = [None], [None]
        self._held = {}  # contents digested and not yet recorded
        self._steps = 0
        self._sequence = 0
        self._closed = False
        self.who = (0, 1, "main", 1)
        self.kept = []

    def _keep(self, record):
        record["rank"], record["process"] = self.who[0], self.who[2]
        self.kept.append(record)
        if self._out:
            with open(self._out, "a") as f:
                f.write(json.dumps(record) + "\n")

    def abi(self):
        return 1

    def on(self):
        return 0 if self._closed else 1

    def level(self):
        return self._level

    def window(self, first, last):
        return 1 if self._window else 0

    def in_window(self):
        return int(
            self._level == 3
            and (self._window is None or self._window[0] <= self._steps <= self._window[1])
        )

    def sketch_every(self):
        return 10

    def identify(self, rank, world, role, kind):
        environment = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        self.who = (
            *((rank, world) if rank >= 0 else environment),
            role.decode() if role else "main",
            kind,
        )

    def string(self, s, size):
        return 1

    def series(self, phase, kind, name, scope, role, op, site):
        texts = [t.decode() if t else "" for t in (name, scope, role, op, site)]
        self._series.append((PHASES[phase], KINDS[kind], *texts))
        return len(self._series) - 1

    def layout(self, dtype, ndim, shape):
        self._layouts.append((dtype, list(shape[:ndim]) if ndim else []))
        return len(self._layouts) - 1

    def records(self, address, n, links, link_count):
        for i in range(n):
            raw = ctypes.string_at(address + 64 * i, 64)
            data, shape, strides, count, offset, series, layout, flags, dtype, ndim, _link = (
                ITEM.unpack(raw)
            )
            shapes = list((ctypes.c_int64 * ndim).from_address(shape)) if shape else [count]
            steps = (
                list((ctypes.c_int64 * ndim).from_address(strides)) if strides and shape else None
            )
            whole = ctypes.c_int64.from_address(strides).value if strides and not shape else None
            if flags & DIGESTED:
                content = self._held.pop(ctypes.string_at(data, 16))
            else:
                content = (
                    b"" if flags >> 8 & 64 else logical_bytes(data, WIDTH[dtype], shapes, steps)
                )
            known = (
                list((ctypes.c_uint64 * link_count).from_address(ctypes.addressof(links)))
                if link_count
                else []
            )
            link = self._one(series, layout, content, flags, known, offset, whole)
            ctypes.c_uint64.from_address(address + 64 * i + 56).value = link
        return n

    records_long = records

    def device(self, number, stream):
        return 0

    def gather(self, on):
        pass

    gather_long = gather

    def digests(self, address, n, out):
        """What a record needs is kept; the 16 bytes that stand for it number it."""
        for i in range(n):
            data, shape, strides, count, *_, flags, dtype, ndim, _link = ITEM.unpack(
                ctypes.string_at(address + 64 * i, 64)
            )
            shapes = list((ctypes.c_int64 * ndim).from_address(shape)) if shape else [count]
            steps = (
                list((ctypes.c_int64 * ndim).from_address(strides)) if strides and shape else None
            )
            out[2 * i], out[2 * i + 1] = len(self._held), id(self) >> 4
            key = ctypes.string_at(ctypes.addressof(out) + 16 * i, 16)
            self._held[key] = (
                b"" if flags >> 8 & 64 else logical_bytes(data, WIDTH[dtype], shapes, steps)
            )

    def _one(self, series, layout, content, flags, links=(), offset=0, whole=None):
        phase, kind, name, scope, role, op, site = self._series[series]
        dtype, shape = self._layouts[layout] if layout else (0, [len(content)])
        digest = hashlib.sha256(repr((dtype, shape)).encode() + content).hexdigest()[:16]
        self._sequence += 1
        link = self._steps << 32 | self._sequence
        self._keep(
            {
                "step": self._steps,
                "phase": phase,
                "kind": kind,
                "name": name,
                "scope": scope,
                "role": role,
                "op": op,
                "site": site,
                "dtype": dtype,
                "shape": shape,
                "digest": digest,
                "unobserved": bool(flags >> 8 & 64),
                "recomputed": bool(flags >> 8 & 32),
                "link": link,
                "links": list(links),
                "bytes": len(content),
                **({"offset": offset, "whole": whole} if flags >> 8 & PART else {}),
            }
        )
        return link

    def bytes(self, series, data, size, flags):
        return self._one(series, 0, ctypes.string_at(data, size), flags)

    def now_ns(self):
        return 0

    def add_observer_ns(self, ns):
        pass

    def step(self):
        return self._steps

    def step_end(self):
        self._steps += 1
        if self._max and self._steps >= self._max:
            self._closed = True
        return self._steps

    def note(self, key, value):
        self._keep({"note": key.decode(), "value": value.decode()})

    def flush(self):
        pass

    def close(self):
        self._closed = True

    def quick_digest(self, data, size):
        return int.from_bytes(hashlib.sha256(ctypes.string_at(data, size)).digest()[:8], "little")

    def quick_digests(self, regions, n, out):
        numbers = [self.quick_digest(regions[2 * i], regions[2 * i + 1]) for i in range(n)]
        ctypes.memmove(out, (ctypes.c_uint64 * n)(*numbers), 8 * n)


def agent():
    """The agent's package, loaded as the job would get it."""
    import importlib.util

    here = os.path.dirname(os.path.abspath(__file__))
    boot = os.path.join(here, "..", "..", "python", "twinrun", "_agent", "boot.py")
    spec = importlib.util.spec_from_file_location("_twinrun_boot", os.path.normpath(boot))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arm_from_environment():
    """FAKE_OUT: file for the records, one JSON object a line. FAKE_LEVEL: `ops`, or `ops:1:2` with
    a window.
    """
    level, _colon, window = os.environ.get("FAKE_LEVEL", "tensors").partition(":")
    os.environ.setdefault("TWINRUN_RUN_DIR", os.path.dirname(os.environ["FAKE_OUT"]))
    boot = agent()
    boot.package()
    from _twinrun_agent import native

    steps = tuple(int(n) for n in window.split(":")) if window else None
    native.install(
        FakeLibrary(level, steps, os.environ["FAKE_OUT"], int(os.environ.get("FAKE_STEPS", 0)))
    )
    boot.arm()
