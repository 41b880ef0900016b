# SPDX-License-Identifier: Apache-2.0
"""Sets the hooks in a TensorFlow, and in a Keras that computes with it, once they were imported.

What the job holds stays what TensorFlow made: `tf.function(f)` is the same object, with the same
traces. Every execution of a traced function passes `ConcreteFunction._call_flat`, with its inputs
flat; there we look before and after. What is traced is not changed, but for one thing: in the
functions that Keras makes for `fit`, `evaluate` and `predict`, which take their batches inside of
the graph, the batch is shown to us as well. docs/internals/frameworks.md tells why.
"""

import functools
import sys

from . import core, faults, rng, sites, tf_calls, tf_random, tf_values, tf_variables
from .core import S, T

VERSIONS = ("2.21.",)  # whose inside was looked at
KERAS = ("3.",)
STRATEGY = "what runs under a strategy of tf.distribute"
WRITING = ("assign", "scatter_", "batch_scatter_", "_strided_slice_assign")  # methods of variables

_eager = None  # tf.executing_eagerly
_strategy = None  # tf.distribute.has_strategy
_done = set()  # what is armed
inside = tf_calls.inside


def _idle():
    """Whether nothing is to be recorded here and now."""
    return not S.on or T.busy or inside.depth or not _eager()


def _replace(owner, name, make):
    original = owner.__dict__[name]
    setattr(owner, name, functools.update_wrapper(make(original), original))


# ---------------------------------------------------------------- TensorFlow


def _wrapped_call(original):
    """Of ConcreteFunction: a traced function runs."""

    def _call_flat(self, tensor_inputs, captured_inputs):
        if _idle() or _distributed():
            return original(self, tensor_inputs, captured_inputs)
        call = tf_calls.before(self, tensor_inputs, captured_inputs)
        inside.depth += 1
        try:
            found = original(self, tensor_inputs, captured_inputs)
        except BaseException as error:
            tf_calls.failed()
            core.trim(error)
            raise
        finally:
            inside.depth -= 1
        if call is not None:
            tf_calls.after(call, found)
        return found

    return _call_flat


def _wrapped_gradient(original):
    def gradient(self, target, sources, *args, **kwargs):
        if _idle() or _distributed():
            return original(self, target, sources, *args, **kwargs)
        inside.depth += 1
        try:
            found = original(self, target, sources, *args, **kwargs)
        except BaseException as error:
            core.trim(error)
            raise
        finally:
            inside.depth -= 1
        tf_calls.gradients_taken(target, sources, found)
        return found

    return gradient


def _wrapped_next(original):
    """Of iterators over a dataset: what gives the job the next element."""

    def get(self):
        try:
            found = original(self)
        except BaseException as error:
            core.trim(error)
            raise
        if not _idle() and not _asked_by_keras(sys._getframe(1)):
            tf_calls.batch(found, "dataset")
        return found

    return get


def _wrapped_generator(original):
    def __init__(self, *args, **kwargs):
        try:
            original(self, *args, **kwargs)
        except BaseException as error:
            core.trim(error)
            raise
        if _eager():
            tf_random.made(self)

    return __init__


def _wrapped_birth(original):
    def __init__(self, *args, **kwargs):
        try:
            original(self, *args, **kwargs)
        except BaseException as error:
            core.trim(error)
            raise
        tf_variables.born(self)

    return __init__


def _wrapped_assign(original):
    name = original.__name__

    def assign(self, *args, **kwargs):
        if _idle():
            return original(self, *args, **kwargs)
        inside.depth += 1
        try:
            found = original(self, *args, **kwargs)
        except BaseException as error:
            core.trim(error)
            raise
        finally:
            inside.depth -= 1
        tf_calls.assigned(self, name)
        return found

    return assign


def _distributed():
    """What runs under a strategy is left alone, and said to be unseen."""
    if not _strategy():
        return False
    core.unseen(STRATEGY)
    return True


def _wrapped_run(original):
    """Of a strategy: what it runs is mostly called, or traced, outside of its scope."""

    def run(self, *args, **kwargs):
        if S.on and "Default" not in type(self).__name__:
            core.unseen(STRATEGY)
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            core.trim(error)
            raise

    return run


_keras_folder = None


def _asked_by_keras(frame):
    return _keras_folder is not None and frame.f_code.co_filename.startswith(_keras_folder)


def arm(with_keras):
    """Called by the finder after the import of either; each is armed once."""
    if "tensorflow" not in _done:
        _done.add("tensorflow")
        if core.start():
            _arm_tensorflow()
    if with_keras and "keras" not in _done and _eager is not None:
        _done.add("keras")
        _arm_keras()


def _arm_tensorflow():
    global _eager, _strategy
    tensorflow = sys.modules["tensorflow"]
    version = str(getattr(tensorflow, "__version__", "?"))
    home = "tensorflow.python.eager.polymorphic_function.concrete_function"
    if not version.startswith(VERSIONS) or home not in sys.modules:
        S.unarmed.append("tensorflow (how version %s runs functions is not known)" % version)
        core.note_alone("unseen", "functions and variables of tensorflow %s" % version)
        return
    sites.skip(tensorflow)
    _eager, _strategy = tensorflow.executing_eagerly, tensorflow.distribute.has_strategy
    tf_values.arm(tensorflow)
    tf_variables.arm()
    tf_calls.arm()
    rng.arm_without_torch()
    tf_random.arm()
    resources = sys.modules["tensorflow.python.ops.resource_variable_ops"]
    variables = resources.BaseResourceVariable
    _replace(variables, "__init__", _wrapped_birth)
    # TensorFlow replaces some methods in the class below once more
    for owner in (variables, resources.ResourceVariable):
        for name in [n for n in vars(owner) if n.startswith(WRITING)]:
            _replace(owner, name, _wrapped_assign)
    _replace(sys.modules[home].ConcreteFunction, "_call_flat", _wrapped_call)
    strategies = sys.modules["tensorflow.python.distribute.distribute_lib"].StrategyBase
    _replace(strategies, "run", _wrapped_run)
    _replace(tensorflow.GradientTape, "gradient", _wrapped_gradient)
    iterators = sys.modules["tensorflow.python.data.ops.iterator_ops"]
    _replace(iterators.OwnedIterator, "__next__", _wrapped_next)
    _replace(iterators.OwnedIterator, "get_next", _wrapped_next)
    generators = sys.modules["tensorflow.python.ops.stateful_random_ops"]
    _replace(generators.Generator, "__init__", _wrapped_generator)
    S.armed.append("tensorflow " + version)


# ---------------------------------------------------------------- Keras


def _wrapped_initialize(original):
    def _initialize(self, value):
        original(self, value)
        tf_variables.of_keras(self)

    return _initialize


def _wrapped_made(original):
    def __init__(self, *args, **kwargs):
        original(self, *args, **kwargs)
        tf_calls.made(self)

    return __init__


def _wrapped_apply(original):
    def apply(self, grads, trainable_variables=None):
        if _idle() or _distributed():
            return original(self, grads, trainable_variables)
        found = tf_calls.before_apply(self, grads, trainable_variables)
        inside.depth += 1
        try:
            result = original(self, grads, trainable_variables)
        except BaseException as error:
            core.trim(error)
            raise
        finally:
            inside.depth -= 1
        if found is not None:
            tf_calls.after_apply(self, found)
        return result

    return apply


def _wrapped_make_function(original):
    """Of TensorFlowTrainer: what runs one round of train_step or test_step."""

    def _make_function(self, step_function):
        label = getattr(step_function, "__name__", "train_step")
        self_label, inside.keras = inside.keras, label
        try:
            function = original(self, step_function)
        finally:
            inside.keras = self_label

        def called(iterator):
            before, inside.keras = inside.keras, label
            found = None
            try:
                found = function(iterator)
            except BaseException as error:
                core.trim(error)
                raise
            finally:
                inside.keras = before
                tf_calls.after_keras(found)
            return found

        return functools.update_wrapper(called, function)

    return _make_function


def _wrapped_make_predict(original):
    def make_predict_function(self, *args, **kwargs):
        before, inside.keras = inside.keras, "predict_step"
        try:
            return original(self, *args, **kwargs)
        finally:
            inside.keras = before

    return make_predict_function


def _wrapped_convert(original):
    """Of TensorFlowTrainer: makes what Keras calls with each batch, mostly while it traces."""

    def _autoconvert_optionals(self, step_func):
        inner = original(self, step_func)
        label = inside.keras or "step"

        def called(data):
            _show(self, data, label)
            try:
                return inner(data)
            except BaseException as error:
                core.trim(error)
                raise

        return functools.update_wrapper(called, inner)

    return _autoconvert_optionals


def _show(trainer, data, label):
    if not S.on or T.busy:
        return
    if _eager():
        if trainer.run_eagerly and not _distributed():
            tf_calls.batch(data, label)
        return
    if not _distributed() and trainer._distribute_strategy is None:
        try:
            _show_in_graph(data, label)
        except Exception as error:
            faults.pass_on(error)
            core.unseen("batches of %s" % label)


def _show_in_graph(data, label):
    """Adds an operation that gives the batch to us. What takes part in the computing is not
    touched: it has the batch from where it always has.
    """
    tensorflow = sys.modules["tensorflow"]
    found = []
    tf_values.walk(data, "batch", found)
    found = [(n, t) for n, t in found if tf_values.is_tensor(t) and not tf_values.is_handle(t)]
    names = [name for name, _tensor in found]
    if not names:
        return

    def shown(*arrays):
        try:
            tf_calls.batch_in_graph(names, label, arrays)
        except BaseException as error:
            core.fail("batch", error)

    tensorflow.numpy_function(shown, [tensor for _name, tensor in found], [], name="twinrun")


def _arm_keras():
    keras = sys.modules["keras"]
    if not str(getattr(keras, "__version__", "?")).startswith(KERAS):
        return
    if keras.config.backend() != "tensorflow":
        return  # what it computes with is watched, or not, by itself
    global _keras_folder
    _keras_folder = keras.__file__.rpartition("/")[0]
    variable = sys.modules["keras.src.backend.tensorflow.core"].Variable
    _replace(variable, "_initialize", _wrapped_initialize)
    base = sys.modules["keras.src.optimizers.base_optimizer"].BaseOptimizer
    _replace(base, "__init__", _wrapped_made)
    _replace(base, "apply", _wrapped_apply)
    scaled = sys.modules["keras.src.optimizers.loss_scale_optimizer"].LossScaleOptimizer
    _replace(scaled, "apply", _wrapped_apply)
    _replace(scaled, "__init__", _wrapped_made)
    trainer = sys.modules["keras.src.backend.tensorflow.trainer"].TensorFlowTrainer
    _replace(trainer, "_make_function", _wrapped_make_function)
    _replace(trainer, "make_predict_function", _wrapped_make_predict)
    _replace(trainer, "_autoconvert_optionals", _wrapped_convert)
    S.armed.append("keras " + keras.__version__)
