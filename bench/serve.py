# SPDX-License-Identifier: Apache-2.0
"""What a scrape of `twinrun serve` takes over a ledger of 10,000 runs (1,000,000 with --full) in
SQLite, and in PostgreSQL where Debian's server is installed; and what the snapshot behind it takes.

Bars: a scrape 50 ms at 10,000 runs in SQLite, 100 ms at 1,000,000 in PostgreSQL.
"""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "agents"))
from serve_helper import TWINRUN, serving, until, value  # noqa: E402
from test_ledger import Server, server_programs  # noqa: E402

PROJECTS, SCRAPES, ADDED, WRITTEN = 20, 50, 100, 20
RUNS = "id version recorded_ns home name label command argv host state exit_code start_ns wall_s steps records dropped gone data_root"
FACTS = "run_id recorded_ns project family contributor sweep inputs ci snapshots deterministic nondeterministic loss"
COMPARISONS = "id recorded_ns time_ns verb command outcome first first_step cause layer repeats checkpoints checkpoints_same checkpoints_unknown checkpoints_missing"


def rows(n, first=0):
    """Pairs of runs, of which every tenth diverged: rows for each table. With a first number, they
    are written down now."""
    now = time.time_ns()
    for i in range(first, first + n):
        start = now - (i + 1) * 25 * 86400 * 10**9 // n if first == 0 else now - 10**9
        run = f"{i:032x}"
        yield (
            "runs",
            (
                run,
                1,
                start,
                "",
                f"r{i}",
                "run",
                f"python train.py --seed {i % 7}",
                "[]",
                "node",
                "ok",
                0,
                start,
                60.0 + i % 13,
                100,
                1000,
                0,
                0,
                "",
            ),
        )
        yield (
            "facts",
            (
                run,
                start,
                f"project-{i % PROJECTS}",
                "resnet",
                "ana",
                "",
                f"inputs-{i // 2}",
                0,
                1,
                1,
                0,
                0.1 + i % 5 / 1000,
            ),
        )
        if i % 2:
            comparison = f"{10**9 + i:032x}"
            bad = i % 20 == 1
            yield (
                "comparisons",
                (
                    comparison,
                    start,
                    start + 10**9,
                    "check",
                    "python train.py",
                    "differ" if bad else "same",
                    "step 7",
                    7 if bad else -1,
                    "",
                    "backward" if bad else "",
                    1,
                    2,
                    1 if bad else 2,
                    0,
                    0,
                ),
            )
            yield "compared", (comparison, 0, f"{i - 1:032x}", "")
            yield "compared", (comparison, 1, run, "differs" if bad else "agrees")


COLUMNS = {
    "runs": RUNS,
    "facts": FACTS,
    "comparisons": COMPARISONS,
    "compared": "comparison_id place run_id agreed",
}


def insert_sqlite(home, n, first=0):
    db = sqlite3.connect(os.path.join(home, "ledger.db"))
    for table, row in rows(n, first):
        names = COLUMNS[table].replace(" ", ",")
        marks = ",".join("?" * len(row))
        db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", row)
    db.commit()
    if not first:
        db.execute("ANALYZE")
    db.close()


def fill_sqlite(home, n):
    subprocess.run([TWINRUN, "ls", "--home", home], check=True, capture_output=True)
    insert_sqlite(home, n)


def copy_postgres(url, n, first=0):
    """By psql's COPY: a million of INSERTs would take an hour. One transaction, as a command has."""
    with tempfile.TemporaryDirectory() as folder:
        files = {t: open(os.path.join(folder, t), "w") for t in COLUMNS}
        for table, row in rows(n, first):
            files[table].write("\t".join(map(str, row)) + "\n")
        copies = []
        for table, f in files.items():
            f.close()
            names = COLUMNS[table].replace(" ", ",")
            copies += ["-c", f"\\copy {table} ({names}) FROM '{f.name}'"]
        subprocess.run(["psql", "-q", "-1", url, *copies], check=True)
        if not first:
            subprocess.run(["psql", "-q", url, "-c", "ANALYZE"], check=True)


def fill_postgres(url, home, n):
    env = {**os.environ, "TWINRUN_LEDGER": url}
    subprocess.run([TWINRUN, "ls", "--home", home], check=True, capture_output=True, env=env)
    copy_postgres(url, n)


def memory(pid, key):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(key))


def shown(s):
    """Comparisons that the metrics say, over all projects."""
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in s.get("/metrics").text.splitlines()
        if line.startswith("twinrun_comparisons_total{")
    )


def measure_added(name, s, add):
    """From a commit of ADDED runs and half as many comparisons until they are shown: the first ones
    behind some quiet, the last one of a fleet that writes as soon as it can read."""
    before, times, took = shown(s), [], []
    time.sleep(60)
    for k in range(WRITTEN):
        add(k)
        begin = time.monotonic()
        until(lambda k=k: shown(s) >= before + (k + 1) * ADDED // 2, 600)
        times.append(time.monotonic() - begin)
        took.append(value(s.metrics(), "twinrun_snapshot_duration_seconds"))
    print(f"{name}_added_shown_after {max(times[:3]):.2f} s at worst of 3")
    print(f"{name}_added_shown_busy {max(times):.2f} s at worst of {WRITTEN}")
    print(f"{name}_added_snapshot {sorted(took)[WRITTEN // 2]:.3f} s")
    print(f"{name}_memory_then {memory(s.process.pid, 'VmRSS') / 2**20:.0f} MiB")


def measure(name, home, add, env=None):
    begin = time.monotonic()
    with serving(home, env=env) as s:
        until(lambda: s.get("/metrics").status == 200, 600)
        print(f"{name}_first_metrics {time.monotonic() - begin:.3f} s")
        c = s.connection()
        times = []
        for _ in range(SCRAPES):
            begin = time.monotonic()
            c.request("GET", "/metrics")
            c.getresponse().read()
            times.append(time.monotonic() - begin)
        times.sort()
        print(f"{name}_scrape_median {times[SCRAPES // 2] * 1e3:.2f} ms")
        print(f"{name}_scrape_worst {times[-1] * 1e3:.2f} ms")
        m = s.metrics()
        print(f"{name}_snapshot {value(m, 'twinrun_snapshot_duration_seconds'):.3f} s")
        print(f"{name}_memory_peak {memory(s.process.pid, 'VmHWM') / 2**20:.0f} MiB")
        for path in ("/api/v1/runs", "/api/v1/verdicts", "/api/v1/incidents", "/"):
            begin = time.monotonic()
            assert s.get(path).status == 200
            label = path.rsplit("/", 1)[-1] or "page"
            print(f"{name}_{label} {(time.monotonic() - begin) * 1e3:.2f} ms")
        measure_added(name, s, add)


def main():
    full = "--full" in sys.argv
    n = 1_000_000 if full else 10_000
    with tempfile.TemporaryDirectory() as home:
        fill_sqlite(home, n)
        measure(f"serve_sqlite_{n}", home, lambda k: insert_sqlite(home, ADDED, n + k * ADDED))
    if not server_programs():
        print("# no PostgreSQL server here")
        return
    server = Server()
    server.start()
    try:
        with tempfile.TemporaryDirectory() as home:
            fill_postgres(server.url, home, n)
            measure(
                f"serve_postgresql_{n}",
                home,
                lambda k: copy_postgres(server.url, ADDED, n + k * ADDED),
                env={"TWINRUN_LEDGER": server.url},
            )
    finally:
        server.stop()
        shutil.rmtree(server.dir, ignore_errors=True)


if __name__ == "__main__":
    main()
