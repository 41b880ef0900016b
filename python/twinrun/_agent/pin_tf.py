# SPDX-License-Identifier: Apache-2.0
"""What TensorFlow itself lets one hold still: determinism of operations, and of `tf.data`."""

import functools
import os
import sys


def deterministic(pin, tensorflow):
    """tf.config.experimental.enable_op_determinism(). An operation that draws and has no seed is an
    error from then on, so where nobody has given TensorFlow a seed we do: one of the system, which
    is another in each run. A fixed one would hold still what `seed.tensorflow` is for.
    """
    if pin.vary:
        raise RuntimeError("can only be pinned")
    context = sys.modules["tensorflow.python.eager.context"]
    room = sys.modules["tensorflow.python.framework.config"]
    ours = None
    if context.global_seed() is None:
        ours = int.from_bytes(os.urandom(4), "little")
        # `seed.tensorflow` stands before or behind us, and is not told that the job has done this
        context.context()._set_global_seed(ours)
    original = room.enable_op_determinism
    original()
    if not room.is_op_determinism_enabled():
        raise RuntimeError("TensorFlow did not take it")
    refuses = _let_generators_start(room)

    def enable_op_determinism():
        """The job's own call: what TensorFlow then refuses is the job's error, as without us."""
        original()
        refuses.append(True)
        if ours is not None and context.global_seed() == ours:
            context.context()._set_global_seed(None)
        pin.overridden(sys._getframe(1))

    experimental = tensorflow.config.experimental
    for owner in (room, experimental):
        owner.enable_op_determinism = functools.update_wrapper(enable_op_determinism, original)
    pin.effect("enable_op_determinism(), of operations and tf.data")


def onednn(pin, _tensorflow):
    """Did the variable last until TensorFlow read it, and does TensorFlow do what it says?"""
    from tensorflow.python.util import _pywrap_util_port as port

    name, asked = "TF_ENABLE_ONEDNN_OPTS", "%d" % pin.default(0)
    if not pin.lasts(name, asked, "TensorFlow"):
        return
    if port.IsMklEnabled() != (asked == "1"):
        raise RuntimeError("TensorFlow did not take %s=%s" % (name, asked))
    pin.effect("oneDNN's kernels are %s" % ("on" if asked == "1" else "off"))


def _let_generators_start(room):
    """`tf.random.Generator` may start from no seed as without us: the operations below can, and
    only Python refuses it. Returns a list: once something is in it, that is refused.
    """
    refuses = []

    class Asked:
        def __getattr__(self, name):
            return getattr(room, name)

        @staticmethod
        def is_op_determinism_enabled():
            return bool(refuses)

    sys.modules["tensorflow.python.ops.stateful_random_ops"].config = Asked()
    return refuses
