# SPDX-License-Identifier: Apache-2.0
"""Compiles one program, with a cache in the folder it is given. `own`: switches the cache on by
itself.
"""

import os
import sys

import jax

jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
if "own" in sys.argv:
    jax.config.update("jax_enable_compilation_cache", True)
print(jax.jit(lambda x: x @ x.T)(jax.numpy.ones((8, 8))).sum())
print(len(os.listdir(sys.argv[1])) > 0)
