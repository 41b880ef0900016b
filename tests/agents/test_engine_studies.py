# SPDX-License-Identifier: Apache-2.0
"""Commands that hand their runs to an engine beside check: scale, shrink, lab, significant."""

import json
import sys

import pytest
from test_engine import JOB, nodes_of, nothing_left

# Entropy decides: no two of its runs are equal but by a chance of one in four thousand million.
WANDERS = JOB.replace("1e-9 if bad and", '1e-9 * int.from_bytes(os.urandom(4), "big") if')
assert WANDERS != JOB
HOSTS = ("--hosts", "n1,n2,n3")
ON = ("--on", "cmd:: {host}; {command}")


@pytest.fixture
def study(twinrun, script):
    def call(*words, job=JOB, env=None):
        script("job.py", job)
        return twinrun(*words, env={"TWINRUN_ENGINE_GRACE": "0.5", **(env or {})})

    return call


def test_scale(study, home):
    done = study(
        *("scale", "--json", "--quiet", "--counts", "1,2", "--repeats", 3, *ON, *HOSTS),
        *("--", sys.executable, "job.py", "{n}"),
    )
    assert done.rc == 0, done
    seen = nodes_of(home)
    runs = {r["run"]: r["node"] for r in done.json["runs"]}
    assert runs == seen and nothing_left(home)
    said = "\n".join(done.json["notes"])
    assert f"on {len(set(seen.values()))} node" in said, said
    # the processors of this machine say nothing of theirs
    assert done.json["cores"] == 0 and "oversubscribed;" not in said


def test_scale_says_when_nodes_and_workers_go_together(study, home, tmp_path):
    """Runs of two workers are on n2 alone, all others on n1: the figures cannot tell the two apart."""
    lie = "case $(tr '\\0' '\\n' < $(dirname {script})/order | grep -c '^argv=2$') in 0) TWINRUN_NODE=n1;; *) TWINRUN_NODE=n2;; esac; export TWINRUN_NODE; {command}"
    words = ("scale", "--json", "--quiet", "--counts", "1,2", "--repeats", 3, "--on", f"cmd:{lie}")
    done = study(*words, "--", sys.executable, "job.py", "{n}")
    said = "\n".join(done.json["notes"])
    assert done.rc == 0 and "2 workers: on none of the nodes of 1 workers" in said, done
    # and whoever has only the file reads the same
    file = tmp_path / "study.json"
    file.write_text(done.out)
    again = study("scale", "--json", "--from", file)
    assert "2 workers: on none of the nodes of 1 workers" in "\n".join(again.json["notes"]), again


def test_shrink(study, home):
    done = study(
        *("shrink", "--json", "--quiet", "--no-zoom", *ON, *HOSTS),
        *("--", sys.executable, "job.py"),
        job=WANDERS,
    )
    assert done.rc == 1 and done.json["outcome"] == "shrunk", done
    assert done.json["steps"] == {"from": 6, "value": 3, "why": None}, done.json
    assert "the runs were made by cmd on 3 nodes" in done.json["engine"]
    # no more runs than shrink asked for: none is given away that is not surely wanted
    assert len(nodes_of(home)) == done.json["runs_used"] and nothing_left(home)


def test_shrink_of_a_job_that_repeats(study, home):
    done = study(
        *("shrink", "--json", "--quiet", "--runs", 4, *ON, *HOSTS, "--", sys.executable, "job.py")
    )
    assert done.rc == 0 and done.json["outcome"] == "no-divergence", done
    assert len(nodes_of(home)) == 4


def test_lab(study, home):
    done = study(
        *("lab", "--json", "--quiet", "--step", "noise,cost", "--runs", 4, "--pairs", 2, *ON),
        *(*HOSTS, "--", sys.executable, "job.py"),
        job=WANDERS,
    )
    noise, cost = done.json["steps"]
    assert noise["result"] in ("quiet", "fail", "inconclusive"), done
    # two pairs are too few for a cost, unless other work on this machine makes it a large one
    assert done.rc == (1 if "fail" in (noise["result"], cost["result"]) else 3), done
    assert "the runs were made by cmd on" in done.json["engine"]
    runs = [json.loads((p / "run.json").read_text()) for p in (home / "runs").iterdir()]
    timed = {r["node"]["name"] for r in runs if r["level"] == "steps"}
    assert len(timed) == 1, timed  # what nodes differ in is no cost of the pins
    assert all(t["others"] is None for t in cost["measured"]["timings"])


def test_significant(study, home, tmp_path):
    """The engine would go on to another host after a loss: the second run of a round may not."""
    count = tmp_path / "count"
    count.write_text("")
    lose = f"n=$(cat {count} | wc -c); printf x >> {count}; case $n in 1) exit 0;; *) : {{host}}; {{command}};; esac"
    job = f"{sys.executable} job.py"
    words = ("significant", "--json", "--quiet", "--runs", 3, "--a", job, "--b", f"{job} b")
    done = study(*words, "--on", f"cmd:{lose}", *HOSTS, env={"JOB_S": "0.1"})
    assert done.rc in (0, 1, 3) and done.json["engine"]["rounds_on_one_node"], done
    runs = [json.loads((p / "run.json").read_text()) for p in sorted((home / "runs").iterdir())]
    nodes = [r["node"]["name"] for r in sorted(runs, key=lambda r: r["start_realtime_ns"])]
    assert nodes[0::2] == nodes[1::2] and len(set(nodes)) == 2, nodes


def test_significant_says_where_its_rounds_were(study):
    job = f"{sys.executable} job.py"
    words = ("significant", "--quiet", "--runs", 2, "--a", job, "--b", f"{job} b")
    together = study(*words, *ON, *HOSTS)
    assert "; both runs of a round on one node" in together.out, together
    apart = study(*words, "--on", "cmd:{command}")
    said = " ".join(apart.out.split())
    assert (
        "; the two runs of a round were made wherever it put them, so that what differs between nodes "
        "may be in the figures"
    ) in said, apart


def test_significant_where_nobody_says_where(study):
    job = f"{sys.executable} job.py"
    words = ("significant", "--json", "--quiet", "--runs", 2, "--a", job, "--b", f"{job} b")
    done = study(*words, "--on", "cmd:{command}")
    assert not done.json["engine"]["rounds_on_one_node"], done


@pytest.mark.parametrize("command", ["scale", "shrink", "lab"])
def test_options_of_an_engine_without_one(study, command):
    done = study(command, "--hosts", "a", "--", "echo", "{n}")
    assert done.rc == 2 and "belong to --on" in done.err, done


def test_values_that_are_there_need_no_run(study):
    done = study("significant", "--on", "slurm", "a.txt", "b.txt")
    assert done.rc == 2 and "go with --a CMD --b CMD" in done.err, done


def test_a_lost_run_is_made_again_and_said(study, tmp_path):
    count = tmp_path / "count"
    count.write_text("")
    lose = f"n=$(cat {count} | wc -c); printf x >> {count}; case $n in 2) exit 0;; *) {{command}};; esac"
    done = study(
        *("shrink", "--json", "--quiet", "--no-zoom", "--on", f"cmd:{lose}"),
        *("--", sys.executable, "job.py"),
        job=WANDERS,
    )
    assert done.rc == 1 and "1 run had to be made again" in done.json["engine"], done
