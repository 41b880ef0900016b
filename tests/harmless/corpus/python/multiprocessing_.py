# SPDX-License-Identifier: Apache-2.0
"""Pools, queues and events of multiprocessing. usage: multiprocessing_ fork|spawn|forkserver"""

import multiprocessing
import os
import sys

sys.path.append(os.environ["CORPUS"])
import seen


def square(x):
    return x * x


def work(queue, n):
    seen.look("worker%d" % n)
    queue.put((n, os.environ.get("ADDED"), sum(range(n * 1000))))
    sys.exit(n)


def main():
    context = multiprocessing.get_context(sys.argv[1])
    os.environ["ADDED"] = "here"
    with context.Pool(2) as pool:
        print(pool.map(square, range(20)))
    queue = context.Queue()
    workers = [context.Process(target=work, args=(queue, n)) for n in range(3)]
    for w in workers:
        w.start()
    print(sorted(queue.get() for _ in workers))
    for w in workers:
        w.join()
    print([w.exitcode for w in workers])


if __name__ == "__main__":
    main()
