# SPDX-License-Identifier: Apache-2.0
"""Weak references to the job's objects that the job does not find.

`torch.utils.swap_tensors` and with it `Module.to()` refuse a tensor that somebody refers to weakly.
So all references of the agent are of a class of its own, and `getweakrefs` and `getweakrefcount`
leave that class out. A subclass is also never the reference that `weakref.ref(t)` gives to the job.

What follows the end of an object is not done while it is being freed, where an exception of the
job's signal handlers would be lost, but by `sweep()`, at the next hook.
"""

import functools
import _weakref
import sys
import weakref
from collections import deque

gone = deque()  # references whose object is no more, and of which something is still to be done


class Ref(weakref.ref):
    """A weak reference of ours."""

    __slots__ = ("then",)


def to(thing, then=None):
    """A weak reference. `then(reference)` is called by sweep() once the thing is gone, as long as
    the reference is kept.
    """
    if then is None:
        return Ref(thing)
    reference = Ref(thing, gone.append)
    reference.then = then
    return reference


def sweep():
    """Does what is to be done about the objects that have gone since the last call."""
    while gone:
        try:
            reference = gone.popleft()
        except IndexError:
            return  # another thread was faster
        then = reference.then
        del reference.then  # it may refer to who holds the reference
        then(reference)


class ByObject:
    """What we know of objects that may go at any time: a dictionary by identity."""

    def __init__(self):
        self.held = {}  # id -> (weak reference, value)

    def get(self, thing):
        found = self.held.get(id(thing))
        return found[1] if found is not None and found[0]() is thing else None

    def put(self, thing, value):
        key = id(thing)

        def forget(reference):
            if key in self.held and self.held[key][0] is reference:
                del self.held[key]

        self.held[key] = (to(thing, forget), value)


class AtOnce(ByObject):
    """The same where nobody calls sweep(): what goes is forgotten while it is freed, by C alone, into
    which no signal handler comes.
    """

    def put(self, thing, value):
        key = id(thing)
        self.held[key] = (Ref(thing, functools.partial(self.held.pop, key)), value)

    def several(self, things):
        """Their values. What is held is of living things, so there is no need to compare each."""
        found = map(self.held.get, map(id, things))
        return [None if one is None else one[1] for one in found]


# ---------------------------------------------------------------- what the job finds

_references = _weakref.getweakrefs


def getweakrefs(object, /):
    return [reference for reference in _references(object) if type(reference) is not Ref]


def getweakrefcount(object, /):
    return len(getweakrefs(object))


def hide():
    """Leaves our references out of what the job, or torch, is told; also where the functions were
    imported by name.
    """
    originals = {name: getattr(_weakref, name) for name in ("getweakrefs", "getweakrefcount")}
    for ours in (getweakrefs, getweakrefcount):
        ours.__module__, ours.__doc__ = "_weakref", originals[ours.__name__].__doc__
    for module in [_weakref, *sys.modules.values()]:
        names = getattr(module, "__dict__", None)
        for name, original in originals.items() if type(names) is dict else ():
            if names.get(name) is original:
                names[name] = globals()[name]
