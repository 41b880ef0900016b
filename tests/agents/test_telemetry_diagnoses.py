# SPDX-License-Identifier: Apache-2.0
"""Telemetry: diagnoses of sets of runs. The runs are really recorded; other machines and other
times are simulated in copies of them.
"""

import json
import random
import shutil

import pytest

from conftest import FULL
from telemetry_runs import JOB, newest, simulate, twinrun, words


class Maker:
    """Run folders of a case. Runs are really recorded; what a machine of another kind, or at
    another time, would have written is put into copies.
    """

    def __init__(self, home, seed):
        self.home, self.rng, self.made = home, random.Random(seed), {}
        self.number = 0

    def original(self, *command):
        if command not in self.made:
            twinrun(self.home, "record", "-q", "--label", "original", "--", *command)
            self.made[command] = newest(self.home)
        return self.made[command]

    def copy(self, label, original, wall_s, step_s, processor=None, host=None, **simulated):
        """A run like `original`: of that label, as fast as said, on that machine, with decoys:
        names and times that mean nothing.
        """
        self.number += 1
        run = json.loads((original / "run.json").read_text())
        run["id"] = "%032x" % self.rng.getrandbits(128)
        run["label"], run["wall_s"] = label, wall_s
        run["host"] = host or "node%d" % self.rng.randint(1, 99)
        run["start_realtime_ns"] -= self.number * 3600 * 10**9
        folder = (
            self.home
            / "runs"
            / (
                "2026-01-01T%02d-%02d-00Z-%s-%s"
                % (self.number // 60, self.number % 60, label, run["id"][:8])
            )
        )
        shutil.copytree(original, folder)
        (folder / "run.json").write_text(json.dumps(run))
        world = json.loads((folder / "provenance.json").read_text())
        world["run"] = run["id"]
        world["host"] = run["host"]
        world["environment"]["memory"]["total_kib"] = self.rng.randint(10**7, 10**8)
        world["launch"].setdefault("variables", {})["SLURM_JOB_ID"] = str(
            self.rng.randint(1, 10**6)
        )
        for rank in world.get("ranks", []):
            rank.setdefault("variables", {})["TMPDIR"] = "/tmp/%d" % self.rng.randint(1, 10**6)
        if processor:
            world["environment"]["cpu"]["name"] = processor
            for rank in world.get("ranks", []):
                if "cpu" in rank.get("versions", {}):
                    rank["versions"]["cpu"] = processor
        (folder / "provenance.json").write_text(json.dumps(world))
        simulate(folder, self.rng, 1.0, step_s=step_s, steps=200, **simulated)
        return folder

    def diagnose(self, a, b):
        done = json.loads(twinrun(self.home, "report", "--json", "label:" + a, "label:" + b).stdout)
        return done["findings"], done


@pytest.fixture(params=range(12 if FULL else 1))
def maker(request, tmp_path):
    return Maker(tmp_path, request.param)


def names(maker):
    a = words(maker.rng)
    return a, a + words(maker.rng)


def test_accuracy_in_the_sixth_decimal(maker):
    """Two runs of the same code: the order of additions, numeric."""
    a, b = names(maker)
    at, train = maker.rng.randint(1, 15), [JOB, "--train", "20", "--last-bit-at"]
    step_s = maker.rng.uniform(0.01, 0.05)
    # The same command to the program: which rounding it makes is decided outside of it.
    one = maker.original(*train, str(at), "--bit", "0")
    other = maker.original(*train, str(at), "--bit", str(maker.rng.choice([1, 2, 5])))
    run = json.loads((one / "run.json").read_text())
    for k in range(2):
        maker.copy(a, one, 10 + 0.01 * k, step_s * (1 + 0.002 * k))
        folder = maker.copy(b, other, 10 + 0.015 * k, step_s * (1 + 0.003 * k))
        mine = json.loads((folder / "run.json").read_text())
        mine["argv"] = run["argv"]
        (folder / "run.json").write_text(json.dumps(mine))
        world, theirs = (json.loads((d / "provenance.json").read_text()) for d in (folder, one))
        world["config"]["argv"], world["config"]["argv_digest"] = (
            theirs["config"]["argv"],
            theirs["config"]["argv_digest"],
        )
        (folder / "provenance.json").write_text(json.dumps(world))
    findings, _all = maker.diagnose(a, b)
    assert [(f["kind"], f["source"]) for f in findings] == [("numeric", "reduction-order")]
    assert "step %d" % at in findings[0]["evidence"] and "additions" in findings[0]["practice"]


@pytest.mark.parametrize("cause", ["interference", "network", "steal", "quota"])
def test_slower_by_day(maker, cause):
    """4,100 samples/s at night, 3,400 by day: interference or the network, speed."""
    a, b = names(maker)
    one = maker.original(JOB, "--train", "20")
    batch, moved = maker.rng.randint(40, 80), maker.rng.randint(10**5, 10**7)
    night, day, lost = batch / 4100, batch / 3400, 1 - 3400 / 4100

    def copies(label, step_s, lost):
        near = 1 + maker.rng.uniform(-0.004, 0.004)
        simulated = {
            "interference": {"waits": lost},
            "network": {"column": "net_bytes", "bytes_per_step": moved},
            "steal": {"column": "steal_ns", "rate": (lost, lost)},
            "quota": {"column": "throttled_ns", "rate": (lost, lost)},
        }[cause]
        maker.copy(
            label, one, 60 * step_s / night * near, step_s * near, ran_s=0.8 * night, **simulated
        )

    for _ in range(5):
        copies(a, night, 0.0)
        copies(b, day, lost)
    findings, _all = maker.diagnose(a, b)
    assert [(f["kind"], f["source"]) for f in findings] == [("speed", cause)], _all
    assert _all["bits"] == "same" and abs(_all["ratio"] - 4100 / 3400) < 0.02


def test_more_workers(maker):
    """90 minutes became 70, workers 10 -> 14: scaling, both."""
    a, b = names(maker)
    few, many = 10, 14
    ranks = lambda n: (
        "sh",
        "-c",
        " & ".join(
            "RANK=%d WORLD_SIZE=%d %s --train 6 --last-bit-at 0 --bit %d" % (r, n, JOB, n)
            for r in range(n)
        )
        + " & wait",
    )
    for _ in range(4):
        maker.copy(a, maker.original(*ranks(few)), 60 * maker.rng.uniform(89, 91), 0.01, ranks=few)
        maker.copy(
            b, maker.original(*ranks(many)), 60 * maker.rng.uniform(69, 71), 0.01, ranks=many
        )
    findings, _all = maker.diagnose(a, b)
    assert [(f["kind"], f["source"]) for f in findings] == [("both", "scaling")], _all
    assert "%d against %d" % (few, many) in findings[0]["evidence"]
    assert abs(_all["ratio"] - 70 / 90) < 0.03


def test_equal_on_one_node_not_in_a_pool(maker):
    """Bit-equal on a development node, not in a pool: other machines."""
    a, b = names(maker)
    at = maker.rng.randint(0, 12)
    train = [JOB, "--train", "20", "--last-bit-at", str(at)]
    kinds = [
        (
            maker.original(*train, "--bit", str(k)),
            "%s %d" % (words(maker.rng).title(), maker.rng.randint(1000, 9999)),
        )
        for k in range(3)
    ]
    argv, config = (
        json.loads((kinds[0][0] / "run.json").read_text())["argv"],
        json.loads((kinds[0][0] / "provenance.json").read_text())["config"],
    )

    def run(label, kind):
        original, processor = kinds[kind]
        folder = maker.copy(
            label, original, 10 + maker.rng.uniform(0, 0.1), 0.01, processor=processor
        )
        for name, keys in (("run.json", {"argv": argv}), ("provenance.json", {"config": config})):
            text = json.loads((folder / name).read_text())
            text.update(keys)
            (folder / name).write_text(json.dumps(text))

    for _ in range(3):
        run(a, 0)
    for kind in (0, 1, 2, 1):
        run(b, kind)
    findings, _all = maker.diagnose(a, b)
    assert [(f["kind"], f["source"]) for f in findings] == [("numeric", "heterogeneity")]
    assert kinds[1][1] in findings[0]["evidence"] or kinds[2][1] in findings[0]["evidence"]


def test_no_difference_is_said_to_be_none(maker):
    """A decoy of each kind, equal bits, equal speed."""
    a, b = names(maker)
    one = maker.original(JOB, "--train", "20")
    for k in range(4):
        near = 1 + maker.rng.uniform(-0.003, 0.003)
        maker.copy(a, one, 60 * near, 0.01 * near)
        maker.copy(b, one, 60 / near, 0.01 / near)
    findings, _all = maker.diagnose(a, b)
    assert findings == [] and _all["bits"] == "same"
