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
import ranks
import recording
import shared


def folders(run):
    """rank -> the recording of the process that recorded most."""
    found = {}
    for folder in sorted(glob.glob(os.path.join(glob.escape(run), "values", "rounding.*"))):
        rank = os.path.basename(folder).split(".")[1]
        lines = os.path.join(folder, "operations.jsonl")
        size = os.path.getsize(lines) if os.path.exists(lines) else 0
        if size > found.get(rank, ("", -1))[1]:
            found[rank] = folder, size
    return {rank: folder for rank, (folder, _size) in found.items()}


def arm_of(found):
    """The recording of an arm; of several ranks: all of them, joined."""
    each = {int(rank): recording.Recording(found[rank]) for rank in sorted(found, key=int)}
    joined = len(each) > 1 or any(op.members for one in each.values() for op in one.operations)
    return ranks.Joined(each) if joined else next(iter(each.values()))


def answer_of(run_a, run_b):
    one, other = folders(run_a), folders(run_b)
    if not one or not other:
        return {"failed": "no operation of PyTorch was recorded in both runs"}
    try:
        pair = [arm_of(found) for found in (one, other)]
    except recording.Broken as error:
        return {"failed": "a recording cannot be followed: %s" % error}
    found = judge.judge(*pair)
    kinds = (judge.SAME, judge.ROUNDING, judge.BEYOND, judge.NOT_KNOWN, judge.INSIDE, judge.AFTER)
    notes = list(found.notes)
    return {
        "outcome": found.outcome if not notes or found.finding else judge.NOT_KNOWN,
        "counts": {kind: found.count(kind) for kind in kinds},
        "finding": found.finding,
        "notes": notes,
        "recorded": [sorted(map(os.path.basename, arm.values())) for arm in (one, other)],
        "ranks": {"a": pair[0].ranks, "b": pair[1].ranks, **shared.counted(pair[1])},
        "operations": found.rows,
    }


def keep(answer, run_b):
    """All of it goes to rounding.json in B's run folder; what is printed has no list of operations."""
    try:
        with open(os.path.join(run_b, "rounding.json.part"), "w", encoding="utf-8") as file:
            json.dump(answer, file, allow_nan=False)
        os.replace(file.name, os.path.join(run_b, "rounding.json"))
    except OSError as error:
        answer["unkept"] = str(error)
    answer.pop("operations", None)


def main():
    run_a, run_b = sys.argv[1:3]
    try:
        answer = answer_of(run_a, run_b)
    except (OSError, ValueError, KeyError, IndexError) as error:
        answer = {"failed": "a recording cannot be read: %s" % error}
    keep(answer, run_b)
    json.dump(answer, sys.stdout, allow_nan=False)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
