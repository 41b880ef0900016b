# SPDX-License-Identifier: Apache-2.0
"""Children in each way that subprocess and os have, and what they inherit."""

import os
import subprocess
import sys

sys.path.append(os.environ["CORPUS"])
import seen

child = [
    sys.executable,
    "-c",
    "import sys; sys.path.append(%r); import seen; seen.look(sys.argv[1]); print('child', sys.argv[1]); sys.exit(5)"
    % os.environ["CORPUS"],
]
print(subprocess.run(child + ["plain"]).returncode, flush=True)
print(subprocess.run(child + ["captured"], capture_output=True, text=True))
with open("kept", "w") as kept:
    print(
        subprocess.run(
            child + ["passed"], pass_fds=[kept.fileno()], stdin=subprocess.PIPE
        ).returncode,
        flush=True,
    )
print(subprocess.run("echo $0; exit 4", shell=True, start_new_session=True).returncode, flush=True)
print(subprocess.run(child + ["bare"], env={"PATH": os.environ["PATH"]}).returncode, flush=True)
with os.popen("echo popen") as opened:
    print(os.system("exit 6") >> 8, opened.read().strip(), flush=True)
print(
    os.waitstatus_to_exitcode(
        os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", "kill -9 $$"], os.environ), 0)[1]
    )
)
pid = os.fork()
if not pid:
    seen.look("forked")
    os._exit(7)
print(os.waitpid(pid, 0)[1] >> 8)
try:
    subprocess.run(["no-such-program"])
except FileNotFoundError as e:
    print(e)
sys.stdout.flush()
os.execv(sys.executable, [sys.executable, *child[1:], "executed"])
