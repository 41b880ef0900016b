# SPDX-License-Identifier: Apache-2.0
"""What stands in front of the functions by which executors and loaders tell of results: each tells
results_order.py which it was, and in a replay asks it which is to be next.

None of them keeps a result, or a future, longer than the original does.
"""

import functools
import struct
import sys
import time
from collections import OrderedDict

from . import faults, pins, refs, results_order
from .results_file import AS_COMPLETED, LOADER, NONE, POOL, WAIT, crc
from .results_order import TICK


def _guarded(function, *args):
    """None where we fail."""
    try:
        return function(*args)
    except Exception as error:
        faults.pass_on(error)
        return None


# ---------------------------------------------------------------- concurrent.futures


class Ordered(set):
    """A set whose iteration follows an order that is given: a plain one follows addresses."""

    __slots__ = ("order",)

    def __init__(self, order):
        super().__init__(order)
        self.order = dict.fromkeys(order)

    def __iter__(self):
        known = getattr(self, "order", {})
        for gone in [item for item in known if item not in self]:
            del known[gone]  # not held longer than by a plain one
        return iter([*known, *(item for item in super().__iter__() if item not in known)])

    def remove(self, item):
        super().remove(item)
        getattr(self, "order", {}).pop(item, None)

    def discard(self, item):
        super().discard(item)
        getattr(self, "order", {}).pop(item, None)

    def pop(self):
        for item in getattr(self, "order", ()):
            if item in self:
                self.remove(item)
                return item
        return super().pop()


THREADS = 1 << 32  # a number is that of the creation, times this, and that of the thread


class Futures:
    """The number of each Future by its creation, which submit() does in the caller's thread, and
    that thread: the numbers of several threads are others in each run.
    """

    def __init__(self, base):
        import itertools

        refs.hide()
        self.numbers, self.counter = refs.AtOnce(), itertools.count()
        original = base.Future.__init__

        def number():
            return next(self.counter) * THREADS + results_order.thread_number()

        def __init__(future, *args, **named):
            try:
                original(future, *args, **named)
            except BaseException as error:
                pins.hide(error)
                raise
            try:
                self.numbers.put(future, number())
            except Exception as error:
                faults.pass_on(error)  # it comes in the order given

        base.Future.__init__ = functools.update_wrapper(__init__, original)

    def line(self, futures):
        """(each once, by submission; has each the same place in every run?)"""
        futures = list(dict.fromkeys(futures))
        numbers = self.numbers.several(futures)
        known = len(futures) < 2 or (
            None not in numbers and len({number % THREADS for number in numbers}) == 1
        )
        numbers = [sys.maxsize * THREADS if number is None else number for number in numbers]
        return [futures[at] for at in sorted(range(len(futures)), key=numbers.__getitem__)], known


_futures = []


def futures_of(base):
    """The one count of this process."""
    if not _futures:
        _futures.append(Futures(base))
    return _futures[0]


SEVERAL_TIMES = {list, tuple, set, frozenset, dict}  # can be looked at so, and nobody sees it


def put_in_package(base, *names):
    package = sys.modules.get(base.__name__.rpartition(".")[0])
    for name in names:
        if package is not None and name in vars(package):
            setattr(package, name, getattr(base, name))


def futures(base):
    numbers = futures_of(base)
    original_wait, original_as_completed = base.wait, base.as_completed
    ended = (base.CANCELLED_AND_NOTIFIED, base.FINISHED)

    def line_up(fs, kind, frame):
        line, known = numbers.line(fs)
        begin = results_order.begin if kind == WAIT else results_order.started
        return line, begin(kind, len(line), frame, known)

    def awaited(call, left, end):
        """The future that is to be told of next; None: as they come."""
        place = call.wanted()
        future = left.get(place)
        if future is None and place is not None:
            call.release("there is no such one left")
        while future is not None and future._state not in ended:
            seconds = TICK if end is None else min(TICK, end - time.monotonic())
            if seconds <= 0:
                call.release("its timeout is over")
            elif original_wait([future], seconds).done:
                break
            elif call.late(any(f._state in ended for f in left.values())):
                future = None
            if not call.replayed():
                future = None
        return None if future is None else (place, future)

    def replay(call, left, end):
        """Futures in the recorded order, as long as they come. Others stay in `left`."""
        held = []
        while left:
            try:
                held.append(awaited(call, left, end))
            except Exception as error:
                faults.pass_on(error)
                held.append(call.release("%s: %s" % (type(error).__name__, error)))
            if held[0] is None:
                return
            del left[held[0][0]]
            call.told(held[0][0])
            held[0] = held[0][1]
            yield held.pop()

    def as_completed(fs, timeout=None):
        try:
            end = None if timeout is None else timeout + time.monotonic()
            fs = fs if type(fs) in SEVERAL_TIMES else list(fs)
        except BaseException as error:
            pins.hide(error)
            raise
        found = _guarded(line_up, fs, AS_COMPLETED, sys._getframe(1))
        line, call = found or ([], None)
        del found
        places = {id(future): place for place, future in enumerate(line)}
        if call is not None and call.replayed():
            fs = dict(enumerate(line))
            del line
            try:
                yield from replay(call, fs, end)
            except BaseException as error:
                pins.hide(error)
                raise
            fs, timeout = list(fs.values()), None if end is None else end - time.monotonic()
        line = None
        given = original_as_completed(fs, timeout)
        del fs
        held = []
        try:
            while True:
                try:
                    held.append(next(given))
                except StopIteration:
                    return
                if call is not None:
                    call.told(places.pop(id(held[0]), NONE))
                yield held.pop()
        except BaseException as error:
            pins.hide(error)
            raise
        finally:
            given.close()
            if call is not None:
                call.ends()

    def order_of(call, line, found):
        """The places of those that are done, as the job is going to meet them."""
        places = {id(future): place for place, future in enumerate(line)}
        rest = [places[id(future)] for future in found.not_done]
        text = struct.pack("=%dI" % len(rest), *rest)
        return [places[id(future)] for future in found.done], crc(text) if len(rest) > 1 else 0

    def replay_wait(call, line, found):
        """The recorded ones, and no others, once they are done."""
        wanted = [line[place] for place in call.places if place < len(line)]
        count = len(call.places)
        if not count or len(set(call.places)) != count or len(wanted) != count:
            call.release("there are no such ones")
            return found
        missing = len(wanted)
        while missing and call.replayed():
            done = original_wait(wanted, TICK).done
            missing = len(wanted) - len(done)
            if missing:
                call.late(True)
        if not call.replayed():
            return found
        others = dict.fromkeys(line)
        for future in wanted:
            del others[future]
        return base.DoneAndNotDoneFutures(Ordered(wanted), Ordered(list(others)))

    def looked_at(fs, found, frame):
        line, call = line_up(fs, WAIT, frame)
        if call is None:
            return found
        if call.replayed():
            found = replay_wait(call, line, found)
        places, rest = order_of(call, line, found)
        call.put(call.begins(rest) + b"".join(map(call.result, places)))
        return found

    def wait(fs, timeout=None, return_when=base.ALL_COMPLETED):
        try:
            fs = fs if type(fs) in SEVERAL_TIMES else list(fs)
            found = original_wait(fs, timeout, return_when)
        except BaseException as error:
            pins.hide(error)
            raise
        # one that found nothing is no result: how often a job asks in vain is not its order
        if not found.done:
            if len(found.not_done) > 1:
                results_order.not_recorded(sys._getframe(1))
            return found
        return _guarded(looked_at, fs, found, sys._getframe(1)) or found

    base.as_completed = functools.update_wrapper(as_completed, original_as_completed)
    base.wait = functools.update_wrapper(wait, original_wait)
    put_in_package(base, "as_completed", "wait")


# ---------------------------------------------------------------- multiprocessing


class Placed(tuple):
    """(whether it is good, result) of an iterator, with its place."""


class Items:
    """The results of an iterator that have come and were not taken yet, in the order in which they
    came. Used with the iterator's lock.
    """

    def __init__(self, call):
        self.call, self.items = call, OrderedDict()

    def __len__(self):
        return len(self.items)

    def append(self, item):
        self.items[getattr(item, "place", NONE)] = item

    def popleft(self):
        place = self.call.wanted()
        if place is None and self.items:
            place = next(iter(self.items))
        if place not in self.items:
            raise IndexError("pop from an empty deque")
        self.call.told(place)
        return self.items.pop(place)


def _await_item(iterator, items, timeout):
    """Until the wanted one is there, or is waited for no longer."""
    call, began = items.call, time.monotonic()
    with iterator._cond:
        while True:
            place, seconds = call.wanted(), TICK
            if place is None or place in items.items:
                return
            if iterator._index == iterator._length:
                if items.items:
                    call.release("all results have come, and it is none of them")
                return
            if not items.items and timeout is not None:
                seconds = min(TICK, timeout - (time.monotonic() - began))
                if seconds <= 0:
                    return
            if call.late(bool(items.items)):
                return
            iterator._cond.wait(seconds)


def pool(module):
    cls = module.IMapUnorderedIterator
    init, set_one, next_one = cls.__init__, cls._set, cls.next

    def __init__(self, *args, **named):
        init(self, *args, **named)
        call = results_order.started(POOL, NONE, sys._getframe(1))
        if call is not None and not self._items:
            self._items = Items(call)

    def _set(self, i, obj):
        if type(self._items) is Items and type(obj) is tuple:
            obj = Placed(obj)
            obj.place = i
        return set_one(self, i, obj)

    def next(self, timeout=None):
        items = self._items
        if type(items) is Items and items.call.replayed():
            began = time.monotonic()
            _guarded(_await_item, self, items, timeout)
            if timeout is not None:
                timeout = max(0, timeout - (time.monotonic() - began))
        try:
            return next_one(self, timeout)
        except BaseException as error:
            pins.hide(error)
            if type(items) is Items:
                items.call.ends()
            raise

    cls.__init__ = functools.update_wrapper(__init__, init)
    cls._set = functools.update_wrapper(_set, set_one)
    cls.next = cls.__next__ = functools.update_wrapper(next, next_one)


# ---------------------------------------------------------------- asyncio


def asyncio_tasks(tasks):
    """Only that it was used: its order is not recorded."""
    original = tasks.as_completed

    def as_completed(*args, **named):
        results_order.not_recorded(sys._getframe(1))
        try:
            return original(*args, **named)
        except BaseException as error:
            pins.hide(error)
            raise

    tasks.as_completed = functools.update_wrapper(as_completed, original)
    put_in_package(tasks, "as_completed")


# ---------------------------------------------------------------- DataLoader


class Loader:
    """An epoch of a loader that delivers batches as workers finish them."""

    def __init__(self, call):
        self.call, self.held, self.error = call, {}, None


def loader(module):
    """in_order=False (torch 2.6 and later). What comes from a worker is put in order before the
    loader looks at it: so it also gives the workers the same work.
    """
    cls = module._MultiProcessingDataLoaderIter
    reset, get_data = cls._reset, cls._get_data
    epochs = refs.AtOnce()

    def _reset(self, *args, **named):
        epochs.put(self, None)
        try:
            reset(self, *args, **named)
        except BaseException as error:
            pins.hide(error)
            raise
        if not getattr(self, "_in_order", True):
            call = results_order.started(LOADER, NONE, sys._getframe(1))
            if call is not None:
                epochs.put(self, Loader(call))

    def await_place(self, epoch):
        """The message that is to be handed out."""
        call, held = epoch.call, epoch.held
        while True:
            place = call.wanted()
            if place is None and held:
                place = next(iter(held))
            if place in held:
                return held.pop(place)
            if epoch.error is not None and not held:
                raise epoch.error
            if not held:
                message = get_data(self)
            else:
                try:
                    came, message = self._try_get_data(TICK)
                except Exception as error:
                    faults.pass_on(error)
                    # a worker is gone; what has come before comes first, as it would have
                    epoch.error = error
                    call.release("%s: %s" % (type(error).__name__, error))
                    continue
                call.late(True)
                if not came:
                    continue
            if not isinstance(message[0], int):
                return message
            held[message[0]] = message

    def _get_data(self):
        epoch = epochs.get(self)
        try:
            # in what is only recorded no frame of ours is left in the traceback of an error
            plain = epoch is None or not (epoch.call.replayed() or epoch.held or epoch.error)
            message = get_data(self) if plain else await_place(self, epoch)
        except BaseException as error:
            pins.hide(error)
            raise
        if epoch is not None and isinstance(message[0], int):
            epoch.call.told(message[0])
        return message

    cls._reset = functools.update_wrapper(_reset, reset)
    cls._get_data = functools.update_wrapper(_get_data, get_data)
