# SPDX-License-Identifier: Apache-2.0
"""Prints what each generator that a job of Keras draws from gives first; with `seeded` the job
seeds them by Keras's own function.
"""

import random
import sys

import keras
import numpy
import tensorflow as tf

if "seeded" in sys.argv:
    keras.utils.set_random_seed(0)


@tf.function
def traced():
    return tf.random.uniform(())


print("python", random.random())
print("numpy", numpy.random.rand())
print("keras", keras.layers.Dense(1).build((1, 2)) or keras.random.uniform(()).numpy())
print("eager", tf.random.uniform(()).numpy())
print("traced", traced().numpy(), traced().numpy())
print("shuffled", *(i.numpy() for i in tf.data.Dataset.range(9).shuffle(9)))
