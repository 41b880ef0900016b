# SPDX-License-Identifier: Apache-2.0
"""Keras, by whatever KERAS_BACKEND says: `fit` of layers that draw, that keep statistics, and that
learn. `unseeded`: without a seed.
"""

import sys

import keras
import numpy as np

if "unseeded" not in sys.argv:
    keras.utils.set_random_seed(3)
rng = np.random.default_rng(0)
x = rng.standard_normal((48, 6), dtype=np.float32)
y = x.sum(1, keepdims=True)
model = keras.Sequential(
    [
        keras.Input((6,)),
        keras.layers.Dense(8, activation="relu"),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(1),
    ]
)
model.compile(optimizer="adam", loss="mse")
print(keras.config.backend(), model.fit(x, y, batch_size=12, epochs=2, verbose=0).history["loss"])
print(model.evaluate(x, y, batch_size=48, verbose=0), model.predict(x[:2], verbose=0))
