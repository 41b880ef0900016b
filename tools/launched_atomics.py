#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which kernels that a recorded run launched contain atomic additions of floats.

    TWINRUN_CUPTI=on twinrun record -- COMMAND
    tools/float_atomics.py -o CATALOGUE LIBRARY...
    tools/launched_atomics.py RUN CATALOGUE...

RUN is a run folder with records of CUPTI (docs/internals/cupti.md), CATALOGUE what
tools/float_atomics.py made of the libraries that the job uses. A kernel is known by its full name
alone, and may be in a catalogue for several architectures: which of them ran is not recorded.

"Contains" is all that is said. That a kernel was launched does not say that it got to such an
instruction, nor that two of its threads added to one address, which is where an order arises. And a
kernel that is in no catalogue may contain one: of code that was compiled while the job ran, and of
libraries that were not looked at, nothing is known. Exit code: 0 done, 2 trouble.
"""

import argparse
import json
import os
import sys
from collections import Counter

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "python"))
from twinrun.trace import PHASES, Trace, TraceError  # noqa: E402

KERNEL = PHASES.index("kernel")


class Bad(ValueError):
    """An input that does not fit; the text says which, and what was expected."""


def launches_of(trace):
    """(Counter of names, how many launches are not listed) of one process."""
    sequences, listed = [], {}
    for r in trace.records():
        s = trace.series[r.series]
        site = trace.string(s.site) if s.phase == KERNEL else ""
        if site == "sequence":
            sequences.append((r.digest[0], trace.layouts[r.layout].shape[0]))
        elif site == "launch":
            listed.setdefault(r.digest[0], {})[r.digest[1]] = trace.string(s.name)
    found, unlisted = Counter(), 0
    for digest, count in sequences:
        names = listed.get(digest, {})
        found.update(names.values())
        unlisted += count - len(names)
    return found, unlisted


def launched(run):
    folder = os.path.join(run, "kernels")
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    found, missing = Counter(), 0
    for name in names:
        if not name.endswith(".twt"):
            continue
        try:
            trace = Trace.open(os.path.join(folder, name))
            own, unlisted = launches_of(trace)
        except TraceError as e:
            raise Bad("%s cannot be read: %s" % (os.path.join(folder, name), e))
        notes = dict(trace.notes)
        found += own
        missing += unlisted + trace.info.dropped + trace.info.lost
        missing += int(notes.get(b"kernels.lost", b"0"))
    if not found:
        raise Bad(
            "%s: no launched kernel is recorded; expected %s/*.twt: record with TWINRUN_CUPTI=on"
            % (run, folder)
        )
    return found, missing


def catalogue_of(paths):
    """{function: [row]} of the kernels that are listed."""
    rows = {}
    for path in paths:
        with open(path, encoding="utf-8") as f:
            try:
                made = json.load(f)
            except ValueError as e:
                raise Bad("%s: no JSON: %s" % (path, e))
        if not isinstance(made, dict) or made.get("schema") != "twinrun.float-atomics/1":
            raise Bad("%s: expected a file that tools/float_atomics.py -o has written" % path)
        for one in made["files"]:
            for row in one["listed"]:
                if row["kernel"]:
                    rows.setdefault(row["function"], []).append(row)
    return rows


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", metavar="RUN", help="the folder of a recorded run")
    parser.add_argument("catalogue", nargs="+", metavar="CATALOGUE")
    options = parser.parse_args(argv)
    try:
        found, missing = launched(options.run)
        catalogue = catalogue_of(options.catalogue)
    except (OSError, KeyError, TypeError, Bad) as e:
        print("launched_atomics: %s" % e, file=sys.stderr)
        return 2
    adding = 0
    for name, times in sorted(found.items(), key=lambda item: (-item[1], item[0])):
        rows = [r for r in catalogue.get(name, []) if r["adds_floats"]]
        adding += bool(rows)
        for row in rows:
            what = ", ".join("%s %d times" % item for item in sorted(row["instructions"].items()))
            print(
                "%s, launched %d times, contains on %s: %s"
                % (name, times, row["architecture"], what)
            )
    print(
        "%d of the %d kernels that were launched contain atomic additions of floats by these "
        "catalogues; whether they were executed, and two threads added to one address, is not known"
        % (adding, len(found))
    )
    if missing:
        print("%d launches are not listed by name: what they contain is not known" % missing)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
