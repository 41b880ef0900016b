# SPDX-License-Identifier: Apache-2.0
"""Mutants in what the traces say: records, steps, processes; sealed anew, so well-formed."""

from mutant_tools import HARMFUL, STATE, harmful, on_result, results, save, where
from traces import Edited
from twinrun.trace import KINDS, UNOBSERVED


@harmful
@on_result
def digest(trace, i, random):
    r = trace.records[i]
    a, b = r.digest
    trace.records[i] = r._replace(digest=(a ^ 1 << random.randrange(64), b))


@harmful
@on_result
def digest_of_no_elements(trace, i, random):
    if trace.records[i].digest == (0, 0):
        return False
    trace.records[i] = trace.records[i]._replace(digest=(0, 0))


@harmful
@on_result
def drop_record(trace, i, random):
    del trace.records[i]
    trace.renumber()


@harmful
@on_result
def twice(trace, i, random):
    trace.records.insert(i + 1, trace.records[i])
    trace.renumber()


@harmful
@on_result
def unobserved(trace, i, random):
    trace.records[i] = trace.records[i]._replace(
        flags=trace.records[i].flags | UNOBSERVED, digest=(0, 0)
    )


@harmful
@on_result
def rename(trace, i, random):
    r = trace.records[i]
    new = trace.string(trace.strings.get(trace.series[r.series].name, b"") + b"x")
    trace.records[i] = r._replace(series=trace.series_like(r, name=new))
    trace.renumber()


@harmful
@on_result
def other_scope(trace, i, random):
    r = trace.records[i]
    new = trace.string(trace.strings.get(trace.series[r.series].scope, b"") + b".y")
    trace.records[i] = r._replace(series=trace.series_like(r, scope=new))
    trace.renumber()


@harmful
@on_result
def other_kind(trace, i, random):
    r = trace.records[i]
    kind = random.choice(
        [k for k in range(1, len(KINDS)) if k not in (STATE, trace.series[r.series].kind)]
    )
    trace.records[i] = r._replace(series=trace.series_like(r, kind=kind))
    trace.renumber()


@harmful
@on_result
def dtype(trace, i, random):
    r = trace.records[i]
    old = trace.layouts.get(r.layout)
    if not old:
        return False
    trace.records[i] = r._replace(layout=trace.layout(old.dtype % 20 + 1, old.shape))


@harmful
@on_result
def shape(trace, i, random):
    r = trace.records[i]
    old = trace.layouts.get(r.layout)
    if not old:
        return False
    trace.records[i] = r._replace(layout=trace.layout(old.dtype, (1,) + tuple(old.shape)))


@harmful
@on_result
def other_step(trace, i, random):
    r = trace.records[i]
    if trace.steps < 2 or r.step + 1 >= trace.steps:
        return False
    if any(s.role for s in trace.series.values()):
        return False  # threads: which step a record falls into is a matter of schedule
    trace.records[i] = r._replace(step=r.step + 1)
    trace.renumber()


# ---- permutations


def two(trace, random, fits):
    choice = results(trace)
    random.shuffle(choice)
    for n, i in enumerate(choice[:40]):
        for k in choice[n + 1 : n + 200]:
            if trace.records[i].digest != trace.records[k].digest and fits(
                trace.records[i], trace.records[k]
            ):
                return i, k
    return None


def exchange(fits):
    def mutant(copy, random):
        name, trace = copy.pick(random)
        found = two(trace, random, fits) if trace else None
        if not found:
            return None
        i, k = found
        r, q = trace.records[i], trace.records[k]
        trace.records[i] = r._replace(
            digest=q.digest, stats=q.stats if r.stats and q.stats else r.stats
        )
        trace.records[k] = q._replace(
            digest=r.digest, stats=r.stats if r.stats and q.stats else q.stats
        )
        save(copy, name, trace)
        return "%s: %s and %s" % (name, where(trace, r), where(trace, q))

    return mutant


HARMFUL["permute-occurrences"] = exchange(lambda r, q: r.step == q.step and r.series == q.series)
HARMFUL["exchange-steps"] = exchange(lambda r, q: r.step != q.step and r.series == q.series)
HARMFUL["exchange-names"] = exchange(lambda r, q: r.step == q.step and r.series != q.series)


# ---- steps, processes


@harmful
def drop_step(copy, random):
    name, trace = copy.pick(random)
    if not trace or trace.steps < 2:
        return None
    step = random.randrange(trace.steps)
    kept = [r for r in trace.records if r.step != step]
    trace.records = [
        r._replace(step=r.step - 1, links=None, flags=r.flags & ~8) if r.step > step else r
        for r in kept
    ]
    trace.steps -= 1
    save(copy, name, trace)
    return "%s: step %d" % (name, step)


@harmful
def another_step(copy, random):
    name, trace = copy.pick(random)
    if not trace or trace.steps < 1:
        return None
    last = [r._replace(step=trace.steps) for r in trace.records if r.step == trace.steps - 1]
    trace.records = [r for r in trace.records if r.step < trace.steps] + last
    trace.steps += 1
    save(copy, name, trace)
    return name


@harmful
def exchange_two_steps(copy, random):
    name, trace = copy.pick(random)
    if not trace or trace.steps < 3:
        return None
    s = random.randrange(trace.steps - 1)
    turn = {s: s + 1, s + 1: s}
    trace.records = [
        r._replace(step=turn.get(r.step, r.step), links=None, flags=r.flags & ~8)
        for r in trace.records
    ]
    trace.renumber()
    save(copy, name, trace)
    return "%s: steps %d and %d" % (name, s, s + 1)


@harmful
def drop_process(copy, random):
    names = [n for n in copy.traces() if Edited.read(copy.folder / n).records]
    if not names:
        return None
    name = random.choice(names)
    (copy.folder / name).unlink()
    return name


@harmful
def drop_thread(copy, random):
    name, trace = copy.pick(random)
    roles = (
        sorted({(r.thread, trace.series[r.series].role) for r in trace.records}) if trace else []
    )
    if len(roles) < 2:
        return None
    thread = random.choice(roles)[0]
    trace.records = [r for r in trace.records if r.thread != thread]
    trace.renumber()
    save(copy, name, trace)
    return "%s: thread %d" % (name, thread)


@harmful
def exchange_ranks(copy, random):
    names = [n for n in copy.traces() if Edited.read(copy.folder / n).records]
    if len(names) < 2:
        return None
    x, y = (Edited.read(copy.folder / n) for n in names[:2])
    x.rank, y.rank = y.rank, x.rank
    save(copy, names[0], x)
    save(copy, names[1], y)
    return "%s and %s" % tuple(names[:2])


@harmful
def lost_calls(copy, random):
    name, trace = copy.pick(random)
    if not trace:
        return None
    trace.lost = random.randrange(1, 1000)
    save(copy, name, trace)
    return "%s: %d" % (name, trace.lost)


@harmful
def not_closed(copy, random):
    name, trace = copy.pick(random)
    if not trace:
        return None
    trace.closed = False
    trace.steps -= trace.steps > 0
    trace.records = [r for r in trace.records if r.step < trace.steps] or trace.records[:1]
    save(copy, name, trace)
    return name
