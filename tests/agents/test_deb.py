# SPDX-License-Identifier: Apache-2.0
"""The Debian package as users get it, made from the objects of the build folder: what is in it,
what it does where it was unpacked, and (with --full) in a minimal Debian that has nothing else.
"""

import filecmp
import os
import shutil
import sys

import pytest
from job_pool import pooled
from said_by import run

from conftest import FULL, ROOT

sys.path.insert(0, str(ROOT / "packaging"))
import make_deb  # noqa: E402

MISSING = [name for name in make_deb.NEEDED if not shutil.which(name)]
pytestmark = pytest.mark.skipif(
    bool(MISSING), reason="%s not installed: ./dev test installs it" % ", ".join(MISSING)
)
FRESH = os.environ.get("TWINRUN_DEBIAN_ROOT", "")


def made(build, folder):
    """xz would take half of the time that this test has."""
    env = {"DPKG_DEB_COMPRESSOR_TYPE": "zstd"}
    return run(sys.executable, ROOT / "packaging/make_deb.py", build, folder, env=env).strip()


@pytest.fixture
def package(build):
    """The package, made once for all tests, by what ./dev deb calls."""

    return pooled("deb", lambda folder: made(build, folder))


@pytest.fixture
def unpacked(package, tmp_path):
    run("dpkg-deb", "-x", package, tmp_path / "root")
    return tmp_path / "root"


def test_what_is_in_it(package, unpacked, tmp_path):
    there = {
        path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if not path.is_dir()
    }
    for name in (
        "usr/bin/twinrun",
        "usr/include/twin/twin.h",
        "usr/include/twin/twin.f90",
        "usr/include/twin/cuda_fingerprint.h",
        "usr/lib/libtwincheckpoint.so",
        "usr/lib/libtwinnumerics.so",
        "usr/lib/pkgconfig/twinrun.pc",
        "usr/lib/twinrun/libtwinrun.so",
        "usr/lib/twinrun/python/twinrun/_site/sitecustomize.py",
        "usr/share/bash-completion/completions/twinrun.bash",
        "usr/share/fish/vendor_completions.d/twinrun.fish",
        "usr/share/man/man1/twinrun-check.1.gz",
        "usr/share/twinrun/schemas/check.json",
        "usr/share/zsh/site-functions/_twinrun",
    ):
        assert name in there, name
    for case in (ROOT / "cases").iterdir():
        assert f"usr/share/twinrun/cases/{case.name}" in there
    # what needs one MPI, or CUDA, is left out, and so are no dependencies on them
    assert not [name for name in there if "mpi-" in name or "cuda.h" in name or "nccl" in name]
    depends = run("dpkg-deb", "-f", package, "Depends")
    assert "libjansson4" in depends and "libssl3" in depends
    assert not [word for word in ("mpi", "cuda", "stdc++", "libpq") if word in depends], depends
    # whose machine it was made on is nobody's business
    for name in there:
        path = unpacked / name
        assert path.is_symlink() or str(ROOT).encode() not in path.read_bytes(), name
    run("dpkg-deb", "-e", package, tmp_path / "control")
    control = {path.name for path in (tmp_path / "control").iterdir()}
    assert {"postinst", "prerm", "triggers", "md5sums"} <= control


def test_it_works_where_it_was_unpacked(unpacked, tmp_path):
    """Each part finds the others by its own place; the documented C program is built by what
    pkg-config says; Debian's Python would see the module.
    """
    twinrun = unpacked / "usr/bin/twinrun"
    said = run(twinrun, "doctor", cwd=tmp_path)
    assert str(unpacked / "usr/lib/twinrun/libtwinrun.so") in said
    env = {
        "PKG_CONFIG_LIBDIR": str(unpacked / "usr/lib/pkgconfig"),
        "PKG_CONFIG_SYSROOT_DIR": str(unpacked),
    }
    flags = run("pkg-config", "--cflags", "--libs", "twinrun", env=env).split()
    assert f"-L{unpacked}/usr/lib/twinrun" in flags
    run("cc", "-o", tmp_path / "example", ROOT / "workloads/example.c", *flags)
    env = {"TWINRUN_HOME": str(tmp_path / "home"), "LD_LIBRARY_PATH": str(unpacked / "usr/lib")}
    check = ("check", "-q", "--runs", "2", "--", tmp_path / "example")
    assert run(twinrun, *check, env=env, cwd=tmp_path).startswith("SAME")
    code = (
        "import importlib.metadata as m, twinrun, twinrun.recheck; print(twinrun.__file__)\n"
        "print([e.value for e in m.distribution('twinrun').entry_points])"
    )
    module = unpacked / "usr/lib/python3/dist-packages"
    said = run(sys.executable, "-c", code, env={"PYTHONPATH": str(module)}).split("\n")
    assert said[:2] == [f"{module}/twinrun/__init__.py", "['twinrun.pytest_plugin']"]


def test_a_build_that_is_none_to_package_is_refused(build, tmp_path):
    """One with sanitizers: what comes of it is no package for others."""
    copy = tmp_path / "build"
    shutil.copytree(build / "meson-info", copy / "meson-info")
    options = copy / "meson-info" / "intro-buildoptions.json"
    text = options.read_text()
    start = text.index('"b_sanitize"')
    options.write_text(text[:start] + text[start:].replace('"none"', '"address"', 1))
    said = run(sys.executable, ROOT / "packaging/make_deb.py", copy, tmp_path / "out", rc=2)
    assert "b_sanitize address" in said and not (tmp_path / "out").exists()


@pytest.mark.skipif(not FULL, reason="makes it a second time: with --full")
def test_made_twice_it_is_the_same_file(build, package, tmp_path):
    assert filecmp.cmp(made(build, tmp_path / "again"), package, shallow=False)


@pytest.mark.skipif(not FULL, reason="takes some 5 s: with --full")
def test_lintian_has_nothing_to_say(package):
    if not shutil.which("lintian"):
        pytest.skip("lintian not installed: ./dev test --full installs it")
    said = run("lintian", "--fail-on", "error,warning", "--allow-root", package)
    assert [line for line in said.split("\n") if line[:2] in ("E:", "W:")] == []


IN_THE_ROOT = """set -eu
dpkg -i /twinrun.deb
twinrun --version
cd /tmp
test "$(pkg-config --cflags --libs twinrun | tr -s ' ')" = '-L/usr/lib/twinrun -ltwinrun '
cc -o example /example.c $(pkg-config --cflags --libs twinrun)
./example >/dev/null
twinrun check -q --runs 2 -- ./example
cat >job.py <<'END'
import array, twinrun
for step in range(3):
    twinrun.record("batch:x", array.array("d", [step]))
    twinrun.record("weight:w", array.array("d", [step, 2.0]))
    twinrun.step()
END
twinrun check -q --runs 2 -- python3 job.py
/usr/libexec/twinrun/trainer --quiet --steps 3
for verdict in /tmp/home/runs/*/verdict.json; do python3 -m twinrun.recheck "$verdict"; done
dpkg -r twinrun
test ! -e /usr/lib/twinrun && test ! -e /usr/bin/twinrun
"""


@pytest.mark.skipif(not FULL, reason="needs a minimal Debian: with --full")
def test_in_a_minimal_debian(package, tmp_path):
    """dpkg takes it only when what it depends on is all that it needs; nothing of it is left when
    it is removed.
    """
    if not FRESH:
        pytest.skip("TWINRUN_DEBIAN_ROOT names no minimal Debian (./dev test --full makes one)")
    root = tmp_path / "debian"
    run("cp", "-a", FRESH, root)
    shutil.copy2(package, root / "twinrun.deb")
    shutil.copy2(ROOT / "workloads/example.c", root)
    said = run(
        *("bwrap", "--bind", root, "/", "--proc", "/proc", "--dev", "/dev", "--unshare-all"),
        *("--uid", "0", "--gid", "0", "--clearenv", "--setenv", "PATH", "/usr/sbin:/usr/bin"),
        *("--setenv", "HOME", "/root", "--setenv", "TWINRUN_HOME", "/tmp/home"),
        *("sh", "-c", IN_THE_ROOT),
    )
    assert said.count("SAME") == 2, said
    assert said.count(" 0 refuted") == 2, said
    shutil.rmtree(root)
