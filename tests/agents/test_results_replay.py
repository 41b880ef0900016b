# SPDX-License-Identifier: Apache-2.0
"""`run --replay-order` of what executors and loaders tell of, with jobs: results come in the order of
the recorded run, though they are ready in the reverse of it; programs that are other ones are
released in bounded time.
"""

import os

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
JOB = os.path.join(HERE, "results_job.py")


@pytest.fixture
def job(twinrun, python, light):
    def call(options, *words, program=JOB):
        return twinrun(*options, "--no-telemetry", "--", python, program, *words)

    return call


@pytest.fixture
def recorded(job, home):
    """The folder of a run, and what it printed."""

    def call(*words, program=JOB):
        before = set((home / "runs").glob("*"))
        done = job(["record"], *words, program=program)
        (folder,) = set((home / "runs").glob("*")) - before
        return folder, done.out

    return call


def replay(job, folder, *words, wait=60, pins="hash-seed", program=JOB):
    options = ["--pin", pins, "--replay-wait", wait, "--replay-order", folder]
    return job(["run", *options], *words, program=program)


WAYS = "futures,waits,pool,chunks,child,fork"


def test_the_order_is_the_recorded_one(job, recorded):
    folder, shown = recorded(WAYS, "back")
    assert shown.count("\n") == 8
    done = replay(job, folder, WAYS, "forth")
    assert done.out == shown and done.rc == 0
    assert "order replayed: 33 of 33 results of executors and loaders" in done.err, done
    # a pin makes an order of its own
    done = replay(job, folder, WAYS, "forth", pins="executor-order,threads")
    assert done.out == shown and "order replayed: 33 of 33 results" in done.err, done
    assert "executor-order (results come in the recorded order)" in done.err
    assert "loader-workers" not in done.err


def test_other_programs(job, recorded, twinrun):
    folder, _ = recorded("gate,futures", "back")
    done = replay(job, folder, "gate,futures", "forth", wait=1)
    assert done.out.split()[:2] == ["0", "1"] and done.rc == 0
    assert (
        "replay released after 0 of 12 results of executors and loaders: result 1 at " in done.err
    )
    assert "expected number 6 by submission; it did not come" in done.err, done
    done = replay(job, folder, "fewer", "back")
    assert "after 0 of 12 results" in done.err and "expected no call of this kind" in done.err

    (file,) = folder.glob("results.*")
    data = bytearray(file.read_bytes())
    data[200] ^= 4
    file.write_bytes(data)
    done = replay(job, folder, "gate,futures", "back")
    assert done.rc == 2 and done.out == "" and "check does not fit at byte" in done.err, done
    file.unlink()
    done = replay(job, folder, "gate,futures", "back")
    assert done.rc == 2 and "there is no order to replay" in done.err, done


def test_processes_that_nothing_tells_apart_and_one_that_was_killed(job, recorded):
    folder, shown = recorded("twins", "back")
    done = replay(job, folder, "twins", "back")
    assert 'several processes are "rank 0, results_job.py"' in done.err, done
    assert "order replayed" not in done.err

    # the numbers of what several threads submit are not those of another run
    folder, shown = recorded("submitters", "back")
    done = replay(job, folder, "submitters", "forth")
    assert sorted(shown.split()) == sorted(done.out.split()) == list("0123"), done
    assert "order replayed" not in done.err
    assert "several threads asked, or submitted, at " in done.err

    folder, shown = recorded("killed", "back")
    assert len(shown.split()) == 6
    done = replay(job, folder, "killed", "forth")
    assert done.out == shown and done.rc == 137
    assert "order replayed: 6 of 6 results of executors and loaders" in done.err, done


def test_a_loader(job, recorded):
    program = os.path.join(HERE, "results_loader_job.py")
    folder, shown = recorded("0", program=program)
    assert shown.count("\n") == 2
    done = replay(job, folder, "1", program=program, pins="all,-threads")
    assert done.out == shown, done
    assert "order replayed: 14 of 14 results of executors and loaders" in done.err, done
    assert "loader-workers, executor-order (results come in the recorded order)" in done.err


def test_a_cause_beside_results_that_came_in_one_order(twinrun, python):
    """Executors were used, so that the factor counts, unless what they told of says that it cannot be
    the cause.
    """
    pins = ["--pin", "executor-order,entropy,hash-seed", "--max-runs", "12", "--no-clock"]
    done = twinrun("isolate", "--json", *pins, "--", python, JOB, "drawn", "back")
    assert done.json["left_out"] == ["executor-order"], done
