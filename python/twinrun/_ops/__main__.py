# SPDX-License-Identifier: Apache-2.0
"""Measures the catalogue of operations in fresh processes and prints what came of it, one JSON
object a line.

    python python/twinrun/_ops '{"device": "cpu", "threads": [1, 2], "runs": 10, "patterns":
    ["scatter*"], "limit": 60}'

`twinrun ops` starts this file's folder (so that neither the working folder nor an installed twinrun
gets in the way) and judges what it prints: {"plan"}, {"progress"} as often as a row begins,
{"about"}, one {"row"} each, or {"failed"}. PyTorch is loaded by the processes that measure, never
here: an operation that crashes or stands still costs its row, not the catalogue.
"""

import fnmatch
import json
import os
import queue
import subprocess
import sys
import threading

import catalogue

HERE = os.path.dirname(os.path.abspath(__file__))
START_SECONDS = 240


def say(**values):
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def lines_of(process, limit):
    """Its JSON lines; None when it says nothing for `limit()` seconds. (A thread, since a buffered
    pipe cannot be polled.)
    """
    lines = queue.Queue()

    def read():
        for line in process.stdout:
            lines.put(line)
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=limit())
        except queue.Empty:
            yield None
            return
        if not line:
            return
        if line.startswith("{"):  # whatever a sitecustomize prints
            yield json.loads(line)


class Part:
    """One fresh process after the other until every row was measured; each but the last ended badly
    within a row.
    """

    def __init__(self, plan, names, runs, cost, begin):
        self.plan, self.names, self.runs, self.cost, self.begin = (
            plan,
            list(names),
            runs,
            cost,
            begin,
        )
        self.rows, self.about, self.failed = {}, None, None

    def run(self):
        while self.names and not self.failed:
            self.one_process()
        return self

    def one_process(self):
        request = dict(
            device=self.plan["device"],
            threads=self.plan["threads"],
            runs=self.runs,
            names=self.names,
            cost=self.cost,
        )
        process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "measure.py"), json.dumps(request)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )
        current, errors = None, []
        drain = threading.Thread(target=lambda: errors.extend(process.stderr), daemon=True)
        drain.start()
        try:  # between rows PyTorch is being loaded, which may take long on a cold disk
            for line in lines_of(process, lambda: self.plan["limit"] if current else START_SECONDS):
                if line is None:
                    break
                current = self.take(line, current)
            else:
                process.wait(10)
        except subprocess.TimeoutExpired:
            pass
        finally:
            halted = process.poll() is None
            process.kill()
            code = process.wait()
        drain.join(5)
        self.close(current, halted, code, errors)

    def take(self, line, current):
        """Stores a line; returns the row that is being measured, or None between rows."""
        if "begin" in line:
            self.begin(line["begin"])
            return line["begin"]
        if "row" in line:
            name = line["row"]["name"]
            self.rows[name] = line["row"]
            self.names.remove(name)
            return None
        self.about = line.get("about", self.about)
        self.failed = line.get("failed", self.failed)
        return current

    def close(self, current, halted, code, errors):
        if not self.names or self.failed:
            return
        if current is None:  # not within a row: another try would end in the same way
            last = "".join(errors).strip().splitlines()
            self.failed = (
                "PyTorch was not loaded within %d s" % START_SECONDS
                if halted
                else last[-1][:300]
                if last
                else "the measuring process ended with code %d" % code
            )
            return
        why = (
            "no result within %d s" % self.plan["limit"]
            if halted
            else "the process was ended by signal %d" % -code
            if code < 0
            else "the process ended with code %d" % code
        )
        self.rows[current] = {"name": current, "error": why}
        self.names.remove(current)


def classes(first, second):
    """How the results of two processes compare with the very first one."""
    everything = first + second
    return {
        "runs": len(everything),
        "differ": sum(d != everything[0] for d in everything[1:]),
        "classes": len(set(everything)),
        "between_processes_only": len(set(everything)) > 1
        and len(set(first)) == 1
        and len(set(second)) == 1,
    }


def merged(row, a, b):
    """What is known of a row from both processes."""
    out = {"name": row.name, "instead": row.instead}
    for part in (a, b):
        if "error" in part:
            return dict(out, error=part["error"])
    out["threads"] = [
        dict(classes(digests, b["threads"][count]), threads=int(count))
        for count, digests in a["threads"].items()
    ]
    out["threads_change"] = len({digests[0] for digests in a["threads"].values()}) > 1
    raises = a["flag"].get("raises") or b["flag"].get("raises")
    if raises:
        return dict(out, flag={"raises": raises})
    last = list(a["threads"].values())[-1]  # the flag was measured at the last thread count
    flag = classes(a["flag"]["digests"], b["flag"]["digests"])
    flag["changes_bits"] = a["flag"]["digests"][0] != last[0]
    flag["rounds"] = a["flag"].get("rounds", [])
    return dict(out, flag=flag)


def main():
    plan = json.loads(sys.argv[1])
    rows = [
        r
        for r in catalogue.ROWS
        if not plan["patterns"]
        or any(fnmatch.fnmatch(r.name, p) or p in r.name for p in plan["patterns"])
    ]
    done = [0]

    def begin(name):
        say(progress={"name": name, "done": done[0], "of": 2 * len(rows)})
        done[0] += 1

    if not rows:
        say(
            failed="no operation matches %s; without --op all of them are listed"
            % ", ".join(plan["patterns"])
        )
        return 0
    names = [r.name for r in rows]
    a = Part(plan, names, plan["runs"] - plan["runs"] // 2, True, begin).run()
    b = Part(
        plan,
        [n for n in names if "error" not in a.rows.get(n, {})],
        plan["runs"] // 2,
        False,
        begin,
    )
    if not a.failed:
        b.run()
    failed = a.failed or b.failed
    if failed:
        say(failed=failed)
        return 0
    say(about=a.about)
    for r in rows:
        one = a.rows[r.name]
        say(row=merged(r, one, one if "error" in one else b.rows[r.name]))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (KeyboardInterrupt, BrokenPipeError):
        os._exit(130)
