# SPDX-License-Identifier: Apache-2.0
"""Two builds of the benchmarks, run in turns: what `./dev bench --against REV` prints.

usage: bench/against.py OLD NEW [--rounds N] [--python P] [NAME...]

OLD and NEW are folders: each has the source in `tree` and the build in `build`. A round runs a
benchmark of the one and at once that of the other, in changing order, so that what else the machine
does meets both. Of each row: the medians, the median of the rounds' ratios (new over old) and the
lowest and highest of them. NAME: bench_NAME or bench/NAME.py; none: every program that both have.
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path


def command(side: Path, name: str, python: str) -> list[str] | None:
    program = side / "build/bench" / f"bench_{name}"
    script = side / "tree/bench" / f"{name}.py"
    if program.is_file():
        return [str(program)]
    return [python, str(script)] if script.is_file() else None


def rows(side: Path, name: str, python: str) -> dict:
    """One run: (row, unit) -> value."""
    ran = subprocess.run(
        command(side, name, python),
        cwd=side / "tree",
        env={**os.environ, "TWINRUN_BUILD": str(side / "build")},
        stdout=subprocess.PIPE,
        text=True,
    )
    if ran.returncode:
        print(f"against: {name} of {side} ended with {ran.returncode}", file=sys.stderr)
    found = {}
    for line in ran.stdout.splitlines():
        words = line.split()
        try:
            found[words[0], words[2]] = float(words[1])
        except (IndexError, ValueError):
            continue  # a row that holds no number
    return found


def compare(sides: list[Path], name: str, rounds: int, python: str) -> None:
    values = {}
    for r in range(rounds):
        turn = (0, 1) if r % 2 == 0 else (1, 0)
        both = {side: rows(sides[side], name, python) for side in turn}
        for key in both[0]:
            if key in both[1]:
                values.setdefault(key, []).append((both[0][key], both[1][key]))
    for (row, unit), pairs in values.items():
        old, new = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
        ratios = sorted(b / a for a, b in pairs if a)
        if not ratios:
            continue
        middle = statistics.median(ratios)
        spread = f"[{ratios[0]:.3f}, {ratios[-1]:.3f}]"
        print(f"{row} {old:g} -> {new:g} {unit}, {middle:.3f} {spread}")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    sides = [options.old.resolve(), options.new.resolve()]
    programs = (sides[1] / "build/bench").glob("bench_*")
    names = options.names or sorted(
        p.name.removeprefix("bench_") for p in programs if p.is_file() and os.access(p, os.X_OK)
    )
    for name in names:
        here = [command(side, name, options.python) is not None for side in sides]
        if all(here):
            print(f"# {name}", flush=True)
            compare(sides, name, options.rounds, options.python)
        elif options.names or any(here):
            print(f"# {name}: only one of the two has it", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
