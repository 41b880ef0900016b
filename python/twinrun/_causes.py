# SPDX-License-Identifier: Apache-2.0
"""Rechecks what `twinrun isolate` claims of a cause: docs/format/verdict.md, "Of a search".

The arrangement is drawn anew from its seed, each run must have had the pins that its place says,
each pair of runs must compare as is claimed (a small verdict of its own, rechecked like any other),
and the p values and the bound are computed again from that.
"""

import math
import re

from ._recorded import Refuted, Run, Trouble, items, need, number, word

MASK = (1 << 64) - 1
MOST = 4096  # runs, blocks, pinned factors
CLOSE = 1e-9
# What a pin leaves in run.json: by the libc agent, by the launcher, by a variable; all others by
# TWINRUN_PINS.
LIBC = ("entropy", "clock", "dir-order", "malloc-fill")
LAUNCHER = ("aslr", "affinity")
VARIABLES = {
    "hash-seed": "PYTHONHASHSEED",
    "threads": "OMP_NUM_THREADS",
    "isa": "ATEN_CPU_CAPABILITY",
    "tf32": "NVIDIA_TF32_OVERRIDE",
    "cublas-workspace": "CUBLAS_WORKSPACE_CONFIG",
    "autotune": "TORCHINDUCTOR_MAX_AUTOTUNE",
    "onednn": "TF_ENABLE_ONEDNN_OPTS",
    "jax-cache": "JAX_ENABLE_COMPILATION_CACHE",
    "collective-algorithm": "NCCL_ALGO",
    "nccl-channels": "NCCL_MIN_NCHANNELS",
}
PYTHON = {
    "loader-workers",
    "executor-order",
    "seed.python",
    "seed.numpy",
    "seed.torch",
    "seed.cuda",
    "seed.tensorflow",
    "cudnn-benchmark",
    "torch-deterministic",
    "tensorflow-deterministic",
    "cudnn-deterministic",
    "sdpa-backend",
    "ddp-buckets",
    "exact-allreduce",
    "tensor-hash",
}


def is_search(verdict):
    return verdict.get("schema") == "twinrun.isolate/1"


# ---------------------------------------------------------------- arithmetic


def mix(x):
    """The finaliser of splitmix64 (Steele, Lea, Flood 2014)."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def drawn(seed, confirmation, block, kinds):
    """The kinds of a block, sorted, in the order that the seed draws (Fisher and Yates)."""
    out = sorted(kinds)
    for i in range(len(out), 1, -1):
        h = mix(seed ^ mix((confirmation + 0x9E3779B97F4A7C15) & MASK))
        h = mix(h ^ mix((block + 0xD1B54A32D192ED03) & MASK))
        j = mix(h ^ mix((i + 0x8CB92BA72F3D8DD7) & MASK)) % i
        out[j], out[i - 1] = out[i - 1], out[j]
    return out


def share(free, pinned, diverged):
    """Share of the arrangements of so many free and pinned runs in which all that diverged are
    free.
    """
    return math.comb(free, diverged) / math.comb(free + pinned, diverged)


def below(x, a, b):
    """The distribution function of the beta distribution, for a >= 1 and b > 0."""
    if x >= 1:
        return 1.0
    if a == 1:
        return 1 - (1 - x) ** b
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b))
    n = 40000
    steps = ((i + 0.5) * x / n for i in range(n))
    return front * x / n * math.fsum(t ** (a - 1) * (1 - t) ** (b - 1) for t in steps)


def weight_of(diverged):
    """What one comparison counts, from natural comparisons in their order: less where divergences
    come in clusters.
    """
    n, ones = len(diverged), sum(diverged)
    zeros = n - ones
    if not ones or not zeros:
        return 1.0
    runs = 1 + sum(a != b for a, b in zip(diverged, diverged[1:]))
    few = 0
    for r in range(2, runs + 1):
        half = r // 2
        if r % 2 == 0:
            few += 2 * math.comb(ones - 1, half - 1) * math.comb(zeros - 1, half - 1)
        else:
            few += math.comb(ones - 1, half) * math.comb(zeros - 1, half - 1)
            few += math.comb(ones - 1, half - 1) * math.comb(zeros - 1, half)
    mean = ones / n
    d = [x - mean for x in diverged]
    rho = sum(a * b for a, b in zip(d, d[1:])) / sum(x * x for x in d)
    if few / math.comb(n, ones) > 0.05 or rho <= 0:
        return 1.0
    rho = min(rho, 0.95)
    return (1 - rho) / (1 + rho)


# ---------------------------------------------------------------- a search


def flag(claim, key):
    need(isinstance(claim.get(key), bool), "%s is neither true nor false", key)
    return claim[key]


def real(claim, key):
    value = claim.get(key)
    need(isinstance(value, (int, float)) and not isinstance(value, bool), "%s is no number", key)
    return float(value)


def shown_pins(run):
    """What run.json says was held still."""
    factors = run.json.get("factors")
    factors = factors if isinstance(factors, dict) else {}
    agents = factors.get("agents")
    agents = agents if isinstance(agents, dict) else {}
    env = run.json.get("env")
    held = [name for name in str(agents.get("TWINRUN_HELD") or "").split(",") if name]
    return {
        "argv": run.json.get("argv"),
        "libc": sorted(p for p in str(agents.get("TWINRUN_FACTORS") or "").split(",") if p),
        "python": sorted(p for p in str(agents.get("TWINRUN_PINS") or "").split(",") if p),
        "launcher": sorted(name for name in LAUNCHER if name in factors),
        "variables": sorted((name, str((env or {}).get(name))) for name in held),
    }


def threads_told(run):
    """{rank: PyTorch's threads} as the processes told; {} where one told several, or two told
    otherwise.
    """
    out = {}
    for name in run.traces():
        number_of = re.match(r"ranks/(\d{1,10})\.", name)
        rank = int(number_of[1]) if number_of else None
        told = set(run.threads(name))
        if len(told) > 1 or out.get(rank, told) != told and told:
            return {}
        if told:
            out[rank] = told
    return {rank: n for rank, (n,) in out.items()}


def threads_asked(run):
    """{rank: threads} that the agent was told to hold; {}: none."""
    factors = run.json.get("factors")
    agents = factors.get("agents") if isinstance(factors, dict) else None
    text = str((agents if isinstance(agents, dict) else {}).get("TWINRUN_TORCH_THREADS") or "")
    pairs = [item.partition(":") for item in text.split(",") if item]
    return {int(a): int(b) for a, _, b in pairs if a.isdigit() and b.isdigit()}


def has_pin(pins, factor):
    """Was it held still? None: that cannot be told from run.json (a factor of the user's own)."""
    if factor in LIBC:
        return any(p.startswith(factor + "=pin") for p in pins["libc"])
    if factor in LAUNCHER:
        return factor in pins["launcher"]
    if factor in VARIABLES:
        return any(name == VARIABLES[factor] for name, _ in pins["variables"])
    if factor in PYTHON:
        return any(p.partition("=")[0] == factor for p in pins["python"])
    return None


class World:
    """One world of the confirmation: its runs in their order, sorted into classes as they came."""

    def __init__(self, claim):
        self.kind = number(claim, "kind", least=-1)
        self.pinned = [p for p in items(claim, "pinned") if isinstance(p, str)]
        self.reference = number(claim, "reference", least=1)
        self.runs = items(claim, "runs")
        need(len(self.runs) <= MOST and len(self.pinned) <= MOST, "too many runs")
        order = [number(r, "number") for r in self.runs]
        need(order == sorted(set(order)), "its runs are not in order")

    def classes(self, arms):
        """The class of each run, by the earlier run that it agrees with; of two arms only whether
        it diverged.
        """
        known, out = [self.reference], []
        for r in self.runs:
            same = self.reference
            if flag(r, "diverged"):
                same = None if r.get("agrees") is None else number(r, "agrees", least=1)
            if arms:
                out.append(0 if same == self.reference else 1)
                continue
            if same is None or same not in known:
                known.append(same if same is not None else number(r, "run"))
                same = known[-1]
            out.append(known.index(same))
        return out

    def diverged(self, arms, chosen):
        """How many of the runs of a stretch left the usual class; `chosen` says which runs those
        are.
        """
        classes = self.classes(arms)
        if arms:
            return sum(c for c, r in zip(classes, self.runs) if chosen(r))
        last = max((i for i, r in enumerate(self.runs) if chosen(r)), default=-1)
        so_far = classes[: last + 1]
        counts = [so_far.count(k) + (k == 0) for k in range(max(so_far, default=0) + 1)]
        usual = counts.index(max(counts))
        mine = [c for c, r in zip(classes, self.runs) if chosen(r)]
        return len(mine) - mine.count(usual)


class Search:
    KINDS = (
        "search",
        "confirmation",
        "cause",
        "rate",
        "remaining",
        "last",
        "repeats",
        "threads",
        "pair",
    )

    def __init__(self, verdict, claims, runs, recheck_pair):
        self.verdict, self.claims, self.runs, self.recheck_pair = (
            verdict,
            claims,
            runs,
            recheck_pair,
        )
        self.c = self.only("confirmation")
        self.arms = flag(self.c, "arms")  # mixes of two commands
        self.through = flag(self.c, "through")  # two commands under the same pins
        need(not (self.arms and self.through), "mixes have no pins of their own")
        self.worlds = [World(w) for w in items(self.c, "worlds")]
        self.members = items(self.c, "members")
        need(
            [w.kind for w in self.worlds] == list(range(len(self.members) + 1)),
            "a world is missing",
        )
        natural = self.c.get("natural")
        self.natural = self.worlds[1] if natural is None else World(natural)
        need(natural is not None or len(self.members) == 1, "the natural runs are missing")
        self.pairs = {}
        for p in claims:
            if isinstance(p, dict) and p.get("claim") == "pair":
                key = number(p, "runs", 0, least=1), number(p, "runs", 1, least=1)
                need(key not in self.pairs, "runs %d and %d are compared twice", *key)
                self.pairs[key] = p

    def only(self, kind):
        found = [c for c in self.claims if isinstance(c, dict) and c.get("claim") == kind]
        need(len(found) == 1, "expected one claim %s, found %d", kind, len(found))
        return found[0]

    def run(self, i):
        need(1 <= i <= len(self.runs), "there is no run %s", i)
        return self.runs[i - 1]

    # ---- the claims

    def search(self, claim):
        need(
            word(claim, "outcome") == self.verdict.get("outcome") == "isolated",
            "the outcome is another one",
        )
        causes = [c for c in self.claims if isinstance(c, dict) and c.get("claim") == "cause"]
        need(number(claim, "causes") == len(causes) > 0, "there are %d causes", len(causes))
        kinds = [number(c, "kind", least=1) for c in causes]
        need(len(set(kinds)) == len(kinds), "a cause is named twice")
        remaining = self.only("remaining")
        free = number(remaining, "kind")
        need(
            sorted(kinds + [free] * (free > 0)) == list(range(1, len(self.members) + 1)),
            "a member is no cause, and none is superfluous",
        )
        need(
            flag(claim, "sufficient") == flag(remaining, "sufficient"),
            "the claims contradict each other",
        )
        self.only("last")
        rates = [
            c.get("factor") for c in self.claims if isinstance(c, dict) and c.get("claim") == "rate"
        ]
        need(
            sorted(map(str, rates)) == sorted(word(c, "factor") for c in causes),
            "not each cause has its rate",
        )
        return "%d cause%s" % (len(causes), "" if len(causes) == 1 else "s")

    def blocks(self):
        blocks = items(self.c, "blocks")
        need(0 < len(blocks) <= MOST, "there is no block")
        for b in blocks:
            need(isinstance(b, list) and len(b) <= MOST, "a block is no list")
            need(
                all(isinstance(k, int) and 0 <= k <= len(self.members) for k in b),
                "a block has an unknown kind",
            )
        return blocks

    def confirmation(self, claim):
        seed, j = int(word(claim, "seed")), number(claim, "confirmation", least=1, most=1000)
        need(0 < seed <= MASK, "the seed is out of range")
        need(
            str(seed) == self.verdict.get("seed"),
            "the search drew from seed %s",
            self.verdict.get("seed"),
        )
        alpha = real(claim, "alpha")
        need(0 < alpha <= 0.05, "alpha is %g", alpha)
        level = alpha * (0.58 if j == 1 else 0.84 / 2**j)
        if number(self.only("remaining"), "kind"):
            level /= len(self.members)
        need(
            math.isclose(real(claim, "level"), level, rel_tol=CLOSE),
            "the level of confirmation %d is %g",
            j,
            level,
        )
        made = []
        for w in self.worlds:
            for r in w.runs:
                if r.get("block") is not None:
                    made.append((number(r, "number"), r["block"], w.kind))
        made.sort()
        planned = [(n, kind) for n, block in enumerate(self.blocks()) for kind in block]
        in_blocks = [(block, kind) for _, block, kind in made if block != "after"]
        need(in_blocks == planned, "the runs were not made as arranged")
        first = [n for n, block, _ in made if block != "after"]
        need(
            first == list(range(first[0], first[0] + len(first))),
            "there were other runs in between",
        )
        after = [(n, kind) for n, block, kind in made if block == "after"]
        shown = number(self.only("remaining"), "kind")
        need(
            all(n > first[-1] and kind == shown for n, kind in after), "a later run has other pins"
        )
        for n, block in enumerate(self.blocks()):
            need(block == drawn(seed, j, n, block), "block %d was not drawn by the seed", n)
        self.distinct()
        for w in self.worlds:
            self.pins(w)
        self.pins(self.natural)
        self.outcomes()
        return "%d runs in the order that seed %d draws" % (len(planned), seed)

    def distinct(self):
        """Each run is one run, and stands in one world alone."""
        worlds = self.worlds + ([] if self.natural in self.worlds else [self.natural])
        used = [number(r, "run", least=1) for w in worlds for r in w.runs]
        used += [w.reference for w in worlds if not self.arms]
        need(len(used) == len(set(used)), "a run is counted twice")
        one_reference = len({w.reference for w in worlds}) == 1
        need(
            one_reference == self.arms,
            "two commands have one reference, and each world of one command has its own",
        )
        numbers = [number(r, "number", least=1) for w in worlds for r in w.runs]
        need(len(numbers) == len(set(numbers)), "two runs have one number")
        seen = {}
        for i, run in enumerate(self.runs, 1):
            own = run.json.get("id")
            need(own and own not in seen, "runs %s and %d are the same run", seen.get(own), i)
            seen[own] = i

    def pins(self, world):
        """All its runs had the pins of this world, and no other."""
        runs = [self.run(number(r, "run")) for r in world.runs]
        if not self.arms:
            runs.append(self.run(world.reference))
        shown = [shown_pins(r) for r in runs]
        if "node" in self.members:
            for pins in shown:
                pins["node"] = self.node(world)
        for pins in shown:
            pins["argv"] = pins["argv"] if self.arms else None
            need(pins == shown[0], "runs of one world (kind %d) had different pins", world.kind)
        for factor in self.members if shown and not self.arms else ():
            has = has_pin(shown[0], factor)
            need(
                has is None or has == (factor in world.pinned),
                "%s was%s pinned in kind %d",
                factor,
                "" if has else " not",
                world.kind,
            )
        first = None if self.arms else self.run(world.reference).json.get("argv")
        other = any(run.json.get("argv") != first for run in runs)
        need(
            self.arms or other == self.through,
            "its runs are of %s",
            "two commands" if other else "one command",
        )
        expected = [m for i, m in enumerate(self.members, 1) if world.kind >= 0 and i != world.kind]
        need(sorted(world.pinned) == sorted(expected), "kind %d is another world", world.kind)
        for other in self.worlds:
            if other is not world and other.runs and shown and other.pinned != world.pinned:
                theirs = shown_pins(self.run(number(other.runs[0], "run")))
                if "node" in self.members:
                    theirs["node"] = self.node(other)
                theirs["argv"] = theirs["argv"] if self.arms else None
                need(
                    theirs != shown[0], "kinds %d and %d had the same pins", world.kind, other.kind
                )

    def node(self, world):
        """Where its runs were made: on one node, where that is pinned; None: on several."""
        runs = [self.run(number(r, "run")) for r in world.runs]
        names = {(r.json.get("node") or {}).get("name") for r in runs}
        need(None not in names, "kind %d has runs that no engine made", world.kind)
        if "node" not in world.pinned:
            need(len(names) > 1, "the node was not free in kind %d", world.kind)
            return None
        names.add((self.run(world.reference).json.get("node") or {}).get("name"))
        need(len(names) == 1, "runs of kind %d were on several nodes", world.kind)
        return names.pop()

    def outcomes(self):
        """How each run compares with its world's reference, and with the earlier run that it agrees
        with.
        """
        for w in self.worlds + [self.natural]:
            for i, r in enumerate(w.runs):
                run = number(r, "run")
                if not flag(r, "ended_well"):
                    need(r["diverged"], "run %d did not end well and did not diverge", run)
                    need(
                        self.run(run).failed() or self.run(run).stopped(), "run %d ended well", run
                    )
                    continue
                self.compared(w.reference, run, flag(r, "diverged"))
                if r.get("agrees") is not None and number(r, "agrees") != w.reference:
                    earlier = [number(e, "run") for e in w.runs[:i]]
                    need(
                        number(r, "agrees") in earlier,
                        "run %d agrees with a run of another world",
                        run,
                    )
                    self.compared(number(r, "agrees"), run, False)
                elif r["diverged"] and not self.arms and not self.through:
                    twin = next(
                        (
                            e
                            for e in w.runs[:i]
                            if self.print_of(number(e, "run")) == self.print_of(run)
                        ),
                        None,
                    )
                    need(twin is None, "run %d agrees with an earlier one", run)

    def print_of(self, i):
        """What a run recorded and printed."""
        run = self.run(i)
        if not hasattr(run, "print"):
            traces = []
            for name in run.traces():
                steps = run.steps(name)
                rows = [
                    (r.step, r.key, r.content)
                    for step in sorted(steps.rows)
                    for r in steps.rows[step]
                ]
                traces.append((steps.info.rank, steps.info.role, rows))
            traces.sort(key=lambda t: t[:2])
            run.print = (
                traces,
                [bytes(getattr(line, "text", line)) for line in run.stream("stdout")],
            )
        return run.print

    def compared(self, a, b, diverged):
        need((a, b) in self.pairs, "nothing says how runs %d and %d compare", a, b)
        need(
            flag(self.pairs[a, b], "diverged") == diverged, "runs %d and %d compare otherwise", a, b
        )

    def cause(self, claim):
        factor, kind = word(claim, "factor"), number(claim, "kind", least=1, most=len(self.members))
        need(self.members[kind - 1] == factor, "member %d is %s", kind, self.members[kind - 1])
        free, pinned, p, counts = self.worlds[kind], self.worlds[0], 1.0, [0, 0]
        for n, block in enumerate(self.blocks()):
            if kind not in block:
                continue
            inside = lambda r, n=n: r.get("block") == n  # noqa: E731
            d = free.diverged(self.arms, inside)
            p *= share(block.count(kind), block.count(0), d)
            counts[0] += d
            counts[1] += block.count(kind)
        n = pinned.diverged(self.arms, lambda r: isinstance(r.get("block"), int))
        need(n == 0, "%d runs diverged with everything pinned", n)
        need(math.isclose(real(claim, "p"), p, rel_tol=CLOSE), "p is %g", p)
        need(p <= real(self.c, "level") * (1 + CLOSE), "p = %g is above the level", p)
        return "%s: %d of %d free runs diverged and no pinned one, p = %.3g" % (
            factor,
            counts[0],
            counts[1],
            p,
        )

    def rate(self, claim):
        """The counts and the numbers of a cause's headline."""
        factor = word(claim, "factor")
        causes = [
            c
            for c in self.claims
            if isinstance(c, dict) and c.get("claim") == "cause" and c.get("factor") == factor
        ]
        need(len(causes) == 1, "%s is no cause", factor)
        p, remaining = real(causes[0], "p"), self.only("remaining")
        need(math.isclose(real(claim, "p"), p, rel_tol=CLOSE), "p is %g", p)
        of_all = min(1.0, p * real(self.c, "alpha") / real(self.c, "level"))
        need(
            math.isclose(real(claim, "p_all"), of_all, rel_tol=CLOSE),
            "p for all confirmations is %g",
            of_all,
        )
        need(
            math.isclose(real(claim, "bound"), real(remaining, "bound"), rel_tol=CLOSE),
            "the bound is another one",
        )
        unit = word(claim, "unit")
        need(unit in ("comparisons", "steps"), "nobody knows the unit %s", unit)
        for key, kind in (
            ("free", number(causes[0], "kind", least=1)),
            ("pinned", number(remaining, "kind")),
        ):
            world = self.worlds[kind]
            made = [r for r in world.runs if r.get("block") is not None]
            diverged = world.diverged(self.arms, lambda r: r.get("block") is not None)
            need(number(claim, key, 0) == diverged, "%s: %d of them diverged", key, diverged)
            trials = number(claim, key, 1)
            steps = sum(self.steps_of(number(r, "run")) for r in made) if unit == "steps" else 0
            right = trials == len(made) if unit == "comparisons" else diverged <= trials <= steps
            need(right, "%s: there were %d %s", key, steps or len(made), unit)
        return "%s: p = %.3g, at most %.1f%% remain" % (factor, p, 100 * real(claim, "bound"))

    def steps_of(self, i):
        """The most steps that a process of a run has."""
        return max((self.run(i).steps(name).info.steps for name in self.run(i).traces()), default=0)

    def natural_course(self):
        """Of each natural comparison: did it leave the usual class?"""
        classes = self.natural.classes(self.arms)
        counts = [classes.count(k) + (k == 0) for k in range(max(classes, default=0) + 1)]
        usual = 0 if self.arms else counts.index(max(counts))
        return [c != usual for c in classes]

    def remaining(self, claim):
        kind = number(claim, "kind", most=len(self.members))
        world = self.worlds[kind]
        inside = lambda r: r.get("block") is not None  # noqa: E731
        trials, diverged = sum(map(inside, world.runs)), world.diverged(self.arms, inside)
        need(number(claim, "trials") == trials, "there were %d comparisons", trials)
        need(number(claim, "diverged") == diverged, "%d of them diverged", diverged)
        weight = weight_of(self.natural_course())
        need(
            math.isclose(real(claim, "weight"), weight, rel_tol=1e-6),
            "a comparison counts %g",
            weight,
        )
        bound = real(claim, "bound")
        if diverged >= trials:
            need(bound == 1, "nothing is excluded")
        else:
            need(0 < bound < 1, "the bound is no rate")
            level = below(bound, weight * diverged + 1, weight * (trials - diverged))
            need(abs(level - 0.95) < 1e-4, "the bound is one of %.4f", level)
        need(
            flag(claim, "sufficient") == (bound <= 0.2 and trials > 0),
            "sufficient is a matter of the bound",
        )
        return "at most %.1f%% of comparisons diverge with the causes pinned (95%%)" % (100 * bound)

    def last(self, claim):
        """After the last pinned run a natural one diverged."""
        run, n = number(claim, "run", least=1), number(claim, "number", least=1)
        at = [
            i
            for i, r in enumerate(self.natural.runs)
            if number(r, "run") == run and number(r, "number") == n
        ]
        need(at, "run %d is no natural run", run)
        need(self.natural_course()[at[0]], "the last natural run did not diverge")
        before = [
            number(r, "number") for w in self.worlds for r in w.runs if w.kind != self.natural.kind
        ]
        need(all(m < n for m in before), "a pinned run came after it")
        return "run %d of the search, a natural one, diverged after all pinned ones" % n

    def repeats(self, claim):
        """Natural runs of A, one after the other until one differs from the first; of two commands
        under the same pins.
        """
        reference, runs = (
            number(claim, "reference", least=1),
            [int(i) for i in items(claim, "runs")],
        )
        need(
            reference == self.natural.reference,
            "run %d is not what natural runs are compared with",
            reference,
        )
        need(0 < len(runs) <= 3, "there are %d runs", len(runs))
        used = [number(r, "run") for w in self.worlds + [self.natural] for r in w.runs]
        used += [w.reference for w in self.worlds + [self.natural]]
        need(len(set(runs)) == len(runs) and not set(runs) & set(used), "a run is counted twice")
        first = shown_pins(self.run(reference))
        for i in runs:
            need(shown_pins(self.run(i)) == first, "run %d was made otherwise", i)
            self.compared(reference, i, i == runs[-1] and flag(claim, "diverged"))
        return "A diverged from its first run in %d of %d comparisons" % (
            claim["diverged"],
            len(runs),
        )

    def threads(self, claim):
        """B with the numbers of PyTorch's threads that A had (H), against B as it is (F), in an order
        drawn beforehand. It ends at the first run that decides.
        """
        need(self.arms, "there are no two commands")
        reference, runs = number(claim, "reference", least=1), items(claim, "runs")
        order, through = word(claim, "arrangement"), flag(claim, "through")
        need(reference == self.worlds[0].reference, "run %d is not A's first one", reference)
        drawn_order = drawn(int(self.verdict["seed"]), 0xFFFFFFFF, 0, [0] * 4 + [1] * 3)
        need(order == "".join("FH"[kind] for kind in drawn_order), "the seed draws %s", drawn_order)
        need(0 < len(runs) <= len(order), "there are %d runs", len(runs))
        need(not through or len(runs) == len(order), "it was not made to its end")
        used = [number(r, "run") for w in self.worlds + [self.natural] for r in w.runs]
        need(all(isinstance(i, int) and not isinstance(i, bool) for i in runs), "no run")
        need(
            len(set(runs)) == len(runs) and not set(runs) & {*used, reference}, "a run counts twice"
        )
        numbers, first = threads_told(self.run(reference)), shown_pins(self.run(runs[0]))
        need(numbers, "A did not tell its numbers of threads")
        for n, (i, kind) in enumerate(zip(runs, order)):
            run, last = self.run(i), n == len(runs) - 1
            need(shown_pins(run) == first, "run %d was made otherwise", i)
            told, asked = threads_told(run), threads_asked(run)
            need((told == asked == numbers) if kind == "H" else not asked, "run %d had %s", i, told)
            need(kind == "H" or told != numbers, "run %d had A's numbers", i)
            self.compared(reference, i, kind == "F" or (last and not through))
        need(through or order[len(runs) - 1] == "H", "the last one is not held")
        p = 1 / math.comb(7, 3) if through else 1
        need(math.isclose(real(claim, "p"), p, rel_tol=CLOSE), "p is %g", p)
        return "B with A's numbers of threads %s, %d runs" % (
            "agrees with A, and B as it is diverges" if through else "still diverges",
            len(runs),
        )

    def pair(self, claim):
        """A verdict of two runs: its own claims hold, and what it says is what is claimed."""
        a, b = number(claim, "runs", 0, least=1), number(claim, "runs", 1, least=1)
        verdict, diverged = claim.get("verdict"), flag(claim, "diverged")
        need(isinstance(verdict, dict), "it has no verdict")
        outcome = verdict.get("outcome")
        words = flag(claim, "words")
        need(
            words == (diverged and outcome == "inconclusive"),
            "the verdict of runs %d and %d is %s",
            a,
            b,
            outcome,
        )
        need(
            (outcome == "differ") == diverged or words,
            "the verdict of runs %d and %d is %s",
            a,
            b,
            outcome,
        )
        need(
            not words or show_another(self.run(a), self.run(b)),
            "runs %d and %d printed and wrote the same",
            a,
            b,
        )
        self.recheck_pair(verdict, [self.run(a), self.run(b)], diverged, self.arms)
        return "runs %d and %d %s" % (a, b, "differ" if diverged else "agree")

    def one(self, claim):
        if not isinstance(claim, dict) or claim.get("claim") not in self.KINDS:
            return "refuted", "nobody knows how to recheck this kind of claim"
        try:
            return "confirmed", getattr(self, claim["claim"])(claim)
        except Refuted as e:
            return "refuted", str(e)
        except (
            KeyError,
            IndexError,
            TypeError,
            ValueError,
            AttributeError,
            OSError,
            ArithmeticError,
        ) as e:
            return "refuted", "its evidence is malformed: %s: %s" % (type(e).__name__, e)


def show_another(a, b):
    """Have two runs printed or written other bytes? With --text that is a divergence, whatever it
    means.
    """

    def shown(run):
        streams = [run.json.get(name, {}).get("sha256") for name in ("stdout", "stderr")]
        files = (
            {f.get("path"): f.get("sha256") for f in items(run.json, "files")}
            if "files" in run.json
            else {}
        )
        return streams, files

    return shown(a) != shown(b)


class Agreement:
    """A search that found no divergence: every run agrees with the first."""

    KINDS = ("search", "pair")
    run, pair, one, only = Search.run, Search.pair, Search.one, Search.only

    def __init__(self, verdict, claims, runs, recheck_pair):
        self.verdict, self.claims, self.runs, self.recheck_pair = (
            verdict,
            claims,
            runs,
            recheck_pair,
        )
        self.arms = flag(self.only("search"), "arms")

    def search(self, claim):
        need(word(claim, "outcome") == self.verdict.get("outcome"), "the outcome is another one")
        pairs = [c for c in self.claims if isinstance(c, dict) and c.get("claim") == "pair"]
        others = [number(p, "runs", 1, least=2) for p in pairs]
        need(all(number(p, "runs", 0) == 1 for p in pairs), "a run was not compared with the first")
        need(others == list(range(2, len(self.runs) + 1)), "a run was not compared, or twice")
        need(
            number(claim, "comparisons", least=1) == len(pairs),
            "there are %d comparisons",
            len(pairs),
        )
        need(not any(flag(p, "diverged") for p in pairs), "a run diverged")
        need(
            not any(p["verdict"].get("outcome") == "inconclusive" for p in pairs),
            "of a pair that did not differ too little was compared",
        )
        ids = [run.json.get("id") for run in self.runs]
        need(len(set(ids)) == len(ids) and None not in ids, "a run counts twice")
        other = any(run.json.get("argv") != self.run(1).json.get("argv") for run in self.runs)
        need(other == self.arms, "the runs are of %s", "two commands" if other else "one command")
        bound = 1 - 0.05 ** (1 / len(pairs))
        need(math.isclose(real(claim, "bound"), bound, rel_tol=1e-6), "the bound is %g", bound)
        return "%d runs agree with the first, so at most %.1f%% of comparisons diverge (95%%)" % (
            len(pairs),
            100 * bound,
        )


def recheck_search(verdict, claims, folders, recheck_pair):
    """[(state, kind, text)] of all claims of a search. recheck_pair(verdict, runs, diverged, arms)
    raises Refuted.
    """
    runs = [Run(f) for f in folders]
    if not runs:
        raise Trouble("no run folders: name them behind the verdict")
    try:
        kind = Agreement if verdict.get("outcome") == "no-divergence" else Search
        search = kind(verdict, claims, runs, recheck_pair)
    except (Refuted, TypeError, ValueError, KeyError) as e:
        return [("refuted", "search", str(e))]
    out = []
    for claim in claims:
        state, text = search.one(claim)
        out.append((state, claim.get("claim") if isinstance(claim, dict) else "?", text))
    if not any(kind == "search" for _, kind, _ in out):
        out.append(("refuted", "search", "no claim says what the outcome is"))
    return out
