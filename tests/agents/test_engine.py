# SPDX-License-Identifier: Apache-2.0
"""Runs that an engine makes (--on cmd): where they were, what becomes of runs that are lost, and
that an engine which lies, repeats, or mixes up what it was given never changes a verdict.
"""

import json
import os
import signal
import sys
import time

import pytest
from job_pool import counts_its_starts

JOB = """
import array, os, sys, time
import twinrun
node = os.environ.get("SLURMD_NODENAME") or os.environ.get("TWINRUN_NODE", "")
bad = node in os.environ.get("BAD_NODES", "").split(",") and node
if "BEGUN" in os.environ:
    open(os.environ["BEGUN"] + os.path.basename(os.environ["TWINRUN_RUN_DIR"]), "w").close()
time.sleep(float(os.environ.get("JOB_S", "0")))
state = array.array("d", [0.5, 0.25, 0.125])
for step in range(6):
    batch = array.array("d", [float(step), 1.0])
    twinrun.record("batch:x", batch)
    for i in range(len(state)):
        state[i] = state[i] * 0.9 + 0.01 * batch[0] + (1e-9 if bad and step == 2 else 0.0)
    twinrun.record("weight:w", state)
    twinrun.step()
print("sum %r" % sum(state), *sys.argv[1:])
"""

# A template whose n-th call (from 0) does what the case says, and else runs the run.
COUNTED = (
    "n=$(cat {count} | wc -c); printf x >> {count}; d=$(dirname {{script}}); case $n in {case} esac"
)
# In the background, until its job runs: what happens to it happens to a run, and not to a start.
BEGUN = (
    "{command} & p=$!; "
    "until [ -e $d/dir ] && [ -e $BEGUN$(basename $(cat $d/dir)) ]; do sleep 0.05; done; "
)


@pytest.fixture
def check(twinrun, script, tmp_path):
    """check(template, ...options, job=[...]) -> Result of `twinrun check --on cmd:template`."""
    script("job.py", JOB)

    def call(template, *options, job=(), runs=3, env=None, **kwargs):
        return twinrun(
            *(
                "check",
                "--json",
                "--no-cases",
                "--no-zoom",
                "--runs",
                runs,
                "--on",
                f"cmd:{template}",
            ),
            *options,
            *("--", sys.executable, "job.py", *job),
            env={"TWINRUN_ENGINE_GRACE": "0.5", "BEGUN": f"{tmp_path}/begun.", **(env or {})},
            **kwargs,
        )

    call.counted = lambda case: COUNTED.format(
        count=tmp_path / "count", case=case + " *) {command};;"
    )
    (tmp_path / "count").write_text("")
    return call


def notes(done):
    return "\n".join(done.json["notes"])


def nodes_of(home):
    found = {}
    for folder in (home / "runs").iterdir():
        run = json.loads((folder / "run.json").read_text())
        if "outcome" in run:
            found[folder.name] = run["node"]["name"]
    return found


def nothing_left(home):
    """No ticket: an order holds the whole environment of the caller."""
    return not list((home / "engine").iterdir())


def test_runs_are_those_of_this_machine(check, home):
    done = check("{command}", runs=3)
    assert done.rc == 0 and done.json["outcome"] == "same", done
    assert "the runs were made by cmd on 1 node" in notes(done)
    assert len(nodes_of(home)) == 3 and nothing_left(home)
    run = json.loads(next((home / "runs").glob("*/run.json")).read_text())
    assert run["node"]["engine"] == "cmd" and run["node"]["attempt"] == 1


def test_nobody_else_reads_an_order(check, script, tmp_path):
    """It holds the whole environment of the caller, and is gone when the job begins."""
    seen, ticket = tmp_path / "seen", tmp_path / "ticket"
    look = f"dirname {{script}} > {ticket}; d=$(cat {ticket}); "
    look += f"stat -c %a $d/order $d/../.. >> {seen}; {{command}}"
    script(
        "job.py",
        "import os, sys\n"
        "names = os.listdir(open(sys.argv[1]).read().strip())\n"
        "with open(sys.argv[2], 'a') as seen:\n"
        "    print(*names, file=seen)",
    )
    done = check(look, "--slots", 1, runs=2, job=[ticket, seen])
    names = seen.read_text().split()
    assert names.count("600") == 2 and names.count("700") == 2, (names, done)
    assert names.count("run.sh") == 2 and "order" not in names, (names, done)


def test_side_by_side_on_hosts(check, home):
    done = check(": {host}; {command}", "--hosts", "n1,n2,n3,n4", runs=9, env={"JOB_S": "1.5"})
    assert done.rc == 0 and done.json["outcome"] == "same", done
    assert set(nodes_of(home).values()) == {"n1", "n2", "n3", "n4"}
    runs = [json.loads(p.read_text()) for p in home.glob("runs/*/run.json")]
    spans = [
        (r["start_realtime_ns"] / 1e9, r["start_realtime_ns"] / 1e9 + r["wall_s"]) for r in runs
    ]
    # the first is made alone
    together = [sum(begin <= at < end for begin, end in spans) for at, _ in spans]
    assert 2 <= max(together) <= 4, sorted(spans)


def test_words_environment_and_folder_go_through(check, home, work, tmp_path):
    odd = ["a b", "it's", "$HOME", "`x`", "ü", "line\nbreak", "", "*"]
    home_of_blanks = tmp_path / "a home with ' and $"
    done = check(
        "sh -c {quoted}", job=odd, env={"TWINRUN_HOME": str(home_of_blanks), "BAD_NODES": "x y"}
    )
    assert done.rc == 0, done
    for run in (home_of_blanks / "runs").iterdir():
        assert (run / "stdout").read_text().endswith(" ".join(odd) + "\n")
        assert json.loads((run / "run.json").read_text())["launched_from"] == str(work)


def test_stdin_is_the_same_for_all(check, home, script):
    script("job.py", JOB + "print(sys.stdin.read())")
    done = check("{command}", stdin=b"some words\n")
    assert done.rc == 0, done
    assert all("some words" in (r / "stdout").read_text() for r in (home / "runs").iterdir())


def test_place(check, home):
    hosts = ("--hosts", "n1,n2,n3")
    done = check(": {host}; {command}", *hosts, "--place", "pin:n2")
    assert done.rc == 0 and set(nodes_of(home).values()) == {"n2"}, done
    assert "on 1 node: n2 (3)" in notes(done)


def test_same_type(check, home):
    """Hosts that had no run yet are of no other type, as far as anybody knows."""
    hosts = ("--hosts", "n1,n2,n3")
    done = check(": {host}; {command}", *hosts, "--place", "same-type", runs=7, env={"JOB_S": "1"})
    assert done.rc == 0 and set(nodes_of(home).values()) == {"n1", "n2", "n3"}, done


def test_a_node_that_computes_otherwise(check, home):
    done = check(
        ": {host}; {command}",
        *("--hosts", "n1,n2,n3,n4", "--all"),
        runs=16,
        env={"BAD_NODES": "n3", "JOB_S": "0.3"},
    )
    assert done.rc == 1 and done.json["first"]["step"] == 2, done
    there = [n["name"] for n in done.json["nodes"]].count("n3")
    assert f"only runs on node n3 diverge: {there} of {there} there, 0 of {16 - there}" in notes(
        done
    )
    assert ("an association" in notes(done)) == (there > 1), done
    advice = (
        "; an association, not a cause: what else goes with that node is not known (--place "
        "avoid:NODE leaves it out)"
    )
    if there == 1:
        advice = "; so few runs may do so by chance, more runs (--runs, with --all) tell"
    assert " elsewhere (Fisher's exact test, Holm over " in notes(done) and advice in notes(done)


def test_a_job_that_diverges_anywhere_is_no_nodes(check, script, tmp_path):
    # Every other start, by their order. By a coin for each of them a node would stand out in one
    # test of a hundred, and to say so would be right.
    job = JOB.replace("bad =", "bad = TURN in (0, 3, 4, 7, 8, 11) or").replace(
        "1e-9", "1e-9 * TURN"
    )
    script("job.py", counts_its_starts(tmp_path / "starts") + job)
    hosts = ("--hosts", "n1,n2,n3,n4")
    done = check(": {host}; {command}", *hosts, "--all", runs=12, env={"JOB_S": "0.3"})
    assert done.rc == 1 and "association" not in notes(done), done


# ---------------------------------------------------------------- what goes wrong


KILLED = BEGUN + "kill -9 $p;;"


def test_lost_runs_are_made_again(check, home):
    done = check(check.counted("1|3|4) " + KILLED), runs=4, env={"JOB_S": "2"})
    assert done.rc == 0 and done.json["outcome"] == "same", done
    assert "3 runs had to be made again and count for nothing: 3 lost" in notes(done)
    assert done.json["runs"] and nothing_left(home)


def test_runs_lost_at_random_change_no_verdict(check):
    lottery = "{command} & p=$!; if [ $(od -An -N1 -tu1 /dev/urandom) -lt 60 ]; then sleep 0.4; kill -9 $p; fi; wait $p"
    for env in ({}, {"BAD_NODES": "n2"}):
        done = check(
            lottery + "; : {host}",
            *("--hosts", "n1,n2,n3", "--all"),
            runs=6,
            env={"JOB_S": "0.8", **env},
        )
        # so many losses in a row are trouble, and trouble is no verdict
        if done.rc == 2:
            continue
        # a run that was lost on n2 is made again elsewhere: it may be that none of them counts
        kinds = {n["name"] == env.get("BAD_NODES") for n in done.json["nodes"]}
        assert done.json["outcome"] == ("differ" if len(kinds) == 2 else "same"), done


def test_a_run_that_is_always_lost_is_trouble(check):
    done = check("true {command}")
    assert done.rc == 2 and "a run was lost 4 times by cmd" in done.err, done
    assert done.json["outcome"] == "error"


def test_an_engine_that_starts_twice(check, script, home):
    # Each run goes on until its second start was noticed: one that comes when the run was already
    # fetched is nobody's loss, and not told.
    wait = f"""
import glob
while not glob.glob({str(home / "engine" / "*" / "*" / "*" / "again.*")!r}):
    time.sleep(0.01)
"""
    script("job.py", JOB.replace("state =", wait + "state =", 1))
    done = check("{command} & {command}; wait", "--max-time", "5m")
    assert done.rc == 0 and done.json["outcome"] == "same", done
    assert len(list((home / "runs").iterdir())) == 3  # the second start made none
    assert "started" in notes(done)
    assert " again by itself, although it was told not to; the second start" in notes(done)


def test_an_engine_that_requeues(check):
    requeue = BEGUN + "kill -9 $p; {command};;"
    done = check(check.counted("1) " + requeue), env={"JOB_S": "2"})
    assert done.rc == 0, done
    assert "1 that the engine started twice" in notes(done)


def test_half_a_result_is_none(check):
    torn = """printf '{"schema": "twinrun.result/1", "ticket": "' > $d/result.json;;"""
    done = check(check.counted("0|2) " + torn))
    assert done.rc == 0 and "2 lost" in notes(done), done


def test_a_result_of_an_earlier_attempt_is_none(check, tmp_path):
    kept = tmp_path / "kept"
    case = f"0) {{command}}; cp $d/result.json {kept};; 1|2) cp {kept} $d/result.json;;"
    done = check(check.counted(case))
    assert done.rc == 0 and "2 lost" in notes(done), done
    assert len(set(done.json["runs_dir"])) == 3


def test_a_run_folder_that_is_not_whole(check):
    """What the result says is not yet what the caller sees, and never will be."""
    # the caller stands still meanwhile: it never sees the folder of which the result tells
    spoil = "kill -STOP $PPID; {command}; r=$(cat $d/dir); "
    spoil += "rm -rf $r; mkdir -p $r/ranks; kill -CONT $PPID;;"
    done = check(check.counted("1) " + spoil))
    assert done.rc == 0 and done.json["outcome"] == "same", done
    assert "1 lost" in notes(done) and "its run folder is not what its result says" in notes(done)


def test_a_run_on_another_node(check, home):
    done = check(
        check.counted("1|2) TWINRUN_NODE=n9 {command};;") + "; : {host}",
        *("--hosts", "n1,n2"),
        env={"JOB_S": "0.2"},
    )
    assert done.rc == 0 and "2 on a wrong node" in notes(done), done


def test_preempted(check):
    done = check(check.counted("1) " + BEGUN + "kill -TERM $p; wait $p;;"), env={"JOB_S": "3"})
    assert done.rc == 0 and "ended by a signal from outside" in notes(done), done


def test_a_job_that_dies_is_no_loss(check, script):
    """What the job does to itself is its own, and is not repeated."""
    script("job.py", JOB + "os.kill(os.getpid(), 9)")
    done = check("{command}")
    assert done.rc == 2 and "SIGKILL" in done.err and "lost" not in done.err, done


def test_ctrl_c(check, build, start, home, script, work):
    script("job.py", JOB)
    process = start(
        [
            *(build / "cmd" / "twinrun", "check", "--on", "cmd:: {host}; {command}", "--runs", "6"),
            *("--hosts", "n1,n2", "--", sys.executable, "job.py"),
        ],
        cwd=work,
        env={**os.environ, "TWINRUN_HOME": str(home), "JOB_S": "3"},
    )
    until = time.monotonic() + 60
    while len(list(home.glob("runs/*"))) < 3 and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    assert nothing_left(home)

    def unended():
        runs = home.glob("runs/*/run.json")
        return [r for r in runs if "outcome" not in json.loads(r.read_text())]

    # the shell of the command ends at once, the node behind it when its job has
    until = time.monotonic() + 60
    while unended() and time.monotonic() < until:
        time.sleep(0.05)
    assert not unended()


DEAF_JOB = """
import os, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
with open(sys.argv[1] + ".draft", "w") as f:
    f.write(str(os.getpid()))
os.rename(sys.argv[1] + ".draft", sys.argv[1])
time.sleep(600)
"""


def test_ctrl_c_ends_a_job_that_does_not_listen(build, start, home, script, work, tmp_path):
    """It takes a node five seconds to kill it, and then it writes down what came of the run."""
    script("job.py", DEAF_JOB)
    pid = tmp_path / "pid"
    process = start(
        [
            *(build / "cmd" / "twinrun", "check", "--on", "cmd:exec {command}", "--runs", "2"),
            *("--", sys.executable, "job.py", pid),
        ],
        cwd=work,
        env={**os.environ, "TWINRUN_HOME": str(home)},
    )
    until = time.monotonic() + 60
    while not pid.exists() and time.monotonic() < until:
        time.sleep(0.05)
    job = int(pid.read_text())
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    assert not os.path.exists(f"/proc/{job}"), open(f"/proc/{job}/status").read()
    (run,) = home.glob("runs/*/run.json")
    assert json.loads(run.read_text())["outcome"] == "interrupted"
    assert nothing_left(home)


# Runs 1 and 2 differ, which ends the check; 3 and 4 are dropped then. Each of these ends when both
# were told to, or after 20 seconds.
ONE_AFTER_THE_OTHER = """
told() {
    : >$STATE/told.$$
    n=0
    while [ $(ls $STATE/told.* | wc -l) -lt 2 ] && [ $n -lt 400 ]; do sleep 0.05; n=$((n + 1)); done
    [ $(ls $STATE/told.* | wc -l) -lt 2 ] || : >$STATE/together.$$
    exit 1
}
trap told TERM
case $1 in
*/0/*) ;;
*/1/*) until [ $(ls $STATE | grep -c ready) -eq 2 ]; do sleep 0.05; done ;;
*) : >$STATE/ready.$$; while :; do sleep 0.05; done ;;
esac
shift
exec "$@"
"""


def test_those_that_are_dropped_are_told_together(check, script, tmp_path):
    """Each may take half a minute to end."""
    script("job.py", "import os, sys\ntry: os.mkdir(sys.argv[1])\nexcept OSError: sys.exit(3)")
    script("node.sh", ONE_AFTER_THE_OTHER)
    state = tmp_path / "state"
    state.mkdir()
    done = check(
        "sh node.sh {script} {command}",
        *("--slots", 4),
        job=[state / "made"],
        runs=4,
        env={"STATE": state},
        timeout=120,
    )
    assert done.rc == 1 and done.json["outcome"] == "differ", done
    assert len(list(state.glob("together.*"))) == 2, sorted(state.iterdir())


# Beside the run, in a session of its own, until a second after the run was told to end: it writes
# into the ticket's folder, in which so many files are that its deletion takes a while.
WRITES_LATE = (
    "setsid sh -c 'cd $0; i=0; while [ $i -lt 4000 ]; do : >many.$i; i=$((i + 1)); done; "
    "until [ -e stop ] || [ ! -e $0 ]; do sleep 0.01; done; end=$(($(date +%s) + 2)); "
    "while [ $(date +%s) -lt $end ]; do "
    "n=0; while [ $n -lt 500 ]; do : >late.$i.$n; n=$((n + 1)); done; i=$((i + 1)); done' "
    "$(dirname {script}) >/dev/null 2>&1 & {command}"
)


def test_what_is_written_while_it_ends_is_deleted_too(check, build, start, home, script, work):
    """A scheduler and a node write into a ticket's folder until they have heard of the end."""
    script("job.py", JOB)
    process = start(
        [
            *(build / "cmd" / "twinrun", "check", "--on", f"cmd:{WRITES_LATE}", "--runs", "2"),
            *("--", sys.executable, "job.py"),
        ],
        cwd=work,
        env={**os.environ, "TWINRUN_HOME": str(home), "JOB_S": "60"},
    )
    until = time.monotonic() + 60
    while not list(home.glob("engine/*/*/*/many.3999")) and time.monotonic() < until:
        time.sleep(0.05)
    assert list(home.glob("engine/*/*/*/many.3999"))
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and b" is left" not in err, (out, err)
    assert nothing_left(home)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--on", "condor"), "expected local, slurm"),
        (("--on", "cmd:ssh host"), "expected {command}"),
        (("--on", "cmd:ssh {host} {command}"), "--hosts"),
        (("--on", "cmd:{command}", "--place", "left"), "--place"),
        (("--on", "cmd:{command}", "--place", "type:a100"), "for --on slurm and k8s"),
        (("--on", "cmd:{command} {host}", "--hosts", "a,b", "--place", "pin:c"), "leaves none"),
        (("--on", "cmd:{command} {host}", "--hosts", "a,b", "--place", "avoid:b,a"), "leaves none"),
        (("--place", "any"), "belong to --on"),
        (("--on", "cmd:{command}", "--show-output"), "--show-output"),
    ],
)
def test_bad_use(twinrun, options, words):
    done = twinrun("check", *options, "--", "true")
    assert done.rc == 2 and words in done.err, done


def test_on_local_is_no_engine(twinrun, home, script):
    script("job.py", JOB)
    done = twinrun("check", "--json", "--on", "local", "--runs", 2, "--", sys.executable, "job.py")
    assert done.rc == 0, done
    assert not (home / "engine").exists()
    assert all("node" not in json.loads(p.read_text()) for p in home.glob("runs/*/run.json"))


# ---------------------------------------------------------------- a search


@pytest.mark.parametrize("jobs", [1, 3])
def test_isolate(twinrun, script, home, tmp_path, jobs):
    """The cause is found through an engine that also loses runs."""
    script("job.py", JOB.replace("1e-9", "1e-9 * hash('a')").replace("bad and", ""))
    (tmp_path / "count").write_text("")
    losing = COUNTED.format(count=tmp_path / "count", case="4|9) true;; *) : {host}; {command};;")
    done = twinrun(
        *(
            "isolate",
            "--json",
            "--no-cases",
            "--jobs",
            jobs,
            "--pin",
            "hash-seed,dir-order,entropy",
        ),
        *("--on", f"cmd:{losing}", "--hosts", "n1,n2,n3", "--", sys.executable, "job.py"),
        env={"TWINRUN_ENGINE_GRACE": "0.5"},
    )
    assert done.rc == 1, done
    assert [c["factor"] for c in done.json["causes"]] == ["hash-seed"], done
    assert "2 of 4" in done.err and set(nodes_of(home).values()) <= {"n1", "n2", "n3"}
    assert nothing_left(home)
