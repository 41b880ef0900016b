# SPDX-License-Identifier: Apache-2.0
"""False friend: threads report in any order that they have prepared their part; the parts are used
in their own order.
"""

import logging
import sys
import threading

PARTS = 8
RATE = 0.02

parts = [None] * PARTS
logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")


def prepare(i):
    parts[i] = [(i * 17 + k * k) % 101 / 101 for k in range(20_000)][:200]
    logging.info("part %d ready", i)


threads = [threading.Thread(target=prepare, args=(i,)) for i in range(PARTS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
weight = 0.3
for part in parts:
    for value in part:
        weight -= RATE * (weight - value)
print("result", weight.hex())
