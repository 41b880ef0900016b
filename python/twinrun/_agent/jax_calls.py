# SPDX-License-Identifier: Apache-2.0
"""Records of one execution of a program of the job: what it computes, what it is given, what it
gives back; and where a step ends.

A step is one round of calls: it ends before a function is called from a line that has called it in
this step already, so that each turn of a loop is a step, whatever it does. It ends nowhere else
than at `twinrun.step()` once the job calls that, and nowhere here in a job that trains with
PyTorch. Every record lies in some step: the rule decides where it is compared, and leaves none out.
"""

import sys

from . import (
    core,
    jax_arrays,
    jax_parts,
    jax_programs,
    jax_roles,
    jax_tables,
    refs,
    sites,
    steps,
    tensors,
)
from .core import S, hook
from .native import DATA, IN

JOINT = "computes with what other processes hold"  # src/compare/origin.c looks for these words
SERIES = 64  # places that call one program, with tables of their own

_called = set()  # (label, line) of this step
_compiled = refs.AtOnce()  # jax.stages.Compiled -> jax_programs.Compiled


class Names:
    """Numbers of the series of one program, called from one place in one thread."""

    def __init__(self, program, site, role):
        self.program, self.site, self.role = program, site, role
        self.numbers = {}
        self.arguments = jax_tables.Side(self.argument)
        self.results = jax_tables.Side(self.result)
        self.calls = 0  # that gave something back
        self.parted = set()  # places of results that were recorded in parts

    def _series(self, phase, kind, name):
        label = self.program.label
        return core.series(phase, kind, name, label, label, self.site, self.role)

    def argument(self, place, suffix=""):
        found = self.numbers.get((place, suffix))
        if found is None:
            name = self.program.arguments[place] + suffix
            found = self.numbers[place, suffix] = self._series(DATA, IN, name)
        return found

    def result(self, place, suffix=""):
        found = self.numbers.get((~place, suffix))
        if found is None:
            name = self.program.label + ": " + self.program.results[place] + suffix
            kinds = self.program.kinds
            phase, kind = kinds[place] if place < len(kinds) else jax_roles.OUTPUT
            found = self.numbers[~place, suffix] = self._series(phase, kind, name)
        return found

    def text(self):
        if "text" not in self.numbers:
            self.numbers["text"] = self._series(DATA, IN, "program")
        return self.numbers["text"]


def _names(program, site):
    key = site, core.thread_role()
    found = program.series.get(key)
    if found is None:
        if len(program.series) >= SERIES:
            program.series.clear()
        found = program.series[key] = Names(program, *key)
    return found


def _step_begins(label, site):
    if S.torch or not core.on_main_thread():
        return
    if (label, site) in _called:
        steps.close()
        _called.clear()
    _called.add((label, site))


@hook
def before(program, arguments, params):
    """Records what the program is given: before it runs, as donated arrays are gone afterwards.
    Returns what after() asks for. params: how JAX is told to compile and run it.
    """
    options = sorted(params["compiler_options_kvs"])
    told = repr(options).encode("utf-8", "replace") if options else b""
    return _before(program, arguments, params["donated_invars"], told)


@hook
def after(call, results):
    """Records what it gave back, once that is ready."""
    _after(*call, results)


@hook
def before_compiled(compiled, args, kwargs):
    paths, leaves = _flat((args, kwargs))
    program = _compiled.get(compiled)
    if program is None or program.arguments != paths:
        program = jax_programs.Compiled(compiled, paths)
        _compiled.put(compiled, program)
    return _before(program, leaves)


@hook
def after_compiled(call, found):
    paths, leaves = _flat(found)
    call[0].program.results = ["result" + path for path in paths]
    _after(*call, leaves)


def _flat(tree):
    """(paths, leaves) of what a call is given or gives."""
    found = sys.modules["jax"].tree_util
    leaves = found.tree_flatten_with_path(tree)[0]
    return [found.keystr(path) for path, _leaf in leaves], [leaf for _path, leaf in leaves]


def _before(program, arguments, donated=(), options=b""):
    if not core.begin():
        return None
    site = sites.near(sys._getframe(2))
    names = _names(program, site)
    back = jax_parts.came_back(names, arguments, donated)
    jax_parts.end_of_the_others(names, back)
    _step_begins(program.label, site)
    if program.digest:
        pending = tensors.pending()
        pending.add_bytes(names.text(), program.digest + options)
        pending.flush()
    large = names.arguments.record(arguments)
    jax_parts.record_arguments(names, arguments, large)
    core.saw("batch")
    if program.hidden:
        _note_hidden(program.label, program.hidden)
    _note_joint(program, arguments)
    return names, back


def _note_hidden(label, why):
    key = "jax hidden %s %s" % (label, why)
    if key not in S.seen:
        S.seen.add(key)
        core.note("input.unseen", "%d %s %s" % (S.step, label, why))


def _note_joint(program, values):
    """What a call over several processes makes here follows from what each of them gave to it."""
    if jax_arrays.is_joint(values):
        _note_hidden(program.label, JOINT)


def _after(names, back, results):
    _note_joint(names.program, results)
    large = names.results.record(results)
    jax_parts.record_results(names, results, large, back)
    core.saw("output")


def _at_exit():
    """The last round is a step, too."""
    jax_parts.record_all_ends()
    if _called:
        _called.clear()
        steps.close()


def _after_fork():
    _called.clear()


def arm():
    S.on_exit.append(_at_exit)
    S.on_fork.append(_after_fork)
