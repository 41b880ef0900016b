# SPDX-License-Identifier: Apache-2.0
"""libtwinnumerics, called on the memory of tensors."""

import ctypes
import os

import torch

# enum twin_dtype
_TYPES = {torch.float64: 13, torch.float32: 10, torch.float16: 6, torch.bfloat16: 7}
# enum twin_error_code
_INVALID, _NO_MEMORY = -1, -2
_I, _I64, _P = ctypes.c_int, ctypes.c_int64, ctypes.c_void_p
_CALLS = {
    "twin_sum_axis": [_I, _P, _I64, _I64, _I64, _I, _P, _P],
    "twin_index_add": [_I, _P, _P, _I64, _I64, _P, _I64, _P],
    "twin_acc_add_squares": [_P, _I, _P, _I64, _P],
    "twin_acc_add_products": [_P, _I, _P, _P, _I64, _P],
    "twin_acc_round": [_P, _I, _P, _P],
    "twin_fixed_exponents": [_I, _P, _I64, _I64, _P, _P],
    "twin_fixed_specials": [_I, _P, _I64, _I64, _P, _P, _P],
    "twin_fixed_add": [_I, _P, _I64, _I64, _I64, _P, _P, _P, _P],
    "twin_fixed_round": [_I, _P, _I64, _I64, _I64, _I64, _P, _P, _P, _P],
    "twin_fixed_sum": [_I, _P, _I64, _I64, _I64, _I64, _I64, _P, _P],
    "twin_fixed_extents": [_I, _P, _I64, _I64, _P, _P, _P],
    "twin_fixed_take": [_I, _P, _I64, _I64, _I64, _P, _P, _P, _P],
    "twin_fixed_pack": [_P, _P, _I64, _I64, _P, _P],
    "twin_fixed_finish": [_P, _P, _I64, _P, _I64, _I64, _I64, _P, _P],
}
_COUNTS = {  # these give a number or, when it is negative, an error
    "twin_fixed_flagged": [_I, _P, _I64],
    "twin_fixed_specials_count": [_I, _I64, _P, _I64],
    "twin_fixed_packed_bytes": [_P, _I64],
}
_library = None


class _Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("message", ctypes.c_char * 1024)]


class Wire(ctypes.Structure):
    """struct twin_fixed_wire of <twin/reduce.h>."""

    _fields_ = [
        ("dtype", _I),
        ("block", _I64),
        ("total", _I64),
        ("most", _I64),
        ("exponents", _P),
        ("depths", _P),
        ("specials", _P),
    ]


def pointers(addresses):
    """Addresses as an array of C; never of no length."""
    return (_P * max(len(addresses), 1))(*addresses)


def _places():
    """Where the library may lie, the likeliest first."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # the folder of the package
    name = "libtwinnumerics.so"
    yield os.environ.get("TWINRUN_NUMERICS")
    # a wheel, its copy for jobs, an installation, a checkout
    for place in ("_bin", "../..", "../../..", "../../build/src/numerics"):
        yield os.path.join(here, place, name)
    agent = os.environ.get("TWINRUN_LIB")  # a job under twinrun
    if agent:
        for place in ("", "..", "../src/numerics"):
            yield os.path.join(os.path.dirname(agent), place, name)


def _load():
    global _library
    if _library is None:
        tried = [os.path.normpath(place) for place in _places() if place]
        found = next((place for place in tried if os.path.isfile(place)), "libtwinnumerics.so")
        try:
            library = ctypes.CDLL(found)
            for name, arguments in list(_CALLS.items()) + list(_COUNTS.items()):
                getattr(library, name).argtypes = arguments
                getattr(library, name).restype = ctypes.c_int64 if name in _COUNTS else ctypes.c_int
        except (OSError, AttributeError) as error:
            raise ImportError(
                "exact sums need twinrun's library libtwinnumerics.so (%s). Looked for in: %s, and where the linker looks. "
                "Name the file in TWINRUN_NUMERICS, or install twinrun whole"
                % (error, ", ".join(tried))
            )
        _library = library
    return _library


def call(name, *arguments):
    """Calls a function that returns 0 or an error; the interpreter's lock is free meanwhile."""
    error = _Error()
    code = getattr(_load(), name)(*arguments, ctypes.byref(error))
    if code:
        kind = (
            ValueError if code == _INVALID else MemoryError if code == _NO_MEMORY else RuntimeError
        )
        raise kind(error.message.decode("utf-8", "replace"))


def count(name, *arguments):
    """Calls a function that returns a number."""
    number = getattr(_load(), name)(*arguments)
    if number < 0:
        raise ValueError("%s%r: %d" % (name, arguments, number))
    return number


def code(dtype):
    return _TYPES[dtype]


def check(who, what, tensor):
    """Raises unless it is a tensor whose numbers can be summed here."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError("%s: %s must be a tensor, not %s" % (who, what, type(tensor).__name__))
    if tensor.dtype not in _TYPES:
        advice = (
            "integers add up exactly by themselves: torch's own function does it"
            if not (tensor.dtype.is_floating_point or tensor.dtype.is_complex)
            else "convert it, or take torch.view_as_real of complex numbers"
        )
        raise TypeError(
            "%s: %s is %s; expected float64, float32, float16 or bfloat16 (%s)"
            % (who, what, tensor.dtype, advice)
        )
    if tensor.layout != torch.strided:
        raise TypeError(
            "%s: %s has layout %s; expected a dense tensor (to_dense())"
            % (who, what, tensor.layout)
        )
    if tensor.device.type != "cpu":
        raise ValueError(
            "%s: %s is on %s, and twinrun computes exact sums on the CPU only: give it %s.cpu() and bring the answer back, "
            "or use torch.use_deterministic_algorithms(True), which repeats on equal devices"
            % (who, what, tensor.device, what)
        )


def check_index(who, index):
    if not isinstance(index, torch.Tensor) or index.dtype not in (torch.int64, torch.int32):
        raise TypeError(
            "%s: index must be a tensor of int64 or int32, not %s"
            % (who, getattr(index, "dtype", type(index).__name__))
        )
    if index.device.type != "cpu":
        raise ValueError(
            "%s: index is on %s; expected it on the CPU, as the numbers are" % (who, index.device)
        )


class Accumulator:
    """A struct twin_acc."""

    def __init__(self):
        self._bytes = (ctypes.c_uint64 * 69)()

    def add(self, name, *arguments):
        call(name, self._bytes, *arguments)

    def round(self, dtype):
        out = torch.empty((), dtype=dtype)
        call("twin_acc_round", self._bytes, _TYPES[dtype], out.data_ptr())
        return out
