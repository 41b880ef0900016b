# SPDX-License-Identifier: Apache-2.0
"""tensor-hash: tensors and modules hash by the order in which they are first hashed, not by their
addresses.

A set of them, and whatever is made by walking over one, then has the same order in every run.
Addresses themselves would take the address layout, the hash salt and every allocation before to
hold still. The numbers stand outside of the objects, so that nothing about them changes: no
attribute, nothing that is pickled.
"""

import functools
import itertools
import sys

from . import pins, refs


def by(torch, hash_of):
    """Tensor's and Module's hash is hash_of(object, frame that asked) from now on. Equal objects
    are one object to both classes, and hash_of gives different objects different hashes, so no set
    or dict takes one for another.
    """
    for cls in (torch.Tensor, torch.nn.Module):

        def __hash__(self):
            return hash_of(self, sys._getframe(1))

        cls.__hash__ = functools.update_wrapper(__hash__, cls.__hash__)
        pins.hide_from_compiler([__hash__])


class Numbers:
    """A number for each object, in the order in which they ask, kept as long as the
    object lives.
    """

    def __init__(self):
        self.held, self.counter = {}, itertools.count(1)  # address -> (weak reference, number)

    def of(self, thing):
        if refs.gone:
            refs.sweep()
        place = id(thing)
        entry = self.held.get(place)
        if entry is None or entry[0]() is not thing:
            # A later object at this place has made an entry of its own: that one stays.
            def gone(reference, held=self.held):
                if place in held and held[place][0] is reference:
                    del held[place]

            entry = self.held[place] = (refs.to(thing, gone), next(self.counter))
        return entry[1]


def torch(pin, torch):
    refs.hide()
    numbers = Numbers()
    if pin.vary:
        by(torch, lambda thing, _frame: pins.mix(pin.value, "hash", numbers.of(thing)) >> 3)
    else:
        by(torch, lambda thing, _frame: numbers.of(thing))
    pin.effect(
        "hashes of tensors and modules %s"
        % ("drawn by seed %d" % pin.value if pin.vary else "in the order of their first use")
    )
