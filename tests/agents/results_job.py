# SPDX-License-Identifier: Apache-2.0
"""Collects results as they come: results_job.py WAYS back|forth. Tasks end in the order of their
submission, or in the reverse, whatever the collector does meanwhile.
"""

import concurrent.futures
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

TASKS = 6
turns = [multiprocessing.Event() for _ in range(TASKS)]
back = sys.argv[2] == "back"


def line(numbers):
    return list(reversed(numbers)) if back else list(numbers)


def submitted(pool, count=TASKS):
    """Futures that end one after the other."""
    gates = [threading.Event() for _ in range(count)]

    def task(number):
        gates[number].wait()
        return number

    futures = [pool.submit(task, number) for number in range(count)]
    order = line(range(count))
    for number, following in zip(order, order[1:]):
        futures[number].add_done_callback(lambda _, gate=gates[following]: gate.set())
    gates[order[0]].set()
    return futures


def futures():
    with ThreadPoolExecutor(TASKS) as pool:
        return [f.result() for f in concurrent.futures.as_completed(submitted(pool))]


def fewer():
    with ThreadPoolExecutor(TASKS) as pool:
        return [f.result() for f in concurrent.futures.as_completed(submitted(pool, 5))]


def waits():
    told = []
    with ThreadPoolExecutor(TASKS) as pool:
        pending = set(submitted(pool))
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            told += [future.result() for future in done]
    return told


def work(number):
    turns[number].wait()
    order = line(range(TASKS))
    following = order.index(number) + 1
    if following < TASKS:
        turns[order[following]].set()
    return number


def pool():
    for turn in turns:
        turn.clear()
    turns[line(range(TASKS))[0]].set()
    with multiprocessing.get_context("fork").Pool(TASKS) as workers:
        return list(workers.imap_unordered(work, range(TASKS)))


def chunks():
    with multiprocessing.get_context("fork").Pool(2) as workers:
        return list(workers.imap_unordered(abs, range(TASKS), chunksize=2))


def show(result, file=None):
    print(*result, flush=True)


def child():
    process = multiprocessing.get_context("fork").Process(target=lambda: show(futures()))
    process.start()
    process.join()
    return ["joined"]


def fork():
    number = os.fork()
    if number == 0:
        show(futures())
        os._exit(0)
    os.waitpid(number, 0)
    return ["waited"]


def twins():
    """Two processes that nothing tells apart."""
    for _ in range(2):
        subprocess.run([sys.executable, __file__, "futures", sys.argv[2]], check=True)
    return ["run"]


def gate():
    """Each of them cannot come before the one in front of it was told of."""
    gates = [threading.Event() for _ in range(TASKS)]
    order, told = line(range(TASKS)), []
    with ThreadPoolExecutor(TASKS) as workers:
        futures = [workers.submit(gate.wait) for gate in gates]
        gates[order[0]].set()
        for future in concurrent.futures.as_completed(futures):
            told.append(futures.index(future))
            if len(told) < TASKS:
                gates[order[len(told)]].set()
    return told


def submitters():
    """Tasks that two threads submit, one before the other, and which end from the last to the first,
    told in an environment that the job has cleared.
    """
    os.environ.clear()
    gates = [threading.Event() for _ in range(4)]
    futures = {}

    with ThreadPoolExecutor(4) as workers:

        def submit(numbers):
            for number in numbers:
                futures[number] = workers.submit(gates[number].wait)
                futures[number].add_done_callback(lambda _, n=number: n and gates[n - 1].set())

        for numbers in line([(0, 1), (2, 3)]):
            thread = threading.Thread(target=submit, args=(numbers,))
            thread.start()
            thread.join()
        gates[3].set()
        number = {future: number for number, future in futures.items()}
        return [number[future] for future in concurrent.futures.as_completed(number)]


def killed():
    show(futures())
    os.kill(os.getpid(), signal.SIGKILL)


def drawn():
    """Results in one order, and something else that no two runs have in common."""
    return [*gate(), os.urandom(4).hex()]


for way in sys.argv[1].split(","):
    show(globals()[way]())
