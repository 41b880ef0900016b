# SPDX-License-Identifier: Apache-2.0
"""Programs of MPI that srun starts itself, without mpirun: over PMI-2 (MPICH) and PMIx (Open MPI)
of a real Slurm of four nodes on this machine, in C and by mpi4py.
"""

import os
import subprocess

import pytest
from conftest import shell
from test_mpi import MPI4PY, ROOTED, keys, traces

# The two nodes are one machine, which Open MPI does not expect of nodes with two names: messages
# over TCP, not shared memory.
TCP = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self", "OMPI_MCA_osc": "pt2pt"}
SRUN = {
    "openmpi": ["srun", "--mpi=pmix", "-N", "2", "-n", "4"],
    "mpich": ["srun", "--mpi=pmi2", "-N", "2", "-n", "4"],
}


@pytest.fixture(params=["openmpi", "mpich"])
def kind(request):
    return request.param


@pytest.fixture
def command(build, kind):
    """command(mode): the job that srun starts."""
    program = build / "tests" / "agents" / f"mpi_job_{kind}"
    if not os.access(program, os.X_OK):
        pytest.skip(f"no {kind}")
    return lambda mode: [*SRUN[kind], program, mode]


@pytest.fixture
def recorded(twinrun, slurm, home):
    def call(argv):
        done = twinrun("record", "--", *argv, env={**slurm.environment, **ROOTED, **TCP})
        assert done.rc == 0, done
        return max((home / "runs").iterdir(), key=lambda p: p.stat().st_mtime)

    return call


def test_each_task_is_a_rank(command, recorded):
    found = traces(recorded(command("collectives")))
    assert sorted(found) == [0, 1, 2, 3]
    for trace in found.values():
        assert ("in", "MPI_Allreduce", "MPI_COMM_WORLD") in keys(trace)


def test_a_bit_that_flips_is_named(command, slurm, twinrun):
    job = command("ring")
    done = twinrun(
        *("check", "--json", "--a", shell(["env", "FLIP_RANK=3", "FLIP_STEP=2", *job])),
        *("--b", shell(job)),
        env={**slurm.environment, **ROOTED, **TCP},
    )
    assert done.rc == 1, done
    first = done.json["first"]
    assert (first["rank"], first["step"], first["kind"]) == (3, 2, "in"), first
    assert first["name"] == "MPI_Send_init to rank 0, tag 3", first


def test_mpi4py(slurm, twinrun, script, home):
    python = "/usr/bin/python3"
    if subprocess.run([python, "-c", "import mpi4py, numpy"], capture_output=True).returncode:
        pytest.skip("no mpi4py")
    job = script("job.py", MPI4PY)
    done = twinrun(
        *("check", "--json", "--no-zoom", "--runs", 2, "--", *SRUN["openmpi"], python, job),
        env={**slurm.environment, **ROOTED, **TCP},
    )
    assert done.rc == 0 and done.json["outcome"] == "same", done
    for run in (home / "runs").iterdir():
        assert sorted(traces(run)) == [0, 1, 2, 3]
