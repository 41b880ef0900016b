# SPDX-License-Identifier: Apache-2.0
"""Factors that the Python half holds still or shakes (`TWINRUN_PINS`): what was asked for, the
proof that it took effect, seeds.

Loaded only when the variable is set. Each pin waits for the library that it changes
(`finder.when_imported`), so nothing is imported that the job does not import. Every effect is a
line in the file `factors` of the run folder; a pin that fails says so there, and the job goes on
without it. docs/internals/pins.md lists what each does and cannot reach.
"""

import os
import sys

from . import finder

FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
LINE_BYTES = 4000
FORK = 1 << 32  # added to the number of a child that multiprocessing did not number

# id -> (room, function, modules after whose import the function is called)
PINS = {
    "seed.python": ("pin_seeds", "python", ("random",)),
    "seed.numpy": ("pin_seeds", "numpy", ("numpy.random",)),
    "seed.torch": ("pin_seeds", "torch", ("torch",)),
    "seed.cuda": ("pin_seeds", "cuda", ("torch",)),
    "seed.tensorflow": ("pin_seeds", "tensorflow", ("tensorflow",)),
    "torch-deterministic": ("pin_torch", "deterministic", ("torch",)),
    "tensorflow-deterministic": ("pin_tf", "deterministic", ("tensorflow",)),
    "onednn": ("pin_tf", "onednn", ("tensorflow",)),
    "threads": ("pin_torch", "threads", ("torch",)),
    "threads.torch": ("pin_torch", "torch_threads", ("torch",)),
    "cudnn-benchmark": ("pin_flags", "cudnn_benchmark", ("torch",)),
    "cudnn-deterministic": ("pin_flags", "cudnn_deterministic", ("torch",)),
    "tf32": ("pin_flags", "tf32", ("torch",)),
    "sdpa-backend": ("pin_flags", "sdpa_backend", ("torch",)),
    "loader-workers": ("pin_torch", "loader_workers", ("torch",)),
    "ddp-buckets": ("pin_torch", "ddp_buckets", ("torch.nn.parallel.distributed",)),
    "exact-allreduce": ("pin_reduce", "exact", ("torch",)),
    "tensor-hash": ("pin_hash", "torch", ("torch",)),
    "executor-order": (
        "pin_order",
        None,
        ("concurrent.futures._base", "multiprocessing.pool", "asyncio.tasks", "torch"),
    ),
    "jax-cache": ("pin_jax", "cache", ("jax",)),
    "autotune": (
        "pin_torch",
        "autotune",
        (
            "torch._inductor.config",
            "torch._inductor.runtime.triton_heuristics",
            "triton.runtime.autotuner",
        ),
    ),
}

pins = {}  # id -> Pin
# which child of which child this process is, equal in every run, where pids would differ
_lineage = ()
_forks = 0  # of this process, os.fork and the like
_multi = False  # a process made by multiprocessing: its own number stands in _lineage
_armed = False


class Pin:
    """One factor's setting. `value` is the pin's (None: the default) or the seed of vary."""

    def __init__(self, name, vary, value):
        self.name, self.vary, self.value = name, vary, value
        self.setting = ""  # what is in force
        self.effects = []  # texts written, repeated by forked children
        self.told = set()  # texts of which one is enough
        self.ordinal = 0  # draws from stream()
        self.applied = None  # pid of the process in which a seed was set
        self.by_job = False  # the job has seeded the generator itself

    def say(self, text):
        """One line in `factors`: an effect, or a failure. The same text only once per process."""
        if text not in self.told:
            self.told.add(text)
            write([(self.name, text)])

    def effect(self, text, unused=""):
        """The setting is in force in this process and in those forked from it; `unused` says why
        nothing can ask for it.
        """
        self.setting = ("vary " if self.vary else "pin ") + text
        self.effects.append(
            "not used: %s (%s)" % (unused, self.setting) if unused else self.setting
        )
        self.say(self.effects[-1])

    def failed(self, why):
        self.say("failed: %s" % (why,))

    def kept(self, asked, frame):
        """The job has asked for something else, which was not done."""
        self.say("%s kept: the job asked for %s, at %s" % (self.setting, asked, where(frame)))

    def overridden(self, frame):
        """The job has done itself what the pin is for."""
        if not self.by_job:
            self.by_job = True
            self.say("overridden: the job sets it itself, at %s" % where(frame))

    def lasts(self, name, asked, library):
        """Whether a variable, set before the process began, still was so when the library read it; if
        not, the job's own wish is told.
        """
        found = os.environ.get(name)
        if found != asked:
            what = "takes it out of the environment" if found is None else "sets it to " + found
            self.say("overridden: the job %s before it imports %s" % (what, library))
        return found == asked

    def default(self, value):
        return value if self.value is None else self.value

    def base(self, bits=63):
        """The seed of a global generator in this process. A pin gives every rank the same, as a
        line in the script would; processes made by the job get others, since copies of one
        generator are what nobody wants.
        """
        if self.vary:
            return mix(self.value, self.name, rank(), *_lineage) >> (64 - bits)
        if _lineage:
            return mix(self.default(0), self.name, *_lineage) >> (64 - bits)
        return self.default(0)

    def stream(self, bits=63):
        """The next of the seeds for generators that the job makes without one."""
        self.ordinal += 1
        return mix(
            self.default(0),
            self.name,
            "stream",
            rank() if self.vary else 0,
            self.ordinal,
            *_lineage,
        ) >> (64 - bits)

    def choose(self, choices):
        """vary: one of the choices, by the seed."""
        return choices[mix(self.value, self.name) % len(choices)]


def mix(*parts):
    """64 bits from integers and texts: SplitMix64's finaliser (Steele, Lea, Flood 2014) over the
    parts in turn. No library of Python's own is imported for it.
    """
    mask = (1 << 64) - 1
    h = 0
    for part in parts:
        number = int.from_bytes(part.encode(), "little") if isinstance(part, str) else part
        while True:
            h = (h + 0x9E3779B97F4A7C15 + (number & mask)) & mask
            h = ((h ^ (h >> 30)) * 0xBF58476D1CE4E5B9) & mask
            h = ((h ^ (h >> 27)) * 0x94D049BB133111EB) & mask
            h ^= h >> 31
            number >>= 64
            if number in (0, -1):
                break
    return h


def rank():
    for name in ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 0


def of_job(file):
    """A file of the job or of a library that it uses: neither of ours, of a framework whose
    settings we hold nor of the standard library.
    """
    if file.startswith((FOLDER, "<frozen")):
        return False
    for name in ("torch", "jax", "tensorflow", "keras"):
        home = getattr(sys.modules.get(name), "__file__", None)
        if home and file.startswith(os.path.dirname(os.path.abspath(home)) + os.sep):
            return False
    return "-packages" + os.sep in file or not file.startswith(
        os.path.dirname(os.__file__) + os.sep
    )


def where(frame):
    """file:line of the job that called what `frame` runs: the innermost outside of us, the standard
    library and the frameworks.
    """
    while frame is not None and not of_job(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return "an unknown line"
    file = frame.f_code.co_filename
    try:
        here = os.path.join(os.getcwd(), "")
    except OSError:
        here = os.sep
    return "%s:%d" % (
        file[len(here) :] if here != os.sep and file.startswith(here) else file,
        frame.f_lineno or 0,
    )


def by_worker(frame):
    """Whether torch's loop of a DataLoader worker makes the call: not the job's wish."""
    file = frame.f_code.co_filename
    return file.endswith(os.sep + "worker.py") and os.path.join("torch", "utils", "data") in file


def hide(error):
    """Takes our frame, which calls the original, and what of ours lies between, out of the traceback
    of an exception that passes.
    """
    found = error.__traceback__ and error.__traceback__.tb_next
    while found is not None and found.tb_frame.f_code.co_filename.startswith(FOLDER):
        found = found.tb_next
    error.__traceback__ = found


def after_init(cls, then):
    """Whatever cls makes goes through then(object, frame of who made it)."""
    import functools

    original = cls.__init__

    def __init__(self, *args, **named):
        try:
            original(self, *args, **named)
        except BaseException as error:
            hide(error)
            raise
        then(self, sys._getframe(1))

    cls.__init__ = functools.update_wrapper(__init__, original)


def hide_from_compiler(functions):
    from . import torch_hooks

    torch_hooks._hide_from_compiler(sys.modules["torch"], functions)


# ---------------------------------------------------------------- the file `factors`


def _role():
    core = sys.modules.get(__package__ + ".core")
    role = core and core.S.worker
    if role:
        return role
    return (
        "child " + ".".join("fork %d" % (n - FORK) if n > FORK else str(n) for n in _lineage)
        if _lineage
        else ""
    )


def write(lines, kind="effect."):
    """Lines of (name, value). One write for all lines: those of concurrent processes never mix.
    Failing is no reason to disturb the job.
    """
    begin = "%d\t%d\t%s\t%s" % (os.getpid(), rank(), _role(), kind)
    text = b""
    for name, value in lines:
        line = (begin + name + "\t" + value.replace("\t", "?")).encode("utf-8", "replace")
        text += bytes(c if c >= 32 or c == 9 else 63 for c in line[: LINE_BYTES - 1]) + b"\n"
    try:
        path = os.path.join(os.environ["TWINRUN_RUN_DIR"], "factors")
        fd = os.open(
            path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666
        )
        try:
            os.write(fd, text)
        finally:
            os.close(fd)
    except (OSError, KeyError):
        pass


# ---------------------------------------------------------------- what was asked for


def _parse(item):
    """`id=pin[:value]` or `id=vary:seed` -> Pin; ValueError says why not. The id is then in
    args[1].
    """
    name, _, setting = item.partition("=")
    mode, colon, value = setting.partition(":")
    if name not in PINS:
        raise ValueError("unknown", name)
    if mode not in ("pin", "vary"):
        raise ValueError("'%s' is neither pin nor vary" % mode, name)
    if mode == "vary" and not colon:
        raise ValueError("vary needs a seed, as in %s=vary:1" % name, name)
    if colon and not (value.isdigit() and value.isascii() and len(value) <= 20):
        raise ValueError("'%s' is not a whole number" % value, name)
    return Pin(name, mode == "vary", int(value) if colon else None)


def _of_this_rank(text):
    """The number of "RANK:NUMBER,..." that is this rank's; None: there is none."""
    for item in text.split(","):
        of, _, number = item.partition(":")
        plain = of.isdigit() and number.isdigit() and (of + number).isascii()
        if plain and len(number) <= 7 and int(of) == rank() and 1 <= int(number) <= 1 << 20:
            return int(number)
    return None


def arm():
    """Reads TWINRUN_PINS and lets every pin wait for its library. Once per process."""
    global _armed
    if _armed:
        return
    _armed = True
    for item in os.environ.get("TWINRUN_PINS", "").split(","):
        item = item.strip()
        if not item:
            continue
        try:
            pin = _parse(item)
            pins[pin.name] = pin
        except ValueError as error:
            write([(error.args[1], "failed: %s" % error.args[0])])
    number = _of_this_rank(os.environ.get("TWINRUN_TORCH_THREADS", ""))
    if number is not None:
        pins["threads.torch"] = Pin("threads.torch", False, number)
    if not pins:
        return
    import atexit

    atexit.register(_at_exit)
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
    finder.when_imported("multiprocessing.process", _follow_children)
    for pin in pins.values():
        for module in PINS[pin.name][2]:
            finder.when_imported(module, _apply(pin, module))


def _apply(pin, module):
    room, function, _modules = PINS[pin.name]

    def apply():
        try:
            rooms = __import__(__package__ + "." + room, fromlist=[room])
            getattr(rooms, function or module.replace(".", "_"))(pin, sys.modules[module])
        except Exception as error:
            pin.failed("%s: %s" % (type(error).__name__, error))

    return apply


def _at_exit():
    """A pin whose library the job never imported has had nothing to act on."""
    lines = [
        (pin.name, "not used: %s was not imported" % PINS[pin.name][2][0])
        for pin in pins.values()
        if not pin.told
    ]
    if lines:
        write(lines)


# ---------------------------------------------------------------- processes that the job makes


def when_process_ends(report):
    """Calls report() at the end of this process and of those forked from it: a child of
    multiprocessing ends without atexit.
    """
    import atexit
    import functools

    def follow():
        process = sys.modules["multiprocessing.process"].BaseProcess
        original = process._bootstrap

        def _bootstrap(self, *args, **named):
            try:
                return original(self, *args, **named)
            finally:
                report()

        process._bootstrap = functools.update_wrapper(_bootstrap, original)

    atexit.register(report)
    finder.when_imported("multiprocessing.process", follow)


def _before_fork():
    global _forks
    _forks += 1


def _become(lineage):
    global _lineage, _forks
    _lineage, _forks = lineage, 0
    for pin in pins.values():
        pin.ordinal = 0


def _after_fork():
    """The child's streams are others than its parent's; what was in force still is."""
    _become(_lineage + (FORK + _forks,))
    for pin in pins.values():
        pin.told.clear()
        pin.told.update(pin.effects)
    lines = [(pin.name, text) for pin in pins.values() for text in pin.effects]
    if lines:
        write(lines)


def _follow_children():
    """Processes of multiprocessing go by their number, equal with fork, spawn and forkserver. Those
    of torch.multiprocessing.spawn are ranks: they keep the seeds that a line in the script would
    set.
    """
    process = sys.modules["multiprocessing.process"].BaseProcess
    original = process._bootstrap

    def _bootstrap(self, *args, **named):
        try:
            target = getattr(self, "_target", None)
            ranks = getattr(target, "__module__", "") == "torch.multiprocessing.spawn"
            _become(() if ranks else tuple(getattr(self, "_identity", ())))
            if "pin_seeds" in {PINS[name][0] for name in pins}:
                from . import pin_seeds

                pin_seeds.child()
        except Exception:
            pass
        return original(self, *args, **named)

    process._bootstrap = _bootstrap
