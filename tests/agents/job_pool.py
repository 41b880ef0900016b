# SPDX-License-Identifier: Apache-2.0
"""What several tests need and nobody changes is made once for all workers of pytest: results of
functions (`once`) and folders of recorded runs (`pooled`).

Both lie in the folder TWINRUN_TEST_SHARED, which pytest_configure (conftest.py) makes before the
workers start, and which goes when they have ended. Who needs a thing that another worker is making
waits for it at the thing's lock. Where there is no such folder (a file of tests run without that
conftest, a campaign) each process has one of its own.
"""

import atexit
import fcntl
import functools
import hashlib
import inspect
import os
import pickle
import shutil
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("TWINRUN_BUILD", HERE.parents[1] / "build")).resolve()


@functools.lru_cache(maxsize=None)
def _own_folder():
    folder = tempfile.mkdtemp(prefix="twinrun-pool-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _place(*key):
    """The path of what has this key."""
    name = hashlib.sha256(repr(key).encode()).hexdigest()
    return Path(os.environ.get("TWINRUN_TEST_SHARED") or _own_folder()) / name


def once(function):
    """Equal calls of the function are made once by all workers together; its results must be such
    that pickle takes them. A call that raises is made again by whoever comes next. Whether an
    argument is given by its name, by its place or by default makes no other call of it.
    """
    signature = inspect.signature(function)

    @functools.lru_cache(maxsize=None)
    def made(arguments):
        with open(_place(function.__name__, arguments), "a+b") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            if os.fstat(f.fileno()).st_size == 0:  # a call that raised leaves it so
                pickle.dump(function(**dict(arguments)), f)
            f.seek(0)
            return pickle.load(f)

    @functools.wraps(function)
    def call(*args, **kwargs):
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        return made(tuple(given.arguments.items()))

    return call


# For the text of a job: TURN is the number of its start, from 0. It is kept where twinrun does not
# look, in the time of a file that is never written, so that the runs of a job can differ in a way
# that was drawn once and is the same in each test. Starts beside each other have different numbers.
COUNTS_ITS_STARTS = """
import fcntl, os
with open(%r) as counter:
    fcntl.flock(counter, fcntl.LOCK_EX)
    TURN = int(os.fstat(counter.fileno()).st_mtime)
    os.utime(counter.fileno(), (TURN + 1, TURN + 1))
"""


def counts_its_starts(path):
    """That text, for a counter at this path, which starts anew."""
    path.touch()
    os.utime(path, (0, 0))
    return COUNTS_ITS_STARTS % str(path)


def build_id():
    """Tells one build of twinrun from the next: recordings by another one are not taken."""
    parts = [BUILD / "cmd" / "twinrun", BUILD / "agents" / "libtwinrun.so"]
    return [(str(part), part.stat().st_mtime_ns, part.stat().st_size) for part in parts]


def _state(folder):
    """What tells that somebody wrote to the folder: names, sizes and times of its files."""
    return sorted(
        (str(path.relative_to(folder)), about.st_size, about.st_mtime_ns)
        for path in folder.rglob("*")
        if not path.is_dir()
        for about in (path.lstat(),)
    )


def pooled(key, make):
    """What make(folder) returns, with the folder that it filled. key: all that decides about the
    content, as a value with a repr: the job's text, its command, options and environment. The build
    is added here.

    The folder is for reading. A test that changes a run copies it first; who writes to it all the
    same is found out by the next one who asks for it.
    """
    place = _place("pooled", key, build_id())
    with open(str(place) + ".lock", "a+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = place / "made"
        if not done.exists():
            shutil.rmtree(place, ignore_errors=True)  # of a call that raised
            (place / "folder").mkdir(parents=True)
            result = make(place / "folder")
            done.write_bytes(pickle.dumps((result, _state(place / "folder"))))
        result, state = pickle.loads(done.read_bytes())
    now = _state(place / "folder")
    assert now == state, "a test wrote to what it shares with others: %s" % sorted(
        set(now) ^ set(state)
    )
    return result
