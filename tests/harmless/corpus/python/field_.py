# SPDX-License-Identifier: Apache-2.0
"""Small jobs of the kinds that users brought: field_.py KIND. They show values and print what
trainers print.
"""

import array
import json
import logging
import os
import random
import struct
import subprocess
import sys
import threading

sys.path.append(os.environ["CORPUS"])
sys.path.append(os.path.join(os.environ["SOURCE"], "python"))
import seen
import twinrun


def show(name, *values):
    twinrun.record(name, array.array("d", values))


def steps(count, extra=0.0):
    for s in range(count):
        show("batch:x", 1.0, 2.0, s)
        show("weight:w", 0.5 * s + extra)
        twinrun.step()


def meters():
    """The lines of common trainers: in times of day, durations and rates, all of them constants
    here.
    """
    steps(3)
    for i in range(50):
        print("Epoch: [0][%4d/5005]\tTime 0.123 ( 0.124)\tLoss %.1e (7.0e+00)" % (i, 6.9 - i / 100))
        print("iter %d: loss %.4f, time 12.50ms, mfu 3.10%%" % (i, 4.2 - i / 50), file=sys.stderr)
    logging.basicConfig(format="%(levelname)s:%(name)s: %(message)s", level=logging.INFO)
    logging.info("eta: 0:00:10  img/s: 410.2  loss: 2.3 (2.4)")
    sys.stdout.write("\r 10%|#         | 1/10\r100%|##########| 10/10\n")


def files():
    steps(2)
    os.makedirs("lightning_logs/version_0")
    for name, content in (
        ("metrics.json", json.dumps({"accuracy": 0.91, "epoch": 3}).encode()),
        ("pred.csv", b"id,class\n1,cat\n2,dog\n"),
        ("model.pt", bytes(range(256)) * 40),
        (
            "lightning_logs/version_0/values.npy",
            b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + b" " * 118,
        ),
        ("lightning_logs/hparams.yaml", b"lr: 0.1\n"),
    ):
        with open(name, "wb") as f:
            f.write(content)
    with twinrun.atomic_write("whole.bin") as f:
        f.write(b"whole")
    os.rename("pred.csv", "predictions.csv")
    os.symlink("metrics.json", "latest.json")


def resumed():
    for first, last in ((0, 10), (10, 12)):
        show("init:w", first)
        steps(last - first, first)
    print("resumed at 10")


CHILD = """
import array, os, sys
sys.path.append(os.path.join(os.environ["SOURCE"], "python"))
import twinrun
rank = int(os.environ["RANK"])
for s in range(4):
    twinrun.record("batch:x", array.array("d", [s + 10 * rank]))
    if rank != 1 or s < 3:
        twinrun.step()
print("rank", rank, "of", os.environ["WORLD_SIZE"])
sys.exit(rank)
"""


def ranks():
    for rank in range(3):
        env = dict(os.environ, RANK=str(rank), WORLD_SIZE="3", LOCAL_RANK=str(rank))
        print(subprocess.run([sys.executable, "-c", CHILD], env=env).returncode, flush=True)


def children():
    steps(3)
    for k in range(3):
        pid = os.fork()
        if pid == 0:
            steps(5 + k)
            if k == 1:
                os.kill(os.getpid(), 9)
            os._exit(k)
        print(os.waitpid(pid, 0)[1], flush=True)


def unreadable():
    """What cannot be recorded, and objects that defend themselves."""

    class Spiteful:
        def __getattr__(self, name):
            raise RuntimeError("asked for " + name)

        def __array__(self, *a):
            raise MemoryError

        __len__ = __iter__ = __float__ = __array__

    for value in (
        None,
        [1, 2],
        "text",
        object(),
        {},
        1j,
        Spiteful(),
        memoryview(b"abc")[::-2],
        lambda: 0,
    ):
        twinrun.record("weight:w", value)
    for name in (None, 3, "", "x" * 70000, "\udcff", "a\0b", "weight:\u202e"):
        twinrun.record(name, array.array("d", [1]))
    twinrun.step()


def threads():
    def work(k):
        rng = random.Random(k)
        with twinrun.scope("thread %d" % k):
            for _ in range(200):
                show("value", rng.random())

    several = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in several:
        t.start()
    for t in several:
        t.join()
    twinrun.step()


def many():
    for i in range(20000):
        show("name %d" % i, i)
    twinrun.step()


def shadowed():
    """Files beside the job that have the names of modules: the watcher's own imports must not see
    them.
    """
    for name in (
        "json",
        "ctypes",
        "weakref",
        "hashlib",
        "torch",
        "numpy",
        "struct",
        "sysconfig",
        "atexit",
    ):
        with open(name + ".py", "w") as f:
            f.write("print('the job\\'s own %s')\n" % name)
    code = (
        "import sys; sys.path.append(sys.argv[1]); import array, twinrun; "
        "twinrun.record('weight:w', array.array('d', [1])); twinrun.step(); "
        "import ctypes, sysconfig; print('done', hasattr(ctypes, 'CDLL'))"
    )
    source = os.path.join(os.environ["SOURCE"], "python")
    for options in ([], ["-I"], ["-S"]):
        print(subprocess.run([sys.executable, *options, "-c", code, source]).returncode, flush=True)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [os.environ.get("PYTHONPATH"), os.getcwd()])
    )
    print(subprocess.run([sys.executable, "-c", code, source]).returncode, flush=True)


globals()[sys.argv[1]]()
print(sys.argv[1], "done", random.Random(1).random())
seen.look("end")
