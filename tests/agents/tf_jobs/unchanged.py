"""Prints what a watcher could disturb: weights, counters of generators, traces."""

import contextlib
import hashlib
import io
import sys
import traceback
import warnings

import keras
import numpy as np
import tensorflow as tf

warnings.simplefilter("error")
rng = np.random.default_rng(0)
x = rng.standard_normal((48, 8, 8, 3), dtype=np.float32)
y = rng.integers(0, 4, 48)


def digest(arrays):
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def net(small=False):
    keras.utils.set_random_seed(3)
    layers = keras.layers
    if small:  # XLA takes seconds for a convolution
        return keras.Sequential(
            [
                keras.Input((8, 8, 3)),
                layers.Flatten(),
                layers.Dropout(0.3),
                layers.Dense(4, activation="softmax"),
            ]
        )
    return keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(4, 3, activation="relu", kernel_regularizer="l2"),
            layers.BatchNormalization(),
            layers.Flatten(),
            layers.Dropout(0.3),
            layers.Dense(300, activation="relu"),
            layers.Dense(4, activation="softmax"),
        ]
    )


loss = "sparse_categorical_crossentropy"
for settings in (
    {"jit_compile": False},
    {"jit_compile": True},
    {"run_eagerly": True},
    {"jit_compile": False, "steps_per_execution": 2},
):
    model = net(settings.get("jit_compile"))
    model.compile(keras.optimizers.Adam(weight_decay=0.01), loss, metrics=["accuracy"], **settings)
    shown = io.StringIO()
    with contextlib.redirect_stderr(shown):
        history = model.fit(x, y, batch_size=12, epochs=2, verbose=0, validation_split=0.25)
        predicted = model.predict(x, batch_size=16, verbose=0)
    print(sorted(settings), digest(model.get_weights()), digest([predicted]), shown.getvalue())
    print([repr(v) for v in sorted(history.history.items())])
    print(digest([v.numpy() for v in model.optimizer.variables]))

tf.random.set_seed(5)
model, optimizer = net(), keras.optimizers.SGD(0.01)
traced = []


@tf.function
def train_step(images, labels):
    traced.append(1)
    with tf.GradientTape() as tape:
        noise = tf.random.normal(tf.shape(images), stddev=0.1)
        value = tf.reduce_mean(
            keras.losses.sparse_categorical_crossentropy(
                labels, model(images + noise, training=True)
            )
        )
    found = tape.gradient(value, model.trainable_variables)
    optimizer.apply_gradients(zip(found, model.trainable_variables))
    return value


for images, labels in tf.data.Dataset.from_tensor_slices((x, y)).shuffle(48).batch(16):
    train_step(images, labels)
print(len(traced), train_step.experimental_get_tracing_count(), digest(model.get_weights()))
print(digest([tf.random.normal((3,)), tf.random.uniform((3,)), np.random.rand(3)]))

# second derivatives, a persistent tape, a tape that is open while an optimizer is applied
v = tf.Variable([1.0, 2.0])
with tf.GradientTape(persistent=True) as outer:
    with tf.GradientTape() as inner:
        value = tf.reduce_sum(v**3)
    first = inner.gradient(value, v)
    keras.optimizers.SGD(0.0).apply([first], [v])
print(outer.gradient(first, v).numpy().tolist(), [w.name for w in outer.watched_variables()])
print(v.assign_add([1.0, 1.0], read_value=False), v.assign([3.0, 4.0]).numpy().tolist())
print(tf.GradientTape.gradient.__name__, v.assign.__func__.__qualname__)

model, optimizer = net(True), keras.optimizers.SGD(0.01)
nested = tf.function(train_step.python_function, jit_compile=True)
print(float(nested(x[:16], y[:16])))
try:
    train_step(x[:1], y[:1, None, None])
except Exception as error:
    print(type(error).__name__)


class Raising(keras.Model):
    def train_step(self, data):
        raise ValueError("in the middle")


def raised(function, *args, **settings):
    try:
        function(*args, **settings)
    except Exception:
        print(traceback.format_exc())


inputs = keras.Input((4,))
model = Raising(inputs, keras.layers.Dense(1)(inputs))
for eagerly in (False, True):
    model.compile("sgd", "mse", jit_compile=False, run_eagerly=eagerly)
    raised(model.fit, np.ones((8, 4)), np.ones((8, 1)), verbose=0)
raised(iter(tf.data.Dataset.range(0)).get_next)
raised(tf.Variable, "text", dtype=tf.float32)
raised(tf.random.Generator, state=[1], alg="none")

with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
model.fit(np.ones((8, 4), np.float32), np.ones((8, 1), np.float32), verbose=0)
print(digest(model.get_weights()))
sys.stdout.flush()
