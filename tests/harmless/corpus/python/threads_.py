# SPDX-License-Identifier: Apache-2.0
"""Threads, pools, locals, a thread that fails, a daemon thread that is still there at the end."""

import concurrent.futures
import os
import random
import sys
import threading
import time

sys.path.append(os.environ["CORPUS"])
import seen

random.seed(4)
local = threading.local()


def work(n):
    local.n = n
    time.sleep(0.001)
    return local.n * n


with concurrent.futures.ThreadPoolExecutor(4) as pool:
    print(sum(pool.map(work, range(100))))
failing = threading.Thread(target=lambda: 1 / 0, name="failing")
failing.start()
failing.join()
threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
seen.look("end")
print(random.random(), seen.generators())
