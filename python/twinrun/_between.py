# SPDX-License-Identifier: Apache-2.0
"""What is compared between other numbers of ranks, and in which steps two processes have it, for
twinrun.recheck.
"""

from ._recorded import GRADIENT, INIT, MOMENT, OPTIMIZER, WEIGHT, is_given_back
from .trace import PHASES

BACKWARD = PHASES.index("backward")
# (phase, kind) of what is compared there
STATE_OF_RANKS = {
    (INIT, WEIGHT),
    (OPTIMIZER, WEIGHT),
    (INIT, MOMENT),
    (OPTIMIZER, MOMENT),
    (BACKWARD, GRADIENT),
    (OPTIMIZER, GRADIENT),
}
# what the rules of a claim say of them
WITH = {GRADIENT: "with-gradients", MOMENT: "with-moments"}


def _both(x, y, step, other, wanted):
    mine, theirs = (
        {
            r.key
            for r in s.rows.get(at, ())
            if not r.unread and wanted(r) and not is_given_back(r.key)
        }
        for s, at in ((x, step), (y, other))
    )
    return bool(mine & theirs)


def both_have(x, y, step, other, kind, rules):
    """Have both, in a step of each, a record of one tensor of this kind, which counts?"""
    return _both(
        x,
        y,
        step,
        other,
        lambda r: r.key[1] == kind and r.key[:2] in STATE_OF_RANKS and not rules.ignores(r),
    )


def weights_in(x, y, step, other, rules):
    """Have both, in a step of each, a weight of one name, as the optimizer left it?"""
    return _both(
        x, y, step, other, lambda r: r.key[:2] == (OPTIMIZER, WEIGHT) and not rules.ignores(r)
    )
