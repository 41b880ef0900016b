# SPDX-License-Identifier: Apache-2.0
"""Shadow runs: recorded runs that are made once more, and what may be said of them.

The truth is in the jobs: what changes between original and repeat is changed by the test. First the
mutants that must not pass: one other bit is a divergence, another script is none.
"""

import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from jobs_folder import BUILD, ROOT, TWINRUN, JobsFolder

sys.path.insert(0, str(ROOT / "tests" / "truth"))
TRAINER = os.path.join(BUILD, "workloads", "trainer")
pytestmark = pytest.mark.skipif(not os.path.exists(TRAINER), reason="no build: " + TRAINER)


# What a job does with its result: one step with one recorded value, as a loop of anybody's has it.
STEP = """import array, twinrun
def result(x):
    twinrun.record('loss', array.array('d', [x]))
    twinrun.step()
    print('loss', x.hex())
"""


class World(JobsFolder):
    """A folder in which jobs are recorded and repeated."""

    def __init__(self, folder):
        super().__init__(folder)
        self.env["TWINRUN_LEDGER"] = ""

    def record(self, *job, options=(), code=0, **env):
        before = set(self.runs())
        done = self.twinrun("record", "-q", *options, "--", *job, **env)
        assert done.returncode == code, done.stderr
        (new,) = set(self.runs()) - before
        return new

    def id_of(self, name):
        return self.record_of(name)["id"]

    def shadow(self, *options, code=None, **env):
        done = self.twinrun("shadow", "--share", "100%", "--json", "--beside", *options, **env)
        assert done.stdout, done.stderr
        answer = json.loads(done.stdout)
        assert answer["schema"] == "twinrun.shadow/1"
        if code is not None:
            assert done.returncode == code, done.stdout + done.stderr
        return {r["name"]: r for r in answer["rows"]}, answer

    def one(self, *options, code=None, **env):
        rows, _ = self.shadow(*options, code=code, **env)
        (row,) = rows.values()
        return row

    def m1(self):
        (row,) = (r for r in self.indicators() if (r["indicator"], r["scope"]) == ("M1", "all"))
        return tuple(row["counts"][k] for k in ("good", "bad", "unknown"))

    def forget_comparisons(self):
        """As if the call had been killed behind the run and before the comparison."""
        for path in (self.home / "comparisons").iterdir():
            path.unlink()
        for path in self.home.glob("ledger.db*"):
            path.unlink()


def digest_of(folder, without=()):
    whole = hashlib.sha256()
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if path.is_file() and not any(w in path.parts for w in without):
            whole.update(f"{path} {path.stat().st_mtime_ns} ".encode() + path.read_bytes())
    return whole.hexdigest()


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


ORDERED = f"{TRAINER} --steps 3 --quiet --ordered"


def trainer(*options):
    return [TRAINER, "--steps", "3", "--quiet", *options]


# ---- what must not pass


def test_one_bit_is_a_divergence(world):
    """One bit of one digest of the repeat, edited between the run and the comparison."""
    from mutant_tools import Copy, results, save

    world.record(*trainer("--ordered"))
    row = world.one(code=0)
    assert row["outcome"] == "same"
    folder = world.home / "runs" / row["repeat"]
    copy = Copy(folder, world.folder.parent / "edited")
    name, trace = copy.pick(random.Random(1))
    i = results(trace)[-1]
    a, b = trace.records[i].digest
    trace.records[i] = trace.records[i]._replace(digest=(a ^ 1, b))
    save(copy, name, trace)
    shutil.rmtree(folder)
    shutil.move(copy.folder, folder)
    world.forget_comparisons()
    again = world.one(code=1)
    assert again["outcome"] == "diverged" and again["repeat"] == row["repeat"], again
    assert world.m1() == (0, 1, 0)


def test_values_that_differ_are_a_divergence(world):
    """Same code, same everything but one bit of one value, which comes from outside."""
    flag = world.folder.parent / "flag"
    flag.write_text("0")
    world.write(
        "job.py",
        "import struct, sys\n"
        "bit = int(open(sys.argv[1]).read())\n"
        + STEP
        + "result(struct.unpack('<d', struct.pack('<Q', 0x3FF0000000000000 ^ bit))[0])\n",
    )
    world.record(sys.executable, "job.py", flag)
    assert world.m1() == (0, 0, 0)
    flag.write_text("1")
    os.utime(flag, ns=(1, 1))
    row = world.one()
    # the file is named by the command, so it is known to have changed
    assert row["outcome"] == "not-repeated" and "data have changed" in row["why"], row
    flag.write_text("0")
    assert world.one("--again", code=0)["outcome"] == "same"
    assert world.m1() == (1, 0, 0)


def test_a_coin_of_the_job_is_a_divergence(world):
    """Nothing in the world tells the two apart: the job itself draws."""
    world.write(
        "job.py",
        STEP + "import os\nresult(int.from_bytes(os.urandom(6), 'little') / 2**48)\n",
    )
    world.record(sys.executable, "job.py")
    row = world.one(code=1)
    assert row["outcome"] == "diverged", row
    assert world.m1() == (0, 1, 0)


@pytest.mark.parametrize("in_git", [False, True])
def test_a_changed_script_is_no_divergence(world, in_git):
    world.write("job.py", STEP + "result(1.0)\n")
    if in_git:
        for words in (["init", "-q"], ["add", "job.py"], ["commit", "-qm", "x"]):
            subprocess.run(
                ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
                cwd=world.folder,
                check=True,
                env=world.env,
            )
    world.record(sys.executable, "job.py")
    world.write("job.py", STEP + "result(2.0)\n")
    row = world.one(code=3)
    assert row["outcome"] == "not-repeated" and row["why"].startswith("code has changed"), row
    assert len(world.runs()) == 1
    assert world.m1() == (0, 0, 1)
    # said once in the ledger, however often it is asked
    assert world.one("--again", code=3)["outcome"] == "not-repeated"
    assert world.ask("SELECT count(*) FROM events") == [(1,)]
    rows, answer = world.shadow(code=3)
    assert rows == {} and answer["not_repeated_before"] == 1
    # once the code is back, it is repeated, and counts once
    world.write("job.py", STEP + "result(1.0)\n")
    assert world.one("--again", code=0)["outcome"] == "same"
    assert world.m1() == (1, 0, 0)


def test_a_changed_module_is_no_divergence(world):
    """Beside the script, and nobody keeps its digest: what changed since is asked when it differs."""
    world.write("helper.py", "loss = 1.0\n")
    world.write("job.py", STEP + "import helper\nresult(helper.loss)\n")
    world.record(sys.executable, "job.py")
    world.write("helper.py", "loss = 2.0\n")
    row = world.one(code=3)
    assert row["outcome"] == "not-known" and "helper.py has changed since" in row["why"], row
    assert world.m1() == (0, 0, 1)


@pytest.mark.parametrize("whole", [True, False])
def test_a_module_beside_a_script_elsewhere(world, whole):
    """Also where the record ends early, as of a collector that a busy machine gave no time."""
    lib = world.folder.parent / "lib"
    lib.mkdir()
    (lib / "helper.py").write_text("loss = 1.0\n")
    (lib / "job.py").write_text(STEP + "import helper\nresult(helper.loss)\n")
    name = world.record(sys.executable, lib / "job.py")
    record = world.home / "runs" / name / "provenance.json"
    if not whole:
        text = record.read_text()
        record.write_text(text.replace('"complete": true', '"complete": false'))
    # of another length: Python takes a module of this second and length from its cache
    (lib / "helper.py").write_text("loss = 2.0 + 0\n")
    row = world.one(code=3)
    assert row["outcome"] == "not-known" and "helper.py has changed since" in row["why"], row


def test_cut_originals_are_not_compared_as_whole(world):
    world.write("slow.sh", "touch began\nread line <go\n")
    os.mkfifo(world.folder / "go")
    world.record(*trainer("--ordered"), options=("--steps", "1"))
    world.record("sh", "-c", "exit 3", code=3)
    killed = subprocess.Popen(
        [TWINRUN, "record", "-q", "--", "sh", "slow.sh"], cwd=world.folder, env=world.env
    )
    while not (world.folder / "began").exists():
        assert killed.poll() is None
        time.sleep(0.02)
    killed.kill()
    killed.wait()
    with open(world.folder / "go", "w") as go:
        go.write("\n")
    rows, answer = world.shadow(code=3)
    assert [r["outcome"] for r in rows.values()] in ([], ["not-repeated"]), rows
    assert all("not whole" in r["why"] for r in rows.values())
    assert answer["outcomes"]["same"] == answer["outcomes"]["diverged"] == 0


# ---- what is repeated, and how


def test_repeats_and_counts(world):
    ordered = world.record(*trainer("--ordered", "--checkpoint", "w.safetensors"))
    loose = world.record(*trainer("--threads", "8"))
    before = digest_of(world.folder, without=("ledger.db", "shadow", "comparisons"))
    originals = {n: digest_of(world.home / "runs" / n) for n in (ordered, loose)}
    files = digest_of(world.folder, without=(".twinrun",))
    rows, answer = world.shadow(code=1)
    assert rows[ordered]["outcome"] == "same" and rows[loose]["outcome"] == "diverged", rows
    assert world.m1() == (1, 1, 0)
    assert before
    # neither the originals' folders nor what they wrote was touched
    assert {n: digest_of(world.home / "runs" / n) for n in (ordered, loose)} == originals
    assert digest_of(world.folder, without=(".twinrun",)) == files
    assert answer["left_s"] < answer["budget_s"]
    # each is repeated once
    count = len(world.runs())
    rows, answer = world.shadow(code=3)
    assert rows == {} and answer["answered_before"] == 2 and len(world.runs()) == count


def test_variables_level_and_pins_are_those_of_the_original(world):
    world.write(
        "job.py",
        STEP + "import os, time\nresult(float(os.environ.get('OMP_NUM_THREADS')) + time.time())\n",
    )
    done = world.twinrun(
        "run",
        "--level",
        "ops",
        "--pin",
        "clock",
        "--",
        sys.executable,
        "job.py",
        OMP_NUM_THREADS="3",
    )
    assert done.returncode == 0, done.stderr
    row = world.one(code=0, OMP_NUM_THREADS="1")
    (repeat,) = [n for n in world.runs() if "shadow" in n]
    run = json.loads((world.home / "runs" / repeat / "run.json").read_bytes())
    assert row["outcome"] == "same", row
    assert run["level"] == "ops" and run["env"]["OMP_NUM_THREADS"] == "3"
    assert "clock" in run["factors"]["agents"]["TWINRUN_FACTORS"]


def test_a_variable_that_is_not_recorded(world):
    """Its value decides, and nobody may write it down."""
    world.write("job.py", STEP + "import os\nresult(float(len(os.environ['MY_SETTING'])))\n")
    world.record(sys.executable, "job.py", MY_SETTING="abc")
    row = world.one(code=3, MY_SETTING="abcd")
    assert row["outcome"] == "not-known" and "MY_SETTING" in row["why"], row
    assert world.m1() == (0, 0, 1)


def test_a_repeat_that_fails_is_no_divergence(world):
    world.write("job.py", STEP + "import os\nresult(float(len(os.environ['MY_SETTING'])))\n")
    world.record(sys.executable, "job.py", MY_SETTING="abc")
    row = world.one(code=3)
    assert row["outcome"] == "not-known" and "KeyError: 'MY_SETTING'" in row["why"], row


def test_data_that_changed(world):
    world.write("data/x", "1\n")
    assert world.twinrun("snapshot", "data").returncode == 0
    world.record("sh", "-c", f"cat data/x; {ORDERED}", options=("--data", "data"))
    world.write("data/x", "2\n")
    row = world.one(code=3)
    assert row["outcome"] == "not-repeated" and "data have changed" in row["why"], row
    world.write("data/x", "1\n")
    assert world.one("--again", code=0)["outcome"] == "same"


def test_starts_where_the_original_started(world):
    """It resumes from what it finds: the repeat must not find what the original left."""
    world.write(
        "job.py",
        STEP
        + "import os\nhere = os.path.exists('out/ckpt')\nos.makedirs('out')\n"
        + "result(2.0 if here else 1.0)\nopen('out/ckpt', 'w').close()\n",
    )
    world.record(sys.executable, "job.py")
    assert (world.folder / "out" / "ckpt").exists()
    assert world.one(code=0)["outcome"] == "same"


def test_files_elsewhere_are_not_written_over(world):
    out = world.folder.parent / "elsewhere"
    world.record("sh", "-c", 'echo 1 >"$1"', "sh", out)
    out.write_text("precious\n")
    row = world.one(code=3)
    assert row["outcome"] == "not-repeated" and "--overwrite" in row["why"], row
    assert out.read_text() == "precious\n"
    world.one("--overwrite", "--again")
    assert out.read_text() == "1\n"


def test_a_command_that_leads_out_of_its_folder(world):
    (world.folder.parent / "x").write_text("1")
    world.record("sh", "-c", f"cat $0; {ORDERED}", "../x")
    row = world.one(code=3)
    assert row["outcome"] == "not-repeated" and "../x" in row["why"], row


# ---- which, and how many


def test_order_budget_and_number(world):
    names = {}
    for project, command in (("a", "echo 1"), ("b", "echo 2"), ("c", "echo 3")):
        names[project] = world.record("sh", "-c", f"{command}; {ORDERED}", TWINRUN_PROJECT=project)
    rows, _ = world.shadow("--dry-run", "--first", "b", "--first", "*echo 1*", code=0)
    assert list(rows) == [names["b"], names["a"], names["c"]]
    assert {r["outcome"] for r in rows.values()} == {"would-repeat"}
    rows, answer = world.shadow("--most", "1", "--first", "b", code=0)
    assert [r["outcome"] for r in rows.values()] == ["same", "left", "left"]
    rows, answer = world.shadow("--budget", "0", code=3)
    assert {r["outcome"] for r in rows.values()} == {"left"} and len(rows) == 2
    rows, answer = world.shadow("--share", "0", code=3)
    assert rows == {} and answer["drawn"] == 0


def test_fewest_comparisons_first(world):
    old = [world.record("sh", "-c", f"echo 1; {ORDERED}") for _ in range(2)]
    assert len(old) == 2
    other = world.record("sh", "-c", f"echo 2; {ORDERED}")
    for name in (other,):  # the newest first, then the command that has none
        rows, _ = world.shadow("--most", "1")
        assert rows[name]["outcome"] == "same"
    newer = world.record("sh", "-c", f"echo 2; {ORDERED}")
    rows, _ = world.shadow("--dry-run")
    assert list(rows)[0] == old[1] and list(rows)[1] == newer, rows


def test_runs_of_checks_are_no_originals(world):
    world.twinrun("check", "-q", "--", *trainer("--ordered"))
    rows, answer = world.shadow(code=3)
    assert rows == {} and answer["runs"] == 0


def test_by_an_engine(world):
    name = world.record(*trainer("--ordered"))
    row = world.one("--on", "cmd:{command}", code=0)
    assert row["outcome"] == "same", row
    repeat = json.loads((world.home / "runs" / row["repeat"] / "run.json").read_bytes())
    assert repeat["node"]["engine"] == "cmd" and name != row["repeat"]
    assert world.m1() == (1, 0, 0)


# ---- cut off, and two at once


def slow_job(world):
    """A repeat says that it has begun, and waits: for a file, not for a time."""
    where = world.folder.parent / "where"
    where.mkdir()
    world.write(
        "job.py",
        STEP
        + f"import os, time\nwhere = {str(where)!r}\n"
        + "open(os.path.join(where, 'began'), 'w').close()\n"
        + "while not os.path.exists(os.path.join(where, 'go')): time.sleep(0.02)\n"
        + "result(1.0)\n",
    )
    (where / "go").touch()
    world.record(sys.executable, "job.py")
    (where / "go").unlink()
    (where / "began").unlink()
    return where


def start_shadow(world, where):
    process = subprocess.Popen(
        [TWINRUN, "shadow", "--share", "1", "--beside", "--overwrite", "--json"],
        cwd=world.folder,
        env=world.env,
        stdout=subprocess.PIPE,
    )
    while not (where / "began").exists():
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.02)
    return process


def test_two_at_once(world):
    where = slow_job(world)
    first = start_shadow(world, where)
    rows, answer = world.shadow("--overwrite", code=3)
    assert answer["busy"] and rows == {}
    (where / "go").touch()
    answer = json.loads(first.communicate(timeout=60)[0])
    assert first.returncode == 0 and answer["outcomes"]["same"] == 1, json.dumps(answer["rows"])
    assert len(world.runs()) == 2


def test_killed_in_the_middle(world):
    where = slow_job(world)
    process = start_shadow(world, where)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    # the job lives on without its launcher: nothing is begun beside it
    row = world.one("--overwrite", code=3)
    assert row["outcome"] == "left" and "goes on" in row["why"], row
    (where / "go").touch()
    for _ in range(500):
        row = world.one("--overwrite")
        if row["outcome"] != "left":
            break
        time.sleep(0.02)
    assert row["outcome"] == "same", row
    assert world.ask("SELECT count(*) FROM comparisons WHERE verb = 'shadow'") == [(1,)]
    rows, _ = world.shadow("--overwrite", code=3)
    assert rows == {}
    assert os.listdir(world.home / "shadow") == ["lock"]


def test_killed_before_the_comparison(world):
    original = world.record(*trainer("--ordered"))
    row = world.one(code=0)
    world.forget_comparisons()
    again = world.one(code=0)
    assert again["outcome"] == "same" and again["repeat"] == row["repeat"]
    assert world.runs() == sorted([original, row["repeat"]])
    assert world.m1() == (1, 0, 0)


def test_waits_for_runs_that_go_on(world):
    world.record(*trainer("--ordered"))
    world.write("slow.sh", "touch began\nread line <go\n")
    os.mkfifo(world.folder / "go")
    busy = subprocess.Popen(
        [TWINRUN, "record", "-q", "--", "sh", "slow.sh"], cwd=world.folder, env=world.env
    )
    while not (world.folder / "began").exists():
        assert busy.poll() is None
        time.sleep(0.02)
    done = world.twinrun("shadow", "--share", "1", "--json")
    (row,) = json.loads(done.stdout)["rows"]
    assert row["outcome"] == "left" and "another run goes on" in row["why"]
    with open(world.folder / "go", "w") as go:
        go.write("\n")
    busy.wait()
    done = world.twinrun("shadow", "--share", "1", "--json", "--most", "1")
    assert done.returncode in (0, 3), done.stdout


def test_killed_at_any_moment(world):
    """Whenever it is killed: each original is answered once, and nothing is left in between."""
    draw = random.Random(7)
    for seed in range(3):
        world.record(*trainer("--ordered", "--seed", str(seed)))
    for _ in range(8):
        process = subprocess.Popen(
            [TWINRUN, "shadow", "--share", "1", "--beside"],
            cwd=world.folder,
            env=world.env,
            stdout=subprocess.DEVNULL,
        )
        try:
            process.wait(timeout=draw.uniform(0, 0.6))
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
    for _ in range(100):
        rows, answer = world.shadow()
        cut = answer["not_repeated_before"]  # three times cut by the test: given up, and said
        if answer["answered_before"] + cut == 3:
            break
    assert answer["answered_before"] + cut == 3
    answers = world.ask(
        "SELECT c.run_id, count(*) FROM compared c JOIN comparisons x ON x.id = c.comparison_id "
        "WHERE x.verb = 'shadow' AND c.place = 0 GROUP BY c.run_id"
    )
    assert len(answers) == 3 - cut and all(n == 1 for _, n in answers), answers
    good, bad, unknown = world.m1()
    assert (good, bad, unknown) == (3 - cut, 0, cut)


def test_without_a_ledger(world):
    world.record(*trainer("--ordered"))
    done = world.twinrun("shadow", "--ledger", "none")
    assert done.returncode == 2 and "no ledger" in done.stderr
