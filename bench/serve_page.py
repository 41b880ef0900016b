#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `twinrun serve` takes to answer the live page's questions about a comparison of ten million
cells: 1,000 tensors at 10,000 steps (100 without --full), half of which differ from the middle on.
The same again where they are one tensor of each of 1,000 ranks: traces with a record a step.

Bar: a view of it 0.5 s. The first answer compares the runs and takes as long as that does.

Usage: serve_page.py [--full]; prints rows `name value unit`.
"""

import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "agents"))
from serve_helper import BUILD, TWINRUN, serving  # noqa: E402

VIEWS = {
    "whole_256": "",
    "whole_512": "?rows=512&columns=512",
    "a_tenth_of_the_steps": "?from=4500&to=5499",
    "tensors_by_name": "?tensor=*e*",
}
ASKED = 20


def make(home, ranks, tensors, steps):
    """Two runs of `true`, with the traces of all ranks put into each folder; the rank in the middle
    differs from the step in the middle on.
    """
    for _ in range(2):
        subprocess.run([TWINRUN, "record", "-q", "--home", home, "--", "true"], check=True)
    runs = sorted(os.path.join(home, "runs", n) for n in os.listdir(os.path.join(home, "runs")))
    for i, run in enumerate(runs):
        folder = os.path.join(run, "ranks")
        os.makedirs(folder, exist_ok=True)
        other = steps // 2 if i else steps
        writer = os.path.join(BUILD, "bench", "many_ranks")
        words = [writer, folder, *map(str, (ranks, steps, ranks // 2, other, tensors))]
        subprocess.run(words, check=True)
    return runs


def measure(name, ranks, tensors, steps):
    with tempfile.TemporaryDirectory(prefix="twinrun-bench-") as home:
        runs = make(home, ranks, tensors, steps)
        begin = time.monotonic()
        subprocess.run(
            [TWINRUN, "diff", "--home", home, *runs],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TWINRUN_LEDGER": ""},
        )
        print(f"{name}_diff {time.monotonic() - begin:.2f} s")
        with serving(home) as s:
            path = "/api/v1/comparisons/" + s.get("/api/v1/verdicts").json["verdicts"][0]["id"]
            begin = time.monotonic()
            first = s.get(path)
            print(f"{name}_first {time.monotonic() - begin:.2f} s")
            if first.status != 200:
                sys.exit("serve_page: " + first.text)
            heat = first.json["heatmap"]
            print(f"# {heat['tensors']} tensors x {heat['steps']} steps")
            seen = heat["tensors"] * heat["steps"]
            if seen < ranks * tensors * steps or heat["mark"] is None:
                sys.exit("serve_page: this is not the comparison that was made")
            for view, asked in VIEWS.items():
                times, size = [], 0
                for _ in range(ASKED):
                    begin = time.monotonic()
                    answer = s.get(path + asked)
                    times.append(time.monotonic() - begin)
                    size = len(answer.body)
                    if answer.status != 200:
                        sys.exit("serve_page: " + answer.text)
                print(f"{name}_{view}_median {sorted(times)[ASKED // 2]:.4f} s")
                print(f"{name}_{view}_worst {max(times):.4f} s")
                print(f"{name}_{view}_bytes {size} B")


def main():
    many, steps = 1000 if "--full" in sys.argv else 100, 10000
    measure(f"serve_page_{many * steps}_cells", 1, many, steps)
    measure(f"serve_page_{many * steps}_cells_of_ranks", many, 1, steps)


if __name__ == "__main__":
    main()
