# SPDX-License-Identifier: Apache-2.0
"""executor-order: results of concurrent work arrive in the order of submission (pin), or in one
drawn by a seed (vary).

concurrent.futures (as_completed, wait), multiprocessing.pool (imap_unordered), asyncio
(as_completed), and DataLoader's in_order=False. A job that cannot go on before a later task is done
waits for ever: that is the job's, and the search says so.
"""

import functools
import sys
from collections import deque

from . import pins
from .results_from import Ordered, futures_of, put_in_package

WINDOW = 8  # results held back when an order is drawn


def _drawn(pin, items):
    """The items in the seed's order; every call draws another one."""
    items = list(items)
    pin.ordinal += 1
    for last in range(len(items) - 1, 0, -1):
        other = pins.mix(pin.value, "order", pin.ordinal, last) % (last + 1)
        items[last], items[other] = items[other], items[last]
    return items


def _announce(pin, what):
    pin.effect(
        "%s in %s"
        % (what, "an order drawn by seed %d" % pin.value if pin.vary else "the order of submission")
    )


# ---------------------------------------------------------------- concurrent.futures


def concurrent_futures__base(pin, base):
    import time

    numbers = futures_of(base)
    original_wait = base.wait
    original_as_completed = base.as_completed

    def line_up(fs):
        line, _known = numbers.line(fs)
        return _drawn(pin, line) if pin.vary else line

    def as_completed(fs, timeout=None):
        end = None if timeout is None else timeout + time.monotonic()
        line = deque(line_up(fs))
        total = len(line)
        while line:
            if not original_wait(
                [line[0]], None if end is None else max(0, end - time.monotonic())
            ).done:
                break
            yield line.popleft()
        if line:  # out of time: what is done by now still comes, as it would have
            late = [future for future in line if not future.done()]
            for future in [future for future in line if future not in late]:
                yield future
            if late:
                raise base.TimeoutError("%d (of %d) futures unfinished" % (len(late), total))

    def wait(fs, timeout=None, return_when=base.ALL_COMPLETED):
        line = line_up(fs)
        if return_when == base.FIRST_COMPLETED and line:
            done = original_wait(line[:1], timeout).done or {
                future for future in line if future.done()
            }
        else:
            try:
                done = original_wait(line, timeout, return_when).done
            except BaseException as error:
                pins.hide(error)
                raise
        return base.DoneAndNotDoneFutures(
            Ordered([f for f in line if f in done]), Ordered([f for f in line if f not in done])
        )

    base.as_completed = functools.update_wrapper(as_completed, original_as_completed)
    base.wait = functools.update_wrapper(wait, original_wait)
    put_in_package(base, "as_completed", "wait")
    _announce(pin, "concurrent.futures")


# ---------------------------------------------------------------- multiprocessing


class Shaken:
    """The results of an ordered iterator in drawn order, from a window of them."""

    def __init__(self, pin, results):
        self._pin, self._results, self._held = pin, results, []

    def __iter__(self):
        return self

    def next(self, timeout=None):
        while len(self._held) < WINDOW:
            try:
                result = (
                    True,
                    self._results.next(timeout)
                    if hasattr(self._results, "next")
                    else next(self._results),
                )
            except StopIteration:
                break
            except Exception as error:
                if (
                    isinstance(error, sys.modules["multiprocessing"].TimeoutError)
                    and timeout is not None
                ):
                    raise
                result = (False, error)
            self._held.append(result)
        if not self._held:
            raise StopIteration
        self._pin.ordinal += 1
        good, value = self._held.pop(
            pins.mix(self._pin.value, "pool", self._pin.ordinal) % len(self._held)
        )
        if good:
            return value
        raise value

    __next__ = next


def multiprocessing_pool(pin, pool):
    original = pool.Pool.imap_unordered

    def imap_unordered(self, func, iterable, chunksize=1):
        try:
            results = self.imap(func, iterable, chunksize)
        except BaseException as error:
            pins.hide(error)
            raise
        return Shaken(pin, results) if pin.vary else results

    pool.Pool.imap_unordered = functools.update_wrapper(imap_unordered, original)
    _announce(pin, "multiprocessing's imap_unordered")


# ---------------------------------------------------------------- asyncio


def asyncio_tasks(pin, tasks):
    original = tasks.as_completed

    def line_up(awaitables):
        """Their tasks, made in the order given (a plain as_completed makes them in the order of a
        set).
        """
        found = [tasks.ensure_future(one) for one in dict.fromkeys(awaitables)]
        return _drawn(pin, found) if pin.vary else found

    iterator = getattr(tasks, "_AsCompletedIterator", None)
    if iterator is not None:

        class InOrder(iterator):
            def __init__(self, awaitables, timeout):
                self._line, self._finished = deque(line_up(awaitables)), set()
                super().__init__(list(self._line), timeout)

            def _handle_completion(self, future):
                self._finished.add(future)
                while self._line and self._line[0] in self._finished:
                    super()._handle_completion(self._line.popleft())

        def as_completed(fs, *, timeout=None):
            if sys.modules["inspect"].isawaitable(fs):
                return original(fs, timeout=timeout)
            return InOrder(fs, timeout)
    else:

        def as_completed(fs, *args, **named):
            if tasks.futures.isfuture(fs) or tasks.coroutines.iscoroutine(fs):
                return original(fs, *args, **named)
            return original(_gates(line_up(fs)), *args, **named)

    tasks.as_completed = functools.update_wrapper(as_completed, original)
    put_in_package(tasks, "as_completed")
    _announce(pin, "asyncio.as_completed")


def _gates(line):
    """A future per task that takes its result once it and all before it are done."""
    gates = [task.get_loop().create_future() for task in line]
    waiting = deque(zip(line, gates))

    def one_is_done(_task):
        while waiting and waiting[0][0].done():
            task, gate = waiting.popleft()
            if gate.done():
                continue
            if task.cancelled():
                gate.cancel()
            elif task.exception() is not None:
                gate.set_exception(task.exception())
            else:
                gate.set_result(task.result())

    for task in line:
        task.add_done_callback(one_is_done)
    return gates


# ---------------------------------------------------------------- DataLoader


def torch(pin, torch):
    """Loaders that deliver batches as workers finish them (in_order=False, torch 2.6 and later)
    keep the order again.
    """

    def in_order(loader, caller):
        if not getattr(loader, "in_order", True) and not pin.vary:
            loader.in_order = True
            pin.kept("in_order=False of a DataLoader", caller)

    pins.after_init(torch.utils.data.DataLoader, in_order)
