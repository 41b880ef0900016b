"""Trains a small net with Keras's fit. `unseeded`: no seed is set."""

import sys

import keras
import numpy as np

if "unseeded" not in sys.argv:
    keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
x = rng.standard_normal((160, 16), dtype=np.float32)
y = rng.integers(0, 4, 160)
model = keras.Sequential(
    [
        keras.Input((16,)),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(4),
    ]
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer="adam", loss=loss, metrics=["accuracy"], jit_compile="jit" in sys.argv)
model.fit(x, y, batch_size=32, epochs=2, verbose=0)
print("done")
