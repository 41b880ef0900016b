# SPDX-License-Identifier: Apache-2.0
"""What is known of a program that JAX has traced: whose it is, what its arguments and results are
called, and a digest of what it computes.

The digest stands for what enters a call beside its arguments: constants of closures, static
arguments, branches taken while tracing. It is made of the operations, their parameters and the
constants, in order; names of variables, places in files and objects without a value of their own
are left out, as they may differ where the program does not.
"""

import enum
import hashlib
import os
import re
import sys

from . import faults, jax_roles, refs

ADDRESS = re.compile("0x[0-9a-f]+")
EQUATIONS = 200000  # looked at in one program, with those of its parts
# Operations that read what no argument shows.
HIDDEN = ("callback", "infeed", "rng_uniform", "outside_call", "recv")

_programs = refs.AtOnce()  # ClosedJaxpr -> Program
_own = ()  # folders of JAX
_Literal = _Jaxpr = _ClosedJaxpr = _Abstract = None


def arm(jax):
    global _own, _Literal, _Jaxpr, _ClosedJaxpr, _Abstract
    core = sys.modules["jax._src.core"]
    _Literal, _Jaxpr, _ClosedJaxpr = core.Literal, core.Jaxpr, core.ClosedJaxpr
    _Abstract = core.AbstractValue
    _own = os.path.dirname(os.path.abspath(jax.__file__)) + os.sep


class Program:
    """of_jax: no function of the job is in it (`jnp.add`, an operation called by itself).
    label: the function's name. arguments, results: names by place, behind what they are to the job
    where that is known ("weight state.params['w']") and no kind of records says it. kinds: phase
    and kind of the results. digest: bytes.
    hidden: the operation that reads what no argument shows, or "". series: of its records, which
    jax_calls keeps here.
    """

    __slots__ = ("of_jax", "label", "arguments", "results", "kinds", "digest", "hidden", "series")

    def __init__(self, jaxpr, name):
        function = _function_of_job(jaxpr.jaxpr, name)
        self.of_jax = function is None
        if self.of_jax:
            return
        self.label = function
        debug = jaxpr.jaxpr.debug_info
        arguments = _names(debug.arg_names, len(jaxpr.in_avals), "argument %d")
        results = _names(debug.result_paths, len(jaxpr.out_avals), "result %d")
        given, made = jax_roles.of_program(jaxpr)
        keras = jax_roles.of_keras(function)
        if keras:
            given, arguments = _by_place(keras, "state", given, arguments)
            made, results = _by_place(keras, "result[1]", made, results)
        self.kinds = jax_roles.kinds(made, jaxpr.out_avals)
        made = [role if kind == jax_roles.OUTPUT else "" for role, kind in zip(made, self.kinds)]
        self.arguments, self.results = _with_roles(given, arguments), _with_roles(made, results)
        self.series = {}
        self.digest, self.hidden = _Digest().of(jaxpr)


class Compiled:
    """The same of a program that was compiled ahead of time: what it computes is not looked at."""

    def __init__(self, compiled, arguments):
        executable = getattr(compiled, "_executable", None)
        self.label = getattr(getattr(executable, "unsafe_call", None), "name", "compiled")
        self.arguments, self.results, self.kinds = arguments, [], ()
        self.digest, self.series = b"", {}
        self.hidden = "was compiled ahead of time, and what it computes was not looked at"


def of(jaxpr, name):
    found = _programs.get(jaxpr)
    if found is None:
        found = Program(jaxpr, name)
        _programs.put(jaxpr, found)
    return found


# ---------------------------------------------------------------- whose, and names


def _source(jaxpr):
    """(name, file) of the function that this was traced from."""
    text = getattr(getattr(jaxpr, "debug_info", None), "func_src_info", None) or ""
    name, _at, place = text.rpartition(" at ")
    return name, place.rpartition(":")[0]


def _is_of_job(file):
    return bool(file) and not file.startswith((_own, "<frozen"))


def _function_of_job(jaxpr, name):
    """The label of a program in which a function of the job is; None where JAX's own alone are.

    A loop that is called outside of `jit`, or `pmap`, is a function of JAX around one of the job.
    """
    found, file = _source(jaxpr)
    if _is_of_job(file):
        return found or name
    if file == os.path.join(_own, "_src", "pmap.py"):
        return "pmap"  # what it maps has been inlined
    for inner in _inner(jaxpr, 4096):
        found, file = _source(inner)
        if _is_of_job(file):
            return "%s of %s" % (name.strip("_"), found)
    return None


def _inner(jaxpr, most):
    """The programs inside, the outer ones first."""
    waiting = [jaxpr]
    for outer in waiting:
        for equation in outer.eqns:
            for value in equation.params.values():
                for inner in value if isinstance(value, (tuple, list)) else (value,):
                    inner = getattr(inner, "jaxpr", inner)
                    if isinstance(inner, _Jaxpr) and len(waiting) < most:
                        waiting.append(inner)
    return waiting[1:]


def _names(known, count, form):
    names = list(known or ())
    if len(names) != count:
        names = [None] * (count - len(names)) + names if len(names) < count else [None] * count
    return [name or form % i for i, name in enumerate(names)]


def _with_roles(roles, names):
    return [role + " " + name if role else name for role, name in zip(roles, names)]


def _by_place(known, begin, roles, names):
    """The same roles and names, but for those that are known by their places behind `begin`."""
    n = len(begin)
    found = [
        known.get(name[n:], (role, name)) if name.startswith(begin) else (role, name)
        for role, name in zip(roles, names)
    ]
    return [role for role, _name in found], [name for _role, name in found]


# ---------------------------------------------------------------- what it computes


class _Digest:
    def __init__(self):
        self.hash = hashlib.blake2b(digest_size=16)
        self.left = EQUATIONS
        self.hidden = ""

    def of(self, jaxpr):
        self._closed(jaxpr)
        return self.hash.digest(), self.hidden

    def _say(self, text):
        self.hash.update(text.encode("utf-8", "replace") + b"\0")

    def _closed(self, closed):
        self._program(closed.jaxpr)
        for constant in closed.consts:
            self._value(constant)

    def _program(self, jaxpr):
        numbers = {}

        def number(variable):
            return numbers.setdefault(id(variable), len(numbers))

        for variable in (*jaxpr.constvars, *jaxpr.invars):
            self._say("in %d %s" % (number(variable), variable.aval))
        for equation in jaxpr.eqns:
            self.left -= 1
            if self.left < 0:
                self._say("more")
                self.hidden = self.hidden or "has more operations than are looked at"
                return
            self._equation(equation, number)
        for variable in jaxpr.outvars:
            self._operand(variable, number)

    def _equation(self, equation, number):
        name = equation.primitive.name
        self._say(name)
        if not self.hidden and any(word in name for word in HIDDEN):
            self.hidden = "runs %s, which no record shows" % name
        for key in sorted(equation.params):
            self._say(key)
            self._value(equation.params[key])
        for variable in equation.invars:
            self._operand(variable, number)
        for variable in equation.outvars:
            self._say("= %d %s" % (number(variable), variable.aval))

    def _operand(self, variable, number):
        if isinstance(variable, _Literal):
            self._value(variable.val)
        else:
            self._say("%d" % number(variable))

    def _value(self, value):
        if isinstance(value, _ClosedJaxpr):
            self._closed(value)
        elif isinstance(value, _Jaxpr):
            self._program(value)
        elif value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
            self._say("%s %s" % (type(value).__name__, ADDRESS.sub("0x", repr(value))))
        elif isinstance(value, enum.Enum):
            self._say(str(value))
        elif isinstance(value, (tuple, list)):
            self._say("%s %d" % (type(value).__name__, len(value)))
            for part in value:
                self._value(part)
        elif isinstance(value, (set, frozenset)):
            self._say("set " + " ".join(sorted(ADDRESS.sub("0x", repr(part)) for part in value)))
        elif isinstance(value, dict):
            for key in value:
                self._say(str(key))
                self._value(value[key])
        else:
            self._other(value)

    def _other(self, value):
        """Constants by their contents; of other objects only the sort is the same in each run."""
        numpy = sys.modules["numpy"]
        self._say(type(value).__name__)
        if isinstance(value, (numpy.dtype, _Abstract)):
            self._say(ADDRESS.sub("0x", str(value)))
        elif hasattr(value, "dtype") and hasattr(value, "shape"):
            try:
                # read as a copy: a view would keep an array from being donated
                data = numpy.array(getattr(value, "_base_array", getattr(value, "val", value)))
            except Exception as error:  # what other processes hold, for one
                faults.pass_on(error)
                data = None
            if data is None or data.dtype.hasobject:
                self.hidden = self.hidden or "has a constant that cannot be read"
                return
            self._say("%s %s" % (data.dtype, data.shape))
            self.hash.update(data.tobytes())
