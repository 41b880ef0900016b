# SPDX-License-Identifier: Apache-2.0
"""on_terminal.py COMMAND...: runs COMMAND with a pseudo-terminal as stderr and prints what came
there, one rewrite a line.
"""

import os
import pty
import subprocess
import sys

master, slave = pty.openpty()
p = subprocess.Popen(
    sys.argv[1:], stdout=subprocess.DEVNULL, stderr=slave, env=dict(os.environ, TERM="xterm")
)
os.close(slave)
seen = b""
while True:
    try:
        chunk = os.read(master, 65536)
    except OSError:
        break
    if not chunk:
        break
    seen += chunk
p.wait()
print(seen.decode("utf-8", "replace").replace("\x1b[K", "").replace("\r", "\n"))
