#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the checkpoint of TensorFlow in the folder tensorflow beside this file. What is in it:
tests/agents/test_tensorflow_files.py.

    make_tensorflow.py [FOLDER]
"""

import os
import sys

import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "tensorflow")
TYPES = "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool".split()

os.makedirs(OUT, exist_ok=True)
values = {t: tf.Variable(tf.cast(tf.reshape(tf.range(6), (2, 3)), t)) for t in TYPES}
values["bfloat16"] = tf.Variable(tf.cast(tf.range(4), "bfloat16"))
values["scalar"] = tf.Variable(0.5)
values["empty"] = tf.Variable(tf.zeros((0, 3)))
values["text"] = tf.Variable("a text")
values["texts"] = tf.Variable(["one", "three"])
# enough names for several blocks of the index
many = {"layer%03d" % i: tf.Variable(tf.ones((1,)) * i) for i in range(120)}
tf.train.Checkpoint(many=many, **values).write(os.path.join(OUT, "ckpt"))
