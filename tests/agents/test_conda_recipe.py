# SPDX-License-Identifier: Apache-2.0
"""packaging/conda/recipe.yaml: of this version, and (with --full) read and rendered by
rattler-build. No channel of conda is reached: what is not tried is the build itself.
"""

import os
import re
import subprocess

import pytest
import yaml

from conftest import FULL, ROOT, clean_environment, version

RECIPE = ROOT / "packaging" / "conda" / "recipe.yaml"
TOOLS = os.environ.get("TWINRUN_HOOKS_PYTHON", "")

# What conda-forge calls the libraries that the program is linked with.
OF_CONDA = {
    "crypto": "openssl",
    "event_core": "libevent",
    "event_extra": "libevent",
    "event_openssl": "libevent",
    "jansson": "jansson",
    "sqlite3": "libsqlite",
    "ssl": "openssl",
    "yaml": "yaml",
    "z": "zlib",
}


def test_the_program_and_the_changelog_are_of_this_version(build, run):
    said = run([build / "cmd" / "twinrun", "--version"])
    assert said.out.strip() == f"twinrun {version()}"
    newest = re.search(r"^## (\S+) \(([^)]*)\)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest[1] == version()
    assert newest[2] == "unreleased" or re.fullmatch(r"\d{4}-\d\d-\d\d", newest[2])


def test_it_is_of_this_version_and_has_all_libraries(build):
    recipe = yaml.safe_load(RECIPE.read_text())
    assert recipe["context"]["version"] == version()
    assert all((ROOT / name).exists() for name in recipe["about"]["license_file"])
    dynamic = subprocess.run(
        ["readelf", "-Wd", build / "cmd" / "twinrun"], stdout=subprocess.PIPE, text=True, check=True
    )
    needed = re.findall(r"\(NEEDED\).*\[lib([\w]+?)(?:-[\d.]+)?\.so", dynamic.stdout)
    foreign = {name for name in needed if name not in ("c", "m", "dl", "pthread", "rt", "gcc_s")}
    assert {OF_CONDA[name] for name in foreign} <= set(recipe["requirements"]["host"])


RENDER = """
import sys, rattler_build as r
variants = r.VariantConfig.from_yaml(
    "c_compiler: [gcc]\\nc_stdlib: [sysroot]\\nc_stdlib_version: ['2.28']\\npython: ['3.11.*']\\n")
recipe = r.Stage0Recipe.from_file(sys.argv[1])
for platform in ("linux-64", "linux-aarch64"):
    (made,) = recipe.render(variants, r.RenderConfig(r.PlatformConfig(target_platform=platform)))
    told = made.recipe.to_dict()
    print(told["package"]["name"], *told["requirements"]["build"][:2])
"""


@pytest.mark.skipif(
    not (FULL and TOOLS),
    reason="TWINRUN_HOOKS_PYTHON names no Python with rattler-build (./dev test --full makes one)",
)
def test_rattler_build_renders_it_and_refuses_a_word_that_it_does_not_know(tmp_path):
    def render(path):
        argv = [TOOLS, "-c", RENDER, path]
        return subprocess.run(argv, capture_output=True, text=True, env=clean_environment())

    done = render(RECIPE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "twinrun gcc_linux-64 sysroot_linux-64 2.28.*",
        "twinrun gcc_linux-aarch64 sysroot_linux-aarch64 2.28.*",
    ]
    wrong = tmp_path / "recipe.yaml"
    wrong.write_text(RECIPE.read_text().replace("requirements:\n  build:", "needs:\n  build:", 1))
    assert render(wrong).returncode != 0
