# SPDX-License-Identifier: Apache-2.0
"""The native agent in processes of every kind: what the user sees is unchanged, and what happened
is in the traces.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import time

import pytest
from native import JOB, LIBRARY, RUN_ID, Run, bare, clean_environment

MODES = [
    "plain",
    "names",
    "threads",
    "forks",
    "grandchild",
    "leave",
    "leave-iso",
    "leave-quickly",
    "leave-from-handler",
    "twice",
    "vforks",
    "raw-clone",
    "errno",
    "cancelled",
]


def outcome(result):
    return result.returncode, result.stdout, result.stderr


def same_as_bare(run, *argv, **options):
    armed = run.start(*argv, **options)
    assert outcome(armed) == outcome(bare(*argv, **options))
    return armed


@pytest.mark.parametrize("mode", MODES)
def test_what_the_user_sees_is_unchanged(tmp_path, mode):
    if mode == "leave-from-handler":  # without an agent it is the handler as well that ends it
        assert Run(tmp_path).start(JOB, mode).returncode == 11
    else:
        same_as_bare(Run(tmp_path), JOB, mode)


def test_records_of_a_plain_program(tmp_path):
    run = Run(tmp_path)
    assert same_as_bare(run, JOB, "plain").returncode == 7
    trace = run.traces()["main"]
    assert trace.header["run_id"] == RUN_ID and trace.header["closed"] and trace.header["tail"] == 0
    assert [s["records"] for s in trace.steps] == [2] * 5
    batches = [r for r in trace.records if r["kind"] == "batch"]
    assert [(r["step"], r["name"], r["shape"], r["dtype"], r["phase"]) for r in batches] == [
        (s, "x", [16, 16], "f32", "data") for s in range(5)
    ]
    # sum of v + i over i < 256, and each step's values differ
    assert [r["stats"]["sum"] for r in batches] == [256 * s + 255 * 256 / 2 for s in range(5)]
    assert len({r["digest"] for r in batches}) == 5
    # equal bytes under another name and shape: equal raw digest
    assert [r["digest"] for r in trace.records if r["kind"] == "weight"] == [
        r["digest"] for r in batches
    ]
    assert all(
        r["site"].endswith(" in step") and "native_job.c:" in r["site"] for r in trace.records
    )


def test_names_scopes_and_bad_tensors(tmp_path):
    run = Run(tmp_path)
    same_as_bare(run, JOB, "names")
    records = run.traces()["main"].records
    by_name = {}
    for r in records:
        by_name.setdefault(r["name"], []).append(r)
    kinds = [(r["phase"], r["kind"], r["name"]) for r in records[:7]]
    assert kinds == [
        ("init", "weight", "w"),
        ("forward", "loss", "loss"),
        ("backward", "gradient", "w"),
        ("backward", "gradient (local)", "w"),
        ("output", "value", "plain"),
        ("output", "value", "odd:prefix"),
        ("data", "batch", "batch"),
    ]
    assert records[3]["offset"] == 8 and records[3]["flags"] & 4
    assert [r["occurrence"] for r in by_name["n" * 299]] == [0, 1]
    scopes = [r["scope"] for r in by_name["scoped"]]
    assert scopes == ["outer/outer", "outer"]
    assert "reused" in by_name and "again" in by_name
    assert by_name["no place"][0]["site"] == ""
    for bad in ("missing", "no shape", "deep", "dtype"):
        assert by_name[bad][0]["flags"] & 64, bad  # TWIN_REC_UNOBSERVED
    assert not by_name["transposed"][0]["flags"] & 64
    # 16 x 16 transposed: the same elements in another order
    assert by_name["transposed"][0]["shape"] == [16, 16]


def test_threads_keep_their_roles(tmp_path):
    run = Run(tmp_path)
    same_as_bare(run, JOB, "threads")
    trace = run.traces()["main"]
    assert trace.steps[0]["records"] == 4000
    for i in range(8):
        mine = [r for r in trace.records if r["role"] == f"worker {i}"]
        assert [r["occurrence"] for r in mine] == list(range(500))
        assert [r["stats"]["sum"] for r in mine] == list(range(500))


def test_threads_give_equal_traces(tmp_path):
    """Whatever the threads' timing, what was observed is the same: key and value, sequence left
    out.
    """
    seen = []
    for i in range(3):
        run = Run(tmp_path / str(i))
        run.start(JOB, "threads")
        seen.append(
            sorted(
                (r["role"], r["name"], r["occurrence"], r["digest"])
                for r in run.traces()["main"].records
            )
        )
    assert seen[0] == seen[1] == seen[2]


def test_forked_children_have_their_own_files(tmp_path):
    run = Run(tmp_path)
    same_as_bare(run, JOB, "forks")
    traces = run.traces()
    assert set(traces) == {"main", "child 1", "child 2"}
    assert all(t.header["closed"] for t in traces.values())
    assert [r["stats"]["sum"] - 32640 for r in traces["main"].records] == [256, 256, 512, 512]
    assert [r["stats"]["sum"] - 32640 for r in traces["child 1"].records] == [
        2560,
        2560,
        2816,
        2816,
    ]
    assert traces["child 2"].header["steps"] == 2
    # the third child recorded nothing, and is known to be armed all the same
    assert len({pid for pid, *_ in run.processes()}) == 4


def test_grandchildren(tmp_path):
    run = Run(tmp_path)
    same_as_bare(run, JOB, "grandchild")
    traces = run.traces()
    assert set(traces) == {"child 1", "child 1.1"}
    assert all(t.header["closed"] and t.header["steps"] == 1 for t in traces.values())


@pytest.mark.parametrize("mode,steps", [("leave", 2), ("leave-iso", 1), ("leave-quickly", 1)])
def test_leaving_without_destructors_seals(tmp_path, mode, steps):
    run = Run(tmp_path)
    same_as_bare(run, JOB, mode)
    trace = run.traces()["main"]
    assert trace.header["closed"] and trace.header["steps"] == steps


def test_exit_from_a_signal_handler_inside_a_record(tmp_path):
    for i in range(5):
        run = Run(tmp_path / str(i))
        assert run.start(JOB, "leave-from-handler", timeout=20).returncode == 11
        # the drain thread may have been in the middle of a block, as under SIGKILL
        trace = run.traces(whole=False)["main"]
        assert len(trace.records) > 0


def test_what_was_sealed_survives_abort(tmp_path):
    run = Run(tmp_path)
    assert run.start(JOB, "crash").returncode == -signal.SIGABRT
    trace = run.traces()["main"]
    assert not trace.header["closed"] and trace.header["steps"] == 1 and len(trace.records) == 2


def test_records_after_close_are_ignored(tmp_path):
    run = Run(tmp_path)
    same_as_bare(run, JOB, "twice")
    trace = run.traces()["main"]
    assert trace.header["closed"] and trace.header["steps"] == 1
    assert run.slots()[0]["state"] == 2


def test_exec_seals_and_the_new_image_has_its_own_file(tmp_path):
    run = Run(tmp_path)
    result = run.start(JOB, "replace", JOB)
    assert (result.returncode, result.stdout) == (7, b"failed 1\nplain\n")
    files = sorted(os.listdir(tmp_path / "ranks"))
    pid = files[0].split(".")[1].split("-")[0]
    assert files == [f"0.{pid}-2.twt", f"0.{pid}.twt"]
    traces = {os.path.basename(t.path): t for t in run.traces().values()}
    before, after = traces[f"0.{pid}.twt"], traces[f"0.{pid}-2.twt"]
    assert before.header["steps"] == 2 and len(before.records) == 4
    assert after.header["closed"] and after.header["steps"] == 5
    assert [(p, a.split(" ")[0]) for p, _, _, a in run.processes()] == [
        (int(pid), JOB),
        (int(pid), "again"),
    ]


def test_vfork_children_leave_the_trace_alone(tmp_path):
    run = Run(tmp_path)
    same_as_bare(run, JOB, "vforks")
    trace = run.traces()["main"]
    assert trace.header["closed"] and trace.header["steps"] == 2


def test_a_raw_clone_never_writes_into_its_parents_trace(tmp_path):
    run = Run(tmp_path)
    same_as_bare(run, JOB, "raw-clone")
    trace = run.traces()["main"]
    assert trace.header["closed"] and trace.header["steps"] == 2
    assert [r["stats"]["sum"] - 32640 for r in trace.records] == [256, 256, 1024, 1024]
    assert any("raw clone" in line for line in run.lines("faults"))


def test_a_job_that_closes_every_descriptor(tmp_path):
    """Our file's number becomes the user's file's: nothing of ours may land in it."""
    run = Run(tmp_path / "run")
    own = str(tmp_path / "own")
    result = run.start(JOB, "closes-all", own)
    assert (result.returncode, result.stdout) == (0, b"mine\n")
    with open(own, "rb") as f:
        assert f.read() == b"mine"


def test_cancelled_threads_hold_no_lock(tmp_path):
    run = Run(tmp_path)
    same_as_bare(run, JOB, "cancelled")
    assert run.traces()["main"].header["steps"] == 50


# ---- the folder goes away


def interfere(run, tmp_path, action):
    job = subprocess.Popen(
        [JOB, "slow"],
        env=run.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert job.stdout.readline() == b"now\n"
    action()
    out, err = job.communicate(b"\n", timeout=120)
    assert (job.returncode, out, err) == (0, b"slow\n", b"")


def test_the_run_folder_is_removed_meanwhile(tmp_path):
    run = Run(tmp_path / "run")
    interfere(run, tmp_path, lambda: shutil.rmtree(tmp_path / "run"))


def test_the_progress_file_is_cut_meanwhile(tmp_path):
    run = Run(tmp_path / "run")
    interfere(run, tmp_path, lambda: os.truncate(tmp_path / "run" / "progress", 0))


def test_the_folder_cannot_be_written(tmp_path):
    run = Run(tmp_path / "run")
    shutil.rmtree(tmp_path / "run")
    same_as_bare(run, JOB, "plain")
    (tmp_path / "run").write_text("a file where a folder should be")
    same_as_bare(run, JOB, "plain")


def test_no_folder_for_traces_is_a_told_fault(tmp_path):
    run = Run(tmp_path)
    os.rmdir(tmp_path / "ranks")
    same_as_bare(run, JOB, "plain")
    assert any("recording is off" in line and "ranks" in line for line in run.lines("faults"))


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    if (
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], capture_output=True
        ).returncode
        != 0
    ):
        pytest.skip("mounting a small file system is not permitted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_the_disk_is_full(small_disk):
    run = Run(small_disk / "run")
    same_as_bare(run, JOB, "plain")

    def fill():
        with open(small_disk / "filler", "wb") as f:
            try:
                f.write(b"x" * (1 << 20))
            except OSError:
                pass

    run = Run(small_disk / "run2")
    interfere(run, None, fill)
    run = Run(small_disk / "run2")
    same_as_bare(run, JOB, "plain")


# ---- environment


def test_without_a_run_folder_nothing_happens(tmp_path):
    environment = clean_environment()
    environment.update(LD_PRELOAD=LIBRARY, TWINRUN_LEVEL="ops")
    result = subprocess.run(
        [JOB, "plain"], env=environment, capture_output=True, cwd=tmp_path, timeout=60
    )
    assert outcome(result) == outcome(bare(JOB, "plain"))
    assert os.listdir(tmp_path) == []


def test_no_file_before_the_first_record(tmp_path):
    run = Run(tmp_path)
    result = run.start("bash", "-c", "echo $((1 + 1)); true | cat; exit 3", preload=True)
    assert (result.returncode, result.stdout, result.stderr) == (3, b"2\n", b"")
    assert os.listdir(tmp_path / "ranks") == [] and not os.path.exists(tmp_path / "progress")
    assert any(argv == "cat" for *_, argv in run.processes())


@pytest.mark.parametrize(
    "variables,rank,world",
    [
        ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}, 3, 8),
        (
            {
                "OMPI_COMM_WORLD_RANK": "2",
                "OMPI_COMM_WORLD_SIZE": "4",
                "OMPI_COMM_WORLD_LOCAL_RANK": "0",
            },
            2,
            4,
        ),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, 1, 2),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "6", "SLURM_LOCALID": "1"}, 5, 6),
        ({"RANK": "1", "WORLD_SIZE": "2", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, 1, 2),
        ({"LOCAL_RANK": "7"}, 0, 1),
        ({"RANK": "x", "WORLD_SIZE": "2"}, 0, 1),
        ({"RANK": "4", "WORLD_SIZE": "2"}, 4, 5),
    ],
)
def test_rank_comes_from_the_launcher(tmp_path, variables, rank, world):
    run = Run(tmp_path, **variables)
    run.start(JOB, "plain")
    header = run.traces()["main"].header
    assert (header["rank"], header["world"]) == (rank, world)
    assert os.listdir(tmp_path / "ranks")[0].startswith(f"{rank}.")


def test_stops_after_the_wanted_steps(tmp_path):
    run = Run(tmp_path, TWINRUN_STEPS=3)
    same_as_bare(run, JOB, "plain")
    trace = run.traces()["main"]
    assert trace.header["closed"] and trace.header["steps"] == 3 and len(trace.records) == 6
    assert run.slots()[0]["steps"] == 3


def test_level_steps_keeps_batches_weights_and_loss_without_statistics(tmp_path):
    run = Run(tmp_path, TWINRUN_LEVEL="steps")
    same_as_bare(run, JOB, "names")
    records = run.traces()["main"].records
    assert {"loss", "batch", "weight", "value"} == {r["kind"] for r in records}
    assert not any("stats" in r for r in records)


@pytest.mark.parametrize("every,steps", [(None, [0]), (2, [0, 2, 4]), (0, [])])
def test_sketches(tmp_path, every, steps):
    run = Run(tmp_path, **({} if every is None else {"TWINRUN_SKETCH_EVERY": every}))
    run.start(JOB, "plain")
    assert sorted({r["step"] for r in run.traces()["main"].records if r["flags"] & 2}) == steps


def test_progress(tmp_path):
    run = Run(tmp_path, RANK="2", WORLD_SIZE="4")
    run.start(JOB, "plain")
    (slot,) = run.slots()
    assert (
        slot["rank"],
        slot["steps"],
        slot["records"],
        slot["dropped"],
        slot["state"],
        slot["kind"],
    ) == (2, 5, 10, 0, 2, 1)
    assert 0 < slot["observer_ns"] < 1e9


def test_more_processes_than_slots(tmp_path):
    run = Run(tmp_path)
    for _ in range(66):  # slots of processes that have closed are taken again
        run.start(JOB, "twice")
    assert len(run.slots()) == 64
    assert len(os.listdir(tmp_path / "ranks")) == 66


def test_a_slot_that_another_process_takes_at_this_moment(tmp_path):
    """It is passed over, whatever holds that process up: nobody goes without a slot for it (--steps
    would wait for ever).
    """
    run = Run(tmp_path)
    with open(tmp_path / "progress", "wb+") as f:
        f.truncate(64 * 64)
        fcntl.flock(f, fcntl.LOCK_EX)
        fcntl.lockf(f, fcntl.LOCK_EX, 64, 0)
        run.start(JOB, "plain")
        (slot,) = run.slots()
        assert slot["steps"] == 5 and f.read(64) == bytes(64)


def test_progress_is_visible_while_the_job_runs(tmp_path):
    run = Run(tmp_path)
    job = subprocess.Popen(
        [JOB, "slow"], env=run.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert job.stdout.readline() == b"now\n"
    deadline = time.monotonic() + 30
    while run.slots()[0]["steps"] != 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    (slot,) = run.slots()
    assert slot["pid"] == job.pid and slot["steps"] == 4 and slot["state"] == 1
    job.communicate(b"\n", timeout=120)


def test_control_characters_and_long_arguments(tmp_path):
    run = Run(tmp_path)
    run.start(JOB, "plain", "a\nb\x1b[31m", "x" * 100000)
    (line,) = run.lines("processes")
    assert len(line) < 4000 and "a?b?[31m" in line
