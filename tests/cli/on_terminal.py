# SPDX-License-Identifier: Apache-2.0
"""on_terminal.py [--answer] COMMAND...: runs COMMAND with a pseudo-terminal as stderr, or, with
--answer, as stdout, of 60 columns, and prints what came there; of stderr one rewrite a line.
"""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

answer = sys.argv[1] == "--answer"
master, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60 if answer else 0, 0, 0))
p = subprocess.Popen(
    sys.argv[1 + answer :],
    stdout=slave if answer else subprocess.DEVNULL,
    stderr=None if answer else slave,
    env=dict(os.environ, TERM="xterm"),
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
text = seen.decode("utf-8", "replace").replace("\x1b[K", "")
print(text.replace("\r\n", "\n") if answer else text.replace("\r", "\n"))
