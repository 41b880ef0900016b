# SPDX-License-Identifier: Apache-2.0
"""A clang that says at once which version it is, for the tests.

Each command that makes a run asks the compilers for their versions. `clang --version` loads all of
LLVM for that, 28 ms of a processor and a third of what a short run costs, and the tests make some
thousand runs. So the real one is asked once, and a script in front of it in PATH repeats its
answer. Whatever else is wanted of clang goes to the real one. Where there is no clang, there is no
script.
"""

import os
import shlex
import shutil
import subprocess


def put_in_front(folder, path=None):
    """PATH (path; None: the caller's) with the folder, which is made, in front."""
    path = os.environ.get("PATH", os.defpath) if path is None else path
    real = shutil.which("clang", path=path)
    if real is None:
        return path
    asked = subprocess.run([real, "--version"], capture_output=True, text=True)
    if asked.returncode != 0:
        return path
    os.makedirs(folder)
    script = os.path.join(folder, "clang")
    with open(script, "w") as f:
        f.write(
            "#!/bin/sh\n"
            f'[ "$*" = --version ] || exec {shlex.quote(real)} "$@"\n'
            f"printf %s {shlex.quote(asked.stdout)}\n"
        )
    os.chmod(script, 0o755)
    return str(folder) + os.pathsep + path
