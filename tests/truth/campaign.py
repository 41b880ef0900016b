# SPDX-License-Identifier: Apache-2.0
"""The mutation campaign: a mutant that says something else is not the same, a harmless one is.

    python tests/truth/campaign.py [--count N] [--seed S] [--job NAME] [--workers N] [--build DIR]

For each mutant `twinrun diff --json` compares the original with it, and twinrun.recheck holds every
claim of the verdict against the two folders. Prints counts by kind, exits 1 when a bar is missed;
tests/truth/test_campaign.py runs a few hundred.
"""

import argparse
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, namedtuple
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]

import mutants  # noqa: E402
import pool  # noqa: E402
from twinrun import recheck  # noqa: E402

Judged = namedtuple("Judged", "job kind seed what outcome refuted bad")
TMP = "/dev/shm" if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK) else None


def diff(build, a, b):
    env = {k: v for k, v in os.environ.items() if not k.startswith("TWINRUN_")}
    env["TWINRUN_HOME"] = "/nonexistent"
    done = subprocess.run(
        [Path(build) / "cmd" / "twinrun", "diff", "--json", a, b],
        env=env,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout


def judge(build, recorded, kind, seed, folder):
    """One mutant. None where this kind cannot be made of this run."""
    rng = random.Random("%s %s %d" % (recorded.name, kind, seed))
    make = mutants.HARMFUL.get(kind) or mutants.HARMLESS[kind]
    place = Path(folder) / "mutant"
    shutil.rmtree(place, ignore_errors=True)
    copy = mutants.Copy(recorded.b, place)
    what = make(copy, rng)
    if what is None:
        return None
    code, out = diff(build, recorded.a, place)
    outcome = json.loads(out)["outcome"] if out.strip() else "error"
    if code not in (0, 1, 2, 3) or (code == 2) != (outcome == "error"):
        outcome = "exit %d, %s" % (code, outcome)
    refuted = []
    if outcome != "error" and out.strip():
        verdict = Path(folder) / "verdict.json"
        verdict.write_text(out)
        refuted = ["%s: %s" % r[1:] for r in recheck.recheck(str(verdict)) if r[0] == "refuted"]
    wrong = outcome == "same" if kind in mutants.HARMFUL else outcome != "same"
    bad = wrong or outcome not in ("same", "differ", "inconclusive", "error") or bool(refuted)
    return Judged(recorded.name, kind, seed, what, outcome, refuted, bad)


def plan(jobs, count, seed):
    """(job, kind, seed) of `count` mutants: each kind of each job in turn."""
    kinds = list(mutants.HARMFUL) + list(mutants.HARMLESS)
    out = []
    while len(out) < count:
        out.extend(
            (job, kind, seed + len(out) // (len(jobs) * len(kinds)))
            for job in jobs
            for kind in kinds
        )
    return out[:count]


def run(build, recorded, tasks):
    """Judges tasks of recorded jobs one after the other."""
    with tempfile.TemporaryDirectory(prefix="mutants-", dir=TMP) as folder:
        base = {}
        for name in {t[0] for t in tasks} & set(recorded):
            kept = [Path(folder) / name / side for side in "ab"]
            for source, target in zip(recorded[name][1:3], kept):
                shutil.copytree(source, target)
            base[name] = recorded[name]._replace(a=kept[0], b=kept[1])
        for job, kind, seed in tasks:
            result = judge(build, base[job], kind, seed, folder) if job in base else None
            if result:
                yield result


def _part(args):
    return list(run(*args))


def table(results):
    """Lines: for each kind how many there were, what was said, and what is wrong."""
    lines = []
    for kind in list(mutants.HARMFUL) + list(mutants.HARMLESS):
        mine = [r for r in results if r.kind == kind]
        if mine:
            said = Counter(r.outcome for r in mine)
            bad = sum(r.bad for r in mine)
            counts = ", ".join("%d %s" % (n, o) for o, n in said.most_common())
            lines.append(
                "%-30s %5d  %s%s" % (kind, len(mine), counts, "   %d BAD" % bad if bad else "")
            )
    return lines


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--count", type=int, default=600)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--job", action="append")
    p.add_argument("--kind", action="append")
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--build", default=os.environ.get("TWINRUN_BUILD", "build"))
    args = p.parse_args()
    build = Path(args.build).resolve()
    with tempfile.TemporaryDirectory(prefix="pool-") as home:
        found = {n: pool.record(n, Path(home) / n, build) for n in args.job or pool.JOBS}
        recorded = {n: r for n, r in found.items() if r}
        tasks = plan(list(recorded), args.count, args.seed)
        if args.kind:
            tasks = [t for t in tasks if t[1] in args.kind]
        parts = [(build, recorded, tasks[k :: args.workers]) for k in range(args.workers)]
        with multiprocessing.Pool(args.workers) as workers:
            results = [r for part in workers.map(_part, parts) for r in part]
    for r in results:
        if r.bad:
            print(
                "BAD  %s %s seed %d: %s: %s %s"
                % (r.job, r.kind, r.seed, r.what, r.outcome, "; ".join(r.refuted)[:300])
            )
    print("\n".join(table(results)))
    wrong_same = sum(r.kind in mutants.HARMFUL and r.outcome == "same" for r in results)
    wrong_other = sum(r.kind in mutants.HARMLESS and r.outcome != "same" for r in results)
    refuted = sum(bool(r.refuted) for r in results)
    print(
        "%d mutants of %d jobs, seed %d: %d called SAME wrongly, %d harmless ones not called SAME, "
        "%d verdicts with a refuted claim"
        % (len(results), len(recorded), args.seed, wrong_same, wrong_other, refuted)
    )
    return 1 if any(r.bad for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
