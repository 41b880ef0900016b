"""Small jobs, each in a step of its own; their names are printed. `mutant`: each does something else
than its twin, which records must show.
"""

import random
import sys

import keras
import numpy as np
import tensorflow as tf

import twinrun

mutant = "mutant" in sys.argv
keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
x = rng.standard_normal((24, 6), dtype=np.float32)
y = x.sum(1, keepdims=True)
other = 1.5 if mutant else 1.0


def net(cls=keras.Model, **settings):
    keras.utils.set_random_seed(1)
    inputs = keras.Input((6,))
    model = cls(inputs, keras.layers.Dense(1)(keras.layers.Dense(4, activation="relu")(inputs)))
    model.compile(**{"optimizer": "sgd", "loss": "mse", "jit_compile": False, **settings})
    return model


def fit(model, data=None, **settings):
    settings = {"batch_size": 8, "verbose": 0, "shuffle": False, **settings}
    return model.fit(x, y, **settings) if data is None else model.fit(data, verbose=0)


def data_order():
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(24, seed=2 if mutant else 1)
    fit(net(), data.batch(8).prefetch(2))


def dropout():
    model = keras.Sequential(
        [keras.Input((6,)), keras.layers.Dropout(0.5, seed=7 if mutant else 8)]
    )
    model(x, training=True)
    model.compile(loss="mse")
    model.evaluate(x, x, verbose=0)
    tf.function(lambda: model(x, training=True))()


class Assigning(keras.Model):
    def train_step(self, data):
        logs = super().train_step(data)
        self.trainable_variables[0].assign(self.trainable_variables[0] * other)
        return logs


def assign_in_train_step():
    fit(net(Assigning))


hidden = tf.Variable(0.0)


class Counting(keras.Model):
    def train_step(self, data):
        hidden.assign_add(other)
        return super().train_step(data)


def hidden_variable():
    fit(net(Counting))


def write_only_variable():
    held = tf.Variable(0.0)

    @tf.function
    def write(v):
        held.assign(v * other)

    write(tf.constant(1.0))


class Writing(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 1:
            weight = self.model.trainable_variables[0]
            weight.assign(weight * other)


def callback():
    fit(net(), callbacks=[Writing()])


def callback_past_the_last_step():
    fit(
        net(),
        callbacks=[keras.callbacks.LambdaCallback(on_train_end=lambda _: hidden.assign(other))],
    )


def clipped():
    fit(net(optimizer=keras.optimizers.SGD(clipvalue=0.1 * other)))


def clipped_by_hand():
    model = net()
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
    found = tape.gradient(loss, model.trainable_variables)
    found = [tf.clip_by_value(g, -0.01 * other, 0.01 * other) for g in found]
    model.optimizer.apply(found, model.trainable_variables)


def side_effect():
    scale = []

    @tf.function
    def scaled(v):
        scale.append(other)
        return v * len(scale) * scale[0]

    scaled(tf.constant(2.0))


def closure():
    held = tf.constant([1.0, other])
    tf.function(lambda v: tf.stop_gradient(v + held)[:1])(tf.constant([1.0, 1.0]))


def never_in_a_model():
    v = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(v**2)
    v.assign_sub(0.1 * other * tape.gradient(loss, v))


def raw_write():
    v = tf.Variable([1.0, 2.0])
    used = tf.function(lambda: tf.reduce_sum(v) * 0.0)
    used()
    tf.raw_ops.AssignVariableOp(resource=v.handle, value=tf.constant([1.0, 2.0 * other]))
    used()


def sparse_gradient():
    table = tf.Variable(tf.ones((10, 3)))
    optimizer = keras.optimizers.SGD(0.1)
    with tf.GradientTape() as tape:
        rows = tf.nn.embedding_lookup(table, [1, 4, 5 if mutant else 4])
        loss = tf.reduce_sum(rows**2)
    optimizer.apply([tape.gradient(loss, table)], [table])


def strings():
    tf.function(tf.strings.length)(tf.constant(["a", "b" if mutant else "c"]))


def steps_in_one_execution():
    order = np.arange(24)
    if mutant:
        order[16], order[17] = order[17], order[16]
    data = tf.data.Dataset.from_tensor_slices((x[order], y[order])).batch(8)
    fit(net(steps_per_execution=3), data)


def operation_seed():
    if mutant:
        tf.random.normal((1,))
    tf.function(lambda v: v)(tf.random.normal((2,)))


def python_draw():
    value = random.random() if not mutant else random.random() + random.random()
    tf.function(lambda v: v)(tf.constant(value))


def evaluated():
    model = net()
    model.evaluate(x * other, y, batch_size=12, verbose=0)


def predicted():
    model = net()
    model.predict(x * other, batch_size=12, verbose=0)


def mixed_precision():
    optimizer = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.Adam(0.01 * other), initial_scale=16.0
    )
    fit(net(optimizer=optimizer))


def eager_fit():
    fit(net(run_eagerly=True, optimizer=keras.optimizers.Adam(0.01 * other)))


def functions_inside():
    double, triple = tf.function(lambda v: v * 2.0), tf.function(lambda v: v * 3.0)
    both = tf.function(lambda v: (double(v) + triple(v) + (triple if mutant else double)(v)) * 0.0)
    both(tf.constant(1.0))


def order_inside():
    minus = tf.function(lambda v, w: ((w - v) if mutant else (v - w)) * 0.0)
    tf.function(lambda v, w: minus(v, w))(tf.constant(1.0), tf.constant(2.0))


def variable_as_argument():
    tf.function(lambda v: tf.reduce_sum(v) * 0.0)(tf.Variable([1.0, 2.0 * other]))


def variable_written_as_argument():
    write = tf.function(lambda v, scale: v.assign(v * scale) * 0.0)
    held = tf.Variable([1.0, 2.0])
    write(held, tf.constant(1.0))
    tf.raw_ops.AssignVariableOp(resource=held.handle, value=tf.constant([1.0, 2.0 * other]))
    write(held, tf.constant(1.0))


def other_variable():
    held = [tf.Variable(1.0), tf.Variable(1.0)]
    used = tf.function(lambda v: v + 0.0)
    used(held[0])
    used(held[mutant])


def get_next():
    iter(tf.data.Dataset.from_tensor_slices(x * other).batch(8)).get_next()


def slice_assign():
    tf.Variable(tf.zeros(4))[1:2].assign([other])


generators = []


def generator():
    generators.append(tf.random.Generator.from_seed(3 if mutant else 4))


def generator_drawn():
    generators.append(tf.random.Generator.from_seed(3))
    if mutant:
        generators[-1].normal((3,))


def global_seed():
    tf.random.set_seed(5 if mutant else 6)


restored = tf.Variable([0.0, 0.0], name="restored")


def on_batch():
    model = net()
    model.train_on_batch(x[:8] * other, y[:8])


def xla():
    tf.function(lambda v: v * other, jit_compile=True)(tf.constant([1.0, 2.0]))


twinrun.step()  # from now on steps end nowhere else
CASES = [f for f in list(globals().values()) if getattr(f, "__module__", "") == "__main__"]
for case in [f for f in CASES if not isinstance(f, type) and f not in (net, fit)]:
    keras.utils.set_random_seed(0)  # else what one draws would show in all that follow
    case()
    twinrun.step()
    print(case.__name__)
# nothing uses it: what it holds shows at the end alone
tf.raw_ops.AssignVariableOp(resource=restored.handle, value=tf.constant([1.0, other]))
