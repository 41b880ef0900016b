"""A loop of its own with a GradientTape. `unseeded`: no seed is set."""

import sys

import tensorflow as tf

if "unseeded" not in sys.argv:
    tf.random.set_seed(0)
w = tf.Variable(tf.random.normal((8, 1)), name="w")
b = tf.Variable(tf.zeros(1), name="b")
optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)
data = tf.data.Dataset.from_tensor_slices(tf.random.stateless_normal((64, 8), seed=(1, 2)))


def train_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ w + b - tf.reduce_sum(x, 1, keepdims=True)) ** 2)
    gradients = tape.gradient(loss, [w, b])
    optimizer.apply_gradients(zip(gradients, [w, b]))
    return loss


for x in data.batch(16):
    loss = train_step(x)
print("done")
