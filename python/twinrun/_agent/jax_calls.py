# SPDX-License-Identifier: Apache-2.0
"""Records of one execution of a program of the job: what it computes, what it is given, what it
gives back; and where a step ends.

A step is one round of calls: it ends before a function is called from a line that has called it in
this step already, so that each turn of a loop is a step, whatever it does. It ends nowhere else
than at `twinrun.step()` once the job calls that, and nowhere here in a job that trains with
PyTorch. Every record lies in some step: the rule decides where it is compared, and leaves none out.
"""

import functools
import sys

from . import core, jax_arrays, jax_programs, refs, sites, steps, tensors
from .core import S, hook
from .native import ACTIVATION, DATA, FORWARD, IN, SKETCH, STATS

SERIES = 64  # places that call one program, with tables of their own

_called = set()  # (label, line) of this step
_compiled = refs.AtOnce()  # jax.stages.Compiled -> jax_programs.Compiled


class Names:
    """Numbers of the series of one program, called from one place in one thread."""

    def __init__(self, program, site, role):
        self.program, self.site, self.role = program, site, role
        self.numbers = {}

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
            found = self.numbers[~place, suffix] = self._series(FORWARD, ACTIVATION, name)
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
def before(program, arguments):
    """Records what the program is given: before it runs, as donated arrays are gone afterwards."""
    return _before(program, arguments)


@hook
def after(names, results):
    """Records what it gave back, once that is ready."""
    _after(names, results)


@hook
def before_compiled(compiled, args, kwargs):
    paths, leaves = _flat((args, kwargs))
    program = _compiled.get(compiled)
    if program is None or program.arguments != paths:
        program = jax_programs.Compiled(compiled, paths)
        _compiled.put(compiled, program)
    return _before(program, leaves)


@hook
def after_compiled(names, found):
    paths, leaves = _flat(found)
    names.program.results = ["result" + path for path in paths]
    _after(names, leaves)


def _flat(tree):
    """(paths, leaves) of what a call is given or gives."""
    found = sys.modules["jax"].tree_util
    leaves = found.tree_flatten_with_path(tree)[0]
    return [found.keystr(path) for path, _leaf in leaves], [leaf for _path, leaf in leaves]


def _add(pending, series, values):
    """Records all leaves of one side of a call. series(place, suffix): the number of a record."""
    for place, value in enumerate(values):
        jax_arrays.add(pending, functools.partial(series, place), value, STATS | SKETCH)
    pending.flush()


def _before(program, arguments):
    if not core.begin():
        return None
    site = sites.near(sys._getframe(2))
    _step_begins(program.label, site)
    names = _names(program, site)
    pending = tensors.pending()
    if program.digest:
        pending.add_bytes(names.text(), program.digest)
    _add(pending, names.argument, arguments)
    core.saw("batch")
    if program.hidden:
        _note_hidden(program)
    return names


def _note_hidden(program):
    key = "jax hidden " + program.label
    if key not in S.seen:
        S.seen.add(key)
        core.note("input.unseen", "%d %s %s" % (S.step, program.label, program.hidden))


def _after(names, results):
    pending = tensors.pending()
    every = S.lib.sketch_every()
    # In some steps all is read whole, for statistics and sketches; else what is large is digested
    # once, for this record and for the argument that it becomes.
    if not every or S.step % every:
        jax_arrays.keep_digests(results)
    _add(pending, names.result, results)
    core.saw("output")


def _at_exit():
    """The last round is a step, too."""
    if _called:
        _called.clear()
        steps.close()


def _after_fork():
    _called.clear()


def arm():
    S.on_exit.append(_at_exit)
    S.on_fork.append(_after_fork)
