# SPDX-License-Identifier: Apache-2.0
"""The wheel as users get it, made from the objects of the build folder: what is in it, where it
runs, from pip install to pip uninstall; and the source distribution.
"""

import json
import os
import pty
import re
import shutil
import sys
import tarfile
import zipfile

import pytest
from job_pool import pooled
from said_by import run

from conftest import FULL, ROOT, clean_environment, version

PYTHON = os.environ.get("TWINRUN_WHEEL_PYTHON", "")
pytestmark = pytest.mark.skipif(
    not PYTHON, reason="TWINRUN_WHEEL_PYTHON names no Python with hatchling (./dev sets it)"
)

JOB = """
import os, sys, torch
torch.manual_seed(0)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(8, 1)

    def forward(self, x):
        if "--seedless" in sys.argv:
            x = x * int.from_bytes(os.urandom(8), "little") * 1e-19
        return self.inner(x)

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = net(torch.randn(16, 8)).pow(2).mean()
    loss.backward()
    optimizer.step()
print("trained")
"""
HOOK = """
import sys
sys.path.insert(0, %r)
import wheel_hook
""" % str(ROOT / "tools")


@pytest.fixture
def made(build):
    """{"wheel": path, "sdist": path}, made once for all tests, by what ./dev wheel calls."""

    def make(folder):
        said = run(
            *(PYTHON, "-m", "hatchling", "build", "-d", folder),
            cwd=ROOT,
            env={"TWINRUN_BUILD": str(build)},
        )
        assert "compiled" not in said, "objects of the build folder were not taken as they are"
        wheels, sdists = list(folder.glob("*.whl")), list(folder.glob("*.tar.gz"))
        assert len(wheels) == len(sdists) == 1
        return {"wheel": wheels[0], "sdist": sdists[0]}

    return pooled("wheel", make)


def test_what_is_in_it_and_where_it_runs(made):
    """auditwheel, which knows what each manylinux has, gives it the tag that it says it has."""
    audited = run(PYTHON, "-m", "auditwheel", "show", made["wheel"])
    tag = re.search(r'platform tag:\s+"([^"]+)"', audited)
    assert tag, audited
    assert made["wheel"].name == f"twinrun-{version()}-py3-none-{tag.group(1)}.whl"
    assert re.match(r"manylinux_2_(17|2[0-8])_", tag.group(1)), "older systems cannot install it"

    archive = zipfile.ZipFile(made["wheel"])
    names = set(archive.namelist())
    package = {p.relative_to(ROOT / "python").as_posix() for p in (ROOT / "python").rglob("*.py")}
    assert package <= names, package - names
    for half in ("_agent/boot.py", "_site/sitecustomize.py", "trace.py"):
        assert f"twinrun/_bin/agent/twinrun/{half}" in names
    for header in ("twin.h", "twin.f90", "fingerprint.h", "error.h", "random.h", "exact.h"):
        assert f"twinrun/_bin/include/twin/{header}" in names
    shared = f"twinrun-{version()}.data/data/share/"
    for file in ("twinrun/schemas/check.json",
                 "bash-completion/completions/twinrun.bash", "zsh/site-functions/_twinrun",
                 "fish/vendor_completions.d/twinrun.fish", "man/man1/twinrun-check.1"):  # fmt: skip
        assert shared + file in names
    licences = archive.read(f"twinrun-{version()}.dist-info/licenses/LICENSE-THIRD-PARTY").decode()
    assert "libcrypto.a" in licences and "libjansson.a" in licences
    # whose machine it was made on is nobody's business
    for name in names:
        assert str(ROOT).encode() not in archive.read(name), name
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests")]


def test_the_source_distribution_is_the_checkout(made):
    """Of what git has nothing is missing: so it builds as a checkout does."""
    with tarfile.open(made["sdist"]) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    if not (ROOT / ".git").exists():
        pytest.skip("no git repository here")
    tracked = set(run("git", "ls-files", cwd=ROOT).split("\n")) - {""}
    left_out = {name for name in tracked - names if (ROOT / name).exists()}
    assert left_out <= {".git-blame-ignore-revs", ".editorconfig"}, left_out
    assert "PKG-INFO" in names


def venv(folder, python=sys.executable):
    """A virtual environment that sees the packages of a Python: of that which runs the tests."""
    run(python, "-m", "venv", "--without-pip", folder)
    purelib = "import sysconfig; print(sysconfig.get_path('purelib'))"
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "beside.pth").write_text(run(python, "-c", purelib))
    return site


def files(folder):
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if not path.is_dir() and path.suffix != ".pyc"
    }


def pip(folder, *words):
    run(PYTHON, "-m", "pip", "--python", folder / "bin" / "python", *words, "-q",
        "--disable-pip-version-check")  # fmt: skip


def check_verdicts(bin_, work):
    """SAME of a job that repeats; DIFFER with the user's line of one that does not; both confirmed
    by the wheel's own recheck.
    """
    job = work / "job.py"
    job.write_text(JOB)
    check = (bin_ / "twinrun", "check", "-q", "--runs", "2", "--no-zoom")
    env = {"TWINRUN_HOME": str(work / "home"), "OMP_NUM_THREADS": "1"}
    said = run(*check, "--", bin_ / "python", job, cwd=work, env=env)
    assert said.startswith("SAME    3 steps"), said
    said = run(*check, "--", bin_ / "python", job, "--seedless", cwd=work, env=env, rc=1)
    line = JOB.split("\n").index("    loss = net(torch.randn(16, 8)).pow(2).mean()") + 1
    assert said.startswith("DIFFER  from step 0 on"), said
    assert re.search(rf"first .* output of Net .*\n.* job\.py:{line} in <module>", said), said
    verdicts = list((work / "home").glob("runs/*/verdict.json"))
    assert len(verdicts) == 2
    outcomes = sorted(json.loads(verdict.read_text())["outcome"] for verdict in verdicts)
    assert outcomes == ["differ", "same"]
    for verdict in verdicts:
        assert " 0 refuted" in run(bin_ / "python", "-m", "twinrun.recheck", verdict, env=env)


def check_c_program(bin_, site, work):
    """What docs/c-interface.md says, with the headers and the library of the wheel."""
    if not shutil.which("cc") or not shutil.which("pkg-config"):
        return
    env = {"PKG_CONFIG_PATH": str(site / "twinrun/_bin/pkgconfig")}
    flags = run("pkg-config", "--cflags", "--libs", "twinrun", env=env).split()
    run("cc", "-o", work / "example", ROOT / "workloads" / "example.c", *flags)
    run(work / "example")  # without twinrun around it the library is found, too
    env = {"TWINRUN_HOME": str(work / "c")}
    assert "SAME" in run(bin_ / "twinrun", "check", "-q", "--runs", "2", "--", work / "example",
                         env=env, cwd=work)  # fmt: skip


def test_from_install_to_uninstall(made, tmp_path):
    folder = tmp_path / "venv"
    site = venv(folder)
    before = files(folder)
    pip(folder, "install", "--no-index", "--no-deps", "--no-compile", made["wheel"])
    bin_ = folder / "bin"
    assert run(bin_ / "twinrun", "--version") == f"twinrun {version()}\n"
    assert str(site / "twinrun/_bin/libtwinrun.so") in run(bin_ / "twinrun", "doctor", cwd=tmp_path)
    if shutil.which("man"):  # it looks beside the folders of PATH
        path = os.pathsep.join([str(bin_), os.environ["PATH"]])
        found = run("man", "-w", "twinrun-check", env={"PATH": path}).strip()
        assert found == str(folder / "share/man/man1/twinrun-check.1")
    trainer = site / "twinrun/_bin/workloads/trainer"  # finds its library and its data
    assert "accuracy" in run(trainer, "--quiet", "--steps", "3", cwd=tmp_path)
    check_c_program(bin_, site, tmp_path)
    check_verdicts(bin_, tmp_path)
    pip(folder, "uninstall", "-y", "twinrun")
    assert files(folder) == before


def test_who_waits_sees_how_far_it_is():
    """At each tenth, with what is left by the speed so far; a build that has little to do is
    silent.
    """
    code = HOOK + (
        "now = iter([0.0] + [float(second) for second in range(1, 500)])\n"
        "progress = wheel_hook.Progress(print, lambda: next(now))\n"
        "for done in range(1, 41): assert progress.line('[%d/40] Compiling x.c' % done)\n"
        "assert not progress.line('x.c:3: warning')\n"
        "progress = wheel_hook.Progress(print, lambda: 0.0)\n"
        "for done in range(1, 6): progress.line('[%d/5] Linking' % done)\n"
    )
    said = run(PYTHON, "-c", code).splitlines()
    assert len(said) == 10
    assert said[0] == "twinrun: 4 of 40 compiled, about 9 s left"
    assert said[-1] == "twinrun: 40 of 40 compiled"


def on_a_terminal(argv, env):
    """(exit status, what the terminal showed)"""
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe(str(argv[0]), [str(word) for word in argv], clean_environment(env))
    said = b""
    try:
        while piece := os.read(terminal, 4096):
            said += piece
    except OSError:  # the end of a terminal
        pass
    os.close(terminal)
    return os.waitpid(child, 0)[1], said.decode()


def test_it_is_said_on_the_terminal_while_pip_is_silent():
    """pip keeps what a backend prints to itself."""
    code = HOOK + "wheel_hook.say('twinrun: 3 of 9 compiled')"
    silent = ("sh", "-c", 'exec "$0" -c "$1" >/dev/null 2>&1', PYTHON, code)
    rc, said = on_a_terminal(silent, {})
    assert rc == 0 and "twinrun: 3 of 9 compiled" in said


@pytest.mark.skipif(not FULL, reason="compiles everything: with --full")
def test_pip_installs_the_source_distribution(made, tmp_path):
    """With the back end that is there, without network and without a build folder; who waits sees
    how far it is.
    """
    folder = tmp_path / "venv"
    venv(folder, PYTHON)
    install = ("install", "--no-index", "--no-deps", "--no-build-isolation", made["sdist"])
    env = {"CC": "ccache gcc" if shutil.which("ccache") else None}
    rc, said = on_a_terminal(
        (PYTHON, "-m", "pip", "--python", folder / "bin/python", *install), env
    )
    assert rc == 0, said[-4000:]
    assert len(re.findall(r"twinrun: \d+ of \d+ compiled, about \d+ s left", said)) >= 9, said
    assert run(folder / "bin/twinrun", "--version") == f"twinrun {version()}\n"
    trainer = folder.glob("lib/python3*/site-packages/twinrun/_bin/workloads/trainer")
    check = ("check", "-q", "--runs", "2", "--", *trainer, "--ordered", "--steps", "3")
    env = {"TWINRUN_HOME": str(tmp_path / "home")}
    assert "SAME" in run(folder / "bin/twinrun", *check, env=env, cwd=tmp_path)


@pytest.mark.parametrize(
    "asked, reason",
    [
        ("hook.tag_of([build + '/cmd/twinrun'])", "needs ['libjansson.so.4'"),
        ("hook.PLACES = hook.PLACES[1:]\n    hook.planned(build)", "does not say where it lies"),
        ("hook.LICENCES = 'README.md'\n    hook.link_program(root, build, '/no/where')",
         "README.md does not name lib"),
    ],
    ids=["library", "place", "licence"],
)  # fmt: skip
def test_a_wheel_that_would_not_be_whole_is_refused(build, asked, reason):
    """A library that other machines may not have, a part without a place, a licence that is not
    there: the build ends with what is missing.
    """
    code = HOOK + (
        "hook, root, build = wheel_hook, %r, %r\n"
        "try:\n    %s\nexcept hook.Failed as error:\n    print('refused:', error)\n"
        % (str(ROOT), str(build), asked)
    )
    said = run(PYTHON, "-c", code)
    assert said.startswith("refused:") and reason in said, said
