# SPDX-License-Identifier: Apache-2.0
"""The Python of 3.12 or later, with NumPy, in which functions of scripts are watched: its path, and
the marks of test files that need it.
"""

import os

import pytest
from native import LIBRARY

PYTHON = os.environ.get("TWINRUN_NEWER_PYTHON", "")
MARKS = [
    pytest.mark.usefixtures("python"),
    pytest.mark.skipif(not os.path.exists(LIBRARY), reason=f"not built: {LIBRARY}"),
    pytest.mark.skipif(
        not os.path.exists(PYTHON), reason="TWINRUN_NEWER_PYTHON: no Python 3.12 with NumPy"
    ),
]
