#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the dependency order of the rooms: a file may include public headers and private headers only of rooms below its own.

base <- fingerprint, stats, launch <- trace, numerics, ledger, formats <- mpi, kernels, spread, telemetry, compare <- evidence <- sign, isolate, cases, study <- package <- report <- cmd; agents take base,
fingerprint and the trace writer.
Every `#include "..."` and `#include <twin/...>` of every C file is looked at; exit 1 with file:line on a breach.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Which rooms each room may call, besides itself. No arrow runs back up; rooms of one level do not call each other.
MAY = {
    "src/base": set(),
    "src/json": {"src/base"},
    "src/fingerprint": {"src/base"},
    "src/stats": {"src/base"},
    "src/launch": {"src/base", "src/json"},
    "src/trace": {"src/base", "src/fingerprint"},
    "src/numerics": {"src/base", "src/fingerprint"},
    "src/formats": {"src/base", "src/json", "src/fingerprint"},
    "src/spread": {"src/base", "src/json", "src/fingerprint", "src/stats", "src/numerics"},
    "src/ledger": {"src/base", "src/json"},
    "src/mpi": {"src/base", "src/fingerprint", "src/numerics"},
    "kernels": {"src/base", "src/fingerprint", "src/numerics"},
    "src/telemetry": {"src/base", "src/json", "src/stats"},
    "src/compare": {"src/base", "src/json", "src/fingerprint", "src/stats", "src/launch", "src/trace"},
    "src/evidence": {"src/base", "src/json", "src/fingerprint", "src/stats", "src/launch", "src/trace", "src/formats", "src/compare"},
    "src/sign": {"src/base", "src/json", "src/fingerprint", "src/stats", "src/launch", "src/trace", "src/formats", "src/compare", "src/evidence"},
    "src/package": {"src/base", "src/json", "src/fingerprint", "src/stats", "src/launch", "src/trace", "src/formats", "src/compare", "src/evidence", "src/sign"},
    "src/isolate": {"src/base", "src/json", "src/fingerprint", "src/stats", "src/launch", "src/trace", "src/compare"},
    "src/cases": {"src/base", "src/json", "src/fingerprint", "src/launch", "src/trace", "src/compare"},
    "src/study": {"src/base", "src/json", "src/fingerprint", "src/stats", "src/launch", "src/trace", "src/formats", "src/compare", "src/telemetry", "src/evidence", "src/numerics", "src/spread"},
    "src/report": {"src/base", "src/json", "src/fingerprint", "src/stats", "src/launch", "src/trace", "src/compare", "src/evidence", "src/sign", "src/package", "src/isolate", "src/telemetry", "src/ledger", "src/study", "src/spread"},
    "cmd": {"src/base", "src/json", "src/fingerprint", "src/stats", "src/launch", "src/trace", "src/compare", "src/isolate", "src/cases", "src/report", "src/numerics", "src/formats", "src/spread", "src/study",
            "src/evidence", "src/ledger", "src/sign", "src/package", "src/telemetry"},
    "agents": {"src/base", "src/fingerprint", "src/trace"},
}
# The room that owns each public header.
PUBLIC = {
    "error.h": "src/base", "fingerprint.h": "src/fingerprint", "stats.h": "src/stats", "significant.h": "src/stats", "scaling.h": "src/stats", "precision.h": "src/evidence", "random.h": "src/numerics", "run.h": "src/launch",
    "trace.h": "src/trace", "compare.h": "src/compare", "baseline.h": "src/compare", "isolate.h": "src/isolate", "search.h": "src/isolate", "asking_lines.h": "src/isolate", "arms.h": "src/isolate", "report.h": "src/report",
    "isolation.h": "src/report", "incident.h": "src/report", "page.h": "src/report", "field.h": "src/compare", "cases.h": "src/cases", "twin.h": "agents", "exact.h": "src/numerics", "scatter.h": "src/numerics", "reduce.h": "src/numerics",
    "ledger.h": "src/ledger",
    "tensors.h": "src/formats", "telemetry.h": "src/telemetry", "diagnosis.h": "src/report", "spread.h": "src/spread",
    "allreduce.h": "src/mpi", "cuda.h": "kernels", "nccl.h": "kernels",
    "config.h": "src/evidence", "content.h": "src/evidence", "ends.h": "src/evidence", "snapshot.h": "src/evidence", "layout.h": "src/evidence", "checkpoint.h": "src/evidence", "provenance.h": "src/evidence", "redact.h": "src/launch", "sign.h": "src/sign", "package.h": "src/package",
}
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<twin/([^>]+)>)')


def room_of(path):
    for room in MAY:
        if path.startswith(room + "/"):
            return room
    return None


def private_headers():
    owner = {}
    for room in MAY:
        for folder, _, names in os.walk(os.path.join(ROOT, room)):
            for name in names:
                if name.endswith(".h"):
                    owner.setdefault(name, set()).add(room)
    return owner


def main():
    owner, breaches, files = private_headers(), [], 0
    for room, allowed in MAY.items():
        for folder, _, names in os.walk(os.path.join(ROOT, room)):
            for name in sorted(names):
                if not name.endswith((".c", ".h", ".inc", ".cu", ".cuh")):
                    continue
                files += 1
                path = os.path.join(folder, name)
                shown = os.path.relpath(path, ROOT)
                with open(path, encoding="utf-8") as f:
                    for number, line in enumerate(f, 1):
                        found = INCLUDE.match(line)
                        if not found:
                            continue
                        private, public = found.groups()
                        if public:
                            owners = {PUBLIC.get(public, "?")}
                        else:
                            owners = owner.get(os.path.basename(private), {"?"})
                            if os.path.exists(os.path.join(folder, private)) or "?" in owners:
                                continue  # its own folder, or a system header in quotes
                        if room in owners or owners & allowed:
                            continue
                        breaches.append(f"{shown}:{number}: {room} includes {public or private} of {'/'.join(sorted(owners))}")
    for b in breaches:
        print(b)
    print(f"layers: {files} files, {len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
