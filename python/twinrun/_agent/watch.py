# SPDX-License-Identifier: Apache-2.0
"""`TWINRUN_WATCH`: which sources of variation the Python half could hold still this process has met
while none is held.

One line `watch.python` in the run folder's `factors` when a process ends, so that a search leaves
out what cannot be the cause: the state of the global generators (`unused`: nobody drew from it or
seeded it), the hash salt, what the job has made of executors, DataLoaders, torch.distributed,
DistributedDataParallel and inductor, and whether it has hashed tensors or modules.
src/isolate/watch.c reads it.
"""

import functools
import os
import sys

from . import finder, pins

_start = {}  # name of a generator -> its state when its library had been imported
_used = set()  # "executor", "loader", "ddp", "ranks", "inductor", "hashes"
_told = None  # pid that has written its line


def _digest(state):
    import zlib  # a hash of _hashlib would load OpenSSL into the job

    return "%08x%08x" % (zlib.crc32(state), zlib.adler32(state))


def _python(random):
    return _digest(repr(random.getstate()).encode())


def _numpy(random):
    kind, keys, *rest = random.get_state()
    return _digest(keys.tobytes() + repr((kind, rest)).encode())


def _torch(torch):
    return _digest(
        bytes(torch.get_rng_state().numpy())
        if "numpy" in sys.modules
        else repr(torch.get_rng_state().tolist()).encode()
    )


USES = (
    ("executor", "concurrent.futures._base", "Future", "__init__"),
    ("executor", "multiprocessing.pool", "Pool", "imap_unordered"),
    ("executor", "asyncio.tasks", "as_completed"),
    ("ddp", "torch.nn.parallel.distributed", "DistributedDataParallel", "__init__"),
    ("ranks", "torch.distributed.distributed_c10d", "init_process_group"),
)
GENERATORS = {
    "random": ("random", _python),
    "numpy": ("numpy.random", _numpy),
    "torch": ("torch", _torch),
}


def salt():
    """Whether the interpreter took PYTHONHASHSEED: `-E` and `-I` leave it alone, `-R` draws anyway."""
    value = os.environ.get("PYTHONHASHSEED", "random")
    taken = value.isdigit() and not sys.flags.ignore_environment
    # of seeds, the flag tells 0 alone from a draw
    drawn = taken and int(value) == 0 and sys.flags.hash_randomization
    return "fixed" if taken and not drawn else "random"


def tell_salt():
    """The variable may have arrived and still hold nothing."""
    held = os.environ.get("TWINRUN_HELD", "").split(",")
    if "PYTHONHASHSEED" in held and salt() == "random":
        why = "failed: Python was started with -E, -I or -R: it ignores PYTHONHASHSEED"
        pins.write([("hash-seed", why)])


def report():
    """Writes the line; again in a process that goes on after it, since the later one counts."""
    global _told
    try:
        _told = os.getpid()
        words = ["hash=" + salt()]
        for name, (module, read) in GENERATORS.items():
            if name in _start:
                now = read(sys.modules[module])
                words.append("%s=%s" % (name, "unused" if now == _start[name] else now))
        if "torch._inductor.compile_fx" in sys.modules:
            _used.add("inductor")
        pins.write([("python", " ".join(words + sorted(_used)))], "watch.")
    except Exception:
        pass  # no line: the search takes everything as used


def _remember(name):
    module, read = GENERATORS[name]

    def remember():
        try:
            _start[name] = read(sys.modules[module])
        except Exception:
            pass

    def first():
        remember()
        if name == "random":
            # it is seeded anew there, just before this
            os.register_at_fork(after_in_child=remember)

    return first


def _notes_use(word, module, *path):
    """A call of what module.path names is a use of `word`."""
    owner = functools.reduce(getattr, path[:-1], sys.modules[module])
    name = path[-1]
    original = getattr(owner, name)

    def noted(*args, **named):
        _used.add(word)
        try:
            return original(*args, **named)
        except BaseException as error:
            pins.hide(error)
            raise

    setattr(owner, name, functools.update_wrapper(noted, original))


def _loader():
    def made(loader, _caller):
        if getattr(loader, "num_workers", 0):
            _used.add("loader")

    pins.after_init(sys.modules["torch.utils.data.dataloader"].DataLoader, made)


def _hashes():
    from . import pin_hash

    def noted(thing, frame):
        if "hashes" not in _used and pins.of_job(frame.f_code.co_filename):
            _used.add("hashes")
        return id(thing)

    pin_hash.by(sys.modules["torch"], noted)


def arm():
    pins.when_process_ends(lambda: report() if _told != os.getpid() else None)
    for name, (module, _read) in GENERATORS.items():
        finder.when_imported(module, _remember(name))
    for word, module, *path in USES:
        finder.when_imported(module, functools.partial(_notes_use, word, module, *path))
    finder.when_imported("torch.utils.data.dataloader", _loader)
    finder.when_imported("torch", _hashes)
