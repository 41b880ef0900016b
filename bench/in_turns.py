# SPDX-License-Identifier: Apache-2.0
"""Steps that are watched and steps that are not, in turns in one process: what jax_overhead.py and
tf_overhead.py have in common.
"""

import statistics


def in_turns(run, rounds):
    """[{"off": (elapsed, processor time), "on": the same}] of rounds; run(mode): a timed step."""
    for _ in range(20):
        run("off"), run("on")
    taken = []
    while len(taken) < rounds:
        order = ("off", "on") if len(taken) % 2 else ("on", "off")
        taken.append({mode: run(mode) for mode in order})
    return taken


def report(library, version, parameters, taken, same):
    """Prints the figures; a round in which a step took three times the usual is left out."""
    usual = statistics.median(found["off"][0] for found in taken)
    calm = [found for found in taken if max(wall for wall, _cpu in found.values()) < 3 * usual]
    print("%s %s version" % (library, version))
    print("parameters %d count" % parameters)
    print("rounds %d count" % len(calm))
    print("step %.3f ms" % (1000 * usual))
    print("step_cpu %.3f ms" % (1000 * statistics.median(found["off"][1] for found in taken)))
    print("same_weights %d bool" % same)
    for clock, suffix in ((0, ""), (1, "_cpu")):
        ratios = [found["on"][clock] / found["off"][clock] for found in calm]
        whole = sum(f["on"][clock] for f in calm) / sum(f["off"][clock] for f in calm)
        print("overhead%s %.4f ratio" % (suffix, whole))
        print("median%s %.4f ratio" % (suffix, statistics.median(ratios)))
