# SPDX-License-Identifier: Apache-2.0
"""Prints what each generator that a job of Keras draws from gives first. `seeded`: the job seeds
them by Keras's own function. `unseeded`: a generator that asks for a start from no seed, too.
`determined`: what TensorFlow refuses of that where the job has asked for determinism.
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
print("shuffled", *(i.numpy() for i in tf.data.Dataset.range(99).shuffle(99)))
if "determined" in sys.argv:
    tf.config.experimental.enable_op_determinism()
    for draw in (tf.random.Generator.from_non_deterministic_state, lambda: tf.random.uniform(())):
        try:
            draw()
        except RuntimeError as error:
            print("refused", error)
if "unseeded" in sys.argv:
    generator = tf.random.Generator.from_non_deterministic_state()
    print("generator", generator.uniform(()).numpy(), tf.random.get_global_generator().key.numpy())
