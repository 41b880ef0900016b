# SPDX-License-Identifier: Apache-2.0
"""What the leaves of a program are to the job, where the classes around them say so: weights,
optimizer state, hyperparameters, states of generators.

A role is said where a class or a type itself declares it: a field of flax's TrainState, a state of
optax, the variables of nnx's optimizer and generators, a key's type. A name proves nothing: what is
called `params` may be anything. Nor does `nnx.Param`: what `nnx.grad` gives back is made of
`nnx.Param`, too, and of a module `jax.grad` makes a module of gradients. Classes alone are looked
at, by JAX's description of the trees, so no code of theirs runs; and once for each program.
"""

import collections
import dataclasses
import sys

from . import native

WEIGHT, OPTIMIZER, HYPER = "weight", "optimizer state", "hyperparameter"
GENERATOR = "generator state"

# Phase and kind of the record of a result. What a function is given stays a record of what goes in:
# the function did not make it.
OUTPUT = native.FORWARD, native.ACTIVATION
KINDS = {
    WEIGHT: (native.OPTIMIZER, native.WEIGHT),
    OPTIMIZER: (native.OPTIMIZER, native.MOMENT),
    HYPER: (native.OPTIMIZER, native.HYPER),
}

# States of optax that keep what they are asked to keep, for whatever that is used.
KEEP = ("EmaState", "MonitorState", "SnapshotState")
FRAMES = 8  # between what looks here and the function of JAX that knows the trees


def of_program(jaxpr):
    """(roles of the arguments, roles of the results), "" where nothing says one."""
    in_tree, out_tree = _trees(jaxpr)
    given = _of_side(in_tree, jaxpr.in_avals)
    made = _of_side(out_tree, jaxpr.out_avals)
    if any(
        getattr(aval, "dtype", None) == sys.modules["jax"].dtypes.float0 for aval in jaxpr.out_avals
    ):
        made = [""] * len(made)  # gradients of a state, of its classes
    return given, _like_the_arguments(made, jaxpr.out_avals, given, jaxpr.in_avals)


def kinds(made, avals):
    """(phase, kind) of each result. A hyperparameter is a single number. A generator's state stays
    an output: records of that kind say who drew from a generator, and of a key that is not seen.
    """
    rows = zip(made, avals)
    return [
        OUTPUT if role == HYPER and getattr(aval, "shape", None) != () else KINDS.get(role, OUTPUT)
        for role, aval in rows
    ]


# What Keras's functions get as `state`, in their order.
KERAS = {
    "train_step": ("trainable", "non_trainable", "optimizer", "metrics"),
    "test_step": ("trainable", "non_trainable", "metrics"),
    "predict_step": ("trainable", "non_trainable"),
}
KERAS_FRAMES = 24


def of_keras(label):
    """{place in `state`: (role, path)} of a function of Keras that is about to run for the first
    time; empty where it is none. `state` has lists of values alone, so the model is asked whose
    they are: its method is what Keras has given to `jax.jit`.
    """
    frame, model = sys._getframe(1), None
    for _ in range(KERAS_FRAMES if label in KERAS and "keras" in sys.modules else 0):
        frame = frame and frame.f_back
        if frame and frame.f_code.co_name == "iterator_step":
            step = getattr(frame.f_locals.get("step_function"), "__wrapped__", None)
            model = getattr(step, "__self__", None)
            break
    if model is None or not _is(type(model), "keras.src.backend.jax.trainer", "JAXTrainer"):
        return {}
    lists = {
        "trainable": model.trainable_variables,
        "non_trainable": model.non_trainable_variables,
        "optimizer": getattr(model.optimizer, "variables", ()),
        "metrics": model.metrics_variables,
    }
    found, told = {}, set()
    for i, name in enumerate(KERAS[label]):
        for k, variable in enumerate(lists[name]):
            place, path = "[%d][%d]" % (i, k), variable.path
            role = _role_in_keras(name, path)
            if (role, path) in told:
                path += " " + place
            told.add((role, path))
            found[place] = role, path
    return found


def _role_in_keras(group, path):
    if group == "optimizer":
        return HYPER if path.rpartition("/")[2] == "learning_rate" else OPTIMIZER
    if path.rpartition("/")[2] == "seed_generator_state":
        return GENERATOR
    return "metric" if group == "metrics" else WEIGHT


def _trees(jaxpr):
    """The trees of the call that is about to run, as its function got and gives them.

    JAX has them in a variable of the function that called us, for programs of `jax.jit` alone.
    """
    frame = sys._getframe(1)
    for _ in range(FRAMES):
        frame = frame and frame.f_back
        if frame and frame.f_code.co_name == "_run_python_pjit":
            found = frame.f_locals.get("p")
            if getattr(found, "params", {}).get("jaxpr") is jaxpr:
                return found.in_tree, found.out_tree
    return None, None


def _of_side(tree, avals):
    found = _leaves(tree) if tree is not None else []
    missing = len(avals) - len(found)  # constants stand first
    found = [""] * missing + found if missing >= 0 else [""] * len(avals)
    prng_key = sys.modules["jax"].dtypes.prng_key
    issubdtype = sys.modules["jax"].dtypes.issubdtype
    return [
        GENERATOR if issubdtype(getattr(aval, "dtype", None), prng_key) else role
        for aval, role in zip(avals, found)
    ]


def _leaves(tree):
    """The role of each leaf of a tree: what the innermost class around it declares."""
    found, waiting = [], [(tree, "")]
    while waiting:
        node, outer = waiting.pop()
        data = node.node_data()
        if data is None:
            found += [outer] * node.num_leaves
            continue
        children = node.children()
        roles = [role or outer for role in _declared(data[0], len(children))]
        waiting += zip(reversed(children), reversed(roles))
    return found


def _declared(cls, count):
    """The roles that a class declares for its `count` children, "" where it declares none."""
    names, role_of = (), {}
    if _is(cls, "flax.nnx.training.optimizer", "OptState"):
        return [OPTIMIZER] * count
    if _is(cls, "flax.nnx.rnglib", "RngState"):
        return [GENERATOR] * count
    if _is(cls, "flax.training.train_state", "TrainState"):
        names = [f.name for f in dataclasses.fields(cls) if f.metadata.get("pytree_node", True)]
        role_of = {"params": WEIGHT, "opt_state": OPTIMIZER}
    elif _is_of_optax(cls):
        names = cls._fields
        role_of = {**dict.fromkeys(names, OPTIMIZER), "hyperparams": HYPER}
    if len(names) != count:
        return [""] * count
    return [role_of.get(name, "") for name in names]


def _is(cls, module, name):
    known = getattr(sys.modules.get(module), name, None)
    return isinstance(known, type) and isinstance(cls, type) and issubclass(cls, known)


def _is_of_optax(cls):
    """optax has classes of parameters, too, and of functions; its states are called so."""
    ours = (cls.__module__ or "").startswith("optax.") and hasattr(cls, "_fields")
    return ours and cls.__name__.endswith("State") and cls.__name__ not in KEEP


def _like_the_arguments(made, avals, given, of_given):
    """The roles of results. What `jax.tree.map` makes of a state has its classes, and may be norms
    or flags: where results of a role are no such arrays as the arguments of that role, none has it.
    """

    def arrays(roles, avals, wanted):
        rows = zip(roles, avals)
        return collections.Counter(a.str_short() for role, a in rows if role == wanted)

    for role in (WEIGHT, OPTIMIZER, HYPER):
        known = arrays(given, of_given, role)
        if known and not arrays(made, avals, role) <= known:
            made = ["" if found == role else found for found in made]
    return made
