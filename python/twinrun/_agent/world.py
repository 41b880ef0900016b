# SPDX-License-Identifier: Apache-2.0
"""What surrounds a Python process that records: versions, settings that decide about bits, states
of the generators, folders of packages.

Lines `KEY TAB VALUE` appended to the rank's file in `worlds`, to which the library adds variables
and mapped files (agents/common/world.c). Written at the first record, when the job has made its
choices, and settings once more at the end. Nothing is imported that the job has not imported, and
no device is initialised.
"""

import os
import sys

from . import core, faults, watch

VALUE_BYTES = 3000


def _versions():
    yield "python", "%d.%d.%d" % sys.version_info[:3]
    for name in (
        "numpy",
        "torch",
        "transformers",
        "triton",
        "jax",
        "jaxlib",
        "optax",
        "flax",
        "tensorflow",
        "mpi4py",
        "safetensors",
        "datasets",
    ):
        module = sys.modules.get(name)
        if module is not None:
            yield name, getattr(module, "__version__", "?")
    torch = sys.modules.get("torch")
    if torch is None:
        return
    for name in ("git_version", "cuda", "hip"):
        value = getattr(getattr(torch, "version", None), name, None)
        if value:
            yield "torch." + name, value
    if torch.backends.cudnn.is_available():
        yield "cudnn", torch.backends.cudnn.version()
    if getattr(torch.version, "cuda", None) and hasattr(torch.cuda, "nccl"):
        yield "nccl", ".".join(map(str, torch.cuda.nccl.version()))
    yield (
        "torch.built_with",
        "; ".join(
            line.strip(" -")
            for line in torch.__config__.show().splitlines()[1:]
            if "Build settings" not in line
        ),
    )


JAX_SETTINGS = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_disable_jit",
    "jax_enable_compilation_cache",
    "jax_compilation_cache_dir",
)


def _settings():
    yield "hash", watch.salt()
    jax = getattr(sys.modules.get("jax"), "config", None)
    for name in JAX_SETTINGS if jax is not None else ():
        yield name.replace("jax_", "jax.", 1), getattr(jax, name, "?")
    torch = sys.modules.get("torch")
    if torch is None:
        return
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    yield "deterministic_algorithms", torch.are_deterministic_algorithms_enabled()
    yield "cudnn.deterministic", cudnn.deterministic
    yield "cudnn.benchmark", cudnn.benchmark
    yield "cudnn.allow_tf32", cudnn.allow_tf32
    yield "matmul.allow_tf32", matmul.allow_tf32
    yield "matmul.reduced_fp16", matmul.allow_fp16_reduced_precision_reduction
    yield "matmul.reduced_bf16", getattr(matmul, "allow_bf16_reduced_precision_reduction", "?")
    yield "float32_matmul_precision", torch.get_float32_matmul_precision()
    yield "default_dtype", torch.get_default_dtype()
    yield "threads", torch.get_num_threads()
    yield "interop_threads", torch.get_num_interop_threads()


def _machine():
    """Which instructions PyTorch's own kernels use: by the processor and ATEN_CPU_CAPABILITY."""
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch.backends, "cpu"):
        yield "cpu_capability", torch.backends.cpu.get_cpu_capability()


def _generators():
    for name, (module, read) in watch.GENERATORS.items():
        if module in sys.modules:
            yield name, read(sys.modules[module])


def _device():
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None and cuda.is_initialized():
        number = cuda.current_device()
        yield "device", "cuda:%d %s" % (number, cuda.get_device_name(number))


def _pairs(kind, pairs, suffix=""):
    """The pairs up to the one that cannot be told: a library of another version lacks a name."""
    found = []
    try:
        for name, value in pairs():
            found.append((kind, "%s%s %s" % (name, suffix, value)))
    except Exception as error:
        faults.pass_on(error)
    return found


def _write(lines):
    if core.S.worker is not None:
        return
    text = b""
    for key, value in lines:
        line = ("%s\t%s" % (key, value)).encode("utf-8", "replace")[:VALUE_BYTES]
        text += bytes(c if c >= 32 or c == 9 else 63 for c in line) + b"\n"
    try:
        path = os.path.join(
            os.environ["TWINRUN_RUN_DIR"], "worlds", "%d.%d" % (core.S.rank, os.getpid())
        )
        fd = os.open(
            path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666
        )
        try:
            os.write(fd, text)
        finally:
            os.close(fd)
    except (OSError, KeyError) as error:
        faults.pass_on(error)


def begins():
    """Never raises: what cannot be told is left out."""
    try:
        watch.tell_salt()
        lines = (
            _pairs("version", _versions)
            + _pairs("setting", _settings)
            + _pairs("machine", _machine)
            + _pairs("generator", _generators, ".first")
        )
        lines += [(key, value) for key, value in _device()] + [
            ("path", path) for path in sys.path if path
        ]
        # the launcher compares ranks while they run: this says that nothing more comes for now
        _write(lines + [("told", "python")])
    except Exception as error:
        faults.pass_on(error)


def _at_the_end():
    amp = sys.modules.get(__package__ + ".amp")
    if amp is not None and amp.regions() is not None:
        yield "autocast", amp.regions()


def ends():
    try:
        lines = (
            _pairs("setting", _settings)
            + _pairs("setting", _at_the_end)
            + _pairs("generator", _generators, ".last")
        )
        _write(lines + [(key, value) for key, value in _device()])
    except Exception as error:
        faults.pass_on(error)
