# SPDX-License-Identifier: Apache-2.0
"""The factor node of `isolate --on`: a node that computes otherwise is the cause; jobs that diverge
by something else, however much it looks like a node, are not told that it is one.

A search may miss a cause in one of twenty, by its plan. So each has a seed, and what the job
computes depends on its node alone: every search here is always the same one.
"""

import json
import sys

import pytest
from conftest import FULL
from test_engine import JOB, nothing_left

HOSTS = ("--hosts", "n1,n2,n3,n4")
ANYWHERE = 'bad = node in os.environ.get("BAD_NODES", "").split(",") and node'


@pytest.fixture
def isolate(twinrun, script):
    def call(*options, job=JOB, env=None, on="cmd:: {host}; {command}", hosts=HOSTS, jobs=4):
        script("job.py", job)
        return twinrun(
            *("isolate", "--json", "--no-cases", "--jobs", jobs, "--seed", 3),
            *("--pin", "node,hash-seed,entropy"),
            *("--on", on, *hosts, *options, "--", sys.executable, "job.py"),
            env={"TWINRUN_ENGINE_GRACE": "0.5", **(env or {})},
        )

    return call


def causes(done):
    return [c["factor"] for c in done.json["causes"]]


def notes(done):
    return "\n".join(done.json.get("notes", []))


def test_a_node_that_computes_otherwise(isolate, home):
    done = isolate(env={"BAD_NODES": "n3"})
    assert done.rc == 1 and causes(done) == ["node"] and done.json["seed"] == "3", done
    said = notes(done)
    assert "only runs on node n3 diverge" in said and "4 of 4 on n3" in said, said
    assert "diverged from the usual result and 0 of 4 on n1, n2, n4 (exact p = 0.014)" in said, said
    assert "of 8 fresh runs that were placed in drawn order (seed" in said
    assert (
        "the placing was ours, so it is the cause, and what about it does it (processor, memory, files "
        "of its own) is not known (--place avoid:NODE leaves it out)"
    ) in said
    assert (
        "where the node was free, half of the runs behind the baseline were put on nodes whose runs "
        "had diverged: their rate is no natural one"
    ) in said
    assert "--place avoid:n3" in done.json["next"], done.json["next"]
    assert "the runs were made by cmd on 4 nodes" in said
    # the runs that ask which one are placed as the sentence says
    nodes = [
        json.loads((p / "run.json").read_text())["node"]["name"]
        for p in (home / "runs").iterdir()
        if "-node-" in p.name
    ]
    assert nodes.count("n3") == 4 and len(nodes) == 8 and nothing_left(home)


def test_the_twin_that_does_not_depend_on_the_node(isolate):
    done = isolate()
    assert done.rc == 0 and causes(done) == [], done


def test_what_diverges_everywhere_is_not_the_node(isolate):
    job = JOB.replace(ANYWHERE, "bad = int.from_bytes(os.urandom(4))").replace("1e-9", "1e-9 * bad")
    done = isolate(job=job)
    assert done.rc == 1 and causes(done) == ["entropy"], done
    assert "only runs on node" not in notes(done)


def test_what_goes_with_the_time_is_not_the_node(isolate, tmp_path):
    """Every fourth run diverges, as if a node had each its turn. One at a time, or which run is the
    fourth would be a matter of the moment.
    """
    count = tmp_path / "count"
    count.write_text("")
    job = JOB.replace(
        ANYWHERE,
        f"open({str(count)!r}, 'a').write('x'); bad = os.path.getsize({str(count)!r}) % 4 == 3",
    )
    done = isolate(job=job, jobs=1)
    assert causes(done) == [] and "only runs on node" not in notes(done), done


@pytest.mark.skipif(not FULL, reason="40 runs more: TWINRUN_FULL=1")
def test_a_node_and_a_draw_together(isolate):
    """On n3, and there by entropy: each pin is enough, so each is a cause, and hash-seed is none."""
    job = JOB.replace(ANYWHERE, 'bad = node == "n3" and os.urandom(1)[0] < 200')
    done = isolate(job=job)
    assert causes(done) in ([], ["entropy"], ["node"]), done


def test_a_node_that_does_so_now_and_then(isolate):
    """By what no pin reaches: the process id. The node is the cause or nothing is named."""
    job = JOB.replace(ANYWHERE, 'bad = node == "n3" and os.getpid() % 2 == 0')
    done = isolate(job=job)
    said = notes(done)
    assert causes(done) in ([], ["node"]), done
    assert (
        causes(done) == []
        or "only runs on node n3 diverge" in said
        or "which node it is was not shown: of 8 fresh runs" in said
        or "which node it is cannot be said: " in said
    ), said


def test_two_of_four_nodes_are_none_that_stands_out(isolate):
    done = isolate(env={"BAD_NODES": "n3,n4"})
    assert causes(done) == ["node"] and (
        "which node it is cannot be said: no few of them stand out from the others, whose runs agree"
        in notes(done)
    ), done


@pytest.mark.parametrize(
    ("on", "hosts", "options", "why"),
    [
        ("cmd:{command}", (), (), "has no {host}"),
        ("cmd:: {host}; {command}", ("--hosts", "n1"), (), "only one node"),
        ("cmd:: {host}; {command}", HOSTS, ("--place", "pin:n1"), "--place says where"),
    ],
)
def test_where_the_node_is_no_candidate(isolate, on, hosts, options, why):
    done = isolate("--pin", "hash-seed,entropy", *options, on=on, hosts=hosts)
    assert "the node was no candidate: " in notes(done) and why in notes(done), done
    asked = isolate(*options, on=on, hosts=hosts)
    assert asked.rc == 2 and "node cannot be set" in asked.err, asked
