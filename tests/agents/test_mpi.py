# SPDX-License-Identifier: Apache-2.0
"""Programs of MPI that know nothing of twinrun, under Open MPI and MPICH: what they print stays as
it is, what they send and receive is recorded, and `check` names the call, the rank and the order of
arrival.
"""

import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter

import pytest
from conftest import ROOT, clean_environment, shell

sys.path.insert(0, str(ROOT / "tests" / "truth"))
sys.path.insert(0, str(ROOT / "python"))
sys.path.insert(0, str(ROOT / "ghosts"))
import suite  # noqa: E402
from mutant_tools import Copy, save  # noqa: E402
from traces import Edited  # noqa: E402
from twinrun import recheck  # noqa: E402
from twinrun.trace import Trace  # noqa: E402

FORTRAN = """
program job
  use %s
  integer code, rank
  real x(64), y(64)
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  x = rank + 0.5
  call MPI_Allreduce(x, y, 64, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, code)
  call MPI_Allreduce(MPI_IN_PLACE, y, 64, MPI_REAL, MPI_MAX, MPI_COMM_WORLD, code)
  if (rank == 0) print *, sum(y)
  call MPI_Finalize(code)
end program
"""
MPI4PY = """
    from mpi4py import MPI
    import numpy as np

    world = MPI.COMM_WORLD
    x = np.arange(8, dtype="f4") * world.rank
    y = np.empty_like(x)
    for step in range(3):
        world.Allreduce(x, y)
        if world.rank:
            world.send({"rank": world.rank, "step": step}, dest=0)
        else:
            all = [world.recv(source=MPI.ANY_SOURCE) for _ in range(1, world.size)]
        world.bcast({"step": step}, root=0)
    if world.rank == 0:
        print(y.sum())
"""
ROOTED = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
MODES = ["collectives", "ring", "counting", "waiting", "groups", "one-sided", "errors"]


def job(build, kind, mode, ranks=3, options=()):
    """The command that runs a mode of mpi_job."""
    program, mpirun = build / "tests" / "agents" / f"mpi_job_{kind}", shutil.which(f"mpirun.{kind}")
    if not mpirun or not os.access(program, os.X_OK):
        pytest.skip(f"no {kind}")
    over = ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"] if kind == "openmpi" else []
    return [mpirun, *over, "-n", str(ranks), *options, program, mode]


@pytest.fixture(params=["openmpi", "mpich"])
def kind(request):
    return request.param


@pytest.fixture
def recorded(twinrun, home):
    """recorded(command, options): the folder of a run."""

    def call(command, *options, env=None):
        done = twinrun("record", *options, "--", *command, env={**ROOTED, **(env or {})})
        assert done.rc == 0, done
        return max((home / "runs").iterdir(), key=lambda p: p.stat().st_mtime)

    return call


@pytest.fixture
def shared(recorded_once):
    """shared(command, number): a run folder for reading, recorded once for all tests."""
    return lambda command, number=0: recorded_once(command, ROOTED, number)[0]


def traces(run):
    """Rank -> its trace, of those that hold something."""
    found = {}
    for path in (run / "ranks").glob("*.twt"):
        t = Trace(path.read_bytes(), path.name)
        if any(True for _ in t.records()):
            found[int(path.name.split(".")[0])] = t
    return found


def keys(trace):
    return [(trace.key(r)[1], trace.key(r)[2], trace.key(r)[3]) for r in trace.records()]


@pytest.mark.parametrize("row, kind", list(enumerate(["openmpi", "mpich"])))
def test_constants_are_those_of_the_header(build, row, kind):
    program = build / "tests" / "agents" / f"mpi_abi_{kind}"
    if not os.access(program, os.X_OK):
        pytest.skip(f"no {kind}")
    done = subprocess.run([program, str(row)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "MPI_SUM MPI_MAXLOC\n"), done


@pytest.mark.parametrize("mode", MODES)
def test_the_program_is_what_it_was(build, kind, mode, shared):
    command = job(build, kind, mode)
    plain = subprocess.run(command, env=clean_environment(ROOTED), capture_output=True)
    assert plain.returncode == 0, plain
    run = shared(command)
    assert (run / "stdout").read_bytes() == plain.stdout
    assert not (run / "faults").exists()
    assert sorted(traces(run)) == [0, 1, 2]


def test_records_of_collectives(build, kind, shared):
    found = traces(shared(job(build, kind, "collectives")))
    for rank, t in found.items():
        n = Counter(keys(t))
        world = "MPI_COMM_WORLD"
        assert n["in", "MPI_Allreduce", world] == n["out", "MPI_Allreduce", world] == 12
        # from the last rank to the others; to rank 0
        assert n["in", "MPI_Bcast", world] == (6 if rank == 2 else 0)
        assert n["out", "MPI_Bcast", world] == (0 if rank == 2 else 6)
        assert n["out", "MPI_Reduce", world] == n["out", "MPI_Gather", world]
        assert n["out", "MPI_Reduce", world] == (6 if rank == 0 else 0)
        assert n["in", "MPI_Scatter", world] == (6 if rank == 0 else 0)
        assert n["in", "MPI_Alltoallv", world] == n["out", "MPI_Alltoallv", world] == 6
        assert sum(1 for _ in t.steps()) == 6 * 12, "each collective of all ranks ends a step"
    first = next(iter(found[1].records()))
    layout = found[1].layouts[first.layout]
    assert tuple(layout.shape) == (257,), layout


def test_records_of_messages(build, kind, shared):
    found = traces(shared(job(build, kind, "ring")))
    assert Counter(keys(found[1])) == {
        ("in", "MPI_Send_init to rank 2, tag 3", "MPI_COMM_WORLD"): 6,
        ("out", "MPI_Recv_init from rank 0, tag 3", "MPI_COMM_WORLD"): 6,
        ("in", "MPI_Sendrecv_replace to rank 0, tag 4", "MPI_COMM_WORLD"): 6,
        ("out", "MPI_Sendrecv_replace from rank 2, tag 4", "MPI_COMM_WORLD"): 6,
    }


def kept(build, kind):
    """The command of the job of persistent collectives."""
    *command, _, _ = job(build, kind, "")
    return [*command, build / "tests" / "agents" / f"mpi_kept_job_{kind}"]


def test_records_of_persistent_collectives(build, kind, recorded):
    """Also of a type that the program freed."""
    run = recorded(kept(build, kind))
    assert not (run / "faults").exists()
    world = "MPI_COMM_WORLD"
    for rank, t in traces(run).items():
        expected = {
            (way, name, world): 5
            for way in ("in", "out")
            for name in ("MPI_Allreduce_init", "MPI_Reduce_init", "MPI_Allgather_init")
        }
        if rank != 0:
            del expected["out", "MPI_Reduce_init", world]
        assert Counter(keys(t)) == expected


def test_a_bit_that_flips_in_a_persistent_collective(build, kind, twinrun):
    a, b = shell(["env", "FLIP=2", *kept(build, kind)]), shell(kept(build, kind))
    done = twinrun("check", "--json", "--a", a, "--b", b, env=ROOTED)
    first = done.json["first"]
    assert done.rc == 1, done
    assert (first["rank"], first["name"], first["kind"]) == (1, "MPI_Allreduce_init", "in"), first


UNSEEN = ["MPI_Neighbor_allgather", "MPI_Ineighbor_allgather"]


@pytest.mark.parametrize("name", UNSEEN)
def test_neighbours_are_said_to_be_unseen(build, kind, name, twinrun):
    mode = "free/join-near" if name == UNSEEN[0] else "free/join-soon"
    command = [*job(build, kind, "")[:-2], build / "tests" / "agents" / f"mpi_order_job_{kind}"]
    done = twinrun("check", "--json", "--runs", "2", "--", *command, mode, "2", env=ROOTED)
    assert any(name + ":" in u for u in done.json["unseen"]), done.json


def test_communicators_have_one_name_on_all_ranks(build, kind, shared):
    found = traces(shared(job(build, kind, "groups")))
    half = {rank: {k for k in keys(t) if "Iallreduce" in k[1]} for rank, t in found.items()}
    assert half[0] == half[2] != half[1]
    assert ("out", "MPI_Iallreduce", "MPI_COMM_WORLD/split 1 of rank 0") in half[0]
    assert ("out", "MPI_Iallreduce", "MPI_COMM_WORLD/split 1 of rank 1") in half[1]
    assert ("out", "MPI_Mrecv from rank 2, tag of 1024 or more", "MPI_COMM_WORLD/dup 2") in keys(
        found[0]
    )


def test_level_steps_keeps_the_order_alone(build, kind, recorded):
    found = traces(recorded(job(build, kind, "counting"), "--level", "steps"))
    assert sorted(found) == [0]
    assert {k[0] for k in keys(found[0])} == {"match"}
    assert len(keys(found[0])) == 12


@pytest.mark.parametrize("mode", ["collectives", "ring", "groups"])
def test_a_bit_that_flips_is_named(build, kind, mode, twinrun):
    a = shell(["env", "FLIP_RANK=1", "FLIP_STEP=3", *job(build, kind, mode)])
    b = shell(job(build, kind, mode))
    done = twinrun("check", "--json", "--a", a, "--b", b, env=ROOTED)
    assert done.rc == 1, done
    first = done.json["first"]
    assert (first["rank"], first["kind"], first["role"]) == (1, "in", "unknown"), first
    where = {
        "collectives": (36, "MPI_Allreduce"),
        "ring": (3, "MPI_Send_init to rank 2, tag 3"),
        "groups": (3, "MPI_Iallreduce"),
    }
    assert (first["step"], first["name"]) == where[mode], first


def test_another_algorithm_is_the_collective_s(build, twinrun):
    def arm(algorithm):
        options = ["--mca", "coll_tuned_use_dynamic_rules", "1"]
        options += ["--mca", "coll_tuned_allreduce_algorithm", str(algorithm)]
        return shell(job(build, "openmpi", "collectives", 4, options))

    done = twinrun("check", "--json", "--a", arm(3), "--b", arm(4), env=ROOTED)
    assert done.rc == 1, done
    first = done.json["first"]
    assert (first["step"], first["name"], first["kind"]) == (0, "MPI_Allreduce", "out")
    assert (first["role"], first["layer"]) == ("origin", "collective"), first
    said = (
        "what the ranks gave to MPI_Allreduce in step 0 was equal in both runs: it diverged in "
        "the collective"
    )
    assert said in done.json["notes"], done.json["notes"]


def test_arrival_order_is_told_beside_what_differs(build, kind, twinrun):
    # whom rank 0 gets first is whoever does not come late; three are added in that order
    a = shell(["env", "LATE=1", *job(build, kind, "server", 4)])
    b = shell(["env", "LATE=3", *job(build, kind, "server", 4)])
    done = twinrun("check", "--json", "--a", a, "--b", b, env=ROOTED)
    assert done.rc == 1, done
    v = done.json
    assert (v["first"]["rank"], v["first"]["name"]) == (0, "MPI_Bcast"), v["first"]
    told = [n for n in v["notes"] if "messages came to rank 0" in n]
    assert len(told) == 1 and "in step 0" in told[0], v["notes"]
    orders = re.findall(r"from ranks ([0-9, ]+) in run", told[0])
    a, b = ([int(rank) for rank in order.split(", ")] for order in orders)
    assert sorted(a) == sorted(b) == [1, 2, 3] and a != b, told
    said = (
        "; contents were equal until then. That is what was recorded; whether it is the cause was "
        "not tried"
    )
    assert said in told[0]
    assert " (another order first in step 0)" in told[0] or "before that, in step 0, " in told[0]
    call = "rank 0: call [0-9]+ of MPI_Bcast on MPI_COMM_WORLD in run 1, behind [0-9]+ messages received"
    assert any(re.fullmatch(call, n) for n in v["notes"]), v["notes"]


def test_another_order_without_effect_is_benign(build, kind, twinrun):
    a = shell(["env", "LATE=1", *job(build, kind, "counting")])
    b = shell(["env", "LATE=2", *job(build, kind, "counting")])
    done = twinrun("check", "--json", "--a", a, "--b", b, env=ROOTED)
    assert done.json["outcome"] == "same" and done.rc == 0, done
    assert any("MPI_Recv from rank" in b["name"] for b in done.json["benign"]), done.json["benign"]
    said = (
        "the program shows what it sends and receives over MPI, and that was compared; what it "
        "computes in between was not seen"
    )
    assert said in done.json["notes"], done.json["notes"]


def test_one_sided_calls_are_said_to_be_unseen(build, kind, twinrun):
    done = twinrun(
        "check", "--json", "--runs", "2", "--", *job(build, kind, "one-sided"), env=ROOTED
    )
    assert done.rc == 3, done
    assert any("MPI_Put" in u for u in done.json["unseen"]), done.json["unseen"]


def test_threads_side_by_side(build, twinrun):
    done = twinrun(
        "check", "--json", "--runs", "2", "--", *job(build, "openmpi", "threads", 2), env=ROOTED
    )
    assert done.json["outcome"] == "same", done


def test_who_had_not_come_is_named(build, kind, twinrun):
    command = job(build, kind, "hangs")
    done = twinrun("check", "--json", "--max-time", "3", "--", *command, env=ROOTED)
    told = [n for n in done.json["notes"] if "waited in call" in n]
    assert len(told) == 1, done
    assert "ranks 0, 2 waited in call 4 of MPI_Allreduce on MPI_COMM_WORLD" in told[0]
    assert "no record of rank 1 shows that call; the last one of rank 1 is the " in told[0], told
    killed = "(what a process did in the 250 ms before it was killed may be missing)"
    assert told[0].endswith(killed), told
    assert "run 1: when it ended, ranks 0, 2 waited in call 4 of " in told[0], told


def test_a_rank_that_dies_fails_the_run(build, kind, twinrun):
    """Where the dying cuts the traces, and which rank's end the launcher tells of, is a matter of
    schedule, and no difference of the runs.
    """
    done = twinrun("check", "--json", "--runs", "2", "--", *job(build, kind, "dies"), env=ROOTED)
    assert done.rc == 2 and done.json["outcome"] == "error", done
    assert [c["runs"] for c in done.json["classes"]] == [[0, 1]], done
    assert done.json["differing"] == 0 and done.json["origins"] == [], done


@pytest.mark.parametrize("language", ["mpi", "mpi_f08"])
def test_fortran(kind, language, recorded, work):
    """Its wrappers call PMPI_X."""
    compiler = shutil.which(f"mpif90.{kind}")
    if not compiler:
        pytest.skip("no Fortran")
    (work / "job.f90").write_text(FORTRAN % language)
    built = subprocess.run(
        [compiler, "-w", "-fallow-argument-mismatch", "-o", "job", "job.f90"], cwd=work
    )
    assert built.returncode == 0
    over = ["--oversubscribe"] if kind == "openmpi" else []
    found = traces(recorded([f"mpirun.{kind}", *over, "-n", "2", "./job"]))
    for t in found.values():
        assert Counter(keys(t)) == {
            ("in", "MPI_Allreduce", "MPI_COMM_WORLD"): 2,
            ("out", "MPI_Allreduce", "MPI_COMM_WORLD"): 2,
        }


def test_mpi4py(twinrun, script):
    python = "/usr/bin/python3"
    if subprocess.run([python, "-c", "import mpi4py, numpy"], capture_output=True).returncode:
        pytest.skip("no mpi4py")
    path = script("job.py", MPI4PY)
    command = ["mpirun.openmpi", "--oversubscribe", "-n", "3", python, path]
    done = twinrun("check", "--json", "--runs", "2", "--", *command, env=ROOTED)
    assert done.json["outcome"] == "same", done


def test_it_can_be_left_out(build, kind, recorded):
    run = recorded(job(build, kind, "ring"), env={"TWINRUN_MPI": "off"})
    assert traces(run) == {}


# ---- ghosts: what check says of each and of its deterministic twin (isolate: ghosts/run)

GHOST = {
    "mpi-any-source": (0, "MPI_Bcast", "in", "unknown"),
    "mpi-algorithm": (0, "MPI_Allreduce", "out", "origin"),
    "mpi-bit-flip": (2, "MPI_Allreduce", "in", "unknown"),
    "expert-order": (0, "MPI_Bcast", "in", "unknown"),
    "mpi-whole-numbers": None,
}


def staged(name, variant, folder):
    truth = suite.truths()[name]
    if suite.missing(truth):
        pytest.skip(f"no {suite.missing(truth)}")
    folder.mkdir()
    return suite.Staged(name, truth, variant, str(folder))


@pytest.mark.parametrize("name", GHOST)
def test_ghosts(name, twinrun, tmp_path):
    ghost = staged(name, "job", tmp_path / "ghost")
    done = twinrun("check", "--json", *ghost.command(), env=ghost.env)
    if GHOST[name] is None:
        assert done.json["outcome"] == "same", done
        return
    first = done.json["first"]
    assert done.rc == 1, done
    assert (first["rank"], first["name"], first["kind"], first["role"]) == GHOST[name], first


@pytest.mark.parametrize("name", [name for name in GHOST if GHOST[name]])
def test_twins(name, twinrun, tmp_path):
    ghost = staged(name, "twin", tmp_path / "ghost")
    done = twinrun("check", "--json", *ghost.command(), env=ghost.env)
    assert done.json["outcome"] == "same", done


# ---- mutants: what must not pass for the same


def another_digest(t, i, dice):
    a, b = t.records[i].digest
    t.records[i] = t.records[i]._replace(digest=(a ^ 1, b))


def a_record_dropped(t, i, dice):
    del t.records[i]
    t.renumber()


def another_sender(t, i, dice):
    """What came from one rank is said to have come from another."""
    r = t.records[i]
    name = t.string(t.strings[t.series[r.series].name] + b"0")
    t.records[i] = r._replace(series=t.series_like(r, name=name))
    t.renumber()


@pytest.mark.parametrize("change", [another_digest, a_record_dropped, another_sender])
def test_mutants_do_not_pass(build, change, shared, twinrun, tmp_path):
    run = shared(job(build, "openmpi", "groups"))
    dice = random.Random(change.__name__)
    for n in range(3):
        mutant = Copy(run, tmp_path / f"mutant{n}")
        name, edited = mutant.pick(dice)
        change(edited, dice.randrange(len(edited.records)), dice)
        save(mutant, name, edited)
        done = twinrun("diff", "--json", run, mutant.folder)
        assert done.json["outcome"] != "same", (name, done)


@pytest.mark.parametrize("part", [0.35, 0.8])
def test_threads_that_were_cut(build, kind, part, shared, twinrun, tmp_path):
    """A time limit cuts a run whose threads share the count of steps: no difference. Another digest
    before the cut is one.
    """
    command = job(build, kind, "threads", 2)
    whole = Copy(shared(command), tmp_path / "whole")
    cut = Copy(shared(command, 1), tmp_path / "cut")
    for name in cut.traces():
        data = (cut.folder / name).read_bytes()
        cut.write(name, data[: int(len(data) * part)])
    cut.run = {**cut.run, "outcome": "stopped"}
    done = twinrun("diff", "--json", whole.folder, cut.folder)
    verdict = done.json
    assert (verdict["outcome"], verdict["differing"]) == ("inconclusive", 0), done
    ended = Copy(shared(command, 2), tmp_path / "ended")  # as short, but of its own accord
    for name in cut.traces():
        edited = Edited.read(cut.folder / name)
        edited.closed = True
        save(ended, name, edited)
    for other, said in ((cut, "confirmed"), (ended, "refuted")):
        judge = recheck.Recheck(
            verdict["claims"], [recheck.Run(str(f)) for f in (whole.folder, other.folder)], verdict
        )
        ranges = [judge.one(c) for c in verdict["claims"] if c["claim"] == "same-range"]
        assert ranges and {r[0] for r in ranges} == {said}, ranges
    for name in whole.traces():
        edited, seen = Edited.read(whole.folder / name), set()
        for i, r in enumerate(edited.records):
            if r.series not in seen:  # of each thread: which of them came first is not known
                another_digest(edited, i, None)
                seen.add(r.series)
        save(whole, name, edited)
    done = twinrun("diff", "--json", whole.folder, cut.folder)
    assert done.json["outcome"] == "differ", done
    judge = recheck.Recheck(
        verdict["claims"], [recheck.Run(str(f)) for f in (whole.folder, cut.folder)], verdict
    )
    ranges = [c for c in verdict["claims"] if c["claim"] == "same-range"]
    assert ranges and {judge.one(c)[0] for c in ranges} == {"refuted"}
