# SPDX-License-Identifier: Apache-2.0
"""What the interpreter was started with: -I, -S, -E, -W error, -O, -X, -B, -u, -m."""

import os
import sys

sys.path.append(os.environ["CORPUS"])
import seen

print(sys.flags, sys.warnoptions, sorted(sys._xoptions))
print([p for p in sys.path if "twinrun" not in p])
print(
    "site" in sys.modules, "torch" in sys.modules, "ctypes" in sys.modules, "numpy" in sys.modules
)
print(
    __name__,
    __file__ and os.path.basename(__file__),
    sys.argv,
    __doc__ is None,
    seen.__doc__ is None,
)
print(sys.stdout.line_buffering, sys.stdout.encoding, sys.stdin is None)
seen.look("options")
