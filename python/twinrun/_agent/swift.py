# SPDX-License-Identifier: Apache-2.0
"""The swift path: what is done in every step for each tensor, by one call of the library for all
(agents/python/swift.h).

Each function looks whether everything is as a table says that Python has made, and only then
records. Where one is missing or says no, Python goes its own way, which is the reference: both
write the same records. `TWINRUN_SWIFT=off` leaves the reference alone.
"""

import ctypes
import os
import sys

from . import native, refs

ON = False
(
    new_table,
    record,
    again,
    still,
    new_numbers,
    numbers,
    record_bytes,
    ns,
    new_watch,
    check,
    look,
    seen,
    new_left,
    left,
    step,
    rows_of,
    new_moments,
    moments,
    new_list,
    parameters,
    new_memory,
    same,
    take,
) = (None,) * 23
_NAMES = {"record_bytes": "bytes", "parameters": "list"}


def _given(torch):
    """struct tw_swift_given. Methods are the exact ones of tensors, which no class of the job can
    take the place of.
    """
    base = torch._C.TensorBase if hasattr(torch._C, "TensorBase") else torch._C._TensorBase
    functorch = getattr(torch._C, "_functorch", None)
    methods = [
        getattr(base, name)
        for name in (
            "data_ptr",
            "is_contiguous",
            "stride",
            "numel",
            "element_size",
            "is_neg",
            "is_conj",
        )
    ]
    attributes = (
        "shape",
        "dtype",
        "layout",
        "_version",
        "grad",
        "is_cpu",
        "is_nested",
        "is_quantized",
    )
    if not all(hasattr(base, name) for name in attributes):
        return None
    types = (torch.Tensor, torch.nn.Parameter, dict, list, tuple, float, int)
    return (
        None,
        True,
        False,
        *types,
        torch.strided,
        refs.Ref,
        *methods,
        getattr(functorch, "is_functorch_wrapped_tensor", None),
        *map(sys.intern, attributes),
        sys.intern("params"),
    )


def _is_usual():
    """Whether this is a CPython whose objects begin as its limited API has promised, with the lock
    that all calls count on.
    """
    return (
        sys.implementation.name == "cpython"
        and object.__basicsize__ == 16
        and getattr(sys, "_is_gil_enabled", lambda: True)()
        and ctypes.c_uint64.from_address(id(refs) + 8).value == id(type(refs))
    )


def _library():
    """The library that has the functions; tests give one in which a check is missing."""
    return os.environ.get("TWINRUN_SWIFT") or getattr(native.library(), "path", None)


def arm(torch):
    """Gets the functions, where they are to be had."""
    global ON
    path = _library()
    if not path or path == "off" or not _is_usual():
        return
    try:
        make = ctypes.PyDLL(path).tw_agent_swift
        make.restype, make.argtypes = ctypes.c_void_p, [ctypes.py_object]
        given = _given(torch)
        found = make(given) if given is not None else None
    except (OSError, AttributeError):
        return
    if not found:
        return
    functions = ctypes.cast(found, ctypes.py_object).value
    for name in (
        "new_table record again still new_numbers numbers record_bytes ns new_watch check look "
        "seen new_left left step rows_of new_moments moments new_list parameters new_memory same "
        "take"
    ).split():
        globals()[name] = functions[_NAMES.get(name, name)]
    ON = True
