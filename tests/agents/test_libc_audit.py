# SPDX-License-Identifier: Apache-2.0
"""The libc agent: what it audits and watches is named, what it was told in vain is said, and all
else is as it was.
"""

import os
import re
import subprocess
import time

import pytest

from libc_observed import HOT, observe, program, rows  # noqa: F401
from native import JOB, LIBRARY, Run, bare
from test_native_python import PYTHONS


# ---------------------------------------------------------------- audit


def test_audit_names_the_consumer(observe, script, work):
    (work / "who.c").write_text("""
        #include <stdio.h>
        #include <sys/random.h>
        #include <time.h>
        #include <unistd.h>
        #include <sys/wait.h>
        __attribute__((noinline)) void shuffle_samples(unsigned *v) { for (int i = 0; i < 3; i++) { getrandom(v, sizeof *v, 0); __asm__ volatile("" ::: "memory"); } }
        __attribute__((noinline)) void stamp_log(void) { volatile time_t t = time(0); (void)t; }
        int main(void) { unsigned v; shuffle_samples(&v); stamp_log(); stamp_log(); printf("ready\\n"); fflush(stdout);
                         if (fork() == 0) { stamp_log(); _exit(0); } wait(NULL); return 9; }
    """)
    subprocess.run(["gcc", "-O1", "-rdynamic", work / "who.c", "-o", work / "who"], check=True)
    done = observe("entropy=audit,clock=audit", work / "who", rc=9)
    assert done.out == "ready\n" == bare(work / "who").stdout.decode()
    (entropy,) = done.about("audit.entropy")
    assert re.match(
        r"3x getrandom < shuffle_samples\+0x[0-9a-f]+ \(who\) < main\+0x[0-9a-f]+ \(who\) < ",
        entropy,
    ), entropy
    clock = done.about("audit.clock")
    assert len(clock) == 3 and all(
        re.match(r"1x time < stamp_log\+0x[0-9a-f]+ \(who\) < main\+", c) for c in clock
    )
    assert done.about("factor.clock") == ["audit, 1 call", "audit, 2 calls"]


def test_audit_tells_threads_apart(observe, work):
    """The same function, called by main, by a thread, and in a child forked by that thread, whose
    first thread it is.
    """
    (work / "who.c").write_text("""
        #include <pthread.h>
        #include <sys/random.h>
        #include <sys/wait.h>
        #include <unistd.h>
        __attribute__((noinline)) void draw(void) { unsigned v; getrandom(&v, sizeof v, 0); __asm__ volatile("" ::: "memory"); }
        void *work(void *p) { for (volatile int i = 0; i < 2; i++) draw(); if (fork() == 0) { draw(); _exit(0); } wait(NULL); return p; }
        int main(void) { pthread_t t; draw(); pthread_create(&t, NULL, work, NULL); pthread_join(t, NULL); return 0; }
    """)
    subprocess.run(
        ["gcc", "-O1", "-rdynamic", "-pthread", work / "who.c", "-o", work / "who"], check=True
    )
    done = observe("entropy=audit", work / "who", rc=0)
    begins = sorted(v.split(" < ")[0] for v in done.about("audit.entropy"))
    assert begins == ["1x getrandom", "1x getrandom", "2x getrandom in another thread"]


def test_audit_of_python_changes_nothing(observe, script, run):
    import sys

    job = script(
        "job.py",
        "import os, random, sys, time\nx = os.urandom(4); y = random.random(); t = time.time()\nprint('done', len(os.listdir('/')) > 3)\nsys.exit(3)\n",
    )
    done = observe("entropy=audit,clock=audit,dir-order=audit", sys.executable, job, rc=3)
    plain = run([sys.executable, job])
    assert (done.out, plain.rc) == (plain.out, 3)
    assert all(v.startswith("1x ") or "x getrandom < " in v for v in done.about("audit.entropy"))
    assert any("_PyEval_EvalFrameDefault" in v for v in done.about("audit.entropy"))
    assert done.about("audit.dir-order") and done.about("audit.clock")


def test_audit_is_bounded(observe, work):
    calls = "\n".join(
        f"__attribute__((noinline)) void f{i}(void) {{ volatile time_t t = time(0); (void)t; }}"
        for i in range(400)
    )
    (work / "many.c").write_text(
        "#include <time.h>\n"
        + calls
        + "\nint main(void) {"
        + "".join(f"f{i}();" for i in range(400))
        + " return 0; }\n"
    )
    subprocess.run(["gcc", "-O1", "-fno-ipa-icf", work / "many.c", "-o", work / "many"], check=True)
    done = observe("clock=audit", work / "many", rc=0)
    told = len(done.about("audit.clock"))
    assert 100 <= told < 400 and done.about("audit.left_out") == [
        f"{400 - told} calls from further places"
    ]
    assert done.about("factor.clock") == ["audit, 400 calls"]


# ---------------------------------------------------------------- notes, mistakes, limits


def test_notes_reach_the_trace(tmp_path):
    run = Run(tmp_path, TWINRUN_FACTORS="clock=pin,entropy=pin:4,dir-order=audit")
    armed = run.start(JOB, "forks")
    assert armed.returncode == bare(JOB, "forks").returncode
    traces = run.traces()
    assert set(traces) == {"main", "child 1", "child 2"}
    for t in traces.values():
        notes = dict(t.notes)
        assert notes["factor.entropy"] == "pin 4, 0 calls" and notes["factor.clock"].startswith(
            "pin 1700000000 by 1000 us, "
        )
        assert notes["factor.dir-order"] == "audit, 0 calls"
    # the trace's own clock is the real one
    assert all(
        abs(t.header["start_realtime_ns"] - time.time_ns()) < 600e9
        for t in traces.values()
        if "start_realtime_ns" in t.header
    )


@pytest.mark.parametrize(
    "bad",
    [
        "entropy",
        "entropy=",
        "entropy=pin:x",
        "entropy=pin:1:2",
        "speed=pin",
        "malloc-fill=pin:256",
        "noise=pin",
        "malloc-fill=audit",
        "clock=pin:1:0",
        "dir-order=pin:3",
        "dir-order=vary:sideways",
        "noise=vary:1:11",
        "=",
        "x" * 5000,
    ],
)
def test_what_is_not_understood_is_off_and_said(observe, program, bad):
    done = observe(f"dir-order=pin,{bad},entropy=pin:2", program("sources.c"), rc=5)
    assert (
        len(done.faults) == 1
        and "was not understood and is off" in done.faults[0]
        and bad[:40] in done.faults[0]
    )
    if not bad.startswith("entropy"):
        assert done.about("factor.entropy")[0].startswith("pin 2, ")


def test_outside_a_run_nothing_happens(program):
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith("TWINRUN")},
        "LD_PRELOAD": f"{LIBRARY}:{HOT}",
        "TWINRUN_FACTORS": "entropy=pin:7,malloc-fill=pin:3,clock=pin",
    }
    a, b = (
        subprocess.run([program("sources.c")], env=env, capture_output=True, text=True)
        for _ in range(2)
    )
    assert a.returncode == 5 and not set(a.stdout.splitlines()) & set(b.stdout.splitlines())
    shown = subprocess.run(
        ["sh", "-c", "echo $TWINRUN_STREAM; date +%s"], env=env, capture_output=True, text=True
    ).stdout.split("\n")
    assert shown[0] == "" and abs(int(shown[1]) - time.time()) < 600


def test_an_emptied_environment_stays_empty(observe):
    assert observe("entropy=pin:7", "env", "-i", "/usr/bin/env", rc=0).out == ""


def test_static_programs_are_out_of_reach(observe, work):
    (work / "s.c").write_text(
        '#include <stdio.h>\n#include <sys/random.h>\nint main(void) { unsigned long v; getrandom(&v, sizeof v, 0); printf("%lx\\n", v); return 0; }\n'
    )
    if subprocess.run(
        ["gcc", "-static", work / "s.c", "-o", work / "s"], capture_output=True
    ).returncode:
        pytest.skip("no static libc")
    runs = [observe("entropy=pin:7", work / "s", rc=0) for _ in range(2)]
    assert runs[0].out != runs[1].out and runs[0].said == []


def test_a_static_cpp_library_is_out_of_reach(observe, program):
    job = program("device.cc", "-static-libstdc++")
    first, again = (rows(observe("entropy=pin:7", job, rc=0).out) for _ in range(2))
    assert first["default"] != again["default"] or "unavailable" in first["default"]
    assert first["/dev/urandom"] == again["/dev/urandom"] and first["ifstream"] == again["ifstream"]


def test_exec_begins_a_stream_of_its_own(observe, program):
    job = program("sources.c")
    runs = [
        observe(
            "entropy=pin:7",
            "sh",
            "-c",
            f"{job}; PATH=/nowhere:/nothing:$PATH env {job}; exec {job}",
            rc=5,
        ).out
        for _ in range(2)
    ]
    drawn = [line.split()[1] for line in runs[0].splitlines()]
    assert runs[0] == runs[1] and len(set(drawn)) == len(drawn) >= 27


def test_all_at_once_neither_hangs_nor_fails(observe, program):
    for factors in (
        "entropy=pin:7,clock=pin,dir-order=pin,malloc-fill=vary:3,noise=vary:3",
        "entropy=audit,clock=audit,dir-order=audit,malloc-fill=pin:0",
    ):
        done = observe(factors, program("stress.c"), hot=True, rc=0)
        assert len(done.about("factor.entropy")) == 61 and done.faults == []


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_a_sanitizer_of_the_job_finds_nothing_of_ours(observe, program, sanitizer):
    """A child of the job (the main program would be spared the preload): reports would change its
    exit code.
    """
    job = program("threads.c", "-g", f"-fsanitize={sanitizer}")
    if subprocess.run([job], capture_output=True).returncode:
        pytest.skip(f"{sanitizer} sanitizer does not work here")
    for factors in (
        "entropy=pin:7,clock=pin,dir-order=pin,malloc-fill=pin:0,noise=vary:1",
        "entropy=audit,clock=audit,malloc-fill=pin:0",
    ):
        done = observe(factors, "sh", "-c", f"{job}; exit $?", hot=True, rc=0)
        assert len(done.out.split()) == 13 and "Sanitizer" not in done.err
        assert done.about("factor.entropy")
        assert any("AddressSanitizer fills" in f for f in done.faults) == (sanitizer == "address")


def test_what_is_not_armed_costs_nothing_to_speak_of(program):
    """About 1 ns on an idle machine; the limit allows for a busy one."""

    def measured(*libraries):
        env = {
            **{k: v for k, v in os.environ.items() if not k.startswith("TWINRUN")},
            "LD_PRELOAD": ":".join(libraries),
        }
        out = subprocess.run(
            [program("cost.c", "-O2")], env=env, capture_output=True, text=True, check=True
        ).stdout
        return {name: float(ns) for name, ns in (line.split() for line in out.splitlines())}

    bare_cost, first, both = measured(), measured(LIBRARY), measured(LIBRARY, HOT)
    for name, ns in bare_cost.items():
        assert first[name] < ns + 12 and both[name] < ns + 15, (bare_cost, first, both)


def test_the_second_library_loads_into_old_systems():
    symbols = subprocess.run(
        ["objdump", "-T", HOT], capture_output=True, text=True, check=True
    ).stdout
    versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", symbols)}
    assert versions and max(versions) <= (2, 17) and "GLIBC_PRIVATE" not in symbols
    given = {
        line.split()[-1]
        for line in symbols.splitlines()
        if re.search(r"\s\.(text|data|bss)\s", line)
    }
    assert given == {
        "tw_hot_here",
        "malloc",
        "realloc",
        "reallocarray",
        "memalign",
        "aligned_alloc",
        "valloc",
        "posix_memalign",
        "pthread_mutex_lock",
        "pthread_rwlock_rdlock",
        "pthread_rwlock_wrlock",
        "pthread_cond_wait",
        "pthread_cond_timedwait",
        "pthread_cond_clockwait",
        "pthread_cond_signal",
        "pthread_cond_broadcast",
        "pthread_barrier_wait",
        "sem_wait",
    }


# ---------------------------------------------------------------- watch

WATCHED = """
import os, sys, time
for name in ("b", "a", "c"):
    open(name, "w").close()
if "entropy" in sys.argv: os.urandom(4)
if "clock" in sys.argv: time.time()
if "list" in sys.argv: os.listdir(".")
if "random" in sys.argv: import random; random.random()
if "fork" in sys.argv:
    child = os.fork() or os._exit(0)
    os.waitpid(child, 0)
"""


def test_watch_says_what_was_met(observe, work):
    (work / "watched.py").write_text(WATCHED)

    def met(*words):
        run = observe("", PYTHONS[0], "watched.py", *words, rc=0, env={"TWINRUN_WATCH": "1"})
        assert run.about("factor.entropy") == [] and run.faults == []
        return {
            key: run.about("watch." + key)
            for key in ("libraries", "entropy", "clock", "dir-order", "python")
        }

    plain = met()
    assert (
        plain == met() and plain["libraries"] == ["python"] and plain["python"] == ["hash=random"]
    )
    for key in ("entropy", "clock"):
        assert int(met(key)[key][0]) == int(plain[key][0]) + 1
    assert (
        met("list")["dir-order"] != plain["dir-order"]
        and met("list")["dir-order"] == met("list")["dir-order"]
    )
    assert (
        " random=" in met("random")["python"][0]
        and met("random")["python"] != met("random")["python"]
    )
    assert len(met("fork")["libraries"]) == 2, "a forked child speaks for itself"
    unwatched = observe("", PYTHONS[0], "watched.py", "clock", rc=0)
    assert [key for key, _ in unwatched.said if key.startswith("watch.")] == []
