# SPDX-License-Identifier: Apache-2.0
"""Which libraries tell of results in the order in which they come: each is waited for, so that
nothing is imported that the job does not import.
"""

import os
import sys

from . import finder

# module after whose import the function of results_from.py is called
FROM = {
    "concurrent.futures._base": "futures",
    "multiprocessing.pool": "pool",
    "asyncio.tasks": "asyncio_tasks",
    "torch.utils.data.dataloader": "loader",
}
PIN, ORDER_START = "executor-order", "order.results."
_armed = False
folder = ""  # of the run, as it was when Python started: the job may clear its environment


def replayed():
    """Does this run have an order to replay?"""
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    return any(name.startswith(ORDER_START) for name in names)


def arm():
    """Under the pin there is no order to be recorded: it is that of submission, or of a seed. A run
    that replays one has no such pin (cmd/run_orders.c).
    """
    global _armed, folder
    pins = sys.modules.get(__package__ + ".pins")
    if _armed or (pins is not None and PIN in pins.pins):
        return
    _armed, folder = True, os.environ.get("TWINRUN_RUN_DIR", "")
    for module, function in FROM.items():
        finder.when_imported(module, _apply(module, function))


_followed = []


def _apply(module, function):
    def apply():
        from . import pins, results_from, results_order

        if not _followed:
            _followed.append(True)
            os.register_at_fork(
                before=results_order.before_fork, after_in_child=results_order.after_fork
            )
            pins.when_process_ends(results_order.ends)
        getattr(results_from, function)(sys.modules[module])

    return apply
