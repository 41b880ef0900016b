"""Trains under a strategy."""

import keras
import numpy as np
import tensorflow as tf

with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
model.fit(np.ones((8, 4), np.float32), np.ones((8, 1), np.float32), verbose=0)
print("done")
