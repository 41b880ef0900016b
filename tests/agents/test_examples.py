# SPDX-License-Identifier: Apache-2.0
"""The worked examples (examples/): each page's commands print what it says, in a copy of its folder."""

import os
import re
import shutil
from pathlib import Path

import pytest
from conftest import FULL, ROOT, clean_environment, library_python
from pages import follow
from turn import part

EXAMPLES = sorted(page.parent for page in (ROOT / "examples").glob("*/README.md"))
# PYTHONPATH names the lighter PyTorch: one has a package that says so, one compiles with the other.
# Frameworks import all of it.
WHOLE = {"accelerate", "audit", "deepspeed", "fsdp", "libtorch", "lightning"}
# What an example imports that not every Python with PyTorch has.
LIBRARIES = {
    "accelerate": ("accelerate",),
    "deepspeed": ("deepspeed",),
    "hydra": ("numpy", "hydra"),
    "lightning": ("lightning",),
    "optuna": ("numpy", "optuna"),
}

# Whose job an example runs: that folder lies beside its own.
BESIDE = {"hydra": "sweep", "optuna": "sweep"}


def uses_twinrun(folder):
    return any(
        re.search(r"^(import|from) twinrun", source.read_text(), re.M)
        for source in folder.glob("*.py")
    )


# The tutorial each time, half of the others.
IN_TURN = part(EXAMPLES, 2, always=[e for e in EXAMPLES if e.name == "ten_minutes"])


@pytest.mark.parametrize("example", IN_TURN, ids=lambda folder: folder.name)
def test_example(example, work, build, home, python, run, request):
    if example.name not in WHOLE:
        request.getfixturevalue("light")
    if example.name == "edge" and "avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor has no other instruction set that PyTorch would use")
    if example.name == "libtorch" and not FULL:
        pytest.skip("PyTorch's headers take a minute to compile: TWINRUN_FULL=1")
    if example.name == "deepspeed" and not FULL:
        pytest.skip("its launcher takes minutes: TWINRUN_FULL=1")
    if example.name == "fortran":
        for program in ("gfortran", "pkg-config"):
            if not shutil.which(program):
                pytest.skip("no " + program)
    if example.name in LIBRARIES:
        python = library_python(python, run, *LIBRARIES[example.name])
    folder = work / example.name
    shutil.copytree(example, folder)
    if example.name in BESIDE:
        shutil.copytree(example.parent / BESIDE[example.name], work / BESIDE[example.name])
    env = clean_environment({"TWINRUN_HOME": str(home)})
    env["PATH"] = f"{build / 'cmd'}:{Path(python).parent}:{env['PATH']}"
    env["PKG_CONFIG_PATH"] = str(build / "meson-uninstalled")
    if uses_twinrun(example):  # as where twinrun is installed
        paths = [str(ROOT / "python"), env.get("PYTHONPATH")]
        env["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        env["TWINRUN_NUMERICS"] = str(build / "src/numerics/libtwinnumerics.so")
    ran = follow((example / "README.md").read_text(), folder, env)
    assert ran >= 2 or example.name == "ray_train"  # test_ray.py runs it


def test_every_example_is_in_the_index():
    index = (ROOT / "examples" / "README.md").read_text()
    assert re.findall(r"\]\((\w+)/README.md\)", index) == [e.name for e in EXAMPLES]
