# SPDX-License-Identifier: Apache-2.0
"""The vote on a suspect operation: run again on equal inputs, in turns on two cores, with as many
threads as it had and with one.

Other results from one core to the next, each core agreeing with itself, speak against the core (or
for code that looks at which one it is on); an operation that disagrees with itself is
nondeterministic wherever it runs. Only this process's threads are moved, and put back.
"""

import os
import time

ROUNDS = 8
SECONDS = 4.0


def _threads():
    """Every thread of this process: those of a pool work for the caller and cannot be told from
    others.
    """
    return [int(name) for name in os.listdir("/proc/self/task")]


def _place(thread, cores):
    try:
        os.sched_setaffinity(thread, cores)
    except OSError:
        pass  # it has ended


def _places():
    found = {}
    for thread in _threads():
        try:
            found[thread] = os.sched_getaffinity(thread)
        except OSError:
            pass
    return found


def hold(torch, again):
    """Calls `again`, which gives a hashable result, here and there. (cores, rounds, {threads:
    (results on one, on the other)}), or None where there are no two cores to choose from.
    """
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        return None
    cores, threads, places = (allowed[0], allowed[-1]), torch.get_num_threads(), _places()
    end, rounds, ballots = time.monotonic() + SECONDS, 0, {}
    try:
        for count in sorted({threads, 1}, reverse=True):
            if count != threads:
                torch.set_num_threads(count)
            results = ballots[count] = (set(), set())
            for done in range(ROUNDS):
                if done >= 2 and time.monotonic() > end:
                    break
                for core, found in zip(cores, results):
                    for thread in _threads():
                        _place(thread, {core})
                    found.add(again())
                rounds += 1
    finally:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        for thread in _threads():  # one that began here was born where we were
            _place(thread, places.get(thread, allowed))
    return cores, rounds, ballots


def verdict(ballots, before):
    """`operation`, `core` or `agrees`. before: the results of replays that were not moved."""
    pairs = list(ballots.values())
    if any(len(here) > 1 or len(there) > 1 for here, there in pairs):
        return "operation"
    if any(here != there for here, there in pairs):
        return "core"  # then replays that the system moved about could not but disagree
    return "operation" if len(before) > 1 else "agrees"
