# SPDX-License-Identifier: Apache-2.0
"""Sets the hooks in a JAX that has just been imported.

`jax.jit(f)` stays the object that JAX makes. A call of it runs in C++ alone once JAX has seen a
call of the same sort; what it needs for that is the executable that `_pjit_call_impl_python`
returns, and may be missing. So for the job's programs it is left out, every call comes here, and
its arguments and results are recorded. In between runs what JAX itself runs for a jitted function
inside of `grad` or `vmap`, `jit_p.impl`, which knows a fast way of its own. JAX's own functions
(`jnp.add`, an operation called by itself) are passed on as they are, and not seen.
docs/internals/frameworks.md tells why this place was chosen.
"""

import functools
import sys
import threading

from . import core, jax_arrays, jax_calls, jax_parts, jax_programs, sites
from .core import S, T

VERSION = "0.10."  # whose inside was looked at: what it returns is known


class Inside(threading.local):
    jaxpr = None  # of the program that runs in this thread, where it was recorded


_inside = Inside()
_eager = False  # JAX computes outside of jitted functions, too


def _wrapped_impl(original):
    """Of jit_p: a program that a transformation such as grad makes of a jitted function."""

    def _pjit_call_impl(*args, **params):
        program = _program(params["jaxpr"], params["name"]) if S.on and not T.busy else None
        if program is None or program.of_jax:
            return original(*args, **params)
        return _recorded(original, program, args, params)

    return functools.update_wrapper(_pjit_call_impl, original)


def _wrapped_run(original, impl):
    """Of what a jitted function calls; impl: what stands behind jit_p."""

    def _pjit_call_impl_python(*args, **params):
        if not S.on or params["jaxpr"] is _inside.jaxpr:
            return original(*args, **params)
        if T.busy:  # something of the job that runs while we work: must not become fast for ever
            core.unseen("a jitted function of JAX that was called while another was recorded")
            return impl(*args, **params), None, None, []
        program = _program(params["jaxpr"], params["name"])
        if program is None or program.of_jax:
            return original(*args, **params)
        return _recorded(impl, program, args, params), None, None, []

    return functools.update_wrapper(_pjit_call_impl_python, original)


def _recorded(run, program, args, params):
    call = jax_calls.before(program, args, params)
    outer, _inside.jaxpr = _inside.jaxpr, params["jaxpr"]
    try:
        results = run(*args, **params)
    except BaseException as error:
        core.trim(error)
        raise
    finally:
        _inside.jaxpr = outer
    if call is not None:
        jax_calls.after(call, results)
    return results


@core.hook
def _program(jaxpr, name):
    found = jax_programs.of(jaxpr, name)
    if found.of_jax:
        _note_eager()
    return found


def _note_eager():
    """What JAX computes outside of the job's jitted functions is not seen; said once."""
    global _eager
    if not _eager:
        _eager = True
        if S.begun:
            _tell_eager()


def _tell_eager():
    if _eager:
        core.note("jax.eager", "first at step %d" % S.step)


def _wrapped_compiled(original):
    """A program compiled ahead of time (`.lower().compile()`) is called past the other hooks. Its
    class is Python's, so a call of it always comes here.
    """

    def __call__(self, *args, **kwargs):
        if not S.on or T.busy:
            return original(self, *args, **kwargs)
        call = jax_calls.before_compiled(self, args, kwargs)
        try:
            found = original(self, *args, **kwargs)
        except BaseException as error:
            core.trim(error)
            raise
        if call is not None:
            jax_calls.after_compiled(call, found)
        return found

    return functools.update_wrapper(__call__, original)


_joins = core.hook(core.joins)


def _wrapped_initialize(original):
    """Of the state of jax.distributed: the process knows its rank from here on."""

    def initialize(self, *args, **kwargs):
        original(self, *args, **kwargs)
        _joins()

    return functools.update_wrapper(initialize, original)


def arm():
    """Called once, by the finder. Does nothing in a process that is not to be watched."""
    if not core.start():
        return
    jax, pjit = sys.modules["jax"], sys.modules.get("jax._src.pjit")
    version = str(getattr(jax, "__version__", "?"))
    names = ("_pjit_call_impl_python", "_pjit_call_impl", "_run_python_pjit", "jit_p")
    if not version.startswith(VERSION) or not all(hasattr(pjit, name) for name in names):
        S.unarmed.append("jax (how version %s runs jitted functions is not known)" % version)
        core.note_alone("unseen", "jitted functions of jax %s" % version)
        return
    sites.skip(jax)
    jax_arrays.arm(jax)
    jax_programs.arm(jax)
    jax_calls.arm()
    jax_parts.arm(jax, sys.modules["jax._src.api"])
    S.on_begin.append(_tell_eager)
    # as JAX leaves its own frames out of what a user is shown of an exception
    sys.modules["jax._src.traceback_util"].register_exclusion(__file__)
    impl = pjit.jit_p.impl
    pjit.jit_p.impl = _wrapped_impl(impl)
    pjit._pjit_call_impl_python = _wrapped_run(pjit._pjit_call_impl_python, impl)
    state = sys.modules["jax._src.distributed"].State
    state.initialize = _wrapped_initialize(state.initialize)
    compiled = sys.modules["jax._src.stages"].Compiled
    compiled.__call__ = _wrapped_compiled(compiled.__call__)
    S.armed.append("jax " + version)
