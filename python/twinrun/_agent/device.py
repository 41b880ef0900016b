# SPDX-License-Identifier: Apache-2.0
"""Tensors in a GPU's memory: which of them the library fingerprints there, and how they are sent.

The library makes fingerprints on the GPU when the job has loaded NVIDIA's driver and the tensor
lies on the current device; all others are copied to the host (tensors.py), as before. The kernels
run on PyTorch's current stream, behind the work that makes the tensor, and records wait for them
without the interpreter lock: another thread may need it to launch what this stream waits for
(docs/internals/device.md).
"""

from . import core
from .core import S

_current = _raw_stream = None  # torch._C._cuda_getDevice, torch._C._cuda_getCurrentRawStream
_used = False  # some tensor was read on a GPU


def arm(torch):
    """Learns how to ask for the current device and its stream; a PyTorch that cannot tell has no
    device fingerprints.
    """
    global _current, _raw_stream
    inside = torch._C
    if (
        getattr(torch.version, "cuda", None)
        and hasattr(inside, "_cuda_getDevice")
        and hasattr(inside, "_cuda_getCurrentRawStream")
    ):
        _current, _raw_stream = inside._cuda_getDevice, inside._cuda_getCurrentRawStream


def here(t):
    """Whether a strided CUDA tensor can be read where it is by the calling thread."""
    global _used
    if _current is None or not t.is_cuda or t.get_device() != _current():
        return False
    if core.T.device != t.get_device():
        # no CUDA context of this thread's yet, or no kernels for this GPU
        if not S.lib.device(0):
            return False
        core.T.device = t.get_device()
        _used = True
    return True


class AllAtOnce:
    """What is sent of the GPU's memory inside `with` is looked at together, at its end: the stream
    is waited for once.
    """

    def __enter__(self):
        if _used:
            S.lib.gather(1)

    def __exit__(self, *_raised):
        self.end()

    def end(self):
        if _used:
            S.lib.gather_long(0)


all_at_once = AllAtOnce()


def sender():
    """The library's function that records items which lie on the current device, behind its stream;
    None when it cannot.
    """
    return S.lib.records_long if S.lib.device(_raw_stream(_current())) else None
