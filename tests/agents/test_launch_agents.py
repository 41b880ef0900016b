# SPDX-License-Identifier: Apache-2.0
"""Getting the agent in: environment, trial load, staging, and the report of processes that it is
not in.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest
from launch_helper import DRIVER, LIBRARY, ROOT, compile_c, environment, launch

BUILT = DRIVER.exists() and LIBRARY.exists()
pytestmark = [
    pytest.mark.skipif(
        not BUILT, reason="the launch driver and libtwinrun.so are not built (set TWINRUN_BUILD)"
    ),
    pytest.mark.skipif(
        BUILT and b"__asan_init" in LIBRARY.read_bytes(),
        reason="a sanitized agent loads into sanitized programs only",
    ),
]
SLEEP = '#include <unistd.h>\n#include <stdio.h>\nint main(void) { puts("ok"); fflush(stdout); usleep(600000); return 3; }\n'
# A program that runs after another one in its process must be looked at twice, and pauses between
# two looks last up to a second where looking is dear.
SEEN = SLEEP.replace("600000", "2500000")


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def variables(r):
    return dict(
        line.split("=", 1) for line in r.stored("stdout").decode().splitlines() if "=" in line
    )


def test_protocol_variables(work):
    r = launch(
        work,
        ["env"],
        "--agents",
        "--steps",
        7,
        env=environment(work, PYTHONPATH="mine:also", LD_PRELOAD=""),
    )
    v = variables(r)
    assert v["TWINRUN_RUN_DIR"] == str(r.dir) and v["TWINRUN_RUN_ID"] == r.json["id"]
    assert (v["TWINRUN_LEVEL"], v["TWINRUN_STEPS"]) == ("tensors", "7")
    assert os.path.samefile(v["TWINRUN_LIB"], LIBRARY) and v["LD_PRELOAD"] == v["TWINRUN_LIB"]
    assert (
        v["PYTHONPATH"] == v["TWINRUN_SITE_DIR"] + ":mine:also"
        and v["TWINRUN_ORIG_PYTHONPATH"] == "mine:also"
    )
    assert os.path.samefile(v["TWINRUN_PYTHON_DIR"], ROOT / "python")
    assert (
        "TWINRUN_WINDOW" not in v
        and "TWINRUN_LOSSLESS" not in v
        and "TWINRUN_SKETCH_EVERY" not in v
    )


def test_unobserved_run_has_no_trace_of_us(work):
    plain = subprocess.run(["env"], env=environment(work), stdout=subprocess.PIPE, cwd=work).stdout
    r = launch(work, ["env"])
    assert r.stored("stdout") == plain


def test_duplicates_and_order_of_the_environment_are_kept(work):
    r = launch(work, ["env"], "--env", "ZZ=1", "--env", "HOME=/elsewhere")
    v = variables(r)
    assert v["ZZ"] == "1" and v["HOME"] == "/elsewhere"


def test_twinrun_inside_twinrun(work):
    inner_home = work.parent / "inner"
    r = launch(
        work, [str(DRIVER), "--agents", "--show", "--home", inner_home, "--", "env"], "--agents"
    )
    v = variables(r)
    assert v["TWINRUN_RUN_DIR"].startswith(str(inner_home))
    assert (
        v["LD_PRELOAD"].count("libtwinrun") == 1
        and v["PYTHONPATH"] == v["TWINRUN_SITE_DIR"]
        and "TWINRUN_ORIG_PYTHONPATH" not in v
    )


def test_library_in_a_folder_with_a_space_is_staged_and_cleaned_up(work, tmp_path):
    odd = tmp_path / "my lib:s"
    odd.mkdir()
    shutil.copy(LIBRARY, odd / "libtwinrun.so")
    (odd / "python").symlink_to(ROOT / "python")
    (tmp_path / "t").mkdir()
    env = environment(work, TWINRUN_LIBDIR=str(odd), TMPDIR=str(tmp_path / "t"))
    (work / "job.py").write_text(
        "import os,stat\nl=os.environ['TWINRUN_LIB']\nprint(l, oct(os.stat(os.path.dirname(l)).st_mode & 0o777))\n"
    )
    r = launch(work, [sys.executable, "job.py"], "--agents", env=env)
    path, mode = r.stored("stdout").split()
    assert path.startswith(str(tmp_path / "t").encode()) and mode == b"0o700"
    assert (
        r.json["agent"]["preloaded"] and r.process("job.py")["armed"] and r.stored("stderr") == b""
    )
    assert os.listdir(tmp_path / "t") == []


@pytest.mark.parametrize(
    "layout",
    [
        ("pkg/_bin/twinrun", "pkg/_bin/libtwinrun.so", "pkg/_bin/agent"),
        ("src/build/cmd/twinrun", "src/build/agents/libtwinrun.so", "src/build/python"),
        ("usr/bin/twinrun", "usr/lib/twinrun/libtwinrun.so", "usr/lib/twinrun/python"),
        ("usr/bin/twinrun", "usr/lib64/twinrun/libtwinrun.so", "usr/lib64/twinrun/python"),
    ],
    ids=["wheel", "build tree", "installed", "lib64"],
)
def test_parts_are_found_from_the_executable(work, tmp_path, layout):
    program, library, python = (tmp_path / part for part in layout)
    for path in (program, library, python):
        path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(DRIVER, program)
    shutil.copy(LIBRARY, library)
    shutil.copytree(ROOT / "python", python, ignore=shutil.ignore_patterns("__pycache__"))
    report = tmp_path / "report"
    (tmp_path / "link").symlink_to(program)
    subprocess.run(
        [str(tmp_path / "link"), "--agents", "--report", str(report), "--", "true"],
        cwd=work,
        check=True,
        env=environment(work, TWINRUN_LIBDIR=None),
    )
    folder = dict(line.split("=", 1) for line in report.read_text().splitlines())["dir"]
    agent = json.load(open(folder + "/run.json"))["agent"]
    assert (
        agent["library"] == str(library)
        and agent["site_dir"] == str(python / "twinrun" / "_site")
        and agent["preloaded"]
    )


def test_dynamic_program_is_armed(work):
    program = compile_c(work, "dyn", SLEEP)
    r = launch(work, [str(program)], "--agents")
    assert r.returncode == 3 and r.process("/dyn") == dict(r.process("/dyn"), armed=True, why=None)
    assert r.json["notes"] == [] and float(r.report["load_s"]) < 60


def test_shell_pipeline_is_armed_throughout(work):
    r = launch(work, ["bash", "-c", "cd / && sleep 0.5 | cat"], "--agents")
    assert [p for p in r.json["processes"] if not p["armed"]] == [] and len(
        r.json["processes"]
    ) >= 2


def test_python_is_armed_even_isolated(work):
    (work / "job.py").write_text("import time; time.sleep(0.3)")
    for flags in ([], ["-I", "-S"], ["-E"]):
        r = launch(work, [sys.executable, *flags, "job.py"], "--agents")
        assert r.process("job.py")["armed"], (flags, r.json["processes"])


@pytest.mark.parametrize(
    "flags, compiler, word",
    [
        (["-static"], "gcc", "static"),
        (["-static-pie", "-fPIE"], "gcc", "static"),
        (["-fsanitize=address"], "gcc", "ASan"),
        (["-fsanitize=address"], "clang", "ASan"),
        (["-fsanitize=thread"], "gcc", "TSan"),
        (["-fsanitize=memory"], "clang", "MSan"),
    ],
)
def test_programs_that_take_no_preload(work, flags, compiler, word):
    program = compile_c(work, "odd", SLEEP, *flags, compiler=compiler)
    if not program:
        pytest.skip(f"{compiler} {flags} does not work here")
    alone = subprocess.run([str(program)], capture_output=True)
    r = launch(work, [str(program)], "--agents", "--show")
    assert (
        (r.returncode, r.stdout, r.stderr)
        == (alone.returncode, alone.stdout, alone.stderr)
        == (3, b"ok\n", b"")
    )
    assert not r.json["agent"]["preloaded"] and word in r.json["agent"]["why"]
    assert any("the agent cannot be loaded" in n and word in n for n in r.json["notes"])
    p = r.process("/odd")
    assert not p["armed"] and p["why"]


def test_odd_programs_below_the_job_are_reported_and_unharmed(work):
    static = compile_c(work, "still", SEEN, "-static")
    asan = compile_c(work, "asan", SEEN, "-fsanitize=address")
    (work / "job").write_text(
        f"env -i {shutil.which('sleep')} 2.5 & env LD_PRELOAD= {shutil.which('sleep')} 2.6 & ./still & ./asan & wait; exit 3\n"
    )
    # not -c: the job's own arguments would name them all
    r = launch(work, ["bash", "job"], "--agents", "--show")
    assert r.returncode == 3 and r.stderr == b""
    assert r.process("sleep 2.5")["why"] == "environment not passed on"
    if static:
        assert r.process("./still") == dict(r.process("./still"), armed=False, why="static binary")
    assert r.process("sleep 2.6")["why"] == "LD_PRELOAD not passed on"
    if asan:
        assert r.process("./asan")["armed"]


def test_exec_into_a_static_program_is_not_armed(work):
    static = compile_c(work, "still", SEEN, "-static")
    if not static:
        pytest.skip("no static C library")
    r = launch(work, ["bash", "-c", "exec ./still"], "--agents")
    (main,) = [
        p for p in r.json["processes"] if p["ppid"] not in [q["pid"] for q in r.json["processes"]]
    ]
    assert (main["argv"], main["armed"], main["why"]) == ("./still", False, "static binary")


def test_loader_without_tracing_mode_is_never_started(work):
    """As musl's: it would take the trial for the order to run the program."""
    loader = compile_c(
        work,
        "loader",
        '#include <fcntl.h>\nint main(void) { creat("loader-ran", 0600); return 0; }\n',
        "-static",
    )
    program = compile_c(work, "foreign", SLEEP, f"-Wl,--dynamic-linker={loader}")
    r = launch(work, [str(program)], "--agents")
    assert "not glibc's" in r.json["agent"]["why"]
    assert not (work / "loader-ran").exists()
    subprocess.run([str(loader)], cwd=work, check=True)
    assert (work / "loader-ran").exists(), "the test's loader would have left its mark"


def test_script_is_judged_by_its_interpreter(work):
    static = compile_c(work, "still", SLEEP, "-static")
    script = work / "script"
    script.write_text(f"#!{static}\n")
    script.chmod(0o755)
    r = launch(work, ["./script"], "--agents")
    assert r.returncode == 3 and "static" in r.json["agent"]["why"]
    script.write_text(
        "#!/usr/bin/env -S python3 -u\nimport os; print('LD_PRELOAD' in os.environ)\n"
    )
    r = launch(work, ["./script"], "--agents")
    assert r.stored("stdout") == b"True\n"


def test_program_with_a_missing_library_fails_by_itself(work):
    compile_c(work, "libgone.so", "int gone(void) { return 1; }\n", "-shared", "-fPIC")
    program = compile_c(
        work,
        "needs",
        "int gone(void); int main(void) { return gone(); }\n",
        "-L.",
        f"-L{work}",
        "-l:libgone.so",
    )
    (work / "libgone.so").unlink()
    alone = subprocess.run([str(program)], capture_output=True)
    r = launch(work, [str(program)], "--agents", "--show")
    assert (r.returncode, r.stderr) == (alone.returncode, alone.stderr) and r.returncode == 127


def test_agent_that_cannot_be_loaded_is_left_out(work, tmp_path):
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "python").symlink_to(ROOT / "python")
    compile_c(
        bad,
        "libtwinrun.so",
        "extern int no_such_symbol(void); int twin_x(void) { return no_such_symbol(); }\n",
        "-shared",
        "-fPIC",
    )
    r = launch(
        work, ["sleep", "0.3"], "--agents", "--show", env=environment(work, TWINRUN_LIBDIR=str(bad))
    )
    assert r.returncode == 0 and r.stderr == b"" and "undefined symbol" in r.json["agent"]["why"]
    (bad / "libtwinrun.so").write_bytes(b"not a library at all")
    r = launch(
        work, ["sleep", "0.3"], "--agents", "--show", env=environment(work, TWINRUN_LIBDIR=str(bad))
    )
    assert r.returncode == 0 and r.stderr == b"" and not r.json["agent"]["preloaded"]
    assert r.process("sleep 0.3")["why"] == r.json["agent"]["why"]


def test_missing_parts_are_noted(work, tmp_path):
    r = launch(
        work, ["true"], "--agents", env=environment(work, TWINRUN_LIBDIR=str(tmp_path / "nothing"))
    )
    assert r.returncode == 0 and not r.json["agent"]["preloaded"]
    if r.json["agent"]["library"] is None:
        assert any("TWINRUN_LIBDIR" in n for n in r.json["notes"])


def test_steps_end_the_job(work):
    job = (
        "import time, os, struct\nf=os.open(os.environ['TWINRUN_RUN_DIR']+'/progress', os.O_RDWR)\n"
        "for n in range(1000):\n os.pwrite(f, struct.pack('<IiQQQQII', os.getpid(), 0, n, n*10, 0, 0, 1, 2), 64*5); time.sleep(0.02)\n"
    )
    r = launch(work, [sys.executable, "-c", job], "--agents", "--steps", 20)
    assert (r.json["outcome"], r.json["message"]) == ("stopped", "stopped after 20 steps as asked")


def test_steps_wait_for_the_slowest_rank_and_ignore_its_loader(work):
    job = (
        "import time, os, struct\nf=os.open(os.environ['TWINRUN_RUN_DIR']+'/progress', os.O_RDWR)\n"
        "def slot(i,rank,steps,records): os.pwrite(f, struct.pack('<IiQQQQII', 1000+i, rank, steps, records, 0, 0, 1, 2), 64*i)\n"
        "slot(0,0,50,9)\nslot(1,1,3,9)\nslot(2,1,0,0)\ntime.sleep(1.5)\nopen('late','w').close()\n"
        "slot(1,1,20,9)\nslot(3,1,0,4)\ntime.sleep(600)\n"
    )
    r = launch(work, [sys.executable, "-c", job], "--agents", "--steps", 20)
    assert (
        (work / "late").exists()
        and r.json["outcome"] == "stopped"
        and float(r.report["wall_s"]) < 300
    )


@pytest.mark.parametrize("shown", ["no-record-yet", "no-slot-yet"])
def test_steps_wait_for_a_rank_that_is_still_in_its_first_step(work, shown):
    job = (
        "import time, os, struct\nf=os.open(os.environ['TWINRUN_RUN_DIR']+'/progress', os.O_RDWR)\n"
        "def slot(i,rank,steps,records): os.pwrite(f, struct.pack('<IiQQQQIII', 1000+i, rank, steps, records, 0, 0, 1, 2, HERE), 64*i)\n"
        "slot(0,0,20,9)\nBEFORE\ntime.sleep(1.5)\nopen('late','w').close()\n"
        "slot(1,1,20,9)\ntime.sleep(600)\n"
    )
    told = shown == "no-record-yet"
    job = job.replace("HERE", "0" if told else "2").replace(
        "BEFORE", "slot(1,1,0,0)" if told else ""
    )
    r = launch(work, [sys.executable, "-c", job], "--agents", "--steps", 20)
    assert (work / "late").exists() and r.json["outcome"] == "stopped"
    assert float(r.report["wall_s"]) < 300


def test_steps_do_not_wait_for_ever_for_a_rank_that_records_nothing(work):
    job = (
        "import time, os, struct\nf=os.open(os.environ['TWINRUN_RUN_DIR']+'/progress', os.O_RDWR)\n"
        "os.pwrite(f, struct.pack('<IiQQQQIII', 1000, 0, 20, 9, 0, 0, 1, 2, 2), 0)\ntime.sleep(600)\n"
    )
    r = launch(work, [sys.executable, "-c", job], "--agents", "--steps", 20)
    assert r.json["outcome"] == "stopped" and 9 < float(r.report["wall_s"]) < 300


def test_faults_of_agents_become_notes(work):
    r = launch(
        work,
        ["sh", "-c", 'echo "12 the trace: cannot be made" >>"$TWINRUN_RUN_DIR/faults"'],
        "--agents",
    )
    assert "agent in process 12 the trace: cannot be made" in r.json["notes"]


def test_setuid_program():
    if os.geteuid() != 0:
        pytest.skip("needs root to make a set-user-ID program")
    folder = pathlib.Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        folder.chmod(0o777)
        work = folder / "work"
        work.mkdir()
        work.chmod(0o777)
        program = compile_c(work, "suid", SLEEP)
        program.chmod(0o4755)
        env = environment(work)

        def other():
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)

        if subprocess.run([str(DRIVER)], preexec_fn=other, capture_output=True).returncode != 98:
            pytest.skip("another user cannot reach the build folder")
        r = launch(work, [str(program)], "--agents", preexec_fn=other, env=env)
        assert r.returncode == 3 and "set-user-ID" in r.json["agent"]["why"]
        assert not r.process("/suid")["armed"]
    finally:
        shutil.rmtree(folder)
