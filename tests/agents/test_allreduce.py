# SPDX-License-Identifier: Apache-2.0
"""All-reduce over MPI: one result whatever the ranks, how contributions are dealt, the algorithm
and the MPI; a trainer whose weights do not depend on them, as twinrun check sees it; the examples
of docs/allreduce.md.
"""

import re
import shutil
import subprocess
import sys

import pytest
from conftest import FULL, ROOT

MPIS = ["openmpi", "mpich"]
LAUNCH = ROOT / "tests" / "mpi" / "launch"


@pytest.fixture(params=MPIS)
def mpi(request, build):
    return need(build, request.param)


def need(build, mpi):
    if not (build / "src" / "mpi" / f"libtwinmpi-{mpi}.so").exists():
        pytest.skip(f"built without {mpi}")
    if not shutil.which(f"mpirun.{mpi}"):
        pytest.skip(f"mpirun.{mpi} is not installed")
    return mpi


def algorithm(number):
    """Environment that makes Open MPI use one of its all-reduce algorithms: the blocking ones 1..6,
    the others 1..4.
    """
    return {
        "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
        "OMPI_MCA_coll_tuned_allreduce_algorithm": str(number),
        "OMPI_MCA_coll_libnbc_iallreduce_algorithm": str((number - 1) % 4 + 1),
    }


def environment(number):
    return {**algorithm(number), "TWINRUN_FULL": "1" if FULL else None}


@pytest.fixture
def on(run, build):
    """on(mpi, ranks, program, arguments..., env) -> stdout of a program of the build folder."""

    def call(mpi, ranks, program, *args, env=None):
        result = run(
            [LAUNCH, mpi, ranks, build / program, *args], env=env, timeout=900 if FULL else 600
        )
        assert result.rc == 0, result
        return result.out

    return call


def test_one_result(on, build):
    """24 contributions; every way of sending them is compared with the oracle inside
    the program.
    """
    found = {}
    for mpi in MPIS:
        if not (build / "src" / "mpi" / f"libtwinmpi-{mpi}.so").exists() or not shutil.which(
            f"mpirun.{mpi}"
        ):
            continue
        for ranks in [1, 2, 3, 4, 6, 8, 12] if FULL else [2, 5] if mpi == "openmpi" else [2]:
            for seed in [1, 2] if FULL else [1]:
                for number in range(1, 7) if FULL and mpi == "openmpi" and seed == 1 else [1]:
                    found.setdefault(
                        on(
                            mpi,
                            ranks,
                            f"tests/mpi/allreduce_{mpi}",
                            "matrix",
                            seed,
                            env=algorithm(number),
                        ),
                        [],
                    ).append((mpi, ranks, seed, number))
    if not found:
        pytest.skip("built without any MPI")
    assert len(found) == 1 and next(iter(found)).startswith("ok "), found


@pytest.mark.skipif(
    not FULL, reason="one rank count and algorithm is a unit test; all of them are TWINRUN_FULL=1"
)
def test_one_contribution_from_each_rank(on, mpi):
    """The fast way and the general ones, held against the oracle."""
    for ranks in [1, 2, 3, 4, 6, 8, 12]:
        for number in range(1, 7) if mpi == "openmpi" else [1]:
            assert on(
                mpi, ranks, f"tests/mpi/allreduce_{mpi}", "one", env=environment(number)
            ).startswith("ok ")


def weights(text):
    return re.search(r"weights ([0-9a-f]{32})", text)[1]


@pytest.fixture
def train(on):
    def call(mpi, ranks, *args, env=None):
        return weights(on(mpi, ranks, f"workloads/trainer_mpi_{mpi}", "--quiet", *args, env=env))

    return call


STEPS = ("--steps", "60" if FULL else "10")


def test_trainer_gives_the_same_weights_on_any_ranks(train, mpi, tmp_path):
    found = {}
    for ranks in [1, 2, 3, 4, 6, 8] if FULL else [1, 3, 4]:
        found.setdefault(train(mpi, ranks, *STEPS), []).append(ranks)
        for permute in [1, 2, 3] if FULL else [ranks]:
            found.setdefault(train(mpi, ranks, *STEPS, "--permute", permute), []).append(
                (ranks, permute)
            )
    saved = tmp_path / "half"
    for first, second in [(4, 6), (8, 3), (1, 2)] if FULL else [(4, 2)]:
        train(mpi, first, "--steps", "30" if FULL else "5", "--checkpoint", saved)
        found.setdefault(train(mpi, second, *STEPS, "--resume", saved), []).append((first, second))
    assert len(found) == 1, found
    assert train(mpi, 2, *STEPS, "--seed", "2") not in found


def test_plain_sum_differs(train, build):
    """The same trainer with MPI_Allreduce: other ranks, other deals, other algorithms,
    other bits.
    """
    need(build, "openmpi")
    found = {
        train("openmpi", ranks, *STEPS, "--plain")
        for ranks in ([1, 2, 3, 4, 6, 8] if FULL else [1, 2, 3])
    }
    assert len(found) == (6 if FULL else 3)
    assert train("openmpi", 3, *STEPS, "--plain", "--permute", 1) not in found
    if FULL:
        assert (
            len(
                {
                    train("openmpi", 8, *STEPS, "--plain", env=algorithm(number))
                    for number in range(1, 7)
                }
            )
            > 1
        )


def test_check_says_so(build, twinrun):
    """Two and three ranks under twinrun check: the same with order-free sums, also when the
    schedule is shaken; different with plain ones.
    """
    need(build, "openmpi")
    program = build / "workloads" / "trainer_mpi_openmpi"

    def command(ranks, *args):
        return " ".join(
            map(str, [LAUNCH, "openmpi", ranks, program, "--quiet", "--steps", 6, *args])
        )

    same = twinrun(
        "check", "--json", "--no-zoom", "--a", command(2), "--b", command(3, "--permute", 4)
    )
    assert same.rc == 0 and same.json["outcome"] == "same", same
    differ = twinrun(
        "check", "--json", "--no-zoom", "--a", command(2, "--plain"), "--b", command(3, "--plain")
    )
    assert differ.rc == 1 and differ.json["outcome"] == "differ", differ
    still = twinrun(
        "run",
        "--pin",
        "noise=vary:5",
        "--quiet",
        "--",
        LAUNCH,
        "openmpi",
        3,
        program,
        "--quiet",
        "--steps",
        6,
    )
    bare = subprocess.run(
        [LAUNCH, "openmpi", "4", program, "--quiet", "--steps", "6"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert still.rc == 0 and weights(still.out) == weights(bare.stdout), still


# ---------------------------------------------------------------- documentation
def example(language):
    text = (ROOT / "docs" / "allreduce.md").read_text()
    return re.search(rf"```{language}\n(.*?)```", text, re.S)[1]


def test_c_example(run, build, mpi, tmp_path):
    (tmp_path / "sum.c").write_text(example("c"))
    folders = [build / "src" / "mpi", build / "src" / "numerics"]
    compiled = run(
        [
            f"mpicc.{mpi}",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-o",
            tmp_path / "sum",
            tmp_path / "sum.c",
            "-I",
            ROOT / "include",
            f"-L{folders[0]}",
            f"-L{folders[1]}",
            f"-ltwinmpi-{mpi}",
            "-ltwinnumerics",
            f"-Wl,-rpath,{folders[0]}:{folders[1]}",
        ]
    )
    assert compiled.rc == 0, compiled
    assert len({run([LAUNCH, mpi, ranks, tmp_path / "sum"]).out for ranks in (1, 3)}) == 1


def mpi4py_python():
    for python in (sys.executable, "/usr/bin/python3"):
        done = subprocess.run(
            [
                python,
                "-c",
                "from mpi4py import MPI; import numpy; print(MPI.Get_library_version())",
            ],
            capture_output=True,
            text=True,
        )
        if done.returncode == 0:
            return python, "openmpi" if "Open MPI" in done.stdout else "mpich"
    pytest.skip("no Python here has mpi4py and numpy (python3-mpi4py, python3-numpy)")


def test_python_example(run, build, tmp_path):
    python, mpi = mpi4py_python()
    need(build, mpi)
    (tmp_path / "sum.py").write_text(example("python"))
    (tmp_path / "sum.c").write_text(example("c"))
    env = {"LD_LIBRARY_PATH": f"{build / 'src' / 'mpi'}:{build / 'src' / 'numerics'}"}
    results = {
        run([LAUNCH, mpi, ranks, python, tmp_path / "sum.py"], env=env).out for ranks in (1, 2)
    }
    assert len(results) == 1 and re.fullmatch(
        r"0x1\.[0-9a-f]+p[+-]\d+ 0x1\.[0-9a-f]+p[+-]\d+\n", results.pop()
    )


@pytest.mark.parametrize(
    "args, message",
    [
        (["--resume", "/nonexistent"], "is not a checkpoint"),
        (["--data", "/nonexistent"], "nonexistent"),
    ],
)
def test_trainer_that_cannot_start_ends(run, build, mpi, args, message):
    result = run([LAUNCH, mpi, 2, build / "workloads" / f"trainer_mpi_{mpi}", *args], timeout=60)
    assert result.rc == 1 and message in result.err, result
