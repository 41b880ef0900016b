# SPDX-License-Identifier: Apache-2.0
"""What users do to it: odd commands, failing jobs, full disks. Each gets a clear message and the
right exit code.
"""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import FULL, alive, clean_environment, library_python

# A training script that every test below varies: BEFORE runs once, EACH after every step. It
# updates its weights by hand, because the first optimizer of a process imports PyTorch's compiler,
# as long again as PyTorch itself; jobs with optimizers are those of torch_jobs and ghosts.
TRAIN = """\
import torch
from torch import nn
{before}
torch.manual_seed(0)
x = torch.randn(256, 8)
y = x.sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
for step in range({steps}):
    xb, yb = x[step % 8 * 32:step % 8 * 32 + 32], y[step % 8 * 32:step % 8 * 32 + 32]
    loss = nn.functional.mse_loss(model(xb), yb)
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.05 * p.grad
    {each}
print(f"loss {{loss.item():.6f}}", flush=True)
{after}
"""


@pytest.fixture
def train(script, light):
    """train(name, before=, each=, after=, steps=) writes a training script into the job's working
    folder. What PyTorch imports for its compiler alone is left out there (conftest.light).
    """

    def write(name="train.py", before="", each="pass", after="", steps=12):
        return script(name, TRAIN.format(before=before, each=each, after=after, steps=steps))

    return write


def assert_same(done):
    assert done.json["outcome"] == "same" and done.rc == 0, done


def runs_of(home):
    """Run folders of a home, oldest first."""
    return sorted(
        (home / "runs").iterdir(),
        key=lambda folder: json.loads((folder / "run.json").read_text())["start_realtime_ns"]
        if "start_realtime_ns" in (folder / "run.json").read_text()
        else folder.name,
    )


# ---------------------------------------------------------------- commands in disguise


def test_shell_with_cd_and_pipe(twinrun, train, python, work):
    train("x/train.py")
    done = twinrun(
        "check", "--json", "--runs", "2", "--", "bash", "-c", f"cd x && {python} train.py | tee log"
    )
    assert_same(done)
    assert (work / "x" / "log").read_text().startswith("loss "), done


def test_env_and_isolated_python(twinrun, train, python):
    """-I ignores PYTHONPATH: the agent has to come in by the preloaded library."""
    train(before="import os\nassert os.environ['A'] == 'b'")
    assert_same(
        twinrun("check", "--json", "--runs", "2", "--", "env", "A=b", python, "-I", "train.py")
    )


def test_isolated_python_without_site(twinrun, train, python, run):
    train(before="import sys\nassert sys.flags.no_site")
    path = run(
        [python, "-c", "import sys, torch; print(torch.__path__[0].rsplit('/', 1)[0])"]
    ).out.strip()
    assert_same(
        twinrun(
            "check",
            "--json",
            "--runs",
            "2",
            "--",
            python,
            "-S",
            "train.py",
            env={"PYTHONPATH": path},
        )
    )


def test_module(twinrun, train, script, python):
    script("pkg/__init__.py", "")
    train("pkg/train.py")
    assert_same(twinrun("check", "--json", "--runs", "2", "--", python, "-m", "pkg.train"))


def test_every_run_reads_the_same_stdin(twinrun, train, python):
    train(
        before="import sys\ntext = sys.stdin.read()\nassert text == 'seed 7\\n' * 5000, len(text)"
    )
    done = twinrun("check", "--json", "--", python, "train.py", stdin=b"seed 7\n" * 5000)
    assert_same(done)


def test_warnings_as_errors(twinrun, train, python):
    train()
    done = twinrun("check", "--json", "--runs", "2", "--", python, "-W", "error", "train.py")
    assert_same(done)
    assert all((Path(d) / "stderr").read_bytes() == b"" for d in done.json["runs_dir"])


def test_compiled_under_warnings_as_errors(twinrun, script, python, tmp_path):
    """Hooks inside OptimizedModule.__call__ would raise a UserWarning. The eager backend needs no
    compiler.
    """
    script(
        "train.py",
        """
        import torch, warnings
        torch.manual_seed(0)
        model = torch.compile(torch.nn.Linear(4, 1), backend="eager")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        warnings.simplefilter("error")
        for step in range(5):
            loss = model(torch.randn(8, 4)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(loss.item())
    """,
    )
    native = subprocess.run(
        [python, "train.py"], cwd=tmp_path / "work", capture_output=True, env=clean_environment()
    )
    assert native.returncode == 0, native.stderr
    done = twinrun("record", "-q", "--", python, "train.py")
    assert (done.rc, done.raw_out, done.raw_err) == (0, native.stdout, native.stderr), done


# ---------------------------------------------------------------- files that runs share


def test_checkpoint_to_the_same_path(twinrun, train, python):
    """Each run overwrites the file of the one before. Its evidence is kept by digest, so the runs
    are the same, and there is nothing to say of it.
    """
    train(after='torch.save(model.state_dict(), "last.pt")')
    done = twinrun("check", "--json", "--runs", "2", "--", python, "train.py")
    assert done.rc == 0 and done.json["outcome"] == "same", done
    kept = [
        json.loads((Path(run) / "run.json").read_text())["files"] for run in done.json["runs_dir"]
    ]
    assert [[f["path"] for f in files] for files in kept] == [["last.pt"], ["last.pt"]], kept
    assert "--fresh-dir" not in done.out + done.err, done


RESUMING = dict(
    before="import os",
    each='(model.load_state_dict(torch.load("last.pt")) if step == 0 and os.path.exists("last.pt") else None)',
    after='torch.save(model.state_dict(), "last.pt")',
)


def test_a_seed_behind_the_first_record(twinrun, train, python):
    """PyTorch seeds itself from the system, and the first file that a job saves is its first
    record. What the job draws after its own seed is equal; what it drew before shows where it went.
    """
    train(before="torch.save(torch.zeros(3), 'data.pt')", steps=4)
    done = twinrun("check", "--json", "--", python, "train.py")
    assert_same(done)
    said = "generator torch.cpu differs at the start, and agrees after user code moved it"
    assert [note for note in done.json["notes"] if said in note], done
    early = "torch.save(torch.zeros(3), 'data.pt'); early = torch.randn(8)"
    train("early.py", before=early, each="x += early", steps=4)
    done = twinrun("check", "--json", "--no-zoom", "--", python, "early.py")
    assert done.json["outcome"] == "differ" and done.rc == 1, done


def test_job_that_resumes_by_itself_differs(twinrun, train, python):
    """Run 2 starts from what run 1 left: a real difference, and the shared file is named."""
    train(**RESUMING)
    done = twinrun("check", "--", python, "train.py")
    assert done.rc == 1 and done.out.startswith("DIFFER"), done
    assert "last.pt" in done.out + done.err and "--fresh-dir" in done.out + done.err, done


def test_fresh_dir_keeps_runs_apart(twinrun, train, python, work):
    train(**RESUMING)
    assert_same(twinrun("check", "--json", "--fresh-dir", "--runs", "2", "--", python, "train.py"))
    assert not (work / "last.pt").exists()


# ---------------------------------------------------------------- jobs that end badly


def test_fails_in_run_two_only(twinrun, train, python):
    """A finding, not trouble: the outcome differs, and it is said where the records of run 2
    stopped.
    """
    train(
        before='import os, sys\nsecond = os.path.exists("ran"); open("ran", "w").close()',
        each="if second and step == 5: sys.exit(7)",
    )
    done = twinrun("check", "--json", "--", python, "train.py")
    assert done.json["outcome"] == "differ" and done.rc == 1, done
    text = twinrun("diff", *done.json["runs_dir"][:2])
    assert re.search(r"exit code 7\b", text.out) and re.search(r"step\s+[56]\b", text.out), text


def test_fails_every_time(twinrun, train, python):
    train(each="if step == 5: raise RuntimeError('no such thing')")
    done = twinrun("check", "--runs", "2", "--", python, "train.py")
    assert (
        done.rc == 2 and done.out.startswith("ERROR") and "no such thing" in done.out + done.err
    ), done


def test_killed_by_a_signal_every_time(twinrun, train, python):
    # The pause: what is recorded is sealed after 250 ms at the latest, and only what was sealed
    # survives.
    train(
        before="import os, signal, time",
        each="(time.sleep(1), os.kill(os.getpid(), signal.SIGKILL)) if step == 6 else None",
    )
    done = twinrun("check", "--json", "--runs", "2", "--", python, "train.py")
    assert done.json["outcome"] == "error" and done.rc == 2, done
    recorded = twinrun("record", "--", python, "train.py")
    assert recorded.rc == 128 + signal.SIGKILL, recorded
    shown = twinrun("show", "last")
    # 0 to 5: an update by hand is seen to be done when the next forward starts
    assert shown.rc == 0 and re.search(r"\b6 steps\b", shown.out), shown


def test_killed_in_run_two_only(twinrun, train, python):
    train(
        before='import os, signal\nsecond = os.path.exists("ran"); open("ran", "w").close()',
        each="os.kill(os.getpid(), signal.SIGSEGV) if second and step == 5 else None",
    )
    done = twinrun("check", "--json", "--", python, "train.py")
    assert done.json["outcome"] == "differ" and done.rc == 1, done
    text = twinrun("diff", *done.json["runs_dir"][:2])
    assert re.search(r"SIGSEGV|signal 11|[Ss]egmentation", text.out), text


@pytest.mark.parametrize("code", [0, 3, 255])
def test_record_exits_with_the_jobs_code(code, twinrun, script, python):
    script("job.py", f"import sys; print('out'); print('err', file=sys.stderr); sys.exit({code})")
    done = twinrun("record", "-q", "--", python, "job.py")
    assert (done.rc, done.raw_out, done.raw_err) == (code, b"out\n", b"err\n"), done


def test_missing_program(twinrun, home):
    done = twinrun("check", "--", "no-such-program-here", "--flag")
    assert done.rc == 2 and "no-such-program-here" in done.err + done.out, done
    assert "Traceback" not in done.err
    recorded = twinrun("record", "--", "no-such-program-here")
    assert recorded.rc == 127 and "no-such-program-here" in recorded.err, recorded


def test_program_that_is_not_executable(twinrun, work):
    (work / "data.txt").write_text("text\n")
    recorded = twinrun("record", "--", "./data.txt")
    assert recorded.rc == 126 and "data.txt" in recorded.err, recorded


@pytest.mark.parametrize("command", ["check", "record"])
def test_interrupted(command, build, start, train, python, work, home):
    """Ctrl-C in the middle: exit 130, no child left, the trace so far readable."""
    train(
        steps=100_000,
        before="import os, time\nopen('pid', 'w').write(str(os.getpid()))\nsteps = open('steps', 'w', 1)",
        each="print(step, file=steps); time.sleep(0.05)",
    )
    env = clean_environment({"TWINRUN_HOME": str(home)})
    process = start(
        [build / "cmd" / "twinrun", command, "--", python, "train.py"], cwd=work, env=env
    )
    deadline = time.monotonic() + 60  # 20 steps take a second: the first of them are sealed by then
    while time.monotonic() < deadline and not (
        (work / "steps").exists() and (work / "steps").read_text().count("\n") >= 20
    ):
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, (process.returncode, out, err)
    pid = int((work / "pid").read_text())
    for _ in range(50):
        if not alive(pid):
            break
        time.sleep(0.1)
    assert not alive(pid), f"job {pid} outlived its check: {err}"
    shown = subprocess.run(
        [build / "cmd" / "twinrun", "show", "last"],
        capture_output=True,
        text=True,
        env=env,
        cwd=work,
    )
    assert shown.returncode == 0, shown
    steps = [
        int(n)
        for n in re.findall(r"(\d[\d,]*) (?:finished )?steps?", shown.stdout.replace(",", ""))
    ]
    assert steps and max(steps) >= 1, shown.stdout


# ---------------------------------------------------------------- jobs that show little or too much


def test_prints_very_much(twinrun, script, python, tmp_path):
    """Everything is passed on unchanged, whatever the cap of what is stored. 1 GB with
    TWINRUN_FULL=1.
    """
    megabytes = 1024 if FULL else 96
    script(
        "job.py",
        f"""
        import sys
        for i in range({megabytes} * 16):
            sys.stdout.buffer.write((b"%7d " % i) * 8192)
    """,
    )
    want = hashlib.sha256()
    for i in range(megabytes * 16):
        want.update((b"%7d " % i) * 8192)
    done = twinrun("record", "--", python, "job.py", timeout=500)
    assert done.rc == 0 and len(done.raw_out) == megabytes << 20, (
        done.rc,
        len(done.raw_out),
        done.err[-500:],
    )
    assert hashlib.sha256(done.raw_out).hexdigest() == want.hexdigest()
    run_json = json.loads(next(tmp_path.glob("home/runs/*/run.json")).read_text())
    assert want.hexdigest() in json.dumps(run_json), "digest of the whole output not in run.json"


def test_never_steps(twinrun, script, python):
    """Nothing was captured: `inconclusive`, never `same`, and it is said what was not seen."""
    script("job.py", "import torch, time\ntime.sleep(0.5)\nprint('done')")
    done = twinrun("check", "--runs", "2", "--", python, "job.py")
    assert done.rc == 3 and done.out.startswith("INCONCLUSIVE"), done
    assert re.search(r"step|tensor|batch|weight", done.out), done


def test_not_python_and_not_instrumented(twinrun):
    done = twinrun("check", "--json", "--", "sh", "-c", "echo hello")
    assert done.json["outcome"] == "inconclusive" and done.rc == 3, done


def test_output_is_evidence_of_last_resort(twinrun, script, python):
    """Nothing but the printed numbers differs: `differ`, and the line is named. Times and pids are
    noise.
    """
    script(
        "job.py",
        """
        import os, random, time
        print("pid", os.getpid(), "at", time.strftime("%H:%M:%S"), f"took {time.perf_counter():.3f} s")
        print(f"final accuracy {random.random():.9f}")
    """,
    )
    done = twinrun("check", "--json", "--", python, "job.py")
    assert done.json["outcome"] == "differ" and done.rc == 1, done
    assert done.json["first"]["phase"] == "output" and "accuracy" in json.dumps(
        done.json["first"]
    ), done


def test_times_and_pids_are_noise(twinrun, train, python):
    train(
        before="import os, time",
        each="print(f\"{time.strftime('%Y-%m-%d %H:%M:%S')} [{os.getpid()}] step {step} "
        'took {time.perf_counter():.4f}s loss {loss.item():.5f}")',
    )
    assert_same(twinrun("check", "--json", "--runs", "2", "--", python, "train.py"))


def test_daemon_left_behind(twinrun, train, python, work):
    """A process that outlives the job, its output closed or not, must not make the check wait; it
    is reported, not killed.
    """
    train(
        before="import subprocess",
        after="""
daemon = subprocess.Popen(["sleep", "3000"], start_new_session=True)
open("daemon", "a").write(f"{daemon.pid}\\n")
""",
    )
    done = twinrun("check", "--runs", "2", "--", python, "train.py")
    pids = [int(line) for line in (work / "daemon").read_text().split()]
    left = [pid for pid in pids if alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert done.rc == 0, done
    assert left == pids and len(pids) == 2, "the check waited for a daemon, or killed it"
    assert "sleep" in done.out + done.err or str(pids[0]) in done.out + done.err, done


def test_asan_job(twinrun, work, run):
    """An ASan-built program refuses foreign preloads: said, and the job goes on without
    the agent.
    """
    (work / "job.c").write_text(
        '#include <stdio.h>\nint main(void) { puts("trained"); return 0; }\n'
    )
    if (
        shutil.which("gcc") is None
        or run(["gcc", "-fsanitize=address", "-o", work / "job", work / "job.c"]).rc != 0
    ):
        pytest.skip("no gcc with -fsanitize=address")
    recorded = twinrun("record", "--", "./job")
    assert recorded.rc == 0 and recorded.raw_out == b"trained\n", recorded
    assert re.search(r"ASan|AddressSanitizer|sanitizer", recorded.err, re.I), recorded
    done = twinrun("check", "--", "./job")
    assert done.rc == 3 and re.search(
        r"ASan|AddressSanitizer|sanitizer", done.out + done.err, re.I
    ), done


def test_c_trainer_is_watched(twinrun, build):
    """The embedded trainer needs no Python at all."""
    trainer = build / "workloads" / "trainer"
    if not trainer.exists():
        pytest.skip("workloads/trainer was not built")
    done = twinrun("check", "--json", "--runs", "2", "--", trainer, "--ordered")
    assert_same(done)


# ---------------------------------------------------------------- homes and traces in bad shape


def test_home_that_cannot_be_made(twinrun, train, python, work):
    train()
    for home in ("/proc/nowhere", str(work / "train.py")):
        done = twinrun("check", "--home", home, "--", python, "train.py")
        assert done.rc == 2 and home in done.err and "--home" in done.err, done


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MB, where this user may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True
        ).returncode
    ):
        pytest.skip("may not mount a small file system here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_home_that_is_full(twinrun, train, python, small_disk):
    """The job's output and exit code stand; what could not be kept is said, and never called the
    same.
    """
    train(steps=200, each='print("x" * 10000)')
    (small_disk / "filler").write_bytes(b"0" * 600_000)
    recorded = twinrun("record", "--home", small_disk / "home", "--", python, "train.py")
    assert (
        recorded.rc == 0 and recorded.out.count("x" * 10000) == 200 and "loss" in recorded.out
    ), recorded
    assert re.search(r"space|full|lost|ENOSPC|cannot write", recorded.err, re.I), recorded
    (small_disk / "filler").unlink()
    shutil.rmtree(small_disk / "home", ignore_errors=True)
    done = twinrun("check", "--json", "--home", small_disk / "home", "--", python, "train.py")
    assert done.rc in (2, 3), done


def test_home_that_is_read_only(twinrun, train, python, small_disk):
    train()
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    done = twinrun("check", "--home", small_disk / "home", "--", python, "train.py")
    assert done.rc == 2 and re.search(r"[Rr]ead-only", done.err), done
    recorded = twinrun("record", "--home", small_disk / "home", "--", python, "train.py")
    assert (
        recorded.rc == 0
        and recorded.out.startswith("loss")
        and re.search(r"[Rr]ead-only", recorded.err)
    ), recorded


def test_trace_damaged_or_of_another_version(twinrun, train, python, home):
    """Cut short or with a hole in it: what is lost is unknown, never a finding, never a crash; and
    --verify sees it.
    """
    train()
    for _ in range(2):
        assert twinrun("record", "--", python, "train.py").rc == 0
    folders = runs_of(home)
    trace = next((folders[1] / "ranks").glob("*.twt"))
    whole = trace.read_bytes()
    later = bytearray(whole)
    # version and least version of a reader: docs/format/trace.md
    later[12:16] = (99).to_bytes(2, "little") * 2
    trace.write_bytes(later)
    done = twinrun("diff", *folders)
    assert done.rc in (2, 3) and re.search(r"version\s+99", done.out + done.err), done
    for damaged in (whole[: len(whole) // 2], whole[:512], whole[:100], b""):
        trace.write_bytes(damaged)
        done = twinrun("diff", *folders)
        assert done.rc in (2, 3), f"{len(damaged)} of {len(whole)} bytes: {done}"
    # A hole leaves the value hashes of later blocks, which cover every step; altered bytes are no
    # evidence for "same" all the same.
    trace.write_bytes(whole[:2000] + bytes(3000) + whole[5000:])
    assert twinrun("show", folders[1], "--verify").rc == 1
    assert twinrun("diff", *folders).rc == 3
    trace.write_bytes(whole)
    assert twinrun("show", folders[1], "--verify").rc == 0
    assert twinrun("diff", *folders).rc == 0


def test_two_checks_at_once(build, start, train, python, work, home):
    train()
    env = clean_environment({"TWINRUN_HOME": str(home)})
    both = [
        start(
            [build / "cmd" / "twinrun", "check", "--json", "--runs", "2", "--", python, "train.py"],
            cwd=work,
            env=env,
        )
        for _ in range(2)
    ]
    for process in both:
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0 and json.loads(out)["outcome"] == "same", (
            process.returncode,
            out,
            err,
        )
    assert len(runs_of(home)) == 4


def test_unarmed_process_is_reported(twinrun, train, python):
    """`env -i` drops the environment and with it the agent: reported by pid and command, never
    passed over.
    """
    train()
    done = twinrun(
        "check", "--json", "--runs", "2", "--", "env", "-i", "HOME=/tmp", python, "train.py"
    )
    assert done.json["outcome"] == "inconclusive" and done.rc == 3, done
    assert any("train.py" in item for item in done.json["observer"]["unarmed"]), done


# ---------------------------------------------------------------- frameworks from PyPI


def test_hugging_face_trainer(twinrun, script, python, run):
    program = library_python(python, run, "transformers", "accelerate")
    script(
        "train.py",
        """
        import torch
        from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

        set_seed(1)
        config = BertConfig(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                            intermediate_size=64, max_position_embeddings=32)
        ids = torch.randint(0, 100, (96, 12))
        data = [{"input_ids": row, "attention_mask": torch.ones(12, dtype=torch.long), "labels": int(row[0]) % 2} for row in ids]
        args = TrainingArguments("out", max_steps=12, per_device_train_batch_size=8, logging_steps=4, save_steps=6,
                                 report_to=[], use_cpu=True, disable_tqdm=True)
        Trainer(BertForSequenceClassification(config), args, train_dataset=data).train()
    """,
    )
    done = twinrun("check", "--json", "--runs", "2", "--", program, "train.py", timeout=500)
    assert_same(done)
