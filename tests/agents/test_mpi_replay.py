# SPDX-License-Identifier: Apache-2.0
"""`run --replay-order`: receives of MPI that leave their sender open take the recorded messages,
and a program that is another one is released in bounded time, with its own results.
"""

import os
import re
import shutil
import struct
import subprocess
import time

import pytest
from conftest import FULL
from turn import part

ROOTED = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
RANKS = 4
KINDS = ["openmpi", "mpich"]


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def job(build, kind):
    program = build / "tests" / "agents" / f"mpi_order_job_{kind}"
    mpirun = shutil.which(f"mpirun.{kind}")
    if not mpirun or not os.access(program, os.X_OK):
        pytest.skip(f"no {kind}")
    over = ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"] if kind == "openmpi" else []
    return lambda mode, steps=6: [mpirun, *over, "-n", str(RANKS), program, mode, str(steps)]


@pytest.fixture
def record(twinrun, home):
    def call(command):
        done = twinrun("record", "--", *command, env=ROOTED)
        assert done.rc == 0, done
        folder = max((home / "runs").iterdir(), key=lambda p: p.stat().st_mtime)
        return folder, done.out

    return call


@pytest.fixture
def recorded(recorded_once):
    """The same of a command that does the same each time."""
    return lambda command: recorded_once(command, ROOTED)


@pytest.fixture
def replay(twinrun):
    def call(first, command, *options):
        pins = ["--pin", "hash-seed", "--replay-order", first[0], *options]
        done = twinrun("run", *pins, "--", *command, env=ROOTED)
        assert done.rc == 0, done
        return done

    return call


WAYS = """tags mprobe improbe irecv waitall waitany testsome service barrier sendrecv probe iprobe
gathered tested replaced started kept keptany keptall"""
MODES = ["free", "split", "split/waitall", "split/iprobe", *(f"free/{how}" for how in WAYS.split())]


# The rule is the same of each way in each library: every way is in every run, one half of them in
# one library and the rest in the other, which change places in the next turn; "free" is in both.
WAYS_IN_TURN = part(
    [(kind, mode) for i, mode in enumerate(MODES) for kind in KINDS[:: -1 if i % 2 else 1]],
    2,
    [(kind, "free") for kind in KINDS],
)


@pytest.mark.parametrize("kind, mode", WAYS_IN_TURN)
def test_the_order_is_the_recorded_one(job, kind, mode, record, replay, twinrun):
    """By chance it would be that once in 6^20 times, so that one replay of each way shows it; of the
    usual one a second shows that a recording serves more than once.
    """
    first = record(job(mode, 20))
    for _ in range(1 + (FULL or mode == "free")):
        done = replay(first, job(mode, 20))
        assert done.out == first[1]
        assert "order replayed: 60 of 60 matches" in done.err
    done = twinrun("diff", first[0], "last")
    assert done.rc == 0 and done.out.startswith("SAME"), done


@pytest.fixture
def large(job):
    """The same program, which receives with counts of 64 bits."""

    def call(mode, steps=6):
        *launch, program, mode, steps = job(mode, steps)
        return [*launch, str(program).replace("_order_job_", "_order_large_"), mode, steps]

    return call


@pytest.mark.parametrize("how", ["recv", "mprobe", "sendrecv", "replaced", "started"])
def test_receives_with_large_counts(large, how, recorded, replay):
    first = recorded(large("down" if how != "started" else "down/started"))
    assert first[1].split()[:3] == ["3", "2", "1"]
    done = replay(first, large(f"free/{how}"))
    assert done.out == first[1]
    assert "order replayed: 18 of 18 matches" in done.err


@pytest.mark.parametrize("how", ["irecv", "gathered", "keptany"])
def test_the_ends_of_receives_with_large_counts(large, how, recorded, replay):
    first = recorded(large(f"down/{how}"))
    assert first[1].split()[:3] == ["3", "2", "1"]
    done = replay(first, large(f"free/{how}"))
    assert done.out == first[1]
    assert "order replayed: 18 of 18 matches" in done.err
    assert "completed in the recorded order: 18 of 18 receives\n" in done.err


def test_natural_runs_differ(job, record):
    """Else the tests here would say nothing."""
    assert len({record(job("free", 20))[1] for _ in range(3)}) > 1


def test_an_order_that_chance_does_not_give(job, recorded, replay):
    """The recorded order is the reverse of the one in which the messages come."""
    first = recorded(job("down"))
    assert first[1].split()[:3] == ["3", "2", "1"]
    done = replay(first, job("free"))
    assert done.out == first[1]
    assert "order replayed: 18 of 18 matches" in done.err


TAKES = ["mprobe", "improbe", "sendrecv", "service", "replaced", "started", "freed"]


@pytest.mark.parametrize("how", TAKES)
def test_the_recorded_message_only(job, kind, how, recorded, replay):
    if how == "freed" and kind == "mpich":
        pytest.skip("MPICH takes no message for a persistent receive that was freed under way")
    first = recorded(job(f"down/{how}" if how in ("service", "freed") else "down"))
    done = replay(first, job(f"free/{how}"))
    assert done.out == first[1]
    assert "order replayed: 18 of 18 matches" in done.err


@pytest.mark.parametrize("how", ["waitall", "waitany", "testsome", "barrier", "kept", "keptall"])
def test_receives_that_were_posted_take_the_recorded_message_only(job, how, recorded, replay):
    first = recorded(job("down/irecv"))
    assert first[1].split()[:3] == ["3", "2", "1"]
    done = replay(first, job(f"free/{how}"))
    assert done.out == first[1]
    assert "order replayed: 18 of 18 matches" in done.err


ENDS = ["chosen", "gathered", "tested", "keptany"]


@pytest.mark.parametrize("how", ENDS)
def test_receives_are_complete_in_the_recorded_order(job, how, recorded, replay):
    first = recorded(job(f"down/{how}"))
    assert first[1].split()[:3] == ["3", "2", "1"]
    done = replay(first, job(f"free/{how}"))
    assert done.out == first[1]
    assert "completed in the recorded order: 18 of 18 receives\n" in done.err


@pytest.mark.parametrize("how", ENDS)
def test_an_order_of_completion_that_cannot_be(job, how, recorded, replay):
    first, natural = recorded(job(f"down/{how}")), recorded(job(f"up/{how}"))
    done = replay(first, job(f"up/{how}"), "--replay-wait", "1")
    assert done.out == natural[1]
    said = "completed in the recorded order: 0 of 18 receives: completion 1 of rank 0: expected a "
    assert said + "message from rank 3, tag 7, on MPI_COMM_WORLD" in done.err, done.err


def test_iprobe_finds_the_recorded_message_only(job, recorded, replay):
    first = recorded(job("down/probe"))
    done = replay(first, job("free/iprobe"))
    assert done.out == first[1]
    assert "order replayed: 18 of 18 matches" in done.err


MPI4PY = """
    import time
    from mpi4py import MPI

    world, order = MPI.COMM_WORLD, []
    for step in range(8):
        if world.rank:
            time.sleep(time.monotonic_ns() // 100 % 3000 * 1e-6)
            world.send(world.rank, dest=0)
        else:
            order += [world.recv(source=MPI.ANY_SOURCE) for _ in range(1, world.size)]
        world.barrier()
    if world.rank == 0:
        print(order)
"""


def test_mpi4py(record, replay, script):
    """It starts MPI with MPI_THREAD_MULTIPLE, and receives by MPI_Mprobe and MPI_Mrecv."""
    python = "/usr/bin/python3"
    if subprocess.run([python, "-c", "import mpi4py"], capture_output=True).returncode:
        pytest.skip("no mpi4py")
    command = ["mpirun.openmpi", "--oversubscribe", "-n", "4", python, script("job.py", MPI4PY)]
    first = record(command)
    for _ in range(2):
        done = replay(first, command)
        assert done.out == first[1]
        assert "order replayed: 24 of 24 matches" in done.err


def test_a_receive_that_is_open_over_a_collective(job, record, replay):
    """Messages that come during the collective are taken as they come: told, where it matters."""
    first = record(job("free/ahead", 20))
    done = replay(first, job("free/ahead", 20))
    if "order replayed: 60 of 60 matches" in done.err:
        assert done.out == first[1]
    else:
        assert re.search(r"after \d+ of 60 matches: .*, during MPI_Bcast\n", done.err), done.err


def test_two_that_wait_for_each_other(job, recorded, replay):
    """Rank 0 sends before it waits, to the one that it does not receive from."""
    first, natural = recorded(job("down/irecv")), recorded(job("up/cross"))
    done = replay(first, job("up/cross"), "--replay-wait", "1")
    assert done.out == natural[1]
    assert "for 1 s only others, first from rank 1, tag 7" in done.err
    assert "released after 0 of 18 matches" in done.err


JOINS = {
    "join": "MPI_Barrier",
    "join-file": "MPI_File_open",
    "join-window": "MPI_Win_create",
    "join-near": "MPI_Neighbor_allgather",
    "join-buffer": "MPI_Buffer_detach",
    "join-large": "MPI_Allreduce_c",
}


@pytest.mark.parametrize("how", JOINS)
def test_a_call_that_waits_for_who_is_not_received_from(job, kind, how, recorded, replay):
    """Rank 1 comes to that call when its message was received, which is not the recorded one. If
    the receives were held over the call, all would stand still.
    """
    function = "MPI_Allreduce" if (kind, how) == ("openmpi", "join-large") else JOINS[how]
    first, began = recorded(job("down/irecv")), time.monotonic()
    done = replay(first, job(f"free/{how}"), "--replay-wait", "3600")
    assert time.monotonic() - began < 60
    # In a ring rank 3 need not wait for rank 1, and its message is the recorded one. Two receives
    # were open then, and whichever took another message first is the one that is told of.
    said = r"released after [01] of 18 matches: match [123] of rank 0: expected a message .*; "
    said += rf"found a message from rank [123], tag 7, during {function}\n"
    assert re.search(said, done.err), done.err


@pytest.mark.parametrize("how", ["join-soon", "join-kept"])
def test_a_request_that_waits_for_who_is_not_received_from(job, how, recorded, replay):
    first, began = recorded(job("down/irecv")), time.monotonic()
    done = replay(first, job(f"free/{how}"), "--replay-wait", "1")
    assert time.monotonic() - began < 60
    said = r"released after [01] of 18 matches: match [12] of rank 0: expected a message .*; "
    said += r"found for 1 s only others, first from rank 1, tag 7\n"
    assert re.search(said, done.err), done.err


MEDDLE = {
    "no order": 'rm "$TWINRUN_RUN_DIR"/order.*; exec "$@"',
    # The sources of the first two matches, the other way round.
    "another order": """
        python3 - <<'END'
import os
path = os.environ["TWINRUN_RUN_DIR"] + "/order.0"
was = open(path, "rb").read()
at = 28 + 160
new = was[:at] + was[at + 12 : at + 24] + was[at : at + 12] + was[at + 24 :]
open(path, "wb").write(new)
END
        exec "$@"
        """,
}


@pytest.mark.parametrize("how", ["recv", "irecv"])
@pytest.mark.parametrize("name", MEDDLE)
def test_an_order_that_was_not_held_is_never_told_to_be(job, name, how, recorded, replay, tmp_path):
    script = tmp_path / "meddle.sh"
    script.write_text(MEDDLE[name])
    first = recorded(job(f"down/{how}"))
    mode = "up" if name == "no order" else "free"
    done = replay(first, ["sh", script, *job(f"{mode}/{how}")])
    assert done.out != first[1]
    assert "released after 0 of 18 matches: match 1 of rank 0: expected a message" in done.err
    assert "order replayed" not in done.err


def test_an_order_of_completion_that_was_not_held(job, recorded, replay, tmp_path):
    script = tmp_path / "meddle.sh"
    script.write_text(MEDDLE["no order"])
    first = recorded(job("down/chosen"))
    done = replay(first, ["sh", script, *job("up/chosen")])
    assert done.out != first[1]
    said = "completed in the recorded order: 0 of 18 receives: completion 1 of rank 0: expected a "
    assert said + "message from rank 3" in done.err, done.err


def test_a_trace_that_lacks_records_says_nothing_of_the_order(job, recorded, replay, tmp_path):
    script = tmp_path / "cut.sh"
    script.write_text('"$@"; truncate -s -8 "$TWINRUN_RUN_DIR"/ranks/0.*.twt')
    first = recorded(job("down"))
    done = replay(first, ["sh", script, *job("down")])
    assert done.out == first[1]
    assert "replay released after 18 of 18 matches: the trace of rank 0 lacks records" in done.err


def test_a_message_that_never_comes(job, recorded, replay):
    first, natural = recorded(job("down")), recorded(job("up"))
    done = replay(first, job("up"), "--replay-wait", "1")
    assert done.out == natural[1]
    assert re.search(
        r"replay released after 0 of 18 matches: match 1 of rank 0: expected a message from rank "
        r"3, tag 7, on MPI_COMM_WORLD; found for 1 s only others, first from rank 1, tag 7",
        done.err,
    ), done.err


def test_one_rank_waits_for_all(job, recorded, replay):
    """Each rank is held up in turn; the first one that waited in vain tells the others. If each
    waited for itself, it took four times as long.
    """
    first, natural = recorded(job("down/turns", 4)), recorded(job("up/turns", 4))
    began = time.monotonic()
    done = replay(first, job("up/turns", 4), "--replay-wait", "8")
    took = time.monotonic() - began
    assert 8 <= took < 4 * 8 and natural[1].split()[-1] in done.out, (took, done)
    said = "replay released after 0 of 12 matches: match 1 of rank 0: expected a message from rank "
    assert said + "3, tag 7, on " in done.err, done.err
    assert done.err.rstrip().endswith("; 3 other ranks were released with it"), done.err


def test_a_longer_program(job, recorded, replay):
    first = recorded(job("down", 2))
    done = replay(first, job("down", 4))
    assert done.out.split()[:6] == ["3", "2", "1"] * 2
    assert "after 6 of 6 matches: match 7 of rank 0: the recording ends before it" in done.err


def test_a_shorter_program(job, recorded, replay):
    first = recorded(job("down", 4))
    done = replay(first, job("down", 2))
    assert "after 6 of 12 matches: match 7 of rank 0: expected a message from rank" in done.err
    assert "found no more messages" in done.err


def test_another_call(job, record, replay):
    done = replay(record(job("free")), job("free/tags"))
    assert "after 0 of 18 matches: match 1 of rank 0: expected" in done.err
    assert "found MPI_Recv from any rank, any tag, on MPI_COMM_WORLD" in done.err


def test_nothing_to_replay(twinrun, home):
    assert twinrun("record", "--", "true").rc == 0
    done = twinrun("run", "--replay-order", "last", "--", "echo", "ran")
    assert done.rc == 2 and "there is no order to replay" in done.err, done
    assert done.out == ""


def hostile():
    """Order files that are not as ours write them."""

    def file(
        comms=1, matches=1, ends=0, wait=1000, name=b"MPI_COMM_WORLD", match=(0, 1, 3, 7), more=b""
    ):
        head = struct.pack("=8sIIIII", b"twinord", 1, comms, matches, ends, wait)
        return head + name.ljust(160, b"\0") + struct.pack("=HHii", *match) + more

    return {
        "empty": b"",
        "short": file()[:20],
        "longer": file(more=b"x"),
        "many": file(matches=0xFFFFFFFF),
        "many ends": file(ends=0xFFFFFFFF),
        "an open end": file(matches=0, ends=1),
        "no end": file(name=b"x" * 160),
        "another name": file(match=(1, 1, 3, 7)),
        "a negative source": file(match=(0, 1, -3, 7)),
        "a large source": file(match=(0, 1, 2**31 - 1, 7)),
        "a large tag": file(match=(0, 1, 3, 2**31 - 1)),
        "nothing open": file(match=(0, 0, 3, 7)),
        "open in other ways": file(match=(0, 9, 3, 7)),
        "only a probe": file(match=(0, 4, 3, 7)),
        "no message": file(match=(0, 0, -1, -1)),
        "a long wait": file(wait=2**32 - 1),
    }


# It can be read, and asks for what cannot be.
SOUND = ["a large source", "no message"]


@pytest.mark.parametrize("name", hostile())
def test_hostile_files_are_none(job, name, record, tmp_path):
    """A file that somebody put there: the program runs as it would."""
    runs = tmp_path / "place"
    script = tmp_path / "place.sh"
    runs.write_bytes(hostile()[name])
    script.write_text(f'cp {runs} "$TWINRUN_RUN_DIR/order.0"\nexec "$@"\n')
    done = record(["sh", script, *job("down", 2)])
    assert done[1].split()[:6] == ["3", "2", "1"] * 2
    (trace,) = (done[0] / "ranks").glob("0.*.twt")
    reason = "match 1 of rank 0" if name in SOUND else "rank 0: its order file cannot be read"
    assert reason.encode() in trace.read_bytes()
