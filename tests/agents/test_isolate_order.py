# SPDX-License-Identifier: Apache-2.0
"""The factor match-order: isolate names the order of messages where it is the cause, and nowhere
else. Its pin is the replay of the first natural run.
"""

import os
import shutil

import pytest

ROOTED = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@pytest.fixture(params=["openmpi", "mpich"])
def search(request, build, twinrun):
    kind = request.param
    program = build / "tests" / "agents" / f"mpi_order_job_{kind}"
    mpirun = shutil.which(f"mpirun.{kind}")
    if not mpirun or not os.access(program, os.X_OK):
        pytest.skip(f"no {kind}")
    over = ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"] if kind == "openmpi" else []

    def call(mode, *options, json=True):
        job = [mpirun, *over, "-n", "4", program, mode, "6"]
        shown = ["--json"] if json else []
        return twinrun("isolate", *shown, "--no-clock", *options, "--", *job, env=ROOTED)

    return call


def causes(done):
    return [c["factor"] for c in done.json["causes"]]


def test_it_is_named(search):
    done = search("free", "--pin", "match-order,hash-seed,aslr")
    assert done.rc == 1 and causes(done) == ["match-order"], done
    assert done.json["causes"][0]["layer"] == "collective"


def test_another_cause_beside_named_receives(search):
    """No receive leaves anything open there: it is no candidate at all."""
    done = search("free/named", "--pin", "match-order,entropy,hash-seed")
    assert done.rc == 1 and causes(done) == ["entropy"], done


def test_a_pin_that_cannot_hold_is_no_cause(search):
    """The program makes other calls in each run, so that no run can be replayed."""
    done = search("free/drawn", "--pin", "match-order,hash-seed", "--max-runs", "40")
    assert "match-order" not in causes(done), done
    assert done.json["dropped"] == ["match-order"]
    text = search("free/drawn", "--pin", "match-order,hash-seed", "--max-runs", "40", json=False)
    assert "the job fails under the pin, or the pin does not hold: match-order" in text.out, text
    assert "note      the pin of match-order did not take effect: match " in text.out, text
