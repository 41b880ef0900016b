# SPDX-License-Identifier: Apache-2.0
"""Sets every hook in a torch that has just been imported. What cannot be set is noted as unarmed
and left out.
"""

import os

from . import core, faults
from .core import S


def _leave_mark():
    """An empty file `torch` in the run folder: bare tensors leave no record that would tell of
    them.
    """
    try:
        path = os.path.join(os.environ["TWINRUN_RUN_DIR"], "torch")
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666))
    except (OSError, KeyError):
        pass


def arm(torch):
    """Called once, by the finder. Does nothing in a process that is not to be watched."""
    if not core.start():
        return
    from . import (
        amp,
        autograd,
        checkpoint,
        data,
        distributed,
        gradients,
        graphs,
        handed,
        mesh,
        modules,
        naming,
        objects,
        nested,
        ops,
        optim,
        refs,
        replicas,
        rng,
        sites,
        steps,
        swift,
        tensors,
        trainers,
        transplant,
        workers,
        written,
    )

    S.quiet = torch._C.DisableTorchFunction
    S.torch = True
    refs.hide()
    _leave_mark()
    tensors.arm(torch)
    nested.arm(torch)
    swift.arm(torch)
    sites.arm(torch)
    naming.arm()
    steps.arm()
    written.arm()
    gradients.arm()
    trainers.arm()
    handed.arm()
    rng.arm(torch)
    replaced = []
    for room in (
        modules,
        data,
        workers,
        autograd,
        optim,
        amp,
        checkpoint,
        distributed,
        objects,
        mesh,
        replicas,
        graphs,
        ops,
        transplant,
    ):
        try:
            replaced += room.arm(torch) or []
        except Exception as error:
            faults.pass_on(error)
            S.unarmed.append(
                "%s (%s: %s)" % (room.__name__.rsplit(".", 1)[-1], type(error).__name__, error)
            )
    _hide_from_compiler(torch, replaced)


def _hide_from_compiler(torch, functions):
    """torch.compile must not look into our wrappers: it compiles what they call."""
    frames = getattr(
        getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None), "__dict__", {}
    )
    try:
        hooks = core.hook(core.saw).__code__
        if "set_code_exec_strategy" in frames:
            strategy, action = frames["_FrameExecStrategy"], frames["_FrameAction"]
            for function in functions:
                frames["set_code_exec_strategy"](
                    function.__code__, strategy(action.SKIP, action.DEFAULT)
                )
            # and all that it calls is ours
            frames["set_code_exec_strategy"](hooks, strategy(action.SKIP, action.SKIP))
        elif "skip_code" in frames:
            for code in (hooks, *(function.__code__ for function in functions)):
                frames["skip_code"](code)
    except Exception as error:
        S.unarmed.append("torch.compile (our wrappers may be compiled: %s)" % error)
