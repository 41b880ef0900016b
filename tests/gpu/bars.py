# SPDX-License-Identifier: Apache-2.0
"""What the project wants of its kernels and of watching on a GPU, and what a run of tests/gpu/run
measured of it. A bar that was not measured is said, and counts for nothing.
"""

DIGEST = "digest over copy"
ALL_THREE = "digest, statistics, sketch over copy"
SMALL = "300 tensors of 1,000, us"
WATCHING = "transformer100m_overhead"  # as bench/torch_overhead.py calls it: a ratio
EXACT = "exact sum over CUB's plain sum"
WAITS = "waits that recording adds to a step"  # known to be missed: a record waits for its stream
BARS = (
    (DIGEST, "at least", 0.85),
    (ALL_THREE, "at least", 0.5),
    (SMALL, "at most", 50),
    (WATCHING, "at most", 1.01),
    (EXACT, "at least", 0.8),
    (WAITS, "at most", 0),
)


def judge(figures):
    """[(sentence, met)] of each bar; met is None where it was not measured."""
    found = []
    for name, word, bar in BARS:
        value = figures.get(name)
        if value is None:
            found.append(("%s, %s %g: not measured" % (name, word, bar), None))
            continue
        met = value >= bar if word == "at least" else value <= bar
        said = "%s, %s %g: %.3f, %s" % (name, word, bar, value, "met" if met else "MISSED")
        found.append((said, met))
    return found


def tell(figures):
    """Prints each; returns False where one is missed."""
    rows = judge(figures)
    for said, _ in rows:
        print("bar: " + said)
    return not any(met is False for _, met in rows)
