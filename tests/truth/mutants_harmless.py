# SPDX-License-Identifier: Apache-2.0
"""Harmless mutants: the same run at another time, with other pids, sealed in other blocks."""

import shutil

from mutant_tools import harmless, save
from traces import Edited
from twinrun.trace import STATS


@harmless
def nothing(copy, random):
    return "a copy"


@harmless
def resealed(copy, random):
    """Other blocks, another index, the same records."""
    for name in copy.traces():
        save(copy, name, Edited.read(copy.folder / name))
    return "sealed anew"


@harmless
def times(copy, random):
    for name in copy.traces():
        trace = Edited.read(copy.folder / name)
        trace.records = [
            r._replace(time_ns=r.time_ns + random.randrange(1 << 40)) for r in trace.records
        ]
        trace.header[10] += random.randrange(1 << 30)
        trace.header[11] += random.randrange(1 << 30)
        save(copy, name, trace)
    return "times of records"


@harmless
def thread_numbers(copy, random):
    for name in copy.traces():
        trace = Edited.read(copy.folder / name)
        trace.records = [r._replace(thread=r.thread + 3) for r in trace.records]
        save(copy, name, trace)
    return "numbers of threads"


@harmless
def definitions_in_another_order(copy, random):
    for name in copy.traces():
        trace = Edited.read(copy.folder / name)
        ids = list(trace.series)
        new = dict(zip(ids, random.sample(ids, len(ids))))
        trace.series = {new[i]: s for i, s in trace.series.items()}
        trace.records = [r._replace(series=new[r.series]) for r in trace.records]
        save(copy, name, trace)
    return "ids of series"


@harmless
def another_pid(copy, random):
    """The process, its trace, what it printed and what run.json says have another pid."""
    run = copy.run
    old = {str(p["pid"]): str(p["pid"] + 1000 + random.randrange(900)) for p in run["processes"]}
    for p in run["processes"]:
        p["pid"] = int(old[str(p["pid"])])
        p["ppid"] = int(old.get(str(p["ppid"]), p["ppid"]))
    copy.run = run
    listed = [line.split(b" ") for line in (copy.folder / "processes").read_bytes().split(b"\n")]
    for line in listed:
        line[:2] = [old.get(w.decode(), w.decode()).encode() for w in line[:2]]
    copy.write("processes", b"\n".join(b" ".join(line) for line in listed))
    data = (copy.folder / "stdout").read_bytes()
    for pid, new in old.items():
        data = data.replace(b"pid " + pid.encode(), b"pid " + new.encode())
    copy.stream("stdout", data)
    for name in copy.traces():
        rank, pid = name[6:-4].split(".")
        trace = Edited.read(copy.folder / name)
        trace.header[5] = int(old.get(pid, pid))
        save(copy, name, trace)
        if pid in old:
            (copy.folder / name).rename(copy.folder / ("ranks/%s.%s.twt" % (rank, old[pid])))
    return ", ".join("%s for %s" % (n, o) for o, n in old.items())


@harmless
def another_time(copy, random):
    data = (copy.folder / "stdout").read_bytes()
    if b"done in" not in data:
        return None
    head, tail = data.rsplit(b"done in ", 1)
    rest = tail.split(b"s by", 1)[1]
    moment = copy.run["start_realtime_ns"] // 10**9 + random.randrange(60)
    rest = rest.rsplit(b" ", 1)[0] + b" %d\n" % moment
    copy.stream("stdout", head + b"done in %.2fs by" % (random.random() * 9) + rest)
    return "time of day, duration"


@harmless
def run_json_in_another_order(copy, random):
    run = copy.run
    for key in ("files", "processes"):
        random.shuffle(run[key])
    copy.run = dict(sorted(run.items(), reverse=True))
    return "order of run.json"


@harmless
def without_counters(copy, random):
    shutil.rmtree(copy.folder / "telemetry", ignore_errors=True)
    for name in ("provenance.json", "progress"):
        (copy.folder / name).unlink(missing_ok=True)
    return "no telemetry, no provenance"


@harmless
def other_threads_first(copy, random):
    """Threads take turns in another way: each one's own records stay in order."""
    some = False
    for name in copy.traces():
        trace = Edited.read(copy.folder / name)
        main = {i for i, s in trace.series.items() if s.role == 0}
        by_step = {}
        for r in trace.records:
            by_step.setdefault(r.step, []).append(r)
        trace.records = []
        for step in sorted(by_step):
            queues = {}
            for r in by_step[step]:
                queues.setdefault((r.thread, r.series in main), []).append(r)
            some |= len(queues) > 1
            if random.random() < 0.5:
                order = sorted(queues, reverse=True)
                trace.records += [r for q in order for r in queues[q]]
            else:
                while queues:
                    q = random.choice(sorted(queues))
                    trace.records.append(queues[q].pop(0))
                    if not queues[q]:
                        del queues[q]
        save(copy, name, trace.renumber())
    return "interleaving" if some else None


@harmless
def without_statistics(copy, random):
    for name in copy.traces():
        trace = Edited.read(copy.folder / name)
        trace.records = [r._replace(flags=r.flags & ~STATS, stats=None) for r in trace.records]
        save(copy, name, trace)
    return "no statistics"


@harmless
def a_note_more(copy, random):
    for name in copy.traces():
        trace = Edited.read(copy.folder / name)
        trace.notes.append((b"weather", b"rain"))
        save(copy, name, trace)
    return "a note"
