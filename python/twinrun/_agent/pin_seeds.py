# SPDX-License-Identifier: Apache-2.0
"""seed.*: global generators start from a known seed, and so do generators that the job makes
without one.

A job that seeds itself is left alone and reported. The functions named `seed` give, called without
a seed, the next of a seeded stream where they would ask the system for entropy.
"""

import functools
import os
import sys

from . import pins

_again = {}  # id -> function that seeds the global generator for the process that this is


def _seed(pin, again, text):
    _again[pin.name] = again
    again()
    pin.applied = os.getpid()
    pin.effect(text % pin.base())


def child():
    """A process of multiprocessing begins its work: generators that were seeded here, before its
    number was known, are seeded once more; a state inherited by fork is the parent's and stays as
    it is without us.
    """
    for name, again in _again.items():
        pin = pins.pins[name]
        if not pin.by_job and (pin.applied == os.getpid() or name == "seed.python"):
            again()


def _reports(pin, original, fresh=None):
    """`original(seed)`, reported as the job's own; without a seed `fresh()` instead, where there is
    one.
    """

    def seed(*args, **named):
        caller = sys._getframe(1)
        try:
            if (
                fresh is not None
                and (args[0] if args else next(iter(named.values()), None)) is None
            ):
                return fresh()
            result = original(*args, **named)
        except BaseException as error:
            pins.hide(error)
            raise
        if not pins.by_worker(caller):
            pin.overridden(caller)
        return result

    return functools.update_wrapper(seed, original)


def python(pin, random):
    """`random`. Its state is drawn anew in every forked child; ours follows after that."""
    original = random.seed
    random.seed = _reports(pin, original, lambda: original(pin.stream()))

    def in_child():
        pin.by_job = False
        original(pin.base())

    os.register_at_fork(after_in_child=in_child)
    _seed(pin, lambda: original(pin.base()), "random starts from seed %d")


def numpy(pin, random):
    """`numpy.random`: the global generator, and the entropy of every SeedSequence that is given
    none: default_rng(), RandomState(), PCG64() and others.
    """
    module = sys.modules["numpy.random.bit_generator"]
    if not hasattr(module, "randbits"):
        raise RuntimeError("this NumPy takes entropy from elsewhere than randbits")

    def randbits(bits):
        value = 0
        for at in range(0, bits, 32):
            value |= pin.stream(32) << at
        return value

    module.randbits = randbits
    original = random.seed

    def again():
        original(pin.base(32) & 0xFFFFFFFF)

    random.seed = _reports(pin, original, original)
    _seed(
        pin,
        again,
        "numpy.random starts from seed %d, generators without a seed from a seeded stream",
    )


def torch(pin, torch):
    """torch's default generator. `torch.Generator()` needs nothing: torch starts each from the
    fixed seed 67280421310721.
    """
    room = torch.random
    original = room.manual_seed
    default = torch.default_generator

    def fresh():
        value = pin.stream()
        original(value)
        return value

    room.manual_seed = _reports(pin, original)
    room.seed = functools.update_wrapper(lambda: fresh(), room.seed)
    torch.manual_seed, torch.seed = room.manual_seed, room.seed
    _seed(pin, lambda: default.manual_seed(pin.base()), "torch starts from seed %d")
    pins.hide_from_compiler([room.manual_seed, room.seed])


def cuda(pin, torch):
    """Every CUDA device's generator. The calls wait in torch's own queue until the job first uses
    CUDA.
    """
    if torch.version.cuda is None and getattr(torch.version, "hip", None) is None:
        pin.effect("CUDA generators", unused="no CUDA in this build of torch")
        return
    room, functions = torch.cuda.random, []
    every = room.manual_seed_all
    for name in ("manual_seed", "manual_seed_all"):
        functions.append(_reports(pin, getattr(room, name)))
    for name in ("seed", "seed_all"):
        functions.append(functools.update_wrapper(lambda: every(pin.stream()), getattr(room, name)))
    for function in functions:
        setattr(room, function.__name__, function)
        setattr(torch.cuda, function.__name__, function)
    _seed(pin, lambda: every(pin.base()), "CUDA generators start from seed %d")
    pins.hide_from_compiler(functions)


def tensorflow(pin, _tensorflow):
    """The generator from which each operation without a seed of its own gets one. Keras has none of
    its own: where nobody seeds it, it asks Python's and NumPy's. `tf.random.set_seed` comes here by
    way of this function, and so do those of Keras and of TensorFlow 1.
    """
    room = sys.modules["tensorflow.python.eager.context"]
    original = room.set_global_seed
    room.set_global_seed = _reports(pin, original)
    _seed(pin, lambda: original(pin.base()), "tensorflow starts from seed %d")
