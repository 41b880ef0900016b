# SPDX-License-Identifier: Apache-2.0
"""As much of Ray as twinrun.ray_run calls: a task runs in the caller's process. What was asked for
goes into the file $FAKE_RAY_ASKED, a line each; $FAKE_RAY says how it misbehaves: "away",
"elsewhere", "dies".
"""

import json
import os

NODES = ("r1", "r2", "r2")  # two of one name, which are called by their ids
_here = None


def init(**options):
    if os.environ.get("FAKE_RAY") == "away":
        raise ConnectionError("no\nhead\x1b[31m")
    assert options["address"], "a cluster of our own"
    print("2026 INFO a line of Ray's own")


def nodes():
    return [
        {
            "NodeID": f"id{i}",
            "NodeName": name,
            "NodeManagerAddress": "127.0.0.1",
            "Alive": i < 3,
            "Resources": {"CPU": 2.0, f"node:{name}": 1.0, "memory": 5.0 + i},
        }
        for i, name in enumerate((*NODES, "gone"))
    ]


class _Task:
    def __init__(self, function):
        self.function = function

    def options(self, **given):
        self.given = given
        return self

    def remote(self, *args):
        global _here
        where = self.given.pop("scheduling_strategy")
        _here = "id1" if os.environ.get("FAKE_RAY") == "elsewhere" else where.node_id
        with open(os.environ["FAKE_RAY_ASKED"], "a") as f:
            f.write(json.dumps({**self.given, "node": where.node_id, "soft": where.soft}) + "\n")
        if os.environ.get("FAKE_RAY") == "dies":
            raise RuntimeError("the worker died")
        return self.function(*args)


class _Context:
    @staticmethod
    def get_node_id():
        return _here


def remote(function):
    return _Task(function)


def get(result):
    return result


def get_runtime_context():
    return _Context
