# SPDX-License-Identifier: Apache-2.0
"""A job without PyTorch that starts so many ranks and records a weight and some optimizer state of
each, by hand.

worlds_job.py RANKS [WORD ...]: `again` (the launcher starts the ranks twice, and each time they hold
other values), `alone` (the first time rank 0 alone comes that far), `own` (of `err` each rank holds
other values), `share` (the ranks share out what belongs to four weights).
"""

import os
import subprocess
import sys

RANKS, WORDS = int(sys.argv[1]), set(sys.argv[2:])


def start(rank, attempt):
    told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": RANKS}
    told["TORCHELASTIC_RESTART_COUNT"] = attempt
    env = dict(os.environ, **{name: str(value) for name, value in told.items()})
    return subprocess.Popen([sys.executable] + sys.argv, env=env)


def launch():
    for attempt in range(2 if "again" in WORDS else 1):
        ranks = 1 if "alone" in WORDS and attempt == 0 else RANKS
        for process in [start(rank, attempt) for rank in range(ranks)]:
            if process.wait() != 0:
                sys.exit("a rank failed")


def work(rank, attempt):
    import numpy
    import twinrun

    for step in range(3):
        value = numpy.arange(4.0) + step + 100 * attempt
        twinrun.record("weight:w", value)
        twinrun.record("moment:m", value * 2)
        if "own" in WORDS:
            twinrun.record("moment:err", value + rank)
        for i in range(rank, 4, RANKS) if "share" in WORDS else ():
            twinrun.record("moment:w%d.m" % i, value + i)
        twinrun.step()


if "RANK" in os.environ:
    work(int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"]))
else:
    launch()
