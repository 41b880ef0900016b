# SPDX-License-Identifier: Apache-2.0
"""The console script of the wheel: hands over to the executable that lies in the package."""

import os
import sys


def main():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_bin", "twinrun")
    try:
        os.execv(program, ["twinrun"] + sys.argv[1:])
    except OSError as error:
        sys.stderr.write(
            "twinrun: cannot start %s: %s. The package was not built whole; try `pip install --force-reinstall twinrun`.\n"
            % (program, error.strerror)
        )
        return 2


if __name__ == "__main__":
    sys.exit(main())
