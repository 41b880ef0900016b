# SPDX-License-Identifier: Apache-2.0
"""What it costs to record the order of results, for each of them: run by itself, and under `twinrun
record`. Processor time, the least of nine rounds; no executor, whose own work scatters more.
"""

import time
from concurrent.futures import Future, as_completed, wait
from multiprocessing.pool import IMapUnorderedIterator
from types import SimpleNamespace

RESULTS, ROUNDS = 5000, 9


def cost(call):
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        call()
        times.append(time.process_time() - began)
    return min(times) / RESULTS * 1e6


def made():
    return [Future() for _ in range(RESULTS)]


done = made()
for future in done:
    future.set_result(None)


def completed():
    for _ in as_completed(done):
        pass


def waited():
    for first in range(0, RESULTS, 10):
        wait(done[first : first + 10])


def unordered():
    results = IMapUnorderedIterator(SimpleNamespace(_cache={}))
    for number in range(RESULTS):
        results._set(number, (True, number))
    for _ in range(RESULTS):
        next(results)


for name, call in (
    ("Future()", made),
    ("as_completed", completed),
    ("wait of ten, each", waited),
    ("imap_unordered", unordered),
):
    print("%-18s %5.2f us" % (name, cost(call)))
