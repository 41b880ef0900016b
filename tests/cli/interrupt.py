# SPDX-License-Identifier: Apache-2.0
"""interrupt.py FILE COMMAND...: starts COMMAND in a session of its own, sends SIGINT to its process
group (as a terminal's Ctrl-C does) half a second after FILE has appeared (FILE+: and holds
something), and prints its exit code. A shell's `&` would have SIGINT ignored.
"""

import glob
import os
import signal
import subprocess
import sys
import time


def main():
    pattern, command = sys.argv[1], sys.argv[2:]
    p = subprocess.Popen(
        command,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 200
    there = (lambda name: os.path.getsize(name) > 0) if pattern.endswith("+") else os.path.exists
    while (
        not any(map(there, glob.glob(pattern.rstrip("+"))))
        and p.poll() is None
        and time.monotonic() < deadline
    ):
        time.sleep(0.05)
    time.sleep(0.5)
    os.killpg(p.pid, signal.SIGINT)
    code = p.wait(200)
    print("exit", code if code >= 0 else "by signal %d" % -code, flush=True)
    try:
        for _ in range(500):  # what was killed with it may need a moment to be gone
            os.killpg(p.pid, 0)
            time.sleep(0.1)
        print("something of it still lives")
    except ProcessLookupError:
        pass


main()
