# SPDX-License-Identifier: Apache-2.0
"""Prints how many threads TensorFlow has started, by their names: those of its pool between
operations, and others, among which are those of its pool within operations.
"""

import os

import tensorflow as tf


def threads():
    return {
        t: open(f"/proc/self/task/{t}/comm").read().strip() for t in os.listdir("/proc/self/task")
    }


before = threads()  # NumPy's are there already
tf.data.Dataset.range(4).map(lambda i: i + 1, num_parallel_calls=2).reduce(
    tf.constant(0, tf.int64), lambda a, b: a + b
)
made = [name for task, name in threads().items() if task not in before]
print(made.count("tf_Compute"), len(made) - made.count("tf_Compute"))
