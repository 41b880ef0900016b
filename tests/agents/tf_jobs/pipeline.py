# SPDX-License-Identifier: Apache-2.0
"""A loop over an input pipeline that gives elements as they are done. The first of each 25 is late
or not, by chance: then it is done when 20 behind it have been asked for, which the pipeline does
only once it has given away those between. Where it keeps the order (`ordered`, op determinism) it would
wait for ever, and nobody waits there. `stuck`: an operation that has no deterministic form, too.
"""

import os
import sys
import threading

import tensorflow as tf
from tensorflow.python.framework import config  # what is asked has no public name

ALL, STRIDE, BEHIND = 1000, 25, 20
ordered = "ordered" in sys.argv or config.is_op_determinism_enabled()
drawn = int.from_bytes(os.urandom(ALL // STRIDE // 8), "little")
late = {STRIDE * i for i in range(ALL // STRIDE) if drawn >> i & 1 and not ordered}
asked = {i + BEHIND: threading.Event() for i in late}
# one thread waits, whatever the machine has
tf.config.threading.set_inter_op_parallelism_threads(4)
options = tf.data.Options()
options.threading.private_threadpool_size = 4


def read(i):
    i = int(i)
    if i in asked:
        asked[i].set()
    if i in late and not asked[i + BEHIND].wait(300):
        os._exit(9)  # no test waits for ever
    return float(i)


data = tf.data.Dataset.range(ALL).map(
    lambda i: tf.ensure_shape(tf.py_function(read, [i], tf.float32), ()),
    num_parallel_calls=2,
    deterministic="ordered" in sys.argv,
)
if "stuck" in sys.argv:
    tf.timestamp()
w = tf.Variable(1.0, name="w")
# with nothing between them `map` and `batch` become one operation, which has an order
for x in data.prefetch(8).batch(250).with_options(options):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((w * x / 1000.0 - 1.0) ** 2)
    w.assign_sub(0.1 * tape.gradient(loss, w))
