# SPDX-License-Identifier: Apache-2.0
"""What torch itself lets one hold still: thread counts, loader workers, DDP's buckets, autotuning
(flags: pin_flags.py).

Where the job sets the same thing later, the pin stays and the wish is reported.
"""

import functools
import os
import sys

from . import pins


# ---------------------------------------------------------------- deterministic algorithms


def deterministic(pin, torch):
    """torch.use_deterministic_algorithms(True, warn_only=True), silently: the agent library stands
    in front of the function that warns, and counts instead. A job that switches the mode on itself
    gets torch's own, with its warnings and errors.
    """
    if pin.vary:
        raise RuntimeError("can only be pinned")
    from . import native

    library = native.library()
    switch = torch._C._set_deterministic_algorithms
    library.quiet_alerts(1)
    switch(True, warn_only=True)
    if not _silent(torch):
        switch(False)
        library.quiet_alerts(0)
        raise RuntimeError(
            "torch's warnings cannot be silenced here: the agent library does not stand before torch's function"
        )
    library.quiet_alerts(2)

    def set_deterministic_algorithms(mode, *args, **named):
        try:
            switch(mode, *args, **named)
        except BaseException as error:
            pins.hide(error)
            raise
        caller = sys._getframe(1)
        if _restores(caller):
            return
        if mode:
            library.quiet_alerts(0)
            pin.overridden(caller)
        else:
            library.quiet_alerts(2)
            switch(True, warn_only=True)
            pin.kept("False", caller)

    torch._C._set_deterministic_algorithms = set_deterministic_algorithms
    pins.finder.when_imported(
        "torch._inductor.config",
        lambda: _set(sys.modules["torch._inductor.config"], deterministic=True),
    )
    import atexit

    def report():
        counts = _counted(library)
        if counts and not pin.by_job:
            pin.say(
                "pin use_deterministic_algorithms; calls without a deterministic version: %s"
                % counts
            )

    atexit.register(report)
    pin.effect("use_deterministic_algorithms(True, warn_only=True), its warnings counted instead")


def _restores(frame):
    """Whether torch itself makes the call, to put back what it found (the compiler does, around
    each compilation).
    """
    if frame.f_code.co_name in ("use_deterministic_algorithms", "set_deterministic_debug_mode"):
        frame = frame.f_back
    return frame.f_code.co_filename.startswith(
        os.path.dirname(os.path.abspath(sys.modules["torch"].__file__)) + os.sep
    )


def _counted(library):
    import ctypes

    text = ctypes.create_string_buffer(3000)
    library.alerts(text, len(text))
    return text.value.decode("utf-8", "replace")


def _silent(torch):
    """Calls an operation that alerts, on a tensor of its own."""
    import warnings

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        torch.zeros(1).put_(torch.zeros(1, dtype=torch.long), torch.ones(1))
    return not heard


# ---------------------------------------------------------------- threads


def _keeper(pin, set_threads, count):
    """What the job calls in place of torch.set_num_threads: the number stays. That of a loader
    worker, which torch itself sets to 1, does not.
    """

    def set_num_threads(*args, **named):
        caller = sys._getframe(1)
        try:
            set_threads(*args, **named)  # refuses what it refuses without us
        except BaseException as error:
            pins.hide(error)
            raise
        if pins.by_worker(caller):
            return
        set_threads(count)
        if args != (count,):
            pin.kept("%s threads" % (args[0] if args else "?"), caller)

    return set_num_threads


def torch_threads(pin, torch):
    """torch's threads inside of operations, and no others: the number that another run told of this
    rank (`threads` holds those of all libraries).
    """
    set_threads = torch.set_num_threads
    set_threads(pin.value)
    keeper = functools.update_wrapper(_keeper(pin, set_threads, pin.value), set_threads)
    torch.set_num_threads = keeper
    pins.hide_from_compiler([keeper])
    pin.effect("%d thread%s in operations of torch" % (pin.value, "" if pin.value == 1 else "s"))


def threads(pin, torch):
    """torch's threads inside and between operations."""
    count = pin.choose(range(1, max(2, os.cpu_count() or 1) + 1)) if pin.vary else pin.default(1)
    if not 1 <= count <= 4096:
        raise ValueError("%d threads" % count)
    set_threads, set_interop = torch.set_num_threads, torch.set_num_interop_threads
    set_threads(count)
    problem = ""
    try:
        set_interop(count)
    except RuntimeError:
        problem = "; threads between operations were fixed before"
    asked = []
    set_num_threads = _keeper(pin, set_threads, count)

    def set_num_interop_threads(*args, **named):
        try:
            usual = len(args) == 1 and not named and type(args[0]) is int and args[0] > 0
            if asked or not usual:
                return set_interop(*args, **named)  # refuses a second call, as torch does
        except BaseException as error:
            pins.hide(error)
            raise
        asked.append(args[0])
        if args[0] != count:
            pin.kept("%d interop threads" % args[0], sys._getframe(1))

    for replacement, original in (
        (set_num_threads, set_threads),
        (set_num_interop_threads, set_interop),
    ):
        setattr(torch, original.__name__, functools.update_wrapper(replacement, original))
    pins.hide_from_compiler([set_num_threads, set_num_interop_threads])
    pin.effect(
        "%d thread%s in and between operations%s" % (count, "" if count == 1 else "s", problem)
    )


# ---------------------------------------------------------------- loader workers


def loader_workers(pin, torch):
    """Every DataLoader gets this number of workers, whatever it was made with; its arguments are
    judged as without us.
    """
    count = pin.choose(range(4)) if pin.vary else pin.default(0)
    if count > 1024:
        raise ValueError("%d workers" % count)

    def set_workers(loader, caller):
        asked = loader.num_workers
        if asked == count:
            return
        loader.num_workers = count
        if count == 0:  # the rest of what only loaders with workers may have
            loader.timeout, loader.prefetch_factor = 0, None
            loader.__dict__["persistent_workers"] = False
        elif getattr(loader, "prefetch_factor", 2) is None:
            loader.prefetch_factor = 2
        pin.kept("num_workers=%d" % asked, caller)

    pins.after_init(torch.utils.data.DataLoader, set_workers)
    pin.effect("num_workers=%d in every DataLoader" % count)


# ---------------------------------------------------------------- buckets of
# DistributedDataParallel

CAPS_MB = (0.001, 0.01, 0.1, 1, 10, 100)


def ddp_buckets(pin, module):
    """DDP lays gradients into buckets in the reverse order of the parameters, and once more after
    the first step in the order in which they became ready; a resumed job begins anew. A gradient's
    place in a bucket decides in which order ranks add it. pin: the first layout stays. vary: other
    sizes of buckets.
    """
    reducer = sys.modules["torch"]._C._distributed_c10d.Reducer
    if pin.vary:
        cap = pin.choose(CAPS_MB)
        wrapper = module.DistributedDataParallel
        original = wrapper.__init__
        # among the arguments after self
        place = original.__code__.co_varnames.index("bucket_cap_mb") - 1

        def __init__(self, *args, **named):
            if len(args) > place:
                args = args[:place] + (cap,) + args[place + 1 :]
            elif not named.get("bucket_cap_mb_list"):
                named["bucket_cap_mb"] = cap
            try:
                original(self, *args, **named)
            except BaseException as error:
                pins.hide(error)
                raise

        wrapper.__init__ = functools.update_wrapper(__init__, original)
        pin.effect("buckets of %g MB" % cap)
        return
    reducer._rebuild_buckets = lambda self: False
    pin.effect("buckets stay as in the first step")


# ---------------------------------------------------------------- autotuning


def _set(config, **values):
    for name, value in values.items():
        if hasattr(config, name):
            setattr(config, name, value)


def _first_that_runs(timings):
    """Equal times for all candidates that ran, so that the first of them is taken."""
    return {choice: time if _infinite(time) else _even(time) for choice, time in timings.items()}


def _infinite(time):
    return any(t == float("inf") for t in (time if isinstance(time, (list, tuple)) else (time,)))


def _even(time):
    return type(time)(1.0 for _ in time) if isinstance(time, (list, tuple)) else 1.0


def autotune(pin, module):
    """Kernels are no longer chosen by measured time: Inductor searches less, and of the candidates
    that run the first wins.
    """
    if pin.vary:
        raise RuntimeError("can only be pinned")
    if module.__name__ == "torch._inductor.config":
        _set(
            module,
            deterministic=True,
            max_autotune=False,
            max_autotune_pointwise=False,
            max_autotune_gemm=False,
            coordinate_descent_tuning=False,
            benchmark_kernel=False,
        )
        pin.effect("torch._inductor: no choice by time")
    elif module.__name__ == "triton.runtime.autotuner":
        measure = module.Autotuner._bench

        def _bench(self, *args, **named):
            time = measure(self, *args, **named)
            return time if _infinite(time) else _even(time)

        module.Autotuner._bench = functools.update_wrapper(_bench, measure)
        pin.effect("triton: the first configuration that runs")
    else:
        tuner = module.CachingAutotuner
        every = tuner.benchmark_all_configs

        def benchmark_all_configs(self, *args, **named):
            return _first_that_runs(every(self, *args, **named))

        tuner.benchmark_all_configs = functools.update_wrapper(benchmark_all_configs, every)
        pin.effect("torch._inductor: the first configuration that runs")
