# SPDX-License-Identifier: Apache-2.0
"""What all hooks share: the switch, the guard around every hook, the first record of a process,
series, steps, notes.
"""

import atexit
import functools
import os
import sys
import threading
from time import perf_counter_ns

from . import faults, native, refs, swift
from .native import MODULES, OPS, TENSORS

FOLDER = os.path.dirname(os.path.abspath(__file__))
WAIT_S = 2.0  # for another thread's first records: it may wait for us, in an import


class _Nothing:
    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        return None


class State:
    """The process. `on` is the switch that every hook looks at first."""

    def __init__(self):
        self.on = False  # hooks are set, and nothing has gone wrong
        self.lib = None  # native.Library; False when there is none
        self.torch = False  # the hooks in torch are set
        self.level = TENSORS
        self.deep = False  # outputs of every module, not only of roots
        self.ops = False  # operation level is active in the current step
        self.begun = False  # identified; first records written once nobody is the beginner
        self.beginner = None  # the thread that writes them
        self.first_turn = threading.Lock()
        self.step = 0  # mirrors the library's
        self.last_step = None  # that is recorded, where --steps says so
        self.fresh = True  # nothing recorded in this step
        self.finished = False  # the end has been shown
        self.forked = False  # child of a process that was armed
        self.rank = 0
        self.joined = False  # torch.distributed, or jax.distributed, has said the rank
        self.worker = None  # role of a DataLoader worker
        self.main_thread = threading.main_thread().ident
        # an exception of the job that came where Python would lose it: raised at the next hook
        self.later = None
        # hooks that a signal handler's exception has ended: what they were building is void
        self.interrupted = 0
        self.python_ns = 0  # spent in hooks, not yet told to the library
        self.native_ns = 0  # of that, spent in the library, which counts it itself
        self.seen = set()  # categories of records, for the coverage notes
        self.armed, self.unarmed = [], []
        self.on_begin, self.on_step, self.on_exit, self.on_fork = [], [], [], []
        self.on_step_ends = []  # before the library closes the step
        self.quiet = _Nothing


class Local(threading.local):
    """The thread."""

    busy = False  # inside a hook: whatever our own code calls is not observed
    depth = 0  # nested module calls
    root = None  # the root module whose forward runs
    site = ""  # source lines of the root's call
    path = None  # names of the modules being called, at levels that ask for them
    recomputing = 0  # inside the recomputation of activation checkpointing
    optimizers = ()  # optimizers whose step() runs, outermost first
    backward = 0  # nested backward calls
    pending = None  # tensors.Pending of this thread
    loader = None  # weak reference to the DataLoader whose __iter__ runs
    collective = 0  # inside a collective called from Python
    handing = None  # the call that hands objects on (objects.py)
    open_receive = False  # of them: a receive from any source, which has a number
    scopes = ()  # twinrun.scope
    forward_thread = 0  # ops: its number among the threads that have made a graph
    entered = None  # label -> Root: models whose forward ran in this step
    too_deep = 0
    fit = None  # fits.Token: the outermost call that trains a model at once
    devices = ()  # GPUs that the library is known to read from this thread
    batch = ()  # handed.Seen, of the tensors of the batch that a loader delivered last
    batch_step = -1  # in which it did
    outputs = ()  # handed.Seen, of what models gave out in this step
    left = None  # id(optimizer) -> gradients.Left: what this thread's backwards left to it
    # ids of optimizers whose gradients this thread's last backward was not held against
    not_looked_at = None
    taken = None  # id(tensor) -> gradients._row of what torch.autograd.grad has made for it


S = State()
T = Local()


# ---------------------------------------------------------------- the guard


def hook(function):
    """A hook: does nothing while the agent is off or works itself; whatever it raises switches the
    agent off instead.

    What a signal handler of the job raises while we run is not ours and goes on to the job.
    """
    gone = refs.gone

    def guarded(*args):
        if not S.on or T.busy:
            return None
        began = perf_counter_ns()
        try:
            T.busy = True
            try:
                if gone:
                    refs.sweep()
                if S.later is not None:
                    error, S.later = S.later, None
                    raise error
                # what we ask of a tensor is no business of the job's subclasses and function modes
                with S.quiet():
                    return function(*args)
            except BaseException as error:
                interrupted()
                if not isinstance(error, Exception) or not fail(function.__name__, error):
                    raise faults.shortened(error)
                return None
            finally:
                T.busy = False
                S.python_ns += perf_counter_ns() - began
        finally:  # again: Python 3.8 and 3.9 run signal handlers also within a `finally`
            T.busy = False

    guarded.__name__ = function.__name__
    # where the compiler meets it, it leaves the call to Python, without a warning
    guarded._torchdynamo_disable = True
    return guarded


def while_freed(function):
    """For what Python calls while it frees an object, where exceptions of the job's signal handlers
    would be printed and lost.
    """

    def guarded(*args):
        try:
            function(*args)
        except BaseException as error:
            S.later = error

    return guarded


def interrupted():
    """A hook has ended amid its work: nothing half done may be used, least of all addresses."""
    S.interrupted += 1
    if T.pending is not None:
        T.pending.drop()


def fail(where, error):
    """Switches the agent off for an exception of ours; False when it is the job's."""
    if faults.of_job(error):
        return False
    file, line = faults.place(error)
    fail_with(
        "%s: %s: %s (%s:%d)" % (where, type(error).__name__, error, os.path.basename(file), line)
    )
    return True


def fail_with(text):
    S.on = False
    try:
        (S.lib or native.library()).note(b"agent.error", text[:2000].encode("utf-8", "replace"))
    except Exception:
        pass


def trim(error):
    """Takes the calling frame, ours, out of the traceback of an exception that passes
    through it.
    """
    traceback = error.__traceback__
    if traceback is not None:
        error.__traceback__ = traceback.tb_next


# ---------------------------------------------------------------- start and end


def start():
    """Loads the library and reads what the launcher asked for. False when this process is not to be
    watched.
    """
    lib = native.library()
    if not lib.on():
        return False
    S.lib = lib
    S.level = lib.level()
    wanted = os.environ.get("TWINRUN_STEPS", "")
    S.last_step = int(wanted) - 1 if wanted.isdigit() and int(wanted) else None
    if S.on:
        return True
    atexit.register(_finish)
    _replace_exit()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)
    S.on = True
    return True


def _replace_exit():
    """A child of multiprocessing, and who calls os._exit, end without atexit: what the end is to
    show is shown before.

    Only on the main thread: while another one ends the process, the main thread may be amid a step.
    """
    original = os._exit

    def _exit(*args, **kwargs):
        try:
            if not T.busy and on_main_thread():
                _finish()
        finally:
            original(*args, **kwargs)

    os._exit = functools.update_wrapper(_exit, original)


def child_number():
    """`3` or `3.1` in a process made by multiprocessing, equal in every run, where pids would
    differ.
    """
    module = sys.modules.get("multiprocessing.process")
    if module is None:
        return ""
    return ".".join(str(part) for part in getattr(module.current_process(), "_identity", ()))


def _group():
    """(rank, world) of torch.distributed, or (-1, 0): as the environment says."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return -1, 0


def _place():
    """(rank, world) of torch.distributed, or of jax.distributed; or (-1, 0)."""
    rank, world = _group()
    state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    if rank < 0 and getattr(state, "client", None) is not None:
        return state.process_id, state.num_processes
    return rank, world


def _environment_rank():
    for name in ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 0


def identify():
    """Says who this process is. Only counts before its first record."""
    rank, world = _place()
    role = S.worker
    number = child_number()
    if role is None and rank < 0 and number:
        role = "child " + number
    elif role is not None and rank < 0 and "." in number and "RANK" not in os.environ:
        role += " of child " + number.rsplit(".", 1)[0]
    S.rank = rank if rank >= 0 else _environment_rank()
    S.joined = rank >= 0
    S.lib.identify(rank, world, role.encode() if role else None, 2)


def joins():
    """init_process_group, or that of JAX, has returned. A process that has recorded before, and
    found no rank in its environment, is known by its rank from here on; a later group changes
    nothing.
    """
    rank, world = _place()
    if not S.begun or S.joined or S.worker is not None or rank < 0:
        return
    S.joined = True
    S.rank = rank
    S.lib.identify(rank, world, None, 2)


def begin():
    """Before the first record of the process. True when records are wanted. While one thread writes
    the first records, the others wait: what these show would be told as drawn by their code.
    """
    if S.begun and S.beginner is None:
        return True
    me = threading.get_ident()
    if S.beginner == me:
        return True
    turn = S.first_turn
    if not turn.acquire(timeout=WAIT_S):
        S.begun, S.beginner = True, None
        return True
    try:
        if S.begun:
            return True
        S.begun, S.beginner = True, me
        try:
            return _begin()
        finally:
            S.beginner = None
    finally:
        turn.release()


def _begin():
    identify()
    if not S.lib.on():
        S.on = False
        return False
    set_depth()
    note("python.version", "%d.%d.%d" % sys.version_info[:3])
    for name in ("numpy", "torch"):
        library = sys.modules.get(name)
        if library is not None:
            note(name + ".version", str(getattr(library, "__version__", "?")))
    if S.armed:
        note("armed", "\n".join(S.armed))
    if S.unarmed:
        note("unarmed", "\n".join(S.unarmed))
    for function in S.on_begin:
        function()
    from . import world

    world.begins()
    return True


def set_depth():
    """What the level means for the step that begins."""
    S.ops = S.level == OPS and bool(S.lib.in_window())
    S.deep = S.ops or S.level == MODULES


def _finish():
    if not S.on or not S.begun or S.finished:
        return
    S.finished = True
    T.busy = True
    try:
        for function in S.on_exit:
            function()
        from . import world

        world.ends()
        S.lib.add_observer_ns(max(0, S.python_ns - S.native_ns))
        S.lib.flush()
    except Exception as error:
        if not fail("at exit", error):
            raise
    finally:
        T.busy = False


def _after_fork():
    """The child records into a trace of its own, from its step 0 on."""
    S.forked = True
    S.begun = S.finished = False
    S.beginner, S.first_turn = None, threading.Lock()
    S.step = 0
    S.python_ns = S.native_ns = 0
    S.seen.clear()
    S.main_thread = threading.get_ident()
    T.__dict__.clear()
    for function in S.on_fork:
        try:
            function()
        except Exception:
            S.on = False


# ---------------------------------------------------------------- names

SERIES = 1 << 18
_series = {}
_layouts = {}
_shapes = {}


def _text(text):
    return text.encode("utf-8", "replace").replace(b"\0", b"?")


def on_main_thread():
    return threading.get_ident() == S.main_thread


def thread_role():
    """Empty on the main thread; keeps apart the records of threads that the job made and named."""
    if threading.get_ident() == S.main_thread:
        return ""
    name = threading.current_thread().name
    return "thread" if name.startswith(("Thread-", "Dummy-", "ThreadPool")) else "thread " + name


# Records of these phases are made while the job's own line waits for us: it is their source line.
_SITED = {native.DATA, native.FORWARD, native.COLLECTIVE, native.CHECKPOINT, native.OUTPUT}


def series(phase, kind, name, scope="", op="", site=None, role=None):
    """The id of a series; asks the library once. Without a site: the one where the series was first
    seen.
    """
    if role is None:
        role = thread_role()
    key = (phase, kind, name, scope, op, site, role)
    found = _series.get(key)
    if found is None:
        if site is None:
            from . import sites

            site = sites.user() if phase in _SITED else ""
        found = S.lib.series(
            phase, kind, _text(name), _text(scope), _text(role), _text(op), _text(site)
        )
        if len(_series) >= SERIES:
            _series.clear()
        _series[key] = found
    return found


def series_bytes(phase, kind, name, op, site, address, size, scope="", flags=0):
    """Records opaque bytes at an address. Returns the link."""
    number = series(phase, kind, name, scope, op, site)
    if swift.ON and not flags:
        return swift.record_bytes(number, address, size)
    began = perf_counter_ns()
    link = S.lib.bytes(number, address, size, flags)
    S.native_ns += perf_counter_ns() - began
    return link


def layout(dtype, shape):
    key = (dtype, shape)
    found = _layouts.get(key)
    if found is None:
        found = S.lib.layout(dtype, len(shape), sizes(shape))
        if len(_layouts) >= 1 << 16:
            _layouts.clear()
        _layouts[key] = found
    return found


def sizes(numbers):
    """A C array of int64 with these numbers, kept for ever (shapes and strides come back again and
    again).
    """
    found = _shapes.get(numbers)
    if found is None:
        found = _shapes[numbers] = (native.ctypes.c_int64 * max(1, len(numbers)))(*numbers)
    return found


def saw(category):
    """Coverage: the first record of each category is noted, with its step."""
    if category not in S.seen:
        S.seen.add(category)
        note("seen." + category, "first at step %d" % S.step)
    S.fresh = False


def unseen(text):
    """Something was left out: a verdict over this run cannot be "same". Each text is noted once."""
    if text not in S.seen:
        S.seen.add(text)
        note("unseen", text)


def note(key, value):
    S.lib.note(_text(key), _text(value))


def note_alone(key, value):
    """A note from a process that recorded nothing."""
    lib = native.library()
    if lib.on():
        lib.note(_text(key), _text(value))


# ---------------------------------------------------------------- steps


def step_end():
    """Closes the step."""
    if swift.ON:
        S.native_ns += swift.ns()
    for function in S.on_step_ends:
        function()
    S.lib.add_observer_ns(max(0, S.python_ns - S.native_ns))
    S.python_ns = S.native_ns = 0
    S.step = S.lib.step_end()
    S.fresh = True
    if not S.lib.on():
        S.on = False
        return
    if S.level == OPS:
        set_depth()
    for function in S.on_step:
        function()
