# SPDX-License-Identifier: Apache-2.0
"""DataLoaders: batches with their sample indices, in the order in which the job gets them; what
loading draws.
"""

import functools
from array import array
from collections import deque

from . import core, faults, handed, naming, nested, refs, rng, steps, tensors, transplant
from .core import S, T, hook, trim
from .native import BATCH, DATA, I64, INDICES, SKETCH, STATS, TENSORS

_iterators = refs.ByObject()  # iterator -> Feed


class Feed:
    """One iteration over a loader."""

    def __init__(self, label, dataset, sampler, ordered):
        self.label, self.dataset, self.sampler, self.ordered = label, dataset, sampler, ordered
        self.indices = deque()  # asked for, not yet delivered


def _sampler_name(loader):
    sampler = getattr(loader, "sampler", None)
    batches = getattr(loader, "batch_sampler", None)
    return type(
        sampler if type(batches).__name__ == "BatchSampler" or batches is None else batches
    ).__name__


# ---------------------------------------------------------------- hooks


@hook
def _constructed(loader):
    naming.loader_labels.of(loader)


@hook
def _before_iter(loader):
    if not core.begin():
        return None
    steps.boundary()
    rng.adopt(getattr(loader, "generator", None))
    rng.adopt(getattr(getattr(loader, "sampler", None), "generator", None))
    rng.check("user code")
    again = (
        _iterators.get(loader._iterator) if getattr(loader, "_iterator", None) is not None else None
    )
    if again is not None:
        again.indices.clear()  # persistent workers: the same iterator once more
    T.loader = refs.to(loader)
    return True


def _feed(iterator):
    """The Feed of an iterator; made at the first look, which may be while the loader's __iter__
    still runs (workers are given their first indices there).
    """
    feed = _iterators.get(iterator)
    loader = T.loader() if feed is None and T.loader is not None else None
    if loader is not None:
        feed = Feed(
            naming.loader_labels.of(loader),
            type(loader.dataset).__name__,
            _sampler_name(loader),
            getattr(loader, "in_order", True),
        )
        _iterators.put(iterator, feed)
    return feed


@hook
def _after_iter(_loader, iterator):
    rng.check("DataLoader.__iter__")
    if iterator is not None:
        _feed(iterator)
    T.loader = None


@hook
def _before_next(iterator):
    steps.boundary()
    rng.check("user code")
    return True


@hook
def _after_index(iterator, indices):
    feed = _feed(iterator)
    if feed is not None:
        rng.check(feed.sampler)
        feed.indices.append(indices)
    else:
        rng.check("sampler")


@hook
def _after_next(iterator, data):
    feed = _iterators.get(iterator)
    label, dataset = (feed.label, feed.dataset) if feed is not None else ("DataLoader", "")
    rng.check(dataset or "DataLoader")
    pending = tensors.pending()
    if feed is not None and feed.indices:
        indices = feed.indices.popleft()
        if S.level >= TENSORS and feed.ordered:
            record_indices(pending, indices, label, feed.sampler)
    found, values = [], []
    nested.walk(data, "batch", found, values)
    for name, value in found:
        nested.add_any(pending, DATA, BATCH, name, value, label, dataset)
    if values:
        pending.add_bytes(
            core.series(DATA, BATCH, "batch, plain values", label, dataset),
            nested.plain_bytes(values),
        )
    pending.flush()
    core.saw("batch")
    given = transplant.delivered(data)
    if given is not None:
        del found[:]
        nested.walk(given[0], "batch", found)
    handed.delivered(found)
    return given


def record_indices(pending, indices, label, sampler):
    """Sample indices as one record: a list of integers as such, anything else by its
    plain values.
    """
    if isinstance(indices, int):
        indices = [indices]
    if not isinstance(indices, (list, tuple)) or all(i is None for i in indices):
        return  # an iterable dataset has none
    number = core.series(DATA, INDICES, "sample indices", label, sampler)
    try:
        numbers = array("q", indices)
    except (TypeError, OverflowError) as error:
        faults.pass_on(error)
        found, values = [], []
        nested.walk(indices, "sample indices", found, values)
        for name, value in found:
            nested.add_any(pending, DATA, INDICES, name, value, label, sampler)
        pending.add_bytes(number, nested.plain_bytes(values))
        return
    pending.keep.append(numbers)
    pending.put(
        number, numbers.buffer_info()[0], I64, len(numbers), (len(numbers),), None, STATS | SKETCH
    )


# ---------------------------------------------------------------- setting up


def _wrap(original, before, after):
    """`original` between two hooks; an exception passes without a frame of ours. What `after`
    returns as a tuple of one takes the result's place.
    """

    def wrapped(self, *args, **kwargs):
        going = S.on and before(self)
        try:
            result = original(self, *args, **kwargs)
        except BaseException as error:
            trim(error)
            raise
        given = after(self, result) if going else None
        return result if given is None else given[0]

    functools.update_wrapper(wrapped, original)
    return wrapped


def _always(_self):
    return S.on and not T.busy


def arm(torch):
    module = torch.utils.data.dataloader
    replaced = []
    loader, base = module.DataLoader, module._BaseDataLoaderIter

    def __new__(cls, *args, **kwargs):
        self = object.__new__(cls)
        _constructed(self)
        return self

    if loader.__new__ is object.__new__:
        loader.__new__ = staticmethod(__new__)
    loader.__iter__ = _wrap(loader.__iter__, _before_iter, _after_iter)
    base._next_index = _wrap(base._next_index, _always, _after_index)
    replaced += [__new__, loader.__iter__, base._next_index]
    for name in dir(module):
        cls = getattr(module, name)
        if (
            isinstance(cls, type)
            and issubclass(cls, base)
            and cls is not base
            and "_next_data" in cls.__dict__
        ):
            cls._next_data = _wrap(cls._next_data, _before_next, _after_next)
            replaced.append(cls._next_data)
    S.armed.append("data loaders")
    return replaced
