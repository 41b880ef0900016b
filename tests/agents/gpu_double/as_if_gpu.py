# SPDX-License-Identifier: Apache-2.0
"""For jobs of tests on machines without a GPU: a DOUBLE of one, that the agent takes for PyTorch's.

PyTorch computes on the host, and its tensors say that they lie on a GPU. So the agent hands them to
the kernels of agents/cuda, which run behind the double of the driver
(tests/kernels/emulated/libcuda.c). What the tensors hold is read when the stream is waited for, as
on a GPU. It shows nothing about PyTorch on CUDA.
"""

import ctypes
import sys

import torch

_driver = None
_placed = {}  # address of a storage -> number of the GPU; others lie on number 0
_copied = 0  # tensors that the agent took to the host
current = 0  # PyTorch's current device
streams = {}  # device -> its current stream, a number; 0 where none is named
_kept = []  # what was placed: other tensors must not come to lie there


class Double(ctypes.Structure):
    """struct cuda_double of libcuda.h."""

    _fields_ = [
        ("seed", ctypes.CFUNCTYPE(None, ctypes.c_uint64)),
        ("sites", ctypes.c_void_p),
        ("remove", ctypes.c_void_p),
        ("trouble", ctypes.c_void_p),
        ("refuse", ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int, ctypes.c_int)),
        ("progress", ctypes.c_void_p),
        ("capture", ctypes.CFUNCTYPE(None, ctypes.c_int)),
        ("calls", ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_char_p)),
        ("only", ctypes.c_void_p),
        ("stream", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)),
        ("memory", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)),
    ]


def agent(name):
    """A module of the agent; None where no run is recorded."""
    return sys.modules.get("_twinrun_agent." + name)


def double():
    return Double.in_dll(_driver, "twin_cuda_double")


def device_of(t):
    return _placed.get(t.untyped_storage().data_ptr(), 0)


def place(t, device):
    """From now on it lies on this GPU; -1: on the host."""
    storage = t.untyped_storage()
    _placed[storage.data_ptr()] = device
    if device >= 0 and _driver is not None:
        _kept.append(storage)
        double().memory(storage.data_ptr(), storage.nbytes(), device)
    return t


def use_stream(device, number):
    """As torch.cuda.stream, for a stream of this GPU."""
    streams[device] = number
    if _driver is not None:
        double().stream(number, device)


def is_current(device):
    """Whether the thread's CUDA context is still the one of this GPU."""
    context, primary = ctypes.c_void_p(), ctypes.c_void_p()
    if _driver is None:
        return True
    _driver.cuDevicePrimaryCtxRetain(ctypes.byref(primary), device)
    _driver.cuCtxGetCurrent(ctypes.byref(context))
    return context.value == primary.value


def use(device):
    """As torch.cuda.set_device. Returns the device before."""
    global current
    before, current = current, device
    if _driver is not None:
        context = ctypes.c_void_p()
        _driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        _driver.cuCtxSetCurrent(context)
    return before


def begin(path):
    """Loads the double, as a job loads the driver, and puts all tensors onto its GPU."""
    global _driver
    _driver = ctypes.CDLL(path)
    use(0)
    torch.Tensor.is_cuda = property(lambda t: device_of(t) >= 0)
    torch.Tensor.is_cpu = property(lambda t: device_of(t) < 0)
    torch.Tensor.get_device = device_of
    torch._C._cuda_getCurrentRawStream = lambda device: streams.get(device, 0)
    device, tensors = agent("device"), agent("tensors")
    if device is None:
        return
    version, torch.version.cuda = torch.version.cuda, "a double's"
    device.arm(torch)
    torch.version.cuda = version
    to_host = tensors._to_host

    def copied(t):
        """A copy on the host, as of a tensor of a GPU."""
        global _copied
        _copied += 1
        if double_is_capturing:
            return None
        made = to_host(t)
        return made if made is None else place(made.clone(), -1)

    tensors._to_host = copied


double_is_capturing = False


def capture(on):
    """All streams are captured into a graph, or no longer."""
    global double_is_capturing
    double_is_capturing = on
    if _driver is not None:
        double().capture(1 if on else 0)


def report(path):
    """What the agent did with the GPU, for the test."""
    names = ("cuLaunchKernel", "cuStreamSynchronize", "cuMemAlloc_v2", "cuMemcpyDtoHAsync_v2")
    with open(path, "w", encoding="ascii") as f:
        for name in names:
            f.write("%s %d\n" % (name, double().calls(name.encode()) if _driver else 0))
        f.write("copied %d\n" % _copied)
