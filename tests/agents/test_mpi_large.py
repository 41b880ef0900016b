# SPDX-License-Identifier: Apache-2.0
"""Functions of MPI 4 that the library may not have, as programs meet them that are built for several
MPIs and ask for them (mpi4py's wheel): they are there where the library has them, and nowhere else.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from test_mpi import ROOTED, kind, recorded  # noqa: F401 (fixtures)
from test_mpi_calls import command


def exported(library):
    done = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    )
    found = {line.split()[-1].split("@")[0] for line in done.stdout.splitlines() if line}
    return {name for name in found if name.startswith(("MPI", "PMPI"))}


@pytest.mark.parametrize("when", ["linked", "opened"])
def test_what_is_there_is_what_the_library_has(build, kind, when, recorded, twinrun):  # noqa: F811
    """Weak references of the program, and of a library that is bound before the agent is; dlsym of
    every function that the agent has. `opened`: MPI comes with a module, as in Python.
    """
    agent = sorted(exported(build / "agents" / "libtwinrun_mpi.so"))
    *launcher, program = command(build, kind)
    at = launcher.index("-n") + 1
    jobs = [program.with_name(f"mpi_asks_job_{kind}")]
    if when == "opened":
        jobs = [program.with_name("mpi_asks_late"), program.with_name(f"libmpi_asks_{kind}.so")]
    launch = [*launcher[:at], "1", *launcher[at + 1 :], *jobs, *agent]
    alone = subprocess.run(
        launch, env={**os.environ, **ROOTED}, capture_output=True, text=True, timeout=100
    )
    assert alone.returncode == 0, alone
    run = recorded(launch)
    assert (run / "stdout").read_text() == alone.stdout
    said = {tuple(line.split(maxsplit=2)) for line in alone.stdout.splitlines()}
    for way in ("program", "library")[when == "opened" :]:
        for name in ("MPI_Isendrecv", "MPI_Session_init", "MPI_Psend_init", "MPI_Send_c"):
            assert (way, name, "there" if kind == "mpich" else "no") in said
        other = "MPIX_Allreduce_init" if kind == "mpich" else "MPI_Allreduce_init"
        assert {(way, "MPI_Send", "there"), (way, other, "no")} <= said
    assert len([1 for way, *_ in said if way == "dlsym"]) == len(agent) > 500


def test_each_with_large_counts_gives_what_the_library_gives(build, twinrun, work):
    *launcher, program = command(build, "mpich")
    at = launcher.index("-n") + 1
    job = program.with_name("mpi_large_job_mpich")
    launch = [*launcher[:at], "2", *launcher[at + 1 :], job, work / "file"]
    done = twinrun("record", "--", *launch, env=ROOTED)
    assert (done.rc, done.out.split()) == (0, ["right"]), done


MPI4PY = """
    import os
    from array import array
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    rank, size = world.rank, world.size

    def numbers(count=8):
        return array("d", [0.1 * i + rank for i in range(count)])

    def show(name, values):
        if rank == size - 1:
            print(name, [round(v, 3) for v in values])

    def later(request, got):
        request.Wait()
        return got

    x, y, four = numbers(), array("d", [0.0] * 8), numbers(4)
    if rank == 0 and os.environ.get("FLIP"):
        x[3] += 1
    world.Allreduce(x, y)
    show("Allreduce", y)
    show("Iscan", later(world.Iscan(x, y), y))
    parts = ([4] * size, [4 * i for i in range(size)])
    world.Alltoallv([numbers(4 * size), parts, MPI.DOUBLE], [y, parts, MPI.DOUBLE])
    show("Alltoallv", y)
    for _ in range(100):  # the arrays of counts are freed before it is complete
        request = world.Iallgatherv(four, [y, parts, MPI.DOUBLE])
        numbers(100)
        later(request, y)
    show("Iallgatherv", y)
    if "MPICH" in MPI.Get_library_version():
        kept = world.Allgatherv_init(four, [y, parts, MPI.DOUBLE])
        for _ in range(3):
            kept.Start()
            kept.Wait()
        kept.Free()
        show("Allgatherv_init", y)
    if rank == 0:
        world.Send(numbers(), 1)
    else:
        world.Recv(y, MPI.ANY_SOURCE)
    show("Recv", y)
    request = world.Irecv(y, (rank - 1) % size)
    world.Isend(x, (rank + 1) % size).Wait()
    show("Irecv", later(request, y))
    world.Sendrecv(numbers(), (rank + 1) % size, 0, y, (rank - 1) % size)
    show("Sendrecv", y)
    grid = world.Create_cart([size], [False])
    both = array("d", [0.0] * 8)
    grid.Neighbor_allgather(numbers(4), both)
    show("Neighbor_allgather", both)
    try:
        world.Isendrecv(x, rank, 0, y, rank).Wait()
        show("Isendrecv", y)
    except NotImplementedError:
        show("no Isendrecv", [])
"""


@pytest.fixture
def wheel(kind, work):  # noqa: F811
    """The command that runs a job of two ranks by mpi4py's wheel."""
    python = os.environ.get("TWINRUN_MPI4PY_PYTHON", "")
    mpirun, found = shutil.which(f"mpirun.{kind}"), []
    has = bool(shutil.which(python)) and not subprocess.call([python, "-c", "import mpi4py"])
    if not mpirun or not has:
        pytest.skip(f"no {kind}, or no Python with mpi4py's wheel (TWINRUN_MPI4PY_PYTHON)")
    if kind == "mpich":  # Debian's has another name than the one that the wheel asks for
        found = list(Path("/usr/lib").glob("*/libmpich.so.12"))
        (work / "lib").mkdir()
        (work / "lib" / "libmpi.so.12").symlink_to(found[0])
        found = ["env", f"LD_LIBRARY_PATH={work / 'lib'}", "MPI4PY_MPIABI=mpich"]
    over = ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"] if kind == "openmpi" else []
    return [mpirun, *over, "-n", "2", *found, python]


def test_the_wheel_of_mpi4py(wheel, kind, recorded, twinrun, script):  # noqa: F811
    launch = [*wheel, script("job.py", MPI4PY)]
    alone = subprocess.run(
        launch, env={**os.environ, **ROOTED}, capture_output=True, text=True, timeout=100
    )
    assert alone.returncode == 0 and len(alone.stdout.splitlines()) >= 9, alone
    run, twin = recorded(launch), recorded(launch)
    assert (run / "stdout").read_text() == alone.stdout
    flipped = recorded(launch, env={"FLIP": "1"})
    done = twinrun("diff", "--json", run, flipped)
    name = "MPI_Allreduce" + ("_c" if kind == "mpich" else "")
    first = done.json["first"]
    assert (done.rc, first["rank"], first["name"], first["kind"]) == (1, 0, name, "in"), done
    done = twinrun("diff", "--json", run, twin)
    # of neighbours nothing is seen, which is said
    assert done.json["outcome"] != "differ" and "Neighbor_allgather" in str(done.json), done
