# SPDX-License-Identifier: Apache-2.0
"""Tensors in a GPU's memory: which of them the library fingerprints there, and how they are sent.

The library makes fingerprints on the GPU when the job has loaded NVIDIA's driver; all others are
copied to the host (tensors.py). The kernels run on PyTorch's current stream of the GPU that the
tensor lies on, behind the work that makes it, and records wait for them without the interpreter
lock: another thread may need it to launch what this stream waits for (docs/internals/device.md).
"""

from . import core, native
from .core import S

_raw_stream = None  # torch._C._cuda_getCurrentRawStream
_used = False  # some tensor was read on a GPU


def arm(torch):
    """Learns how to ask for a GPU's current stream; a PyTorch that cannot tell has no device
    fingerprints.
    """
    global _raw_stream
    if getattr(torch.version, "cuda", None):
        _raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def here(t):
    """Whether a strided CUDA tensor can be read where it is by the calling thread."""
    global _used
    if _raw_stream is None or not t.is_cuda:
        return False
    number = t.get_device()
    if number not in core.T.devices:
        # a GPU on which this process has no CUDA context yet, or no kernels for it
        if number >= native.DEVICES or not S.lib.device(number, 0):
            return False
        core.T.devices += (number,)
        _used = True
    return True


def place(t):
    """The flags that say on which GPU it lies."""
    return native.DEVICE | t.get_device() << native.DEVICE_AT


def bit(place):
    """Of these flags in a set of GPUs, whose bits are numbers of GPUs; 0: in the host's memory."""
    return place and 1 << (place >> native.DEVICE_AT)


class AllAtOnce:
    """What is sent of the GPU's memory inside `with` is looked at together, at its end: the stream
    of each is waited for once.
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


def sender(devices):
    """The library's function that records items which lie on this set of GPUs, behind the calling
    thread's current stream of each; None when it cannot read one of them.
    """
    ready = [
        S.lib.device(number, _raw_stream(number))
        for number in range(devices.bit_length())
        if devices >> number & 1
    ]
    return S.lib.records_long if all(ready) else None
