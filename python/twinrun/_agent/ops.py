# SPDX-License-Identifier: Apache-2.0
"""Operation level: every operation with its inputs before, its outputs after, its module and source
line.

A TorchDispatchMode at the bottom of the stack of modes, entered once per thread before the job can
enter its own, so that no exit of the job's ever takes ours off. It sees operations below autograd,
the backward ones included; those carry the source line of the forward operation whose autograd node
runs, found by the node's sequence number.
"""

import functools
import itertools
import sys
import threading

from . import core, faults, nested, opaque, replay, reruns, rounding, sites, tensors
from .core import S, T, hook
from .native import IN, KERNEL, OPS, OUT, SKETCH, STATS

NODES = 1 << 20  # forward operations remembered for their backward

_torch = None
# (thread, autograd sequence number) -> (scope, site), of this step and the last: each thread counts
# its own, so that another one's number says nothing
_forward = {}
_forward_threads = set()  # those that have one there
_threads = itertools.count(1)
_described = {}  # operation -> Described
_passed = set()  # files whose frames a mode puts between a job's line and what it calls
_dtypes = {}  # type of a number of Python -> dtype of a tensor that is one
_counts = {}  # (operation, scope, role) -> occurrences in this step
_listed = {}  # operation that PyTorch lists as nondeterministic -> calls

# torch.use_deterministic_algorithms, "will throw a RuntimeError" and "will act deterministically":
# what is listed for CPU and CUDA, and for CUDA only.
_LISTED = {
    "put_",
    "index_put_",
    "_index_put_impl_",
    "scatter_reduce_",
    "scatter_reduce",
    "resize_",
    "bincount",
}
_LISTED_CUDA = {
    "index_add_",
    "index_add",
    "index_copy_",
    "index_copy",
    "scatter_add_",
    "scatter_add",
    "scatter_",
    "scatter",
    "gather",
    "cumsum",
    "histc",
    "kthvalue",
    "median",
    "nanmedian",
    "embedding_dense_backward",
    "_embedding_bag_dense_backward",
    "avg_pool3d_backward",
    "_adaptive_avg_pool2d_backward",
    "_adaptive_avg_pool3d_backward",
    "max_pool3d_with_indices_backward",
    "adaptive_max_pool2d_backward",
    "fractional_max_pool2d_backward",
    "fractional_max_pool3d_backward",
    "max_unpool2d",
    "max_unpool3d",
    "upsample_linear1d_backward",
    "upsample_bilinear2d_backward",
    "upsample_bicubic2d_backward",
    "upsample_trilinear3d_backward",
    "reflection_pad1d_backward",
    "reflection_pad2d_backward",
    "reflection_pad3d_backward",
    "replication_pad1d_backward",
    "replication_pad2d_backward",
    "replication_pad3d_backward",
    "nll_loss2d_forward",
    "_ctc_loss_backward",
    "grid_sampler_2d_backward",
    "grid_sampler_3d_backward",
    "grid_sampler_2d",
    "repeat_interleave",
}


# What these find in their first argument means nothing, uninitialised memory as often as not: they
# only write it. The same holds for the buffers that a collective receives into, until somebody has
# waited for it, and for the one byte that a barrier is given.
_OVERWRITING = {
    "bernoulli_",
    "normal_",
    "uniform_",
    "random_",
    "exponential_",
    "geometric_",
    "cauchy_",
    "log_normal_",
    "fill_",
    "zero_",
    "copy_",
    "_foreach_copy_",
    "_foreach_zero_",
    "barrier",
    "recv_",
    "recv_any_source_",
    "wait_tensor",
}


# Where root and group stand among the arguments. What the others hold means nothing: they receive.
_FROM_A_ROOT = {
    "c10d::broadcast_": (2, 1),
    "_c10d_functional::broadcast": (1, 2),
    "_c10d_functional::broadcast_": (1, 2),
}


class Described:
    """What an operation's schema says."""

    __slots__ = (
        "name",
        "skip",
        "writes",
        "ignored",
        "from_a_root",
        "ignored_names",
        "seeded",
        "may_draw",
        "collective",
        "among_ranks",
        "short",
        "schema",
    )

    def __init__(self, operation):
        schema = operation._schema
        self.name, self.schema = schema.name, schema
        self.short = schema.name.split("::")[-1]
        returns = [r.alias_info for r in schema.returns]
        written = [
            a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write
        ]
        view = bool(returns) and all(r is not None and not r.is_write for r in returns)
        # Uninitialised memory has no value yet; a view has none of its own.
        fresh = self.short.startswith(
            ("empty", "new_empty", "_empty", "lift", "_to_cpu_", "is_same_size", "set_", "resize_")
        )
        self.skip = (
            view
            or fresh
            or schema.name.startswith(("prim::", "profiler::"))
            # the second only names a tensor that is still on its way
            or self.short in ("detach", "_wrap_tensor_autograd")
        )
        self.writes = [(i, a.name) for i, a in enumerate(schema.arguments) if a.name in written]
        self.ignored_names = {
            a.name for a in schema.arguments if a.kwarg_only and a.name in written
        }
        self.collective = (
            schema.name.startswith(("c10d::", "_c10d_functional", "c10d_functional"))
            and "wait" not in self.short
        )
        self.among_ranks = self.collective or self.name.startswith(("c10d", "_c10d"))
        first = schema.arguments[0].name if schema.arguments else ""
        # schemas mark no writes
        self.ignored = self.short in _OVERWRITING or self.collective and first.startswith("output")
        self.from_a_root = _FROM_A_ROOT.get(self.name)
        tags = getattr(operation, "tags", ())
        tag = getattr(getattr(_torch, "Tag", None), "nondeterministic_seeded", None)
        self.seeded = tag is not None and tag in tags
        self.may_draw = (
            self.seeded
            or tag is None
            or not self.name.startswith("aten::")
            or any("Generator" in str(a.type) for a in schema.arguments)
        )


def _describe(operation):
    found = _described.get(operation)
    if found is None:
        found = _described[operation] = Described(operation)
    return found


def _only_receives(described, args):
    """Does this rank hold a buffer that a root's tensor is written to?"""
    root, group = described.from_a_root
    distributed = _torch.distributed
    try:
        if isinstance(args[group], str):
            group = distributed.distributed_c10d._resolve_process_group(args[group])
        elif isinstance(args[group], distributed.ProcessGroup):  # functional ones, in 2.13
            group = args[group]
        else:
            group = distributed.ProcessGroup.unbox(args[group])
        return group.rank() != args[root]
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
        faults.pass_on(error)
        return False  # then what it holds counts


def _flat(value, found):
    if isinstance(value, _torch.Tensor):
        found.append(value)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _flat(inner, found)
    return found


_PLAIN = (bool, int, float, complex, str)  # arguments that are numbers or words


def _plain(value, found):
    """The numbers and words among arguments: with other ones, equal tensors give another result."""
    if value is None or type(value) in _PLAIN:
        found.append(value)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _plain(inner, found)
    elif isinstance(value, (_torch.dtype, _torch.memory_format, _torch.device)):
        found.append(str(value))
    elif isinstance(value, _torch.Tensor):
        found.append("tensor")
    return found


def outputs(described, args, kwargs, result):
    """What an operation made, in order: its results, then what it wrote to."""
    values = _flat(opaque.outputs(described.name, result), [])
    known = {id(t) for t in values}
    for t in _flat(
        [args[i] if i < len(args) else kwargs.get(name) for i, name in described.writes], []
    ):
        if id(t) not in known:
            known.add(id(t))
            values.append(t)
    return values


def _forward_thread():
    """The thread in which the graph was made of which this thread goes back through a node: itself,
    or, for a thread of autograd's own (one for each GPU), the only one that makes any. 0: several
    do, and a node does not say which made it.
    """
    own = T.forward_thread
    if own or len(_forward_threads) != 1:
        return own
    return next(iter(_forward_threads), 0)


def _clear_forward():
    _forward.clear()
    _forward_threads.clear()


def _place():
    """(scope, site) of the operation that runs now."""
    task = getattr(_torch._C, "_current_graph_task_id", None)
    if task is not None and task() != -1:
        node = _torch._C._current_autograd_node()
        known = _forward.get((_forward_thread(), node._sequence_nr())) if node is not None else None
        return (
            ("backward:" + known[0], known[1]) if known is not None else ("backward", sites.user())
        )
    path = T.path
    if path:
        scope = path[-1]
    elif T.root is not None:
        scope = T.root.label
    else:
        scope = "optimizer" if T.optimizers else ""
    place = (scope, sites.user())
    number = _torch._C._autograd._get_sequence_nr() - 1
    if number >= 0:
        if not T.forward_thread:
            T.forward_thread = next(_threads)
        if len(_forward) >= NODES:
            _clear_forward()
        _forward_threads.add(T.forward_thread)
        _forward.setdefault((T.forward_thread, number), place)
    return place


def _generator(values, kwargs):
    """The state that a drawing operation starts from, as a tensor."""
    generator = kwargs.get("generator")
    if generator is None:
        cuda = [t for t in values if t.device.type == "cuda"]
        generator = (
            _torch.cuda.default_generators[cuda[0].device.index]
            if cuda
            else _torch.default_generator
        )
    return generator.get_state()


class Call:
    """One operation on its way."""

    __slots__ = (
        "described",
        "scope",
        "site",
        "links",
        "args",
        "kwargs",
        "occurrence",
        "kept",
        "held",
        "recorded",
    )


@hook
def _before(operation, args, kwargs):
    described = _describe(operation)
    if described.skip or not core.begin():
        return None
    call = Call()
    call.described = described
    call.scope, call.site = _place()
    key = (described.name, call.scope, core.thread_role())
    call.occurrence = _counts.get(key, 0)
    _counts[key] = call.occurrence + 1
    _count_listed(described, args)
    read, named = opaque.arguments(described.name, described.schema, args, kwargs)
    first_is_written = described.ignored or (
        described.from_a_root is not None and _only_receives(described, args)
    )
    values = _flat(read[1:] if first_is_written else read, [])
    _flat([v for name, v in named.items() if name not in described.ignored_names], values)
    plain = _plain(list(args) + [[name, kwargs[name]] for name in sorted(kwargs)], [])
    pending = tensors.pending()
    for i, t in enumerate(values):
        pending.add(
            KERNEL,
            IN,
            "%s.in%d" % (described.name, i),
            t,
            call.scope,
            described.name,
            call.site,
            STATS | SKETCH,
        )
    if any(value is not None and value != "tensor" for value in plain):
        number = core.series(
            KERNEL, IN, described.name + ".arguments", call.scope, described.name, call.site
        )
        pending.add_bytes(number, nested.plain_bytes(plain))
    if described.seeded:
        state = _generator(values, kwargs)  # held until the flush: it is read there
        pending.add(
            KERNEL,
            IN,
            described.name + ".generator",
            state,
            call.scope,
            described.name,
            call.site,
            0,
        )
    call.links = pending.flush(links=()) or ()
    call.args, call.kwargs = args, kwargs
    call.kept = replay.wanted(described.name, call.scope, call.occurrence)
    if call.kept:
        call.kept = replay.Kept(operation, args, kwargs, values, call.occurrence, described)
    if described.collective:
        call.recorded = rounding.collective(operation, args, call.scope, call.site)
    else:
        call.recorded = rounding.before(operation, args, kwargs)
    call.held = reruns.hold(operation, args, kwargs, values, call.occurrence, described)
    core.saw("operation")
    return call


@hook
def _after(call, result):
    described = call.described
    if described.collective:
        return  # the outputs are there when somebody waits for them
    values = outputs(described, call.args, call.kwargs, result)
    pending = tensors.pending()
    for i, t in enumerate(values):
        pending.add(
            KERNEL,
            OUT,
            "%s.out%d" % (described.name, i),
            t,
            call.scope,
            described.name,
            call.site,
            STATS | SKETCH,
        )
    pending.flush(links=call.links)
    if call.recorded is not None:
        rounding.after(call.recorded, values, call.scope, call.site)
    if call.kept:
        call.kept.finish(values)
    if call.held:
        reruns.ended(call.held, values, call.scope)
    if described.seeded and call.kwargs.get("generator") is None:
        reruns.drew()


def _count_listed(described, args):
    short = described.short
    if short in _LISTED or short in _LISTED_CUDA:
        device = next((t.device.type for t in _flat(args, [])), "cpu")
        if short in _LISTED or device == "cuda":
            _listed[described.name] = _listed.get(described.name, 0) + 1


def _call(func, args, kwargs):
    """func(*args, **kwargs). A number that a traced graph holds as a tensor reaches a mode as a
    number of Python, which some operations then refuse, before they compute anything: those get the
    tensor.
    """
    try:
        return func(*args, **kwargs)
    except RuntimeError as error:
        numbers = []
        if "Expected a value of type 'Tensor'" in str(error):
            places = [i for i, a in enumerate(func._schema.arguments) if str(a.type) == "Tensor"]
            numbers = [i for i in places if i < len(args) and type(args[i]) in _dtypes]
        if not numbers:
            raise
    tensors_instead = list(args)
    for i in numbers:
        tensors_instead[i] = _torch.scalar_tensor(args[i], dtype=_dtypes[type(args[i])])
    return func(*tensors_instead, **kwargs)


def _trim_whole(error):
    """Takes out of the traceback what a mode put there: our frames and that of PyTorch's operation,
    which nobody meets who calls it without a mode.
    """
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename in _passed:
        traceback = traceback.tb_next
    error.__traceback__ = traceback


def _mode(torch):
    from torch.utils._python_dispatch import TorchDispatchMode

    state, local = S, T

    def dispatch(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        try:
            if not state.ops or local.busy or not state.on:
                return _call(func, args, kwargs)
            call = _before(func, args, kwargs)
            result = _call(func, args, kwargs)
        except BaseException as error:
            _trim_whole(error)
            raise
        if call is not None:
            _after(call, result)
        return result

    class Operations(TorchDispatchMode):
        """Entered below every mode of the job; lets everything pass while no operation is to be
        recorded.
        """

        __torch_dispatch__ = dispatch

        @classmethod
        def is_infra_mode(cls):
            return True

        @classmethod
        def ignore_compile_internals(cls):
            return True

    if _compiler_leaves_alone(dispatch):
        Operations.__torch_dispatch__ = dispatch
    return Operations


def _compiler_leaves_alone(function):
    """Tells PyTorch's compiler to leave a function alone, with all that it calls; False where this
    PyTorch has no way to be told. What it wraps around the function of a mode otherwise imports the
    compiler into jobs that have none, and stands in their tracebacks.
    """
    frames = getattr(getattr(_torch._C, "_dynamo", None), "eval_frame", None)
    action = getattr(getattr(frames, "_FrameAction", None), "SKIP", None)
    if action is None or not hasattr(frames, "set_code_exec_strategy"):
        return False
    frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(action, action))
    return True


def _next_step():
    _counts.clear()
    if not S.ops:
        _clear_forward()


def _at_exit():
    reruns.at_exit()
    if _listed:
        core.note(
            "nondeterministic_ops", "\n".join("%s %d" % pair for pair in sorted(_listed.items()))
        )


def _follow_threads(mode):
    """A thread that the job starts has modes of its own."""
    original = threading.Thread._bootstrap_inner

    def _bootstrap_inner(self):
        if not S.on:
            return original(self)
        with mode():
            return original(self)

    threading.Thread._bootstrap_inner = functools.update_wrapper(_bootstrap_inner, original)


def arm(torch):
    global _torch
    _torch = torch
    if S.level != OPS:
        return []
    _passed.update((__file__, sys.modules["torch._ops"].__file__))
    _dtypes.update(
        {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
    )
    mode = _mode(torch)
    S.ops = bool(S.lib.in_window())
    mode().__enter__()
    _follow_threads(mode)
    S.on_step.append(_next_step)
    S.on_exit.append(_at_exit)
    rounding.arm(torch)
    S.on_step_ends.append(reruns.step_ends)
    S.on_fork.append(reruns.after_fork)
    S.armed.append("operations")
    return []
