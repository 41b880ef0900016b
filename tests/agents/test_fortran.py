# SPDX-License-Identifier: Apache-2.0
"""The module `twin` for Fortran (include/twin/twin.f90): every kind and rank, by gfortran."""

import os
import re
import shutil
import subprocess

import pytest
from native import BUILD, LIBRARY, ROOT, Run, bare
from torch_observed import PYTHON

MODULE = os.path.join(ROOT, "include", "twin", "twin.f90")
pytestmark = [
    pytest.mark.skipif(not shutil.which("gfortran"), reason="no gfortran"),
    pytest.mark.skipif(not os.path.exists(LIBRARY), reason=f"not built: {LIBRARY}"),
]

PROGRAM = """
program shows
    use twin
    use, intrinsic :: iso_c_binding
    implicit none
    real(c_float) :: a(2, 3) = reshape([1, 2, 3, 4, 5, 6], [2, 3])
    real(c_double) :: d(2, 2, 2) = 1, z(0) = 0
    integer(c_int8_t) :: i1(2) = 1_c_int8_t
    integer(c_int) :: i4 = 4
    integer(c_int64_t) :: i8(1) = 8
    complex(c_float_complex) :: c(1) = (1, 2)
    complex(c_double_complex) :: z16(1) = (1, 2)
    print *, twin_open() .eqv. twin_on()
    call twin_scope_push("outer ")
    call twin_record("weight:a", a)
    call twin_scope_pop()
    call twin_record("row", a(2, :))
    call twin_record("same row", [2.0, 4.0, 6.0])
    call twin_record("d", d, offset=5_c_int64_t)
    call twin_record("empty", z)
    call twin_record("i1", i1)
    call twin_record("i4", i4)
    call twin_record("i8", i8)
    call twin_record("c", c)
    call twin_record("z16", z16)
    call twin_step()
    call twin_thread_role("worker 1")
    call twin_record("late", i4)
    call twin_close()
    call twin_record("ignored", i4)
end program
"""
NUMPY = """
import numpy, twinrun
twinrun.record("weight:a", numpy.arange(1, 7, dtype="f4").reshape((2, 3), order="F"))
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fortran")
    (folder / "shows.f90").write_text(PROGRAM)
    library = os.path.dirname(LIBRARY)
    command = ["gfortran", "-std=f2018", "-Wall", "-Werror", "-fcheck=all,no-array-temps"]
    command += ["-o", "shows", MODULE, "shows.f90", "-L" + library, "-ltwinrun"]
    command += ["-Wl,-rpath," + library]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return str(folder / "shows")


def test_every_kind_and_rank_is_recorded_as_fortran_has_it(program, tmp_path, python):
    run = Run(tmp_path / "fortran")
    done = run.start(program)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [b"T"], b"")
    rows = run.traces()["main"].records
    found = [(r["step"], r["name"], r["dtype"], list(r["shape"]), r["scope"]) for r in rows]
    assert found == [
        (0, "a", "f32", [2, 3], "outer"),
        (0, "row", "f32", [3], ""),
        (0, "same row", "f32", [3], ""),
        (0, "d", "f64", [2, 2, 2], ""),
        (0, "empty", "f64", [0], ""),
        (0, "i1", "i8", [2], ""),
        (0, "i4", "i32", [], ""),
        (0, "i8", "i64", [1], ""),
        (0, "c", "c64", [1], ""),
        (0, "z16", "c128", [1], ""),
        (1, "late", "i32", [], ""),
    ]
    by_name = {r["name"]: r for r in rows}
    assert by_name["row"]["digest"] == by_name["same row"]["digest"]
    assert by_name["late"]["role"] == "worker 1"
    numpy = Run(tmp_path / "numpy", PYTHONPATH=os.path.join(ROOT, "python"))
    assert numpy.start(PYTHON, "-c", NUMPY, preload=True).returncode == 0
    assert numpy.traces()["main"].records[0]["digest"] == by_name["a"]["digest"]


def test_without_twinrun_the_calls_do_nothing(program):
    done = bare(program)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [b"T"], b"")


def test_the_numbers_of_types_are_those_of_the_header():
    with open(os.path.join(ROOT, "include", "twin", "fingerprint.h")) as f:
        enum = re.search(r"enum twin_dtype \{(.*?)\}", f.read(), re.S)[1]
    enum = re.sub(r"/\*.*?\*/", "", enum, flags=re.S)
    names = [line.split("=")[0].strip() for line in enum.split(",") if line.strip()]
    with open(MODULE) as f:
        ours = dict(re.findall(r"(twin_[ifc]\d+) = (\d+)", f.read()))
    assert len(ours) == 7
    for name, number in ours.items():
        assert names[int(number)] == name.upper()


def test_pkg_config_names_the_module():
    if not shutil.which("pkg-config"):
        pytest.skip("no pkg-config")
    environment = dict(os.environ, PKG_CONFIG_PATH=os.path.join(BUILD, "meson-uninstalled"))
    done = subprocess.run(
        ["pkg-config", "--variable=fortran", "twinrun"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert os.path.samefile(done.stdout.strip(), MODULE), done
