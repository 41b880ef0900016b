# SPDX-License-Identifier: Apache-2.0
"""What JAX itself lets one hold still: whether a program is compiled anew."""

import functools
import os
import sys

from . import pins


def cache(pin, jax):
    """The variable was set before the process began; JAX has read it while it was imported. The job
    may set the same thing later: then it is the job's.
    """
    if pin.vary:
        raise RuntimeError("can only be pinned")
    name, flag = "JAX_ENABLE_COMPILATION_CACHE", "jax_enable_compilation_cache"
    found = os.environ.get(name)
    if found != "false":
        what = "takes it out of the environment" if found is None else "sets it to " + found
        pin.say("overridden: the job %s before it imports JAX" % what)
        return
    if getattr(jax.config, flag):
        raise RuntimeError("JAX did not take %s=%s" % (name, found))
    kind = type(jax.config)
    original = kind.update

    def update(self, *asked, **named):
        before = getattr(self, flag)
        try:
            original(self, *asked, **named)  # refuses what it refuses without us
        except BaseException as error:
            pins.hide(error)
            raise
        if getattr(self, flag) and not before:
            pin.overridden(sys._getframe(1))

    kind.update = functools.update_wrapper(update, original)
    pin.effect("each program is compiled anew")
