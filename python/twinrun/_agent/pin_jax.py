# SPDX-License-Identifier: Apache-2.0
"""What JAX itself lets one hold still: whether a program is compiled anew."""

import functools
import sys

from . import pins


def cache(pin, jax):
    """JAX has read the variable while it was imported. The job may set the same thing later: then it
    is the job's.
    """
    if pin.vary:
        raise RuntimeError("can only be pinned")
    name, flag = "JAX_ENABLE_COMPILATION_CACHE", "jax_enable_compilation_cache"
    if not pin.lasts(name, "false", "JAX"):
        return
    if getattr(jax.config, flag):
        raise RuntimeError("JAX did not take %s=false" % name)
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
