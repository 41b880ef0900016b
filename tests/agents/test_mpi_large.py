# SPDX-License-Identifier: Apache-2.0
"""Functions of MPI 4 that the library does not have, called by programs that are built for several
MPIs: a weak reference finds the agent's, which does what the library's own would do, and records it
as the call of the library's that it made. mpi4py's wheel is such a program.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from test_mpi import ROOTED, kind, recorded  # noqa: F401 (fixtures)
from test_mpi_calls import command, digests, names


def undefined(*programs):
    done = subprocess.run(
        ["nm", "-D", "--undefined-only", *programs], capture_output=True, text=True, check=True
    )
    return {line.split()[-1] for line in done.stdout.splitlines() if line.startswith(" ")}


def large(build, kind):  # noqa: F811
    """The command that runs mpi_large_job, without its file."""
    *launcher, program = command(build, kind)
    at = launcher.index("-n") + 1
    return [*launcher[:at], "2", *launcher[at + 1 :], program.with_name(f"mpi_large_job_{kind}")]


def weak(build):
    *launcher, program = command(build, "openmpi")
    return [*launcher, program.with_name("mpi_calls_job_weak")]


def test_all_that_are_exported_are_called(build):
    programs = [large(build, "openmpi")[-1], weak(build)[-1]]
    agent = build / "agents" / "libtwinrun_mpi.so"
    done = subprocess.run(
        ["nm", "-D", "--defined-only", agent], capture_output=True, text=True, check=True
    )
    ours = {line.split()[-1] for line in done.stdout.splitlines()}
    wide = {name for name in ours if name.startswith("MPI_") and name.endswith("_c")}
    wide -= {"MPI_Isendrecv_c", "MPI_Isendrecv_replace_c"}  # nothing else does the same
    assert len(wide) > 100 and wide <= undefined(*programs), sorted(wide - undefined(*programs))


def test_each_gives_what_the_library_gives(build, kind, twinrun, work):  # noqa: F811
    launch = [*large(build, kind), work / "file"]
    done = twinrun("record", "--", *launch, env=ROOTED)
    assert (done.rc, done.out.split()) == (0, ["right"]), done


def test_they_are_recorded_as_those_with_ints(build, recorded, twinrun):  # noqa: F811
    """The job gives the same numbers to both, so that each rank's records are the same."""
    program = weak(build)
    listed = subprocess.run([program[-1], "list"], capture_output=True, text=True, check=True)
    wide = [name for name in listed.stdout.split() if name.endswith("_c")]
    assert [name.removesuffix("_c") for name in wide] == names(build, "openmpi")
    run = recorded([*program, *wide])
    twin = recorded([*command(build, "openmpi"), *names(build, "openmpi")])
    clean = digests(twin)
    assert len(clean) > 150 and digests(run) == clean
    done = twinrun("diff", "--json", run, twin)
    assert (done.json["outcome"], done.json["unseen"]) == ("same", []), done
    outputs = [(folder / "stdout").read_text() for folder in (run, twin)]
    assert outputs[0] == outputs[1] != ""


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
    assert alone.returncode == 0 and len(alone.stdout.splitlines()) >= 8, alone
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
