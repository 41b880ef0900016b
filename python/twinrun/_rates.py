# SPDX-License-Identifier: Apache-2.0
"""How twinrun.recheck holds rates and their bounds against counts: the binomial distribution, added
up.

docs/format/verdict.md lists the claims.
"""

import math

from ._numbers import close
from ._recorded import need, number

MOST = 100000  # comparisons, steps
NEAR = 1e-4  # how far the share of a tail may be from the one asked for


def tail(p, least, n):
    """The probability of `least` or more of n when each is as likely as p."""
    if p <= 0 or p >= 1:
        return float(least <= 0) if p <= 0 else float(least <= n)
    whole = math.lgamma(n + 1)
    odds = math.log(p), math.log1p(-p)
    return math.fsum(
        math.exp(
            whole - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * odds[0] + (n - k) * odds[1]
        )
        for k in range(max(least, 0), n + 1)
    )


def is_interval(k, n, low, high):
    """Is it the 95% interval of Clopper and Pearson? At either end so many or more extreme ones
    have 2.5%.
    """
    need(0 < n <= MOST and k <= n, "%d of %d is no rate", k, n)
    for end in (low, high):
        good = isinstance(end, (int, float)) and not isinstance(end, bool) and 0 <= end <= 1
        need(good, "the interval is none")
    need(
        low == 0 if k == 0 else abs(tail(low, k, n) - 0.025) < NEAR, "the interval begins elsewhere"
    )
    need(
        high == 1 if k == n else abs(1 - tail(high, k + 1, n) - 0.025) < NEAR,
        "the interval ends elsewhere",
    )


class Rates:
    """The rate of a verdict, beside the claims of _claims.Claims."""

    def rate(self, claim):
        """Of so many comparisons so many differ; the bound where none does."""
        k, n = number(claim, "differing"), number(claim, "comparisons", least=1)
        said = {"value": claim.get("rate"), "low": claim.get("low"), "high": claim.get("high")}
        for key, value in said.items():
            need(
                close(value, self.verdict["rate"][key]),
                "the verdict says %s",
                self.verdict["rate"][key],
            )
        upper = claim.get("upper")
        need(
            close(upper, self.verdict["bound"]["p_diverge_upper"]), "the verdict says another bound"
        )
        need(
            claim.get("confidence") == self.verdict["bound"]["confidence"] == 0.95,
            "another confidence",
        )
        need(
            (k, n) == (self.verdict["differing"], self.verdict["comparisons"]),
            "the verdict counts others",
        )
        need(n == len(self.runs) - 1, "each run is compared with the first")
        classes = [c["runs"] for c in self.claims if c.get("claim") == "class"]
        need(
            classes and k == len(self.runs) - max(map(len, classes)),
            "so many runs leave the largest class",
        )
        need(close(claim["rate"], k / n), "it is %g", k / n)
        is_interval(k, n, claim["low"], claim["high"])
        need(
            close(upper, 1 - 0.05 ** (1 / n) if k == 0 else claim["high"]),
            "the bound is another one",
        )
        return "%d of %d comparisons, at most %.1f%%" % (k, n, 100 * upper)
