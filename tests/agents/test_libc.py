# SPDX-License-Identifier: Apache-2.0
"""The libc agent: what TWINRUN_FACTORS pins repeats, and what it shakes changes.

Each program runs under `twinrun record`; what it prints is compared between runs, which no code of
ours sees. Every claim has its twin: the program without the factor, with another seed, or a program
that has no such cause. What it says, and all that it leaves alone, is in test_libc_audit.py.
"""

import itertools
import os
import re
import subprocess
import time

import pytest

from conftest import FULL
from libc_observed import SOURCES, observe, program, rows  # noqa: F401
from pins_job import PYTHONS as OLDEST_AND_NEWEST
from test_native_python import PYTHONS


# ---------------------------------------------------------------- entropy


def test_every_source_in_c_repeats(observe, program):
    job = program("sources.c")
    first, again, other = (observe(f"entropy=pin:{seed}", job, rc=5) for seed in (7, 7, 8))
    lines = first.out.splitlines()
    assert len(lines) >= 9 and first.out == again.out
    assert not set(lines) & set(other.out.splitlines())
    drawn = [line.split()[1] for line in lines]
    assert len(set(drawn)) == len(drawn) and not any(re.fullmatch("0*", d) for d in drawn)
    assert (
        re.fullmatch(r"pin 7, \d+ calls", first.about("factor.entropy")[0])
        and first.said == again.said
    )
    # the twin: nothing pinned, nothing repeats
    natural = [observe("", job, rc=5) for _ in range(2)]
    assert (
        not set(natural[0].out.splitlines()) & set(natural[1].out.splitlines())
        and natural[0].said == []
    )


def test_fortified_programs_repeat(observe, program):
    job = program("sources.c", "-O2", "-D_FORTIFY_SOURCE=2")
    assert (
        observe("entropy=pin:7", job, rc=5).out
        == observe("entropy=pin:7", program("sources.c"), rc=5).out
    )


def test_vary_is_another_pin(observe, program):
    job = program("sources.c")
    first, again, pinned = (
        observe(f, job, rc=5).out for f in ("entropy=vary:7", "entropy=vary:7", "entropy=pin:7")
    )
    assert first == again and not set(first.splitlines()) & set(pinned.splitlines())


def test_the_device_has_no_end(observe, program, work):
    first, again = (
        observe("entropy=pin:1", program("sources.c"), "long", rc=0).out for _ in range(2)
    )
    assert first == again and len(set(first.split())) == 2
    done = observe(
        "entropy=pin:1",
        "sh",
        "-c",
        "head -c 2500000 /dev/urandom > a; head -c 2500000 < /dev/urandom > b; "
        "dd if=/dev/urandom of=c bs=1M count=3 iflag=fullblock 2>/dev/null",
        rc=0,
    )
    data = [(work / name).read_bytes() for name in "abc"]
    assert [len(d) for d in data] == [2500000, 2500000, 3 << 20] and done.rc == 0
    assert len({d[:64] for d in data} | {d[-64:] for d in data}) == 6
    # compressible would mean that a part repeats
    import zlib

    assert all(len(zlib.compress(d, 1)) > len(d) for d in data)


def test_the_stream_looks_random(observe, work):
    observe("entropy=pin:3", "sh", "-c", "head -c 1000000 /dev/urandom > a", rc=0)
    data = (work / "a").read_bytes()
    counts = [data.count(bytes([b])) for b in range(256)]
    chi = sum((c - 1e6 / 256) ** 2 for c in counts) / (1e6 / 256)
    assert 150 < chi < 400  # 255 degrees of freedom: mean 255, standard deviation 22.6
    ones = sum(bin(b).count("1") for b in data)
    assert abs(ones - 4e6) < 6 * (8e6**0.5) / 2


def test_threads_and_children_have_streams_of_their_own(observe, program):
    job = program("threads.c")
    runs = [observe("entropy=pin:7", job, rc=0).out for _ in range(4)]
    assert len(set(runs)) == 1
    drawn = runs[0].split()
    assert len(set(drawn)) == len(drawn) == 13
    other = observe("entropy=pin:8", job, rc=0).out.split()
    assert not set(other) & set(drawn)


def test_ranks_have_streams_of_their_own(observe, program):
    draws = [
        observe(
            "entropy=pin:7", program("sources.c"), env={"RANK": str(rank), "WORLD_SIZE": "2"}
        ).out
        for rank in (0, 1, 1)
    ]
    assert draws[1] == draws[2] and not set(draws[0].splitlines()) & set(draws[1].splitlines())


def test_python_repeats_bit_for_bit(observe):
    import sys

    command = (sys.executable, SOURCES / "entropy.py")
    first, again, other = (observe(f"entropy=pin:{seed}", *command, rc=0) for seed in (7, 7, 8))
    assert first.out == again.out, first.err
    a, b = rows(first.out), rows(other.out)
    assert len(a) == 23 and not [name for name in a if a[name] == b[name]]
    drawn = [v for name, v in a.items() if name not in ("random", "uuid4", "hash", "tempfile")]
    drawn = [d for v in drawn for d in re.findall("[0-9a-f]{16}", v)]
    assert len(set(drawn)) == len(drawn) == 22
    # each process that drew says so, those that Pool kills at their first draw only: our six, 4
    # heads, 3 workers and who serves them
    assert len(first.about("effect.entropy")) >= 14 and set(first.about("effect.entropy")) == {
        "pin 7"
    }
    assert len(first.about("factor.entropy")) >= 10 and all(
        re.fullmatch(r"pin 7, \d+ calls?", v) for v in first.about("factor.entropy")
    )
    natural = [rows(observe("", *command, rc=0).out) for _ in range(2)]
    assert not [name for name in a if natural[0][name] == natural[1][name]]


def test_numpy_and_torch_repeat(observe, python):
    command = (python, SOURCES / "entropy.py", "--libraries")
    first, again, other = (
        rows(observe(f"entropy=pin:{seed}", *command, rc=0).out) for seed in (7, 7, 8)
    )
    libraries = [n for n in first if n.startswith(("numpy", "torch"))]
    assert len(libraries) >= 5 and first == again
    assert not [n for n in libraries if first[n] == other[n]]


@pytest.mark.parametrize("interpreter", PYTHONS if FULL else OLDEST_AND_NEWEST)
def test_every_python_repeats(observe, interpreter):
    script = SOURCES / "entropy.py"
    first, again = (
        observe("entropy=pin:7,clock=pin,dir-order=pin", interpreter, script, rc=0).out
        for _ in range(2)
    )
    assert first == again and len(rows(first)) == 23


def test_cpp_random_device(observe, program):
    job = program("device.cc")
    first, again, other = (observe(f"entropy=pin:{seed}", job, rc=0) for seed in (7, 7, 8))
    assert first.out == again.out and rows(first.out)["default"] != "unavailable"
    here = [n for n, v in rows(first.out).items() if v != "unavailable"]
    assert not [n for n in here if rows(first.out)[n] == rows(other.out)[n]]
    assert rows(first.out)["ifstream"].endswith(" 1")
    natural = [rows(observe("", job, rc=0).out) for _ in range(2)]
    assert not [n for n in here if natural[0][n] == natural[1][n]]


def test_a_call_before_our_constructor(observe, program, work):
    library = work / "libearly.so"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O1", SOURCES / "early.c", "-o", library], check=True
    )
    (work / "main.c").write_text(
        "#include <stdio.h>\nextern unsigned long early_drawn; extern unsigned char early_fresh;\n"
        'int main(void) { printf("%lx %d\\n", early_drawn, early_fresh); return 0; }\n'
    )
    subprocess.run(
        ["gcc", work / "main.c", library, "-o", work / "early", f"-Wl,-rpath,{work}"], check=True
    )
    runs = [
        observe(f"entropy=pin:{seed},malloc-fill=pin:9", work / "early", hot=True, rc=0).out.split()
        for seed in (7, 7, 8)
    ]
    assert runs[0] == runs[1] and runs[0][0] != runs[2][0] and {r[1] for r in runs} == {"9"}


# ---------------------------------------------------------------- clock

CLOCK = """
    import datetime, time
    a = [time.time_ns() for _ in range(5)] + [int(time.clock_gettime_ns(time.CLOCK_REALTIME))]
    print(*a)
    print(datetime.datetime.now(datetime.timezone.utc).isoformat())
    end, n = time.time() + 2, 0
    while time.time() < end:
        n += 1
    print(n)
"""


def test_the_pinned_clock_advances(observe, script):
    import sys

    began = time.monotonic()
    first, again = (
        observe("clock=pin:1600000000:2000", sys.executable, script("clock.py", CLOCK), rc=0)
        for _ in range(2)
    )
    assert first.out == again.out
    read = [int(v) for v in first.out.split()[:6]]
    assert [b - a for a, b in itertools.pairwise(read)] == [2_000_000] * 5
    assert 1600000000 <= read[0] / 1e9 < 1600000001 and first.out.splitlines()[1].startswith(
        "2020-09-13T12:26:40"
    )
    assert abs(int(first.out.splitlines()[2]) - 1000) < 3
    assert time.monotonic() - began < 60
    assert any(v.startswith("pin 1600000000 by 2000 us, ") for v in first.about("factor.clock"))


def test_a_varied_clock_and_a_natural_one(observe, script):
    import sys

    job = script("clock.py", "import time\nprint(*[time.time_ns() for _ in range(50)])\n")
    varied = [
        [int(v) for v in observe(f"clock=vary:{seed}", sys.executable, job, rc=0).out.split()]
        for seed in (1, 1, 2)
    ]
    assert varied[0] == varied[1] and abs(varied[0][0] - varied[2][0]) > 1e12
    steps = {b - a for a, b in itertools.pairwise(varied[0])}
    assert len(steps) > 40 and min(steps) > 0
    natural = int(observe("", sys.executable, job, rc=0).out.split()[0])
    assert abs(natural - time.time_ns()) < 100e9


BEFORE_1970 = """
    import ctypes, time
    class Timespec(ctypes.Structure):
        _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]
    t, libc = Timespec(), ctypes.CDLL(None)
    for _ in range(100):
        assert libc.clock_gettime(0, ctypes.byref(t)) == 0
        assert 0 <= t.ns < 1000000000, t.ns
        assert libc.timespec_get(ctypes.byref(t), 1) == 1
        assert 0 <= t.ns < 1000000000, t.ns
        assert libc.gettimeofday(ctypes.byref(t), None) == 0
        assert 0 <= t.ns < 1000000, t.ns
        time.sleep(0.001)
    print(t.s)
"""


def test_a_clock_that_is_set_back_behind_1970(observe, script):
    """A second that begins before 1970 has no negative fraction: programs divide by it."""
    import sys

    began = time.time()
    done = observe("clock=back:4000000000:1", sys.executable, script("early.py", BEFORE_1970), rc=0)
    assert began - 1 <= int(done.out) + 4000000000 <= time.time() + 1


def test_each_thread_reads_the_same_clock_again(observe, script):
    import sys

    job = script(
        "clocks.py",
        """
        import random, threading, time
        out = [None] * 6
        def work(i):
            for _ in range(20):
                time.sleep(random.random() / 1000)
                last = time.time_ns()
            out[i] = last
        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        [t.start() for t in threads]; [t.join() for t in threads]
        print(*out)
    """,
    )
    outs = [observe("clock=pin", sys.executable, job, rc=0).out for _ in range(3)]
    assert len(set(outs)) == 1


@pytest.mark.parametrize(
    "clock", ["", "clock=audit", "clock=pin:1000000000", "clock=pin:3900000000", "clock=vary:5"]
)
def test_timed_waits_last_as_long_as_asked(observe, program, clock):
    done = observe(clock, program("waits.c"), rc=0)
    assert done.out.split("\n")[:-1] == [
        "semaphore timed out",
        "condition timed out",
        "steady condition timed out",
        "mutex timed out",
        "sleep ok",
    ]


@pytest.mark.parametrize("interpreter", PYTHONS)
def test_timeouts_of_python_under_a_pinned_clock(observe, script, interpreter):
    job = script(
        "timeouts.py",
        """
        import queue, threading, time
        t = time.monotonic()
        print(threading.Event().wait(0.1), threading.Lock().acquire(timeout=0.1))
        try:
            queue.Queue().get(timeout=0.1)
        except queue.Empty:
            print("empty")
        print(0.15 < time.monotonic() - t < 10)
    """,
    )
    for clock in ("clock=pin:1000000000", "clock=pin:3900000000"):
        assert observe(clock, interpreter, job, rc=0).out == "False True\nempty\nTrue\n"


# ---------------------------------------------------------------- directories

NAMES = ["zeta", "alpha", "Mid", "10", "9", "beta.txt", "Alpha", "omega", "_x", "e\u0301"] + [
    f"f{i}" for i in range(40)
]


@pytest.fixture
def folder(work):
    def fill(name):
        path = work / name
        path.mkdir(exist_ok=True)
        for n in NAMES:
            (path / n).touch()
        return path

    return fill


def test_directories_in_every_order(observe, program, folder):
    job, by_name = program("listing.c"), sorted(NAMES, key=os.fsencode)

    def listed(factors):
        ways = {
            line.split()[0]: line.split()[1:]
            for line in observe(factors, job, folder("d"), rc=0).out.splitlines()
        }
        assert list(ways) == ["readdir", "readdir_r", "scandir", "alphasort"]
        assert ways["alphasort"] == by_name and ways["readdir"] == ways["readdir_r"]
        assert all(sorted(w, key=os.fsencode) == by_name for w in ways.values())
        if factors:
            assert ways["readdir"] == ways["scandir"]
        return ways["readdir"]

    assert listed("dir-order=pin") == by_name
    assert listed("dir-order=vary:reversed") == by_name[::-1]
    shuffled = [listed(f"dir-order=vary:{seed}") for seed in (1, 1, 2)]
    assert shuffled[0] == shuffled[1] and shuffled[0] not in (shuffled[2], by_name, by_name[::-1])
    listed("")
    assert listed("dir-order=audit") == listed("")


def test_python_lists_in_order(observe, script, folder):
    import sys

    folder("d")
    job = script(
        "list.py",
        "import os, glob, pathlib\nprint(os.listdir('d'), [e.name for e in os.scandir('d')], [os.path.basename(p) for p in glob.glob('d/*')],"
        " [p.name for p in pathlib.Path('d').iterdir()], [f for *_, f in os.walk('d')][0], sep='\\n')\n",
    )
    done = observe("dir-order=pin", sys.executable, job, rc=0)
    by_name = sorted(NAMES, key=os.fsencode)
    assert [eval(line) for line in done.out.splitlines()] == [by_name] * 5
    assert re.fullmatch(r"pin, \d+ calls", done.about("factor.dir-order")[0])


# ---------------------------------------------------------------- fresh memory


def fresh(observe, program, factors):
    lines = [
        line.split()
        for line in observe(factors, program("fresh.c"), hot=True, rc=0).out.splitlines()
    ]
    assert len(lines) == 24
    assert all(line[1:3] == ["0", "uniform"] for line in lines if line[0] == "calloc")
    return [line for line in lines if line[0] != "calloc"]


def test_fresh_memory_is_filled(observe, program):
    for byte in ("0", "171"):
        assert all(
            line[1:3] == [byte, "uniform"]
            for line in fresh(observe, program, f"malloc-fill=pin:{byte}")
        )
    noise = [fresh(observe, program, f"malloc-fill=vary:{seed}") for seed in (1, 1, 2)]
    assert noise[0] == noise[1] and all(line[2] == "mixed" for line in noise[0])
    assert not {line[3] for line in noise[0]} & {line[3] for line in noise[2]}
    # the twin: what was there before shows
    assert any(line[2] == "mixed" for line in fresh(observe, program, ""))


def test_uninitialised_tensors_show_the_fill(observe, python, script):
    job = script(
        "empty.py",
        "import torch, numpy\nprint(torch.empty(1 << 16, dtype=torch.uint8).unique().tolist(), numpy.unique(numpy.empty(1 << 16, 'u1')))\n",
    )
    assert observe("malloc-fill=pin:42", python, job, hot=True, rc=0).out == "[42] [42]\n"


def test_malloc_without_its_library_is_reported(observe, program):
    done = observe("malloc-fill=pin:1", program("fresh.c"), rc=0)
    assert (
        "malloc-fill is off: libtwinrun_hot.so is not preloaded" in done.faults[0]
        and done.said == []
    )


# ---------------------------------------------------------------- scheduling


def test_noise_is_the_same_for_each_thread(observe, program):
    job = program("race.c")
    runs = {
        seed: [observe(f"noise=vary:{seed}", job, "turns", hot=True, rc=0) for _ in range(2)]
        for seed in (1, 2)
    }
    # whoever must wait for his turn waits as often as he is late; the streams are those of creation
    streams = [
        {v.split(":")[0] for v in r.about("schedule.thread")}
        for pair in runs.values()
        for r in pair
    ]
    assert all(s == streams[0] and len(s) == 7 for s in streams)
    # without turns each thread meets the same boundaries however they interleave: its delays are
    # equal
    diaries = {
        seed: [
            sorted(observe(f"noise=vary:{seed}", job, hot=True, rc=0).about("schedule.thread"))
            for _ in range(3)
        ]
        for seed in (1, 2)
    }
    assert (
        diaries[1][0] == diaries[1][1] == diaries[1][2]
        and len(diaries[1][0]) == 7
        and diaries[1][0] != diaries[2][0]
    )
    assert all(
        re.search(r"^[0-9a-f]{16}: (1[0-9]|[4-9]) boundaries, [1-9]", d) for d in diaries[1][0]
    ), diaries[1][0]


def test_noise_changes_the_interleaving_and_nothing_else(observe, program):
    job = program("race.c")
    orders = [observe(f"noise=vary:{seed}:5", job, hot=True, rc=0).out.strip() for seed in range(6)]
    assert len(set(orders)) > 2 and {"".join(sorted(o)) for o in orders} == {
        "".join(c * 10 for c in "abcdef")
    }
    # the twin: its order is fixed by the program
    assert {
        observe(f"noise=vary:{seed}:5", job, "turns", hot=True, rc=0).out for seed in range(4)
    } == {"abcdef" * 10 + "\n"}
