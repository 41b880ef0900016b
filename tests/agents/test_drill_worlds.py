# SPDX-License-Identifier: Apache-2.0
"""Drills in which the world around the job is another one: upgrade, clock, and node with PyTorch.

The new environment of `upgrade` is a second interpreter whose library of the job was changed: a
second PyTorch would be half a gigabyte for each run of the tests. What the drill says of two real
ones stands in docs/internals/drill.md.
"""

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest


def events(home):
    return [json.loads(p.read_text()) for p in home.glob("events/*.json")]


def tree(folder):
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def steps_of(done):
    return "\n".join(done.json["steps"])


# ---------------------------------------------------------------- upgrade

PLAIN_JOB = """\
import lib
open("m.ckpt", "w").write(lib.answer())
print(lib.answer())
"""


@pytest.fixture
def environment(tmp_path):
    """environment(name, lib, site) -> an interpreter that imports this `lib`, and what is in site"""

    def make(name, lib, site=None):
        folder = tmp_path / name
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        packages = next(folder.glob("lib/python*/site-packages"))
        (packages / "lib.py").write_text(lib)
        if site:
            (packages / "more.pth").write_text(f"{site}\n")
        return str(folder / "bin" / "python")

    return make


@pytest.fixture
def upgrade(twinrun, work, home):
    """upgrade(job, old, *options) -> Result; the user's own folder has to stay as it is"""

    def call(job, old, *options, env=None):
        (work / "job.py").write_text(job)
        before = tree(work)
        done = twinrun(
            *("drill", "upgrade", "--json", "-c", "m.ckpt", *options, "--", old, "job.py"), env=env
        )
        assert tree(work) == before
        return done

    return call


def test_an_upgrade_that_changes_nothing(upgrade, environment, home):
    lib = "answer = lambda: '42'\n"
    done = upgrade(PLAIN_JOB, environment("old", lib), "--with", environment("new", lib))
    assert done.rc == 0 and done.json["outcome"] == "restored", done
    assert "in the other environment: the same state" in steps_of(done)
    assert done.json["detect_s"] is None and done.json["reproduce_s"] > 0
    # what a plain program computes on the way is not seen, and nobody says that it is the same
    assert done.json["records"] == "not known", done
    assert [(e["kind"], e["outcome"]) for e in events(home)] == [("drill", "restored")]


def test_an_upgrade_that_changes_the_result(upgrade, environment):
    old, new = (environment(n, f"answer = lambda: '{n}'\n") for n in ("old", "new"))
    done = upgrade(PLAIN_JOB, old, "--with", new)
    assert done.rc == 0, done
    assert "in the other environment: another state" in steps_of(done)
    assert "record by record: inconclusive, unseen: what the job computes" in steps_of(done)
    assert "back in the old environment: the same state" in steps_of(done)
    assert done.json["records"] == "not known" and done.json["detect_s"] > 0


def test_an_upgrade_with_which_the_job_fails(upgrade, environment):
    done = upgrade(
        PLAIN_JOB,
        environment("old", "answer = lambda: '42'\n"),
        "--with",
        environment("new", "raise ImportError('gone')\n"),
    )
    assert done.rc == 0, done
    assert "in the other environment: it ended with exit code 1" in steps_of(done)
    assert "records" not in done.json and done.json["detect_s"] > 0


def test_a_job_that_does_not_repeat_itself_shows_nothing(upgrade, environment, home):
    lib = "import os\nanswer = lambda: os.urandom(8).hex()\n"
    done = upgrade(PLAIN_JOB, environment("old", lib), "--with", environment("new", lib))
    assert done.rc == 3 and "does not repeat itself" in steps_of(done), done
    assert not events(home)


def test_the_signed_baseline(upgrade, environment, twinrun, work, home):
    old, new = (environment(n, f"answer = lambda: '{n}'\n") for n in ("old", "new"))
    assert twinrun("sign", "--new-key", "k").rc == 0
    (work / "m.ckpt").write_text("old")
    assert twinrun("sign", "m.ckpt", "--key", "k").rc == 0
    signed = ("--signed", "m.ckpt.dsse.json", "--pub", "k.pub")
    done = upgrade(PLAIN_JOB, old, "--with", new, *signed)
    assert done.rc == 0 and "the first run makes the signed baseline" in steps_of(done), done
    # today's environment makes something else already: nothing to hold an upgrade against
    done = upgrade(PLAIN_JOB, new, "--with", old, *signed)
    assert done.rc == 2 and "expected a first run that makes the signed baseline" in done.err, done
    # the right digest by a key that nobody trusts
    assert twinrun("sign", "--new-key", "other").rc == 0
    done = upgrade(
        PLAIN_JOB, old, "--with", new, "--signed", "m.ckpt.dsse.json", "--pub", "other.pub"
    )
    assert done.rc == 2 and "signed baseline" in done.err, done
    assert [e["kind"] for e in events(home)] == ["drill"]


def wheel(folder, lib):
    path = folder / "lib-2.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("lib.py", lib)
        z.writestr("lib-2.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: lib\nVersion: 2.0\n")
        z.writestr(
            "lib-2.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        z.writestr("lib-2.0.dist-info/RECORD", "")
    return path


def test_an_environment_made_by_pip(upgrade, environment, tmp_path, work):
    """pip installs a wheel that lies here: no network is needed."""
    old = environment("old", "answer = lambda: 'old'\n")
    (work / "new.txt").write_text(f"{wheel(tmp_path, 'answer = lambda: 12')}\n")
    done = upgrade(
        PLAIN_JOB.replace("lib.answer()", "str(lib.answer())"), old, "--requirements", "new.txt"
    )
    assert done.rc == 0 and "in the other environment: another state" in steps_of(done), done
    (work / "new.txt").write_text("./no-such-file.whl\n")
    done = upgrade(PLAIN_JOB, old, "--requirements", "new.txt")
    assert done.rc == 2 and "expected an environment with" in done.err, done


TORCH_JOB = """\
import sys, torch, lib
torch.manual_seed(0)
m = torch.nn.Linear(8, 8)
o = torch.optim.SGD(m.parameters(), lr=0.1)
x = torch.randn(4, 8)
for i in range(2):
    o.zero_grad()
    loss = (lib.norm(m(x)) ** 3).sum()
    loss.backward()
    o.step()
torch.save(m.state_dict(), "m.ckpt")
"""
NORM = {
    "old": "return y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)",
    "order": "return y / torch.sqrt((y * y).sum(-1, keepdim=True) / 8 + 1e-5)",
    "bug": "return y * (torch.rsqrt(y.pow(2).mean(-1, keepdim=True)) + 1e-5)",
}


@pytest.mark.parametrize(("how", "word"), [("order", "rounding"), ("bug", "beyond rounding")])
def test_rounding_or_bug(upgrade, environment, python, run, light, how, word):
    pytest.importorskip("torch")
    where = "import torch; print(torch.__path__[0])"
    site = Path(run([python, "-c", where]).out.strip()).parent
    old, new = (
        environment(name, f"import torch\ndef norm(y):\n    {NORM[how]}\n", site)
        for name, how in (("a", "old"), ("b", how))
    )
    path = os.path.dirname(python) + os.pathsep + os.environ["PATH"]
    done = upgrade(TORCH_JOB, old, "--with", new, env={"PATH": path})
    assert done.rc == 0 and done.json["records"] == word, done
    assert "in the other environment: another state" in steps_of(done)
    if word == "rounding":
        assert "beyond" not in steps_of(done)
    else:
        assert "beyond rounding: aten.rsqrt.default of B at lib.py:3 in norm" in steps_of(done)


def test_upgrade_bad_use(twinrun, upgrade, environment):
    job = ("-c", "m", "--", sys.executable, "job.py")
    for options, message in (
        ((), "expected one of --with PYTHON, --requirements FILE"),
        (("--with", "p", "--requirements", "f"), "expected one of"),
        (("--with", "p", "--signed", "e"), "--signed goes with --trust FILE or --pub PUB"),
        (("--with", "p", "--pub", "k"), "--signed goes with"),
        (("--with", "p", "-r", "x"), "nothing is resumed"),
    ):
        done = twinrun("drill", "upgrade", *options, *job)
        assert done.rc == 2 and message in done.err, done
    done = twinrun("drill", "node", "--with", "p", *job)
    assert done.rc == 2 and "upgrade takes them" in done.err, done
    old = environment("old", "answer = lambda: '42'\n")
    done = upgrade(PLAIN_JOB, old, "--with", "no/such/python")
    assert done.rc == 2 and "cannot read no/such/python" in done.err, done
    # what is missing is said before the job is run, which may take hours
    for options, message in (
        (("--with", "no-such-python"), "found no no-such-python in PATH"),
        (("--requirements", "none.txt"), "cannot read none.txt"),
        (("--with", old, "--signed", "none.json", "--pub", "none.pub"), "cannot read none.json"),
    ):
        done = twinrun("drill", "upgrade", *options, *job)
        assert done.rc == 2 and message in done.err and "a whole run" not in done.err, done


# ---------------------------------------------------------------- clock

CLOCK_JOB = """\
import os, time
before, on_zone = time.time(), time.localtime(0).tm_hour
began = time.monotonic()
while os.environ["HOW"] in ("back", "none") and time.time() >= before:
    if time.monotonic() - began > 6:  # the clock is set back before that, after half of the time
        break
    time.sleep(0.05)
after = time.time()
said = {"none": "x", "date": time.gmtime(before).tm_year, "zone": on_zone, "back": after < before}
open("m.ckpt", "w").write(str(said[os.environ["HOW"]]))
"""
ARMS = ("in November 2001", "in September 2039", "14 hours east", "set back by two minutes")


@pytest.mark.parametrize(
    ("how", "moved"),
    [("none", ()), ("date", (0, 1)), ("zone", (2,)), ("back", (3,))],
)
def test_clocks(twinrun, script, work, home, how, moved):
    script("job.py", CLOCK_JOB)
    before = tree(work)
    done = twinrun(
        *("drill", "clock", "--json", "-c", "m.ckpt", "--", sys.executable, "job.py"),
        env={"HOW": how, "TZ": "UTC0"},
    )
    assert done.rc == 0 and tree(work) == before, done
    steps = done.json["steps"]
    for i, arm in enumerate(ARMS):
        said = [s for s in steps if s.startswith(arm)][-1]
        assert (": another state" if i in moved else ": the same state") in said, done
        if how in ("none", "back") or arm != ARMS[3]:
            assert "not known" not in said, done
    assert ("the job does not depend on the clock in these" in steps) == (not moved)
    assert (done.json["detect_s"] is None) == (not moved)
    assert [(e["kind"], e["outcome"]) for e in events(home)] == [("drill", "restored")]


@pytest.mark.parametrize(
    ("reads", "dates", "jump"),
    [
        # it reads no clock: that it does not depend on one is not shown by other dates
        (
            "",
            "no process was seen reading the clock",
            "no process was seen reading it before and after that",
        ),
        # it reads it at its start only, and then never again: it has not seen it go back
        ("time(NULL);", None, "no process was seen reading it before and after that"),
    ],
)
def test_a_clock_that_is_not_looked_at_shows_nothing(twinrun, work, tmp_path, reads, dates, jump):
    source = tmp_path / "job.c"
    source.write_text(
        "#include <stdio.h>\n#include <time.h>\nint main(void){%s"
        'FILE*f=fopen("m.ckpt","w");return f?fclose(f):1;}\n' % reads
    )
    subprocess.run(["cc", "-o", work / "job", source], check=True)
    done = twinrun("drill", "clock", "--json", "-c", "m.ckpt", "--", "./job")
    assert done.rc == 0, done
    for arm, why in zip(ARMS, (dates, dates, None, jump)):
        said = [s for s in done.json["steps"] if s.startswith(arm)][-1]
        assert ": the same state" in said, done
        assert (
            (f"{why}, so what it changes is not known" in said)
            if why
            else ("not known" not in said)
        ), done
    assert "the job does not depend on the clock in these" not in done.json["steps"]


def compiled(path, source, *options):
    (path.parent / "source.c").write_text(source)
    subprocess.run(["cc", *options, "-o", path, path.parent / "source.c"], check=True)
    (path.parent / "source.c").unlink()


def test_a_job_of_which_a_part_is_not_shown_the_clock(twinrun, script, work):
    """A static program runs beside one that reads the clock on both sides of the jump. Whether the
    static one depends on the clock is not known, since it saw the machine's own."""
    compiled(work / "aside", "#include <unistd.h>\nint main(void) { return pause(); }\n", "-static")
    script("job.py", CLOCK_JOB.replace("> 6", "> 4"))
    job = f"./aside & {sys.executable} job.py && kill $! && wait"
    done = twinrun(
        *("drill", "clock", "--json", "-c", "m.ckpt", "--", "sh", "-c", job),
        env={"HOW": "none", "TZ": "UTC0"},
    )
    assert done.rc == 0, done
    for arm in (ARMS[0], ARMS[1], ARMS[3]):
        said = [s for s in done.json["steps"] if s.startswith(arm)][-1]
        assert "; ./aside was not shown that clock, so what it changes is not known" in said, done
    assert "the job does not depend on the clock in these" not in done.json["steps"]


def test_a_trainer_that_is_gone_before_it_is_looked_at(twinrun, script, work):
    """A Python reads the clock on both sides; a static program, too short-lived to be seen in /proc,
    writes the checkpoint. Who wrote it had not been shown the clock."""
    compiled(
        work / "train",
        "#include <stdio.h>\n"
        'int main(void) { FILE *f = fopen("m.ckpt", "w"); return f ? fclose(f) : 1; }\n',
        "-static",
    )
    job = CLOCK_JOB.replace("> 6", "> 2").replace('"m.ckpt"', '"other"')
    script("job.py", job + 'import subprocess\nsubprocess.run(["./train"], check=True)\n')
    done = twinrun(
        *("drill", "clock", "--json", "-c", "m.ckpt", "--", sys.executable, "job.py"),
        env={"HOW": "none", "TZ": "UTC0"},
    )
    assert done.rc == 0, done
    for arm in (ARMS[0], ARMS[1], ARMS[3]):
        said = [s for s in done.json["steps"] if s.startswith(arm)][-1]
        assert "; no process that was shown that clock was seen opening m.ckpt, so" in said or (
            "; ./train was not shown that clock, so" in said
        ), done
    assert "the job does not depend on the clock in these" not in done.json["steps"]


def test_two_programs_that_see_one_side_each_have_not_seen_the_jump(twinrun, work):
    """One reads the clock before it is set back and another one after it; what trains between them
    has not seen it."""
    compiled(
        work / "train",
        "#include <stdio.h>\n#include <time.h>\n"
        "int main(void) {\n"
        "    nanosleep(&(struct timespec){.tv_sec = 2}, NULL);\n"
        '    FILE *f = fopen("m.ckpt", "w");\n'
        "    return f ? fclose(f) : 1;\n"
        "}\n",
    )
    done = twinrun(
        *("drill", "clock", "--json", "-c", "m.ckpt", "--", "sh", "-c", "date; ./train; date")
    )
    assert done.rc == 0, done
    said = [s for s in done.json["steps"] if s.startswith(ARMS[3])][-1]
    assert said.endswith(
        "no process was seen reading it before and after that, so what it changes is not known"
    )
    assert "the job does not depend on the clock in these" not in done.json["steps"]


LEAVES_NOTHING = """\
import os, sys
with open(os.environ["STARTS"], "ab") as starts:
    starts.write(b".")
if os.path.getsize(os.environ["STARTS"]) != int(os.environ["IDLE"]):
    open("m.ckpt", "w").write("state")
"""


@pytest.mark.parametrize(
    ("kind", "idle", "said", "code"),
    [
        ("node", 2, "on SSE 4: it ended well and did not write m.ckpt", 0),
        ("node", 3, "back on the first instruction set: it ended well and did not write m.ckpt", 1),
        ("clock", 2, "in November 2001: it ended well and did not write m.ckpt", 0),
    ],
)
def test_a_state_that_lay_there_is_not_one_that_came_back(
    twinrun, script, work, tmp_path, kind, idle, said, code
):
    """The user's folder has the proven state from earlier; one of the drill's runs writes nothing."""
    script("job.py", LEAVES_NOTHING)
    (work / "m.ckpt").write_text("state")
    done = twinrun(
        *("drill", kind, "--json", "-c", "m.ckpt", "--", sys.executable, "job.py"),
        env={"STARTS": str(tmp_path / "starts"), "IDLE": str(idle)},
    )
    assert done.rc == code and any(s.startswith(said) for s in done.json["steps"]), done
    assert (done.json["reproduce_s"] is None) == (code == 1)


def test_a_long_path_cuts_no_sentence(twinrun, script, work, tmp_path):
    """A line of which only the beginning is there says less than what was seen, or something
    else."""
    path = "/".join(["of-the-model-that-is-trained"] * 12) + "/m.ckpt"
    (work / path).parent.mkdir(parents=True)
    script("job.py", LEAVES_NOTHING.replace("m.ckpt", path))
    done = twinrun(
        *("drill", "clock", "--json", "-c", path, "--", sys.executable, "job.py"),
        env={"STARTS": str(tmp_path / "starts"), "IDLE": "5"},
    )
    said = [s for s in done.json["steps"] if s.startswith(ARMS[3])]
    assert said[0].startswith(f"{ARMS[3]} on the way: it ended well and did not write {path}"), done
    ends = (path, ": once more", "is not known", ": the same state")
    assert all(s.endswith(ends) for s in said), done


def test_a_clock_nobody_can_show(twinrun, work, tmp_path):
    """A static program is not reached by the agent: that is said, and not that it does not depend
    on the clock."""
    source = tmp_path / "job.c"
    source.write_text(
        '#include <stdio.h>\nint main(void){FILE*f=fopen("m.ckpt","w");return f?fclose(f):1;}\n'
    )
    subprocess.run(["cc", "-static", "-o", work / "job", source], check=True)
    done = twinrun("drill", "clock", "-c", "m.ckpt", "--", "./job")
    assert done.rc == 2 and "expected a job that can be shown another clock" in done.err, done


# ---------------------------------------------------------------- node

NODE_JOB = """\
import torch
print(torch.backends.cpu.get_cpu_capability())
torch.manual_seed(0)
m = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU(), torch.nn.Linear(512, 1))
x = torch.randn(64, 512)
m(x).square().mean().backward()
torch.save([p.grad for p in m.parameters()], "m.ckpt")
"""


def _began(run):
    return json.loads((run / "run.json").read_text())["start_realtime_ns"]


def test_node_with_pytorch(twinrun, script, home, python, light):
    """The older instruction set is in force (the job prints it), and what the drill says of the
    state is what the files say."""
    pytest.importorskip("torch")
    script("job.py", NODE_JOB)
    done = twinrun("drill", "node", "--json", "-c", "m.ckpt", "--", python, "job.py")
    assert done.rc == 0, done
    # two that began within one second have names in any order
    runs = sorted(home.glob("runs/*-drill*"), key=_began)
    said = [(r / "stdout").read_text().strip() for r in runs]
    assert said[1] == "DEFAULT" and said[0] == said[2], said
    states = [hashlib.sha256((r / "work/m.ckpt").read_bytes()).hexdigest() for r in runs]
    assert states[0] == states[2]
    moved = states[0] != states[1]
    assert ("on SSE 4: another state" in steps_of(done)) == moved, done
    assert (done.json["detect_s"] is not None) == moved
    if said[0] != "DEFAULT":
        assert moved, "expected GELU and MKL to round otherwise with AVX"
