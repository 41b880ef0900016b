# SPDX-License-Identifier: Apache-2.0
"""Sets the hooks in a JAX that has just been imported.

`jax.jit(f)` stays the object that JAX makes. A call of it runs in C++ alone once JAX has seen a
call of the same sort; what it needs for that is the second thing that its Python half returns to
it, and may be missing. So for the job's programs it is left out, every call comes to
`_pjit_call_impl_python`, and there the arguments and results are recorded. JAX's own functions
(`jnp.add`, an operation called by itself) keep their fast way and are not seen.
docs/internals/frameworks.md tells why this place was chosen.
"""

import functools
import inspect
import sys

from . import core, jax_arrays, jax_calls, jax_programs, refs, sites
from .core import S, T

_watched = refs.AtOnce()  # executables of the job's programs
_eager = False


def _wrapped_run(original):
    def _pjit_call_impl_python(*args, **params):
        if not S.on or T.busy:
            return original(*args, **params)
        program = _program(params["jaxpr"], params.get("name", ""))
        if program is None or program.mine:
            return original(*args, **params)
        call = jax_calls.before(program, args)
        try:
            found = original(*args, **params)
        except BaseException as error:
            core.trim(error)
            raise
        _watched.put(found[1], True)
        if call is not None:
            jax_calls.after(call, found[0])
        return found

    return functools.update_wrapper(_pjit_call_impl_python, original)


@core.hook
def _program(jaxpr, name):
    found = jax_programs.of(jaxpr, name)
    if found.mine:
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


def _wrapped_fast(original):
    def _get_fastpath_data(executable, *args, **named):
        if executable is not None and S.on and _watched.get(executable) is not None:
            return None
        return original(executable, *args, **named)

    return functools.update_wrapper(_get_fastpath_data, original)


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


def _fits(module):
    """Is this the JAX that was looked at, as far as these two functions tell?"""
    run = inspect.signature(module._pjit_call_impl_python).parameters
    fast = list(inspect.signature(module._get_fastpath_data).parameters)
    return "jaxpr" in run and "name" in run and fast[:1] == ["executable"]


def arm():
    """Called once, by the finder. Does nothing in a process that is not to be watched."""
    if not core.start():
        return
    jax, pjit = sys.modules["jax"], sys.modules.get("jax._src.pjit")
    sites.skip(jax)
    try:
        fits = _fits(pjit)
    except (AttributeError, TypeError, ValueError):
        fits = False
    if not fits:
        S.unarmed.append("jax (how jitted functions are run by this version is not known)")
        core.note_alone("unseen", "jitted functions of jax %s" % getattr(jax, "__version__", "?"))
        return
    jax_arrays.arm(jax)
    jax_programs.arm(jax)
    jax_calls.arm()
    S.on_begin.append(_tell_eager)
    pjit._pjit_call_impl_python = _wrapped_run(pjit._pjit_call_impl_python)
    pjit._get_fastpath_data = _wrapped_fast(pjit._get_fastpath_data)
    compiled = sys.modules["jax._src.stages"].Compiled
    compiled.__call__ = _wrapped_compiled(compiled.__call__)
