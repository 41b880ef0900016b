# SPDX-License-Identifier: Apache-2.0
"""Flags of torch that choose kernels, held still or shaken: cuDNN's, TF32 and reduced precision, the
ways to compute attention.

Each is set through a function of torch._C, and again whenever the job sets it; the job's wish is
judged as without us, and reported. After the first time the flag is read back: a pin that did not
take effect is no pin.
"""

import functools
import sys

from . import pins


_SDP = "_set_sdp_use_"


def _without_cuda(torch):
    return torch.version.cuda is None and getattr(torch.version, "hip", None) is None


def _hold(pin, torch, setters, value, text, gpu=True):
    """Sets the flags of the setters that this torch has, and holds them."""
    for name in setters:
        if hasattr(torch._C, name):
            _hold_flag(pin, torch, name, value)
    unused = "no CUDA in this build of torch" if gpu and _without_cuda(torch) else ""
    pin.effect(text, unused=unused)


def _hold_flag(pin, torch, name, value):
    getattr(torch._C, name)(value)
    _hold_setter(pin, torch, name, lambda asked, *more: (value, *more))
    _read_back(torch, name, value)


def _hold_setter(pin, torch, name, instead):
    """From now on what the job sets through this function of torch._C is set, and then what
    instead(*asked) gives, where that is something else.
    """
    original = getattr(torch._C, name)

    def setter(*asked):
        try:
            done = original(*asked)  # refuses what it refuses without us
        except BaseException as error:
            pins.hide(error)
            raise
        held = instead(*asked)
        if held != asked:
            done = original(*held)
            wish = next(a for a, h in zip(asked, held) if a != h)
            pin.kept(wish, sys._getframe(1))
        return done

    setattr(torch._C, name, functools.update_wrapper(setter, original))
    for flag in vars(type(torch.backends.cudnn)).values():
        if getattr(flag, "setter", None) is original:
            flag.setter = setter
    pins.hide_from_compiler([setter])


def _read_back(torch, name, value):
    if name.startswith(_SDP):
        getter = "_get_%s_sdp_enabled" % name[len(_SDP) :]
    else:
        getter = name.replace("_set_", "_get_", 1)
    found = getattr(torch._C, getter)()
    if isinstance(found, tuple):  # with what else the same function sets
        found = found[0]
    if found != value:
        raise RuntimeError("%s(%s) left it at %s" % (name, value, found))


def _flag(pin, usual):
    return pin.choose((True, False)) if pin.vary else bool(pin.default(usual))


def cudnn_benchmark(pin, torch):
    value = _flag(pin, 0)
    _hold(pin, torch, ["_set_cudnn_benchmark"], value, "torch.backends.cudnn.benchmark=%s" % value)


def cudnn_deterministic(pin, torch):
    value = _flag(pin, 1)
    text = "torch.backends.cudnn.deterministic=%s" % value
    _hold(pin, torch, ["_set_cudnn_deterministic"], value, text)


# ---------------------------------------------------------------- precision of matrix products

_PRECISION = (
    "_set_cublas_allow_tf32",
    "_set_cudnn_allow_tf32",
    "_set_cublas_allow_fp16_reduced_precision_reduction",
    "_set_cublas_allow_bf16_reduced_precision_reduction",
)


def tf32(pin, torch):
    """Three ways lead to the same switch: allow_tf32, set_float32_matmul_precision, and from 2.9 on
    fp32_precision. All are held.
    """
    value = _flag(pin, 0)
    _hold_named_precision(pin, torch, value)
    _hold_precision_of_backends(pin, torch, value)
    text = "allow_tf32=%s and reduced-precision reductions in matmul and cuDNN" % value
    _hold(pin, torch, _PRECISION, value, text)


def _hold_named_precision(pin, torch, value):
    name = "_set_float32_matmul_precision"
    held = "high" if value else "highest"
    if hasattr(torch._C, name):
        _hold_setter(
            pin, torch, name, lambda asked: (held if (asked != "highest") != value else asked,)
        )


def _hold_precision_of_backends(pin, torch, value):
    name = "_set_fp32_precision_setter"
    held = "tf32" if value else "ieee"

    def instead(backend, op, asked):
        ours = backend in ("cuda", "generic") and asked in ("tf32", "ieee")
        return backend, op, held if ours else asked

    if hasattr(torch._C, name):
        _hold_setter(pin, torch, name, instead)


# ---------------------------------------------------------------- attention


def sdpa_backend(pin, torch):
    """scaled_dot_product_attention takes the kernel that fits shapes, types and hardware; those for
    a GPU add gradients by atomics or round otherwise. pin: the plain one alone. vary: any of the
    others may be taken, or not; the plain one always, as no other fits everything.
    """
    names = sorted(n[len(_SDP) :] for n in dir(torch._C) if n.startswith(_SDP))
    if "math" not in names:
        pin.effect("", unused="this torch has no choice of attention")
        return
    allowed = {
        name: name == "math" or (pin.vary and pins.mix(pin.value, pin.name, name) % 2 == 1)
        for name in names
    }
    for name, value in allowed.items():
        _hold_flag(pin, torch, _SDP + name, value)
    choose = getattr(torch, "_fused_sdp_choice", None)
    if choose is not None and not allowed.get("flash", False):
        taken = choose(*[torch.zeros(1, 1, 2, 8)] * 3)
        if taken != 0:  # torch.nn.attention.SDPBackend.MATH
            raise RuntimeError("attention takes way %d although the plain one alone may be" % taken)
    pin.effect("attention by " + ", ".join(sorted(n for n, value in allowed.items() if value)))
