# SPDX-License-Identifier: Apache-2.0
"""Says whether TensorFlow takes oneDNN's kernels. An argument: what the job itself asks for
first.
"""

import os
import sys

if len(sys.argv) > 1:
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = sys.argv[1]

import tensorflow  # noqa: E402, F401
from tensorflow.python.util import _pywrap_util_port as port  # noqa: E402

print(port.IsMklEnabled())
