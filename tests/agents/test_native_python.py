# SPDX-License-Identifier: Apache-2.0
"""The way into Python: armed before the user's code in every start mode, once, and invisible to the
program.
"""

import glob
import os
import subprocess
import sys
import sysconfig
import venv

import pytest
from native import ROOT, Run, bare, clean_environment

PYTHON_DIR = os.path.join(ROOT, "python")
SITE_DIR = os.path.join(PYTHON_DIR, "twinrun", "_site")


def interpreters():
    """One of each version from 3.8 on that this machine has, and the one that runs the tests."""
    found = {}
    names = glob.glob("/usr/bin/python3.*") + glob.glob(
        os.path.expanduser("~/.pyenv/versions/3.*/bin/python")
    )
    for path in [sys.executable] + sorted(n for n in names if "config" not in n):
        try:
            out = subprocess.run(
                [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
                env=clean_environment(),
                capture_output=True,
                text=True,
                timeout=30,
            ).stdout.strip()
        except OSError:
            continue
        if out and tuple(map(int, out.split("."))) >= (3, 8):
            found.setdefault((out, os.path.realpath(path)), path)
    return sorted(set(found.values()))


PYTHONS = interpreters()
# what the interpreter is started with, and whether our sitecustomize can run under it
MODES = {
    "plain": ([], True),
    "-I": (["-I"], False),
    "-S": (["-S"], False),
    "-E": (["-E"], False),
    "-ISE": (["-ISE"], False),
    "-W error -I": (["-W", "error", "-I"], False),
    "-B -s": (["-B", "-s"], True),
}
BOOT = """
import os
def arm():
    with open(os.environ["BOOT_LOG"], "a") as f:
        f.write("armed\\n")
    {body}
"""


class FakeHalf:
    """A Python half of the tests' own: arm() writes a line, and says how it was loaded."""

    def __init__(self, tmp_path, body="return True"):
        self.folder = tmp_path / "half"
        (self.folder / "twinrun" / "_agent").mkdir(parents=True)
        (self.folder / "twinrun" / "_agent" / "boot.py").write_text(BOOT.format(body=body))
        self.log = tmp_path / "log"
        self.run = Run(tmp_path / "run", TWINRUN_PYTHON_DIR=self.folder, BOOT_LOG=self.log)

    def armed(self):
        return self.log.read_text().count("armed") if self.log.exists() else 0


def same_as_bare(run, *argv, **options):
    armed, alone = run.start(*argv, preload=True, **options), bare(*argv, **options)
    assert (armed.returncode, armed.stdout, armed.stderr) == (
        alone.returncode,
        alone.stdout,
        alone.stderr,
    )
    return armed


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("options", ["-I", "-S", "-E", "-ISE", "-W error -I"])
@pytest.mark.parametrize("start", ["-c", "-m", "script", "stdin"])
def test_armed_before_the_users_code(tmp_path, python, options, start):
    half = FakeHalf(tmp_path)
    code = "import sys; print(sorted(k for k in vars(sys.modules['__main__']) if not k.startswith('__')), len(sys.argv)); sys.exit(3)"
    (tmp_path / "job.py").write_text(code)
    argv = {
        "-c": ["-c", code],
        "-m": ["-m", "this"],
        "script": [str(tmp_path / "job.py"), "x"],
        "stdin": ["-"],
    }[start]
    same_as_bare(half.run, python, *MODES[options][0], *argv, input=code.encode())
    assert half.armed() == 1
    assert [kind for _, _, kind, _ in half.run.processes()] == ["native", "python"]
    assert half.run.lines("faults") == []


def test_user_code_sees_no_trace_of_arming_in_main(tmp_path):
    half = FakeHalf(tmp_path)
    result = same_as_bare(
        half.run,
        sys.executable,
        "-I",
        "-c",
        "x = 1; print(sorted(globals()), repr(__builtins__)[:20])",
    )
    assert b"'x'" in result.stdout and half.armed() == 1


def test_no_hook_where_sitecustomize_runs(tmp_path):
    """An audit hook slows audited calls down for good: it is not set where PYTHONPATH leads to us
    anyway.
    """
    half = FakeHalf(tmp_path)
    half.run.environment.update(TWINRUN_SITE_DIR="/site", PYTHONPATH="/site:/other")
    half.run.start(sys.executable, "-c", "pass", preload=True)
    assert half.armed() == 0
    for changed in ({"PYTHONPATH": "/other"}, {"TWINRUN_SITE_DIR": "/sit"}):
        half.run.environment.update(changed)
        half.run.start(sys.executable, "-c", "pass", preload=True)
    assert half.armed() == 2


@pytest.mark.parametrize(
    "body,said",
    [
        ("raise ValueError('broken')", "broken"),
        ("raise SystemExit(5)", "SystemExit"),
        ("return 1 / 0", "ZeroDivisionError"),
        ("return False", "in its way"),
        ("import sys; sys.exit(9)", "SystemExit"),
        ("import no_such_module", "no_such_module"),
    ],
)
def test_a_broken_half_is_told_and_does_no_harm(tmp_path, body, said):
    half = FakeHalf(tmp_path, body)
    result = same_as_bare(
        half.run, sys.executable, "-I", "-c", "print('mine'); raise SystemExit(4)"
    )
    assert result.returncode == 4
    (fault,) = half.run.lines("faults")
    assert "the Python half is off" in fault and said in fault
    assert [kind for _, _, kind, _ in half.run.processes()] == ["native"]


@pytest.mark.parametrize("text", ["this is not python", "", "x = 1\0y", "arm = 5", None])
def test_a_boot_file_that_is_no_boot_file(tmp_path, text):
    half = FakeHalf(tmp_path)
    boot = half.folder / "twinrun" / "_agent" / "boot.py"
    boot.unlink() if text is None else boot.write_text(text)
    same_as_bare(half.run, sys.executable, "-I", "-c", "print('mine')")
    assert len(half.run.lines("faults")) == 1


def test_an_interrupt_in_our_code_reaches_the_user(tmp_path):
    half = FakeHalf(tmp_path, "raise KeyboardInterrupt")
    code = (
        "try:\n    for i in range(10**7): pass\nexcept KeyboardInterrupt:\n    print('interrupted')"
    )
    result = half.run.start(sys.executable, "-I", "-c", code, preload=True)
    assert (result.returncode, result.stdout) in (
        (0, b"interrupted\n"),
        (-2, b""),
    ) and half.armed() == 1


def test_children_by_spawn_and_fork(tmp_path):
    half = FakeHalf(tmp_path)
    (tmp_path / "job.py").write_text(
        "import multiprocessing, sys\n"
        "def work(x): return x + 1\n"
        "if __name__ == '__main__':\n"
        "    for how in ('fork', 'spawn', 'forkserver'):\n"
        "        with multiprocessing.get_context(how).Pool(1) as p: print(how, p.map(work, [1]))\n"
    )
    same_as_bare(half.run, sys.executable, "-I", str(tmp_path / "job.py"))
    assert half.armed() >= 3  # this one, the spawned one, the fork server
    assert {pid for pid, _, kind, _ in half.run.processes() if kind == "python"} == {
        pid for pid, *_ in half.run.processes()
    }


def test_virtual_environment(tmp_path):
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    half = FakeHalf(tmp_path)
    python = str(tmp_path / "venv" / "bin" / "python")
    same_as_bare(half.run, python, "-I", "-c", "import sys; print(sys.prefix)")
    assert half.armed() == 1


def test_a_program_that_embeds_python(tmp_path):
    """No cpython.run_* event there: the import of a hooked library is the moment."""
    library = sysconfig.get_config_var("LDLIBRARY") or ""
    folder = sysconfig.get_config_var("LIBDIR") or ""
    headers = sysconfig.get_paths()["include"]
    if (
        ".so" not in library
        or not os.path.exists(os.path.join(folder, library))
        or not os.path.exists(os.path.join(headers, "Python.h"))
    ):
        shared = [
            p
            for p in glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/lib/libpython3.*.so"))
            if "3.6" not in p and "3.7" not in p
        ]
        if not shared:
            pytest.skip("no shared libpython with headers here")
        folder, library = os.path.split(sorted(shared)[-1])
        (headers,) = glob.glob(os.path.join(os.path.dirname(folder), "include", "python3.*"))
    source = tmp_path / "embed.c"
    source.write_text(
        "#include <Python.h>\nint main(void) { Py_Initialize();\n"
        "int rc = PyRun_SimpleString(\"import sys\\nsys.path.insert(0, '.')\\nimport numpy\\nprint(numpy.here)\");\n"
        "Py_Finalize(); return rc ? 1 : 0; }\n"
    )
    (tmp_path / "numpy.py").write_text(
        "import os\nhere = os.path.exists(os.environ.get('BOOT_LOG', '/nonexistent'))\n"
    )
    program = str(tmp_path / "embed")
    subprocess.run(
        [
            "cc",
            "-I",
            headers,
            str(source),
            "-o",
            program,
            "-L",
            folder,
            "-l:" + library,
            "-Wl,-rpath," + folder,
        ],
        check=True,
    )
    half = FakeHalf(tmp_path)
    home = os.path.dirname(folder) if "pyenv" in folder else None
    if home:
        half.run.environment["PYTHONHOME"] = home
    result = half.run.start(program, preload=True, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, b"True\n"), result.stderr
    assert half.armed() == 1


def test_user_audit_hooks_and_events_of_the_same_name(tmp_path):
    half = FakeHalf(tmp_path)
    code = (
        "import sys\nseen = []\nsys.addaudithook(lambda e, a: seen.append(e))\n"
        "sys.audit('import', 5)\nsys.audit('import')\nsys.audit('cpython.run_command', 1)\nprint(len(seen))"
    )
    # stays unarmed: each event is looked at
    half.run.environment["TWINRUN_PYTHON_DIR"] = str(tmp_path / "nothing")
    same_as_bare(half.run, sys.executable, "-I", "-c", code)


def test_unsupported_pythons_are_left_alone(tmp_path):
    old = [
        p
        for v in ("2.7", "3.6", "3.7")
        for p in glob.glob(os.path.expanduser(f"~/.pyenv/versions/{v}*/bin/python"))
    ]
    if not old:
        pytest.skip("no Python before 3.8 here")
    for python in old:
        half = FakeHalf(tmp_path / os.path.basename(os.path.dirname(os.path.dirname(python))))
        same_as_bare(half.run, python, "-c", "print('old')")
        assert half.armed() == 0


def test_a_process_without_python(tmp_path):
    half = FakeHalf(tmp_path)
    same_as_bare(half.run, "bash", "-c", "sleep 0.01; echo done; exit 2")
    assert half.armed() == 0 and half.run.lines("faults") == []


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("mode", MODES)
def test_the_shipped_half_is_armed(tmp_path, python, mode):
    options, by_site = MODES[mode]
    run = Run(
        tmp_path / "run",
        TWINRUN_PYTHON_DIR=PYTHON_DIR,
        TWINRUN_SITE_DIR=SITE_DIR,
        PYTHONPATH=SITE_DIR,
    )
    result = run.start(
        python,
        *options,
        "-c",
        "import sys; print(any('_twinrun_agent' in m for m in sys.modules))",
        preload=True,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, b"True\n", b"")
    assert run.lines("faults") == []


def test_loaded_by_ctypes_without_preload(tmp_path):
    """Where the trial load failed, the Python half loads the library itself: it must record all the
    same.
    """
    run = Run(tmp_path / "run", TWINRUN_PYTHON_DIR=tmp_path)
    code = (
        "import ctypes, os\n"
        "lib = ctypes.PyDLL(os.environ['TWINRUN_LIB'])\n"
        "lib.tw_agent_identify(-1, 1, None, 2)\n"
        "series = lib.tw_agent_series(1, 1, b'x', None, None, None, None)\n"
        "lib.tw_agent_bytes.restype = ctypes.c_uint64\n"
        "print(lib.tw_agent_abi(), lib.tw_agent_on(), lib.tw_agent_bytes(series, b'abc', ctypes.c_size_t(3), 0))\n"
        "lib.tw_agent_step_end()\n"
    )
    (tmp_path / "job.py").write_text(code)
    result = run.start(sys.executable, "-I", str(tmp_path / "job.py"))
    assert (result.returncode, result.stdout, result.stderr) == (0, b"1 1 1\n", b"")
    trace = run.traces()["main"]
    assert trace.header["closed"] and [
        (r["name"], r["dtype"], r["shape"]) for r in trace.records
    ] == [("x", "bytes", [3])]
    assert [kind for _, _, kind, _ in run.processes()] == ["native", "python"]
