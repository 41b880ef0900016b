#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the samples of this folder with h5py and Keras. What is in them:
tests/agents/test_keras_files.py.

    make_keras.py [FOLDER]
"""

import os
import sys
import zipfile

import h5py
import ml_dtypes
import numpy as np

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras

OUT = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
w = np.arange(12, dtype=np.float32).reshape(3, 4) / 8


def new(name, **how):
    return h5py.File(os.path.join(OUT, name), "w", **how)


TYPES = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">f4", ">i8", "?")


def fill(f):
    for t in TYPES:
        f["types/" + t.replace(">", "big-")] = np.arange(6).reshape(2, 3).astype(t)
    f["bfloat16"] = w.astype(ml_dtypes.bfloat16)
    f["bfloat16"].attrs["dtype"] = "bfloat16"
    f["scalar"] = np.float64(0.1)
    f["empty"] = np.zeros((0, 3), "f4")
    f["layers/dense/w"] = w
    f["layers"].attrs["name"] = "ö"
    f["layers"].attrs["fixed"] = np.array([b"one", b"three"])
    f["layers"].attrs["count"] = np.int32(-3)
    f["layers"].attrs["rate"] = np.float32(0.25)
    f["layers"].attrs["pair"] = np.array([1, 2], "i2")
    f["layers"].attrs["texts"] = ["a", "bc"]


with new("old-groups.h5") as f:
    fill(f)
with new("new-groups.h5", libver=("v108", "v108")) as f:
    for name in ("a", "b"):
        f.create_group(name)
    f["a/w"] = w
    f["b/w"] = w.astype("f8")
    f["a"].attrs["name"] = "ö"
# a tree of two levels, over names of one dataset
with new("many.h5") as f:
    f["0"] = np.float32(0.5)
    for i in range(1, 150):
        f["%d" % i] = f["0"]
with new("chunked.h5") as f:
    f.create_dataset("w", data=w, chunks=(1, 4), compression="gzip")
with new("texts.h5") as f:
    f["w"] = ["a", "b"]
with new("soft-link.h5") as f:
    f["w"] = w
    f["v"] = h5py.SoftLink("/w")
with new("external-link.h5") as f:
    f["w"] = w
    f["v"] = h5py.ExternalLink("old-groups.h5", "/scalar")
with new("external-data.h5") as f:
    f.create_dataset("w", (3, 4), "f4", external=[("/etc/passwd", 0, 48)])
with new("virtual.h5") as f:
    layout = h5py.VirtualLayout((3, 4), "f4")
    layout[:] = h5py.VirtualSource("old-groups.h5", "layers/dense/w", (3, 4))
    f.create_virtual_dataset("w", layout)
with new("cycle.h5") as f:
    f["g/w"] = w
    f["g/again"] = f["/"]
with new("unwritten.h5") as f:
    f.create_dataset("w", (3, 4), "f4")
with new("huge.h5") as f:
    f.create_dataset("w", (2**30, 2**20), "f4")
with new("dense-links.h5", libver="latest") as f:
    for i in range(12):
        f["%d" % i] = i

keras.utils.set_random_seed(3)
model = keras.Sequential(
    [keras.Input((2,)), keras.layers.Dense(3), keras.layers.Dropout(0.5), keras.layers.Dense(1)]
)
model.compile("sgd", "mse")
model.save(os.path.join(OUT, "model.keras"))
model.save_weights(os.path.join(OUT, "model.weights.h5"))
with zipfile.ZipFile(os.path.join(OUT, "model.keras"), "a") as z:
    z.writestr(zipfile.ZipInfo("assets/words/vocabulary.txt"), "the\na\n")
