# SPDX-License-Identifier: Apache-2.0
"""Draws from everything in Python that is unseeded, in the main process and in children of every
kind; one `name value` a line.
"""

import multiprocessing
import os
import random
import secrets
import subprocess
import sys
import tempfile
import threading
import uuid


def draw(_=0):
    return os.urandom(8).hex()


def say(name, value):
    print(name, value, flush=True)


def numpy_and_torch():
    try:
        import numpy

        say("numpy", numpy.random.rand())
        say("numpy.generator", numpy.random.default_rng().random())
    except ImportError:
        pass
    try:
        import torch

        say("torch.seed", torch.seed())
        say("torch.randn", torch.randn(1).item())
        say("torch.generator", torch.Generator().seed())
    except ImportError:
        pass


def main():
    say("urandom", draw())
    say("random", random.random())
    say("uuid4", uuid.uuid4())
    say("hash", hash("x"))
    say("secrets", secrets.token_hex(8))
    say("tempfile", next(tempfile._get_candidate_names()))
    if "--libraries" in sys.argv:
        numpy_and_torch()
    with open("/dev/urandom", "rb") as f:
        say("device", f.read(8).hex())
    drawn = [None] * 4
    threads = [threading.Thread(target=lambda i=i: drawn.__setitem__(i, draw())) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i, d in enumerate(drawn):
        say(f"thread{i}", d)
    for i in range(2):
        if os.fork() == 0:
            say(f"fork{i}", draw())
            os._exit(0)
        os.wait()
    code = "import os; print(os.urandom(8).hex())"
    for i, environment in enumerate((None, dict(os.environ))):
        out = subprocess.run(
            [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, check=True
        ).stdout
        say(f"subprocess{i}", out.decode().strip())
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", code.replace("print(", "print('posix_spawn', ")],
        os.environ,
    )
    os.waitpid(pid, 0)
    for i in range(2):
        sys.stdout.flush()
        os.system(f"printf 'system{i} '; head -c 8 /dev/urandom | od -An -tx8")
    for i in range(2):
        say(f"popen{i}", os.popen("head -c 8 /dev/urandom | od -An -tx8").read().strip())
    for method in ("spawn", "forkserver", "fork"):
        # one worker: which of several takes a task is a matter of scheduling
        with multiprocessing.get_context(method).Pool(1) as pool:
            say(method, pool.map(draw, range(2)))


if __name__ == "__main__":
    main()
