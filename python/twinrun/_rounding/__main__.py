# SPDX-License-Identifier: Apache-2.0
"""Rounding or bug? Judges the recordings of two runs and prints the answer as one JSON object.

    python python/twinrun/_rounding RUN_A RUN_B

`twinrun check --explain rounding` starts this file's folder with the interpreter of the job.
Exit code 0 whatever was found; a failure is an object with "failed".
"""

import glob
import json
import os
import sys

import judge
import recording


def folders(run):
    """rank -> the recording of the process that recorded most."""
    found = {}
    for folder in glob.glob(os.path.join(run, "values", "rounding.*")):
        rank = os.path.basename(folder).split(".")[1]
        lines = os.path.join(folder, "operations.jsonl")
        size = os.path.getsize(lines) if os.path.exists(lines) else 0
        if size > found.get(rank, ("", -1))[1]:
            found[rank] = folder, size
    return {rank: folder for rank, (folder, _size) in found.items()}


def answer_of(run_a, run_b):
    one, other = folders(run_a), folders(run_b)
    shared = sorted(set(one) & set(other), key=int)
    if not shared:
        return {"failed": "no operation of PyTorch was recorded in both runs"}
    try:
        pair = [recording.Recording(folders[shared[0]]) for folders in (one, other)]
    except recording.Broken as error:
        return {"failed": "a recording cannot be followed: %s" % error}
    found = judge.judge(*pair)
    kinds = (judge.SAME, judge.ROUNDING, judge.BEYOND, judge.NOT_KNOWN, judge.INSIDE, judge.AFTER)
    notes = list(found.notes)
    if len(set(one) | set(other)) > 1:
        notes.append("only rank %s was judged" % shared[0])
    return {
        "outcome": found.outcome if not notes or found.finding else judge.NOT_KNOWN,
        "counts": {kind: found.count(kind) for kind in kinds},
        "finding": found.finding,
        "notes": notes,
        "operations": found.rows,
    }


def main():
    run_a, run_b = sys.argv[1:3]
    try:
        answer = answer_of(run_a, run_b)
    except (OSError, ValueError, KeyError, IndexError) as error:
        answer = {"failed": "a recording cannot be read: %s" % error}
    json.dump(answer, sys.stdout, allow_nan=False)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
