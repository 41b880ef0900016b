# SPDX-License-Identifier: Apache-2.0
"""`twinrun run`: what is pinned is equal in two runs, what is left free is not, and what did not
take effect is said.

Each job prints what the factor decides; no code of ours sees that. Every claim has its twin: the
same job without the pin, or with another value. Where a Python agent or the kernel does not do its
part, the test is skipped by name.
"""

import os
import re
import sys

import pytest


@pytest.fixture
def pinned(twinrun):
    """pinned(list, *command, **) -> (stdout, stderr) of `twinrun run --pin list`, which must have
    ended with exit code 0.
    """

    def call(pins, *command, **kwargs):
        done = twinrun("run", "--pin", pins, "--", *command, **kwargs)
        assert done.rc == 0, done
        return done.out, done.err

    return call


def said(err, heading):
    """The factors that the closing line lists under a heading: "pinned", "not used by the job",
    "NOT pinned".
    """
    (line,) = [l for l in err.splitlines() if "; run in " in l]
    for part in line.removeprefix("twinrun: ").split("; "):
        if part.startswith(heading + ": "):
            return re.sub(r" \(.*?\)", "", part[len(heading) + 2 :]).split(", ")
    return []


def free(twinrun, *command, times=2):
    """What the job prints when it runs as ever."""
    outs = [twinrun("record", "-q", "--", *command) for _ in range(times)]
    assert all(r.rc == 0 for r in outs), outs
    return [r.out for r in outs]


def values(twinrun, factor):
    """The row of `twinrun factors` for this factor."""
    return {f["id"]: f for f in twinrun("factors", "--json").json["factors"]}[factor]


@pytest.mark.parametrize(
    "factor, code",
    [
        ("hash-seed", "print(hash('a string'))"),
        ("entropy", "import os, uuid; print(os.urandom(8).hex(), uuid.uuid4())"),
        ("clock", "import time; print(time.time(), time.time_ns())"),
    ],
)
def test_held_still(pinned, twinrun, factor, code):
    command = (sys.executable, "-c", code)
    (first, err), (second, _) = pinned(factor, *command), pinned(factor, *command)
    assert first == second
    assert said(err, "pinned") == [factor]
    assert pinned(factor + "=5", *command)[0] != first
    assert (
        pinned(factor + "=vary:1", *command)[0] == pinned(factor + "=vary:1", *command)[0] != first
    )
    assert len(set(free(twinrun, *command, times=3))) > 1


def test_hashes_of_tensors(pinned, twinrun, work, light):
    job = work / "hashes.py"
    job.write_text(
        "import torch\nlayers = [torch.nn.Linear(2, 2) for _ in range(40)]\nbefore = torch.save(layers[0], 'kept.pt')\n"
        "print(*(layers.index(l) for l in set(layers)))\nprint(len({p for l in layers for p in l.parameters()}), hash(layers[3]) == hash(layers[3]))\n"
        "x = torch.ones(3); s = {x}; print(x in s, torch.ones(3) in s)\nassert '_twinrun' not in str(vars(x)) + str(vars(layers[0]))\n"
        "print(len(torch.load('kept.pt', weights_only=False).state_dict()))\n"
    )
    command = (sys.executable, str(job))
    (first, err), (second, _) = pinned("tensor-hash", *command), pinned("tensor-hash", *command)
    assert first == second and said(err, "pinned") == ["tensor-hash"]
    order, *rest = first.split("\n")
    # small numbers, so a set walks in the order in which they were given
    assert order.split() == [str(i) for i in range(40)]
    assert rest[:3] == ["80 True", "True False", "2"]
    drawn = pinned("tensor-hash=vary:1", *command)[0].split("\n")
    assert (
        drawn[0] != order
        and sorted(drawn[0].split()) == sorted(order.split())
        and drawn[1:] == rest
    )


def test_folders_are_listed_by_name(pinned, work):
    folder = work / "many"
    folder.mkdir()
    for i in range(60):
        (folder / f"{i * 7919 % 60:02}").touch()
    command = (sys.executable, "-c", "import os; print(*os.listdir('many'))")
    out, err = pinned("dir-order", *command)
    assert out.split() == sorted(os.listdir(folder)) and "dir-order" in said(err, "pinned")
    shuffled = pinned("dir-order=vary:3", *command)[0].split()
    assert shuffled != sorted(shuffled) and sorted(shuffled) == out.split()


def test_address_layout(pinned, twinrun):
    row = values(twinrun, "aslr")
    if row["unavailable"]:
        pytest.skip(row["unavailable"])
    command = (
        sys.executable,
        "-c",
        "import re; print(*sorted(l.split('-')[0] for l in open('/proc/self/maps') if '[stack]' in l or '[heap]' in l), "
        "id(object))",
    )
    (first, err), (second, _) = pinned("aslr", *command), pinned("aslr", *command)
    assert first == second and said(err, "pinned") == ["aslr"]
    assert len(set(free(twinrun, *command, times=3))) > 1


def test_one_processor(pinned, twinrun):
    mine = sorted(os.sched_getaffinity(0))
    if len(mine) < 2:
        pytest.skip("only one processor to run on")
    command = (sys.executable, "-c", "import os; print(*sorted(os.sched_getaffinity(0)))")
    for cpu in mine[:2]:
        out, err = pinned(f"affinity={cpu}", *command)
        assert out.split() == [str(cpu)] and said(err, "pinned") == ["affinity"]
    assert free(twinrun, *command, times=1)[0].split() == [str(c) for c in mine]
    # taken back on the way: said
    if os.path.exists("/usr/bin/taskset"):
        out, err = pinned("affinity", "/usr/bin/taskset", "-c", ",".join(map(str, mine)), *command)
        assert out.split() == [str(c) for c in mine] and said(err, "NOT pinned") == ["affinity"]


def test_fresh_memory(pinned, twinrun, tmp_path, run):
    row = values(twinrun, "malloc-fill")
    if row["unavailable"]:
        pytest.skip(row["unavailable"])
    source = tmp_path / "fresh.c"
    source.write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nint main(void) {\n"
        "  unsigned char *old = malloc(512), *p; memset(old, 170, 512); free(old); p = malloc(512);\n"
        '  for (int i = 100; i < 110; i++) printf("%d ", p[i]);\n  return 0;\n}\n'
    )
    program = tmp_path / "fresh"
    assert run(["gcc", "-O0", "-w", source, "-o", program]).rc == 0
    assert set(free(twinrun, program, times=1)[0].split()) == {"170"}
    out, err = pinned("malloc-fill", program)
    assert set(out.split()) == {"0"} and said(err, "pinned") == ["malloc-fill"]
    assert set(pinned("malloc-fill=7", program)[0].split()) == {"7"}
    assert len(set(pinned("malloc-fill=vary:2", program)[0].split())) > 3


def test_threads_of_torch(pinned, python, light):
    command = (python, "-c", "import torch; print(torch.get_num_threads())")
    out, err = pinned("threads", *command)
    assert out == "1\n" and said(err, "pinned") == ["threads"]
    assert pinned("threads=2", *command)[0] == "2\n"


def test_instruction_set_of_torch(pinned, python, light):
    command = (python, "-c", "import torch; print(torch.backends.cpu.get_cpu_capability())")
    out, err = pinned("isa=default", *command)
    assert out.strip() in ("DEFAULT", "NO AVX") and said(err, "pinned") == ["isa"]


def test_seeds(pinned, twinrun, python, light):
    command = (
        python,
        "-c",
        "import random, numpy, torch; print(random.random(), numpy.random.rand(), torch.rand(1).item())",
    )
    pins = "seed.python,seed.numpy,seed.torch"
    (first, err), (second, _) = pinned(pins, *command), pinned(pins, *command)
    assert first == second and sorted(said(err, "pinned")) == sorted(pins.split(","))
    other = pinned("seed.python=1,seed.numpy=1,seed.torch=1", *command)[0]
    assert all(a != b for a, b in zip(first.split(), other.split()))
    assert len(set(free(twinrun, *command))) == 2


def test_a_job_that_seeds_itself_keeps_its_seed(pinned, twinrun, python, light):
    command = (python, "-c", "import torch; torch.manual_seed(5); print(torch.rand(1).item())")
    out, err = pinned("seed.torch", *command)
    assert out == free(twinrun, *command, times=1)[0]
    assert said(err, "set by the job itself") == ["seed.torch"] and not said(err, "pinned")


def test_what_the_job_does_not_use_is_not_claimed(pinned):
    out, err = pinned("entropy,hash-seed,dir-order", "sh", "-c", "echo hello")
    assert out == "hello\n" and not said(err, "pinned") and not said(err, "NOT pinned")
    assert set(said(err, "not used by the job")) == {"hash-seed", "entropy", "dir-order"}


def test_a_shell_that_sets_it_again(pinned):
    out, err = pinned(
        "hash-seed,threads",
        "sh",
        "-c",
        f"PYTHONHASHSEED=77 {sys.executable} -c 'print(hash(\"x\"))'",
    )
    assert said(err, "NOT pinned") == ["hash-seed"] and said(err, "pinned") == ["threads"]
    assert "PYTHONHASHSEED=77 instead of 0" in err


def test_an_emptied_environment(pinned):
    """env -i takes away pins and agent: nothing is claimed for that process."""
    out, err = pinned(
        "entropy",
        "env",
        "-i",
        sys.executable,
        "-c",
        "import os, time; print(os.urandom(4).hex()); time.sleep(1.2)",
    )
    assert not said(err, "pinned")
    assert "not known whether pinned: entropy" in err or "NOT pinned: entropy" in err


def test_output_and_exit_code_are_the_jobs(twinrun):
    code = "import sys; sys.stdout.write('o' * 100000); sys.stderr.write('e' * 1000); sys.exit(9)"
    plain = twinrun("record", "-q", "--", sys.executable, "-c", code)
    held = twinrun("run", "-q", "--", sys.executable, "-c", code)
    assert (
        held.rc == plain.rc == 9 and held.raw_out == plain.raw_out and held.raw_err == plain.raw_err
    )


def test_everything_pinned_repeats(pinned, twinrun, python, script, light):
    """The purpose of it all: a job with six causes at once prints the same twice."""
    script(
        "job.py",
        """
        import os, random, time
        import numpy, torch
        order = list({"north", "south", "east", "west"})
        print(order, os.urandom(4).hex(), time.time(), id(object), torch.get_num_threads(), numpy.random.default_rng().random())
    """,
    )
    outs = [pinned("all", python, "job.py")[0] for _ in range(2)]
    assert outs[0] == outs[1]
    assert len(set(free(twinrun, python, "job.py"))) == 2


@pytest.mark.parametrize(
    "pin, second",
    [
        ("hash-seed", "[python, '-E', 'rank.py']"),
        ("hash-seed", "[python, '-R', 'rank.py']"),
        ("entropy", "['env', '-u', 'LD_PRELOAD', python, 'rank.py']"),
    ],
)
def test_a_pin_that_holds_one_of_two_processes_alone_is_none(twinrun, script, pin, second):
    """The variable arrives, the library is loaded, and still the second process is not held."""
    script(
        "rank.py",
        """
        import os, twinrun
        twinrun.record("weights", b"%d" % (hash("word") + os.urandom(1)[0]))
        """,
    )
    script(
        "job.py",
        f"""
        import subprocess, sys
        python = sys.executable
        subprocess.check_call([python, "rank.py"])
        if len(sys.argv) > 1:
            subprocess.check_call({second})
        """,
    )
    one = twinrun("run", "--pin", pin, "--", sys.executable, "job.py")
    both = twinrun("run", "--pin", pin, "--", sys.executable, "job.py", "both")
    assert said(one.err, "pinned") == [pin], one
    assert said(both.err, "NOT pinned") == [pin], both
