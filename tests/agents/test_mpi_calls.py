# SPDX-License-Identifier: Apache-2.0
"""Each call of MPI that moves contents, with int counts and with large ones (MPI_Allreduce_c), at
once, later and kept: where rank 1 gives another number to it, what comes out differs on the ranks
that MPI's standard says, and on no other, and the verdict names rank 1, that call and its input.
From C, Fortran and mpi4py.
"""

import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import FULL, shell
from test_mpi import ROOTED, job, kind, recorded, traces  # noqa: F401 (fixtures)

# Which ranks get something of what rank 1 gives for rank 2, or for all: of the standard, not of the
# agent. Rank 1 is the root of what one rank gives to all, rank 0 of what one rank gets of all.
GETS = {
    "Bcast": {0, 2},
    "Allreduce": {0, 1, 2},
    "Reduce": {0},
    "Scan": {1, 2},
    "Exscan": {2},
    "Reduce_scatter_block": {2},
    "Reduce_scatter": {2},
    "Gather": {0},
    "Gatherv": {0},
    "Allgather": {0, 1, 2},
    "Allgatherv": {0, 1, 2},
    "Scatter": {2},
    "Scatterv": {2},
    "Alltoall": {2},
    "Alltoallv": {2},
    "Alltoallw": {2},
}
# A verdict is asked for of these; of all with TWINRUN_FULL.
SHOWN = ("MPI_Alltoallw", "MPI_Iexscan", "MPI_Scan_init", "MPI_Ialltoallw_c", "MPI_Allreduce_c",
         "MPI_Exscan_c", "MPI_Send_c", "MPI_Imrecv_c")  # fmt: skip
SENDS = {"Mrecv": "MPI_Isend", "Imrecv": "MPI_Isend"}  # the test is named by what it receives with
TAKES = {
    "Send": "Recv", "Ssend": "Recv", "Bsend": "Recv", "Rsend": "Irecv", "Isend": "Irecv",
    "Issend": "Irecv", "Irsend": "Irecv", "Ibsend": "Irecv", "Sendrecv": "Sendrecv",
    "Sendrecv_replace": "Sendrecv_replace", "Mrecv": "Mrecv", "Imrecv": "Imrecv",
    "Send_init": "Recv_init", "Ssend_init": "Recv_init", "Rsend_init": "Recv_init",
    "Bsend_init": "Recv_init",
}  # fmt: skip


def base_of(call):
    """MPI_Iallreduce_c and MPI_Allreduce_init are both "Allreduce"."""
    name = call[len("MPI_") :].removesuffix("_c").removesuffix("_init")
    if name not in GETS and name[0] == "I":
        name = name[1:].capitalize()
    return name


def expected(call):
    """(what rank 1 gives, what the others get, the ranks that get it)."""
    plain = call[len("MPI_") :].removesuffix("_c")
    large = "_c" if call.endswith("_c") else ""
    if plain in TAKES:
        sends = SENDS.get(plain, "MPI_" + plain) + large
        return f"{sends} to rank 2, tag 5", f"MPI_{TAKES[plain]}{large} from rank 1, tag 5", {2}
    return call, call, GETS[base_of(call)]


def command(build, kind, *calls):  # noqa: F811
    *launcher, _, _ = job(build, kind, "")
    return [*launcher, build / "tests" / "agents" / f"mpi_calls_job_{kind}", *calls]


def names(build, kind):  # noqa: F811
    program = command(build, kind)[-1]
    listed = subprocess.run([program, "list"], capture_output=True, text=True, check=True)
    return listed.stdout.split()


def digests(run):
    """{(rank, in or out, call): digests}."""
    found = {}
    for rank, trace in traces(run).items():
        for r in trace.records():
            _, way, name, *_ = trace.key(r)
            found.setdefault((rank, way, name), []).append(r.digest)
    return found


def differing(a, b):
    assert a.keys() == b.keys()
    return {key for key in a if a[key] != b[key]}


def test_what_is_listed_is_all_that_is_watched(build, kind):  # noqa: F811
    """No call that moves contents is left out of the program: of the agent's functions those that
    the library has, and that give or get something of their own.
    """
    listed = names(build, kind)
    library = {"openmpi": "libmpi.so.40", "mpich": "libmpich.so.12"}[kind]
    found = list(Path("/usr/lib").glob(f"*/{library}"))
    if not found:
        pytest.skip(f"no {library} in /usr/lib")
    exported = subprocess.run(
        ["nm", "-D", "--defined-only", found[0]], capture_output=True, text=True, check=True
    ).stdout.split()
    # persistent collectives have another prefix in Open MPI 4
    theirs = {n.replace("MPIX_", "MPI_") for n in exported if n.startswith("MPI")}
    wanted = {
        f"MPI_{form}{end}"
        for name in GETS
        for form in (name, "I" + name.lower(), name + "_init")
        for end in ("", "_c")
    } | {f"MPI_{name}{end}" for name in TAKES for end in ("", "_c")}
    assert set(listed) == wanted & theirs
    assert {"MPI_Alltoallw", "MPI_Iscan", "MPI_Exscan"} <= set(listed)
    assert ("MPI_Allreduce_c" in listed) == (kind == "mpich")


def test_each_call_by_itself(build, kind, recorded, twinrun):  # noqa: F811
    """Every call is given something else at once, so that two runs show all of them."""
    calls = names(build, kind)
    run, twin = recorded(command(build, kind)), recorded(command(build, kind))
    done = twinrun("diff", "--json", run, twin)
    assert (done.json["outcome"], done.json["unseen"]) == ("same", []), done
    clean = digests(run)
    assert clean and differing(clean, digests(twin)) == set()
    flipped = digests(recorded(command(build, kind), env={"FLIP": "all"}))
    wanted = set()
    for call in calls:
        given, got, ranks = expected(call)
        wanted |= {(1, "in", given)} | {(rank, "out", got) for rank in ranks}
    assert differing(clean, flipped) == wanted


def test_the_verdict_names_the_call(build, kind, recorded, twinrun):  # noqa: F811
    for call in names(build, kind):
        if not FULL and call not in SHOWN:
            continue
        clean = recorded(command(build, kind, call))
        run = recorded(command(build, kind, call), env={"FLIP": call})
        done = twinrun("diff", "--json", clean, run)
        first, given = done.json["first"], expected(call)[0]
        assert (done.rc, done.json["unseen"]) == (1, []), (call, done)
        assert (first["rank"], first["name"], first["kind"]) == (1, given, "in"), (call, first)
        assert (first["layer"], first["role"]) == ("collective", "unknown"), (call, first)


@pytest.mark.parametrize("call", ["MPI_Alltoallw", "MPI_Scan_c"])
def test_check(build, kind, call, twinrun):  # noqa: F811
    if call not in names(build, kind):
        pytest.skip(f"{kind} has no {call}")
    b = shell(command(build, kind, call))
    a = shell(["env", f"FLIP={call}", *command(build, kind, call)])
    done = twinrun("check", "--json", "--a", a, "--b", b, env=ROOTED)
    first = done.json["first"]
    assert done.rc == 1, done
    assert (first["rank"], first["name"], first["kind"]) == (1, call, "in"), first
    done = twinrun("check", "--json", "--runs", "2", "--", *command(build, kind, call), env=ROOTED)
    assert done.json["outcome"] == "same" and done.rc == 0, done


# ---- from other languages: rank 1 gives another number to the call that FLIP names

FORTRAN = """
program job
  %(use)s
  integer code, rank, i
  character(len=32) flip
  %(count)s
  real x(24), y(72)
  integer counts(3), where(3)
  %(types)s
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call get_environment_variable("FLIP", flip)
  n = 24
  do i = 1, 3
    counts(i) = 8
    where(i) = (i - 1) * 32
    kinds(i) = MPI_REAL
  end do
%(calls)s
  if (rank == 2) print *, sum(y)
  call MPI_Finalize(code)
contains
  subroutine prepare(name)
    character(len=*), intent(in) :: name
    do i = 1, 24
      x(i) = i * 0.25 + rank
    end do
    y = 0
    if (rank == 1 .and. flip == name) x(19) = x(19) + 1
  end subroutine
end program
"""
CALLS = {
    "MPI_Scan": "x, y, n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD",
    "MPI_Exscan": "x, y, n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD",
    "MPI_Alltoallw": "x, counts, where, kinds, y, counts, where, kinds, MPI_COMM_WORLD",
}
LARGE = {
    "MPI_Allreduce": "x, y, n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD",
    "MPI_Exscan": "x, y, n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD",
}


def fortran(language):
    """A program of the calls. "large": with a count of the kind MPI_COUNT_KIND."""
    calls = "".join(
        f"  call prepare('{name}')\n  call {name}({arguments}, code)\n"
        for name, arguments in (LARGE if language == "large" else CALLS).items()
    )
    old = language == "mpif.h"
    return FORTRAN % {
        "use": "implicit none\n  include 'mpif.h'" if old else "use mpi_f08",
        "count": "integer(MPI_COUNT_KIND) n" if language == "large" else "integer n",
        "types": "integer kinds(3)" if old else "type(MPI_Datatype) kinds(3)",
        "calls": calls,
    }


def the_verdicts(launch, calls, recorded, twinrun):  # noqa: F811
    """calls: by what FLIP says of them, the names that they are recorded under."""
    clean = recorded(launch)
    done = twinrun("diff", "--json", clean, recorded(launch))
    assert (done.json["outcome"], done.json["unseen"]) == ("same", []), done
    for call, name in calls.items():
        done = twinrun("diff", "--json", clean, recorded(launch, env={"FLIP": call}))
        first = done.json["first"]
        assert done.rc == 1, done
        assert (first["rank"], first["name"], first["kind"]) == (1, name, "in"), (call, first)


@pytest.mark.parametrize("language", ["mpif.h", "mpi_f08", "large"])
def test_fortran(kind, language, recorded, twinrun, work):  # noqa: F811
    compiler = shutil.which(f"mpif90.{kind}")
    if not compiler:
        pytest.skip("no Fortran")
    if language == "large" and kind == "openmpi":
        pytest.skip("Open MPI 4 has no large counts")
    (work / "job.f90").write_text(fortran(language))
    built = [compiler, "-w", "-ffree-line-length-none", "-fallow-argument-mismatch"]
    subprocess.run([*built, "-o", "job", "job.f90"], cwd=work, check=True)
    over = ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"] if kind == "openmpi" else []
    launch = [f"mpirun.{kind}", *over, "-n", "3", "./job"]
    calls = {n: n + "_c" for n in LARGE} if language == "large" else {n: n for n in CALLS}
    the_verdicts(launch, calls, recorded, twinrun)


MPI4PY = """
    import os
    import numpy as np
    from mpi4py import MPI

    world, calls = MPI.COMM_WORLD, {}
    counts, where, kinds = [8] * 3, [0, 32, 64], [MPI.FLOAT] * 3
    calls["MPI_Scan"] = lambda x, y: world.Scan(x, y)
    calls["MPI_Exscan"] = lambda x, y: world.Exscan(x, y)
    calls["MPI_Alltoallw"] = lambda x, y: world.Alltoallw(
        [x, counts, where, kinds], [y, counts, where, kinds]
    )
    for name, call in calls.items():
        x = np.arange(24, dtype="f4") + world.rank
        y = np.zeros(24, dtype="f4")
        if world.rank == 1 and os.environ.get("FLIP") == name:
            x[18] += 1
        call(x, y)
        if world.rank == 2:
            print(name, y.sum())
"""


def test_mpi4py(recorded, twinrun, script):  # noqa: F811
    python = "/usr/bin/python3"
    if subprocess.run([python, "-c", "import mpi4py, numpy"], capture_output=True).returncode:
        pytest.skip("no mpi4py")
    launch = ["mpirun.openmpi", "--oversubscribe", "-n", "3", python, script("job.py", MPI4PY)]
    calls = ["MPI_Scan", "MPI_Exscan", "MPI_Alltoallw"]
    the_verdicts(launch, {name: name for name in calls}, recorded, twinrun)
