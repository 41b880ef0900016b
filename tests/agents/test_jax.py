# SPDX-License-Identifier: Apache-2.0
"""Jobs of JAX, unmodified: what is recorded, what must not be taken for the same, and that the job
notices nothing.

The jobs lie in jax_jobs/; each is run once, by the Python in TWINRUN_JAX_PYTHON.
"""

import os
import subprocess
import sys
import tempfile

import pytest
from job_pool import once
from native import LIBRARY, ROOT, Run, Trace, clean_environment

PYTHON = os.environ.get("TWINRUN_JAX_PYTHON", sys.executable)
JOBS = os.path.join(ROOT, "tests", "agents", "jax_jobs")
SITE = os.path.join(ROOT, "python", "twinrun", "_site")
TWO_DEVICES = "--xla_force_host_platform_device_count=2"
UNOBSERVED = 1 << 6


@once
def has_jax():
    return subprocess.run([PYTHON, "-c", "import jax, optax"], capture_output=True).returncode == 0


@pytest.fixture(autouse=True)
def jax():
    if not os.path.exists(LIBRARY):
        pytest.skip(f"not built: {LIBRARY}")
    if not has_jax():
        pytest.skip("no Python with jax and optax (name one in TWINRUN_JAX_PYTHON)")


@once
def watched(job, args=(), flags="", number=0):
    """(how it ended, traces by role). number: of runs that are otherwise the same."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(
            folder,
            PYTHONPATH=SITE,
            TWINRUN_PYTHON_DIR=os.path.join(ROOT, "python"),
            TWINRUN_SITE_DIR=SITE,
            PYTHONDONTWRITEBYTECODE=1,
            XLA_FLAGS=flags,
        )
        script = os.path.join(JOBS, job + ".py")
        done = run.start(PYTHON, script, *args, preload=True, cwd=folder)
        return done, run.traces()


def cases(*args, number=0):
    """{name of a case: what is compared of it, in order for each thread}"""
    done, traces = watched("cases", args, flags=TWO_DEVICES, number=number)
    assert done.returncode == 0 and done.stderr == b"", done
    found = {}
    for step, name in enumerate(done.stdout.decode().split()):
        rows = found[name] = {}
        for r in traces["main"].records:
            if r["step"] == step:
                rows.setdefault(r["role"], []).append(r)
    return found


def compared(rows):
    keys = ("phase", "kind", "name", "scope", "digest", "flags")
    return {role: [tuple(r[k] for k in keys) for r in of_role] for role, of_role in rows.items()}


def test_twins_are_the_same_and_no_mutant_is():
    one, twin, mutant = cases(), cases(number=1), cases("mutant")
    assert len(one) > 25
    for name in one:
        assert one[name] and compared(one[name]) == compared(twin[name]), name
        if name == "reference":
            # what a reference holds cannot be read, and that is said: no verdict of "same"
            assert any(r["flags"] & UNOBSERVED for r in one[name][""])
        else:
            assert compared(one[name]) != compared(mutant[name]), name


def names_of(name):
    return {role: [(r["scope"], r["name"]) for r in rows] for role, rows in cases()[name].items()}


def test_names_say_what_differs():
    leaf, function = names_of("leaf")[""], "<lambda>"
    assert leaf == [
        (function, "program"),
        (function, "tree['a'][0]"),
        (function, "tree['a'][1]"),
        (function, function + ": result"),
    ]
    # a function that is called while another is traced is part of that one's program
    assert {scope for scope, _name in names_of("hidden_in_scan")[""]} == {function}
    assert ("scan of <lambda>", "program") in names_of("scan_by_itself")[""]
    assert ("pmap", "pmap: result on device 1") in names_of("pmap")[""]
    assert list(names_of("in_a_thread")) == ["thread doubling"]
    assert sorted(names_of("many_threads")) == ["thread t%d" % i for i in range(4)]
    sites = {r["site"].splitlines()[0] for r in cases()["leaf"][""]}
    assert len(sites) == 1 and sites.pop().endswith(" in leaf")


# What differs in the mutant of each function of roles.py, by the name that must say no more than a
# class has declared. Those of flax are there where flax is.
ROLES = {
    "moment": "optimizer state state[0].mu['w']",
    "batch": "x",
    "initial": "params['w']",
    "rate": "hyperparameter state.hyperparams['learning_rate']",
    "key": "generator state key",
    "words": "key",
    "own_class": "opt_state.mu",
    "average": "opt_state.ema",
    "norms": "optimizer state opt_state[0].mu['w']",
    "flax_made": "w",
    "flax_state": "weight state.params['w']",
    "flax_gradient": "weight state.params['w']",
    "flax_gradients": "params['layer']['bias'].value",
    "flax_noise": "generator state noise.rngs.key.value",
    "flax_moment": "optimizer state state[0].trace['layer']['kernel'].value",
}


def kind_of(r):
    """Of a result, where a class says what it is to the job."""
    return r["kind"] if r["phase"] == "optimizer" else ""


def roles(recorded_once, *words):
    folder, out = recorded_once([PYTHON, os.path.join(JOBS, "roles.py"), *words])
    rows = {name: [] for name in out.split()}
    (path,) = (folder / "ranks").iterdir()
    for r in Trace(str(path)).records:
        rows[r["scope"]].append((r["name"], r["digest"], kind_of(r)))
    return folder, rows


def test_a_role_is_said_where_a_class_declares_it_and_no_mutant_is_the_same(recorded_once, twinrun):
    one, rows = roles(recorded_once)
    other, mutants = roles(recorded_once, "mutant")
    assert rows.keys() == mutants.keys() >= {n for n in ROLES if not n.startswith("flax_")}
    for name, found in rows.items():
        names = [(n, kind) for n, _digest, kind in found]
        assert names == [(n, kind) for n, _digest, kind in mutants[name]]
        # what a function is given is not what it made
        assert all(n.startswith(name + ": ") for n, kind in names if kind)
        unlike = [a[0] for a, b in zip(found, mutants[name]) if a != b]
        assert unlike[0] == ROLES[name], (name, unlike)
    kinds = {name: {n: kind for n, _digest, kind in found} for name, found in rows.items()}
    of_norms = {n: kind for n, kind in kinds["norms"].items() if n.startswith("norms: ")}
    assert "norms: result[0].count" in of_norms and not any(of_norms.values())
    assert kinds["moment"]["moment: result[1][0].mu['w']"] == "moment"
    assert kinds["moment"]["moment: result[0]['w']"] == ""  # a plain dict, whatever is in it
    assert kinds["rate"]["rate: result[1].hyperparams['learning_rate']"] == "hyper"
    assert kinds["key"]["key: generator state result[0]"] == ""
    if "flax_state" in kinds:
        assert kinds["flax_state"]["flax_state: result.params['w']"] == "weight"
        assert kinds["flax_state"]["flax_state: result.opt_state[0].mu['w']"] == "moment"
        assert not any(kinds["flax_gradient"].values()) and len(kinds["flax_gradient"]) > 6
    differ = twinrun("diff", one, other)
    text = " ".join(differ.out.split())
    assert differ.rc == 1 and "data · optimizer state state[0].mu['w'] of moment" in text
    # lines of the job made it, before anything was seen
    assert "role unknown: it was made between the beginning and optimizer state state" in text


def test_the_job_notices_nothing():
    script = os.path.join(JOBS, "unchanged.py")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TWINRUN_")}
    environment.pop("PYTHONPATH", None)
    environment["XLA_FLAGS"] = ""
    alone = subprocess.run([PYTHON, script], env=environment, capture_output=True, timeout=300)
    done, traces = watched("unchanged")
    assert (done.returncode, done.stdout) == (alone.returncode, alone.stdout)
    assert alone.returncode == 0
    assert "agent.error" not in dict(traces["main"].notes)


def test_a_job_that_jits_nothing_leaves_no_record():
    done, traces = watched("eager")
    assert done.stdout == b"True\n" and traces["main"].records == []
    notes = traces["main"].notes
    assert ("unseen", "arrays of jax and numpy (no jitted function of the job was called)") in notes


def test_of_a_version_that_is_not_known_nothing_is_seen_and_that_is_said():
    done, traces = watched(os.path.join("older", "job"))
    assert done.stdout == b"0.4.38\n" and done.stderr == b"", done
    assert ("unseen", "jitted functions of jax 0.4.38") in traces["main"].notes


def test_each_turn_of_a_loop_is_a_step():
    done, traces = watched("train")
    assert done.returncode == 0 and done.stdout == b"done\n", done
    trace = traces["main"]
    # the first step holds the call that makes the weights, too
    assert [s["step"] for s in trace.steps] == [0, 1, 2, 3, 4]
    calls = [(r["step"], r["scope"]) for r in trace.records if r["name"] == "program"]
    assert calls == [(0, "init"), *((i, "train_step") for i in range(5))]


def test_a_digest_that_was_kept_is_the_digest():
    """What is handed on is a whole in the first call, from then on parts; an argument is what the
    call before gave back.
    """
    done, traces = watched("large")
    assert done.stdout == b"done\n" and len(traces["main"].steps) == 12
    rows = [r for r in traces["main"].records if r["name"] != "program"]
    digests = {}
    for r in rows:
        whole = "[" not in r["name"].replace("result[", "")
        assert r["shape"] == (
            [300, 300] if whole else [5632 if ":90000]" not in r["name"] else 5520]
        )
        assert r["dtype"] == "f32" and not r["flags"] & UNOBSERVED
        digests.setdefault(r["name"], []).append(r["digest"])
    parts = {name: found for name, found in digests.items() if name.endswith(":90000]")}
    assert all(len(set(found)) == 1 for found in digests.values())
    assert [len(digests[name]) for name in ("one", "other")] == [12, 12]
    assert [len(digests["step: result[%d]" % i]) for i in (0, 1)] == [1, 1]
    assert [len(found) for found in parts.values()] == [11, 11]
    assert digests["one"][0] == digests["step: result[0]"][0] != digests["other"][0]
    assert digests["other"][0] == digests["step: result[1]"][0]


@pytest.mark.parametrize(
    ("how", "outcome", "said"),
    [
        # found by the look at the end, though no variable holds the array any more
        (["late"], 1, "DIFFER"),
        (["late", "donated"], 1, "DIFFER"),
        # found where the state ends: the function is given another one
        (["late", "replaced"], 1, "DIFFER"),
        # nobody looked at it while it was different, and that is said
        (["undone"], 0, "what functions give to their next call: of tensors of 65,536 elements"),
    ],
)
def test_one_element_of_a_part_whose_turn_comes_later(recorded_once, twinrun, how, outcome, said):
    script = os.path.join(JOBS, "carried.py")
    usual = [word for word in how if word in ("donated", "replaced")]
    folders = []
    for words in (usual, how):
        folder, out = recorded_once([PYTHON, script, *words])
        assert "done" in out, out
        folders.append(folder)
    found = twinrun("diff", *folders)
    text = " ".join(found.out.split())
    assert found.rc == outcome and said in text, found.out
    if how == ["late", "replaced"]:
        assert "from step 29 on" in text or "in step 29" in text, found.out


def test_check_says_same_and_names_the_line(twinrun, script):
    with open(os.path.join(JOBS, "train.py")) as f:
        text = f.read()
    path = script("train.py", text)
    line = text.splitlines().index("params = init(jax.random.key(seed))") + 1
    same = twinrun("check", "--runs", "2", "--", PYTHON, path)
    assert same.rc == 0 and same.out.startswith("SAME    5 steps"), same.out
    differ = twinrun("check", "--runs", "2", "--", PYTHON, path, "unseeded")
    assert differ.rc == 1 and differ.out.startswith("DIFFER  from step 0 on"), differ.out
    assert (
        "data · generator state key of init" in differ.out
        and f"train.py:{line} in <module>" in differ.out
    )


def of_rank(trace):
    """(rank, world) as the process knew them in the end."""
    note = dict(trace.notes).get("rank")
    if note:
        return tuple(map(int, note.split(" of ")))
    return trace.header["rank"], trace.header["world"]


def text_of(found):
    return " ".join(found.out.split())


def test_state_that_was_not_restored_is_told_by_its_bytes(recorded_once, twinrun):
    """The optimizer state that a function gave back is not what it is given next."""
    script, folders = os.path.join(JOBS, "restored.py"), {}
    for how in ("", "lost", "noisy"):
        folders[how], _out = recorded_once([PYTHON, script, *how.split()])
    flax = "weight" in text_of(twinrun("show", folders[""], "--step", "0"))
    function, state = ("state_step", "state.opt_state") if flax else ("train_step", "opt_state")
    lost = twinrun("diff", folders[""], folders["lost"])
    text = text_of(lost)
    assert lost.rc == 1 and "DIFFER from step 3 on" in text, lost.out
    assert "data · optimizer state %s[0].count of %s" % (state, function) in text
    assert "was given, byte for byte, what %s gave back in step 2; run 2 was not" % function in text
    assert "equal all that was recorded of steps 0 to 2" in text or not flax, lost.out
    assert "optimizer state 3" in text.partition("then ")[2], lost.out
    # weights are said to be some where a class says so, and nowhere else
    assert ("weights 3" in text) == flax, lost.out
    back = text_of(twinrun("diff", folders["lost"], folders[""]))
    assert "run 2 was given, byte for byte, what" in back and "run 1 was not" in back
    # what the function makes of a callback is no origin, whatever it is called
    noisy = twinrun("diff", folders[""], folders["noisy"])
    text = text_of(noisy)
    assert noisy.rc == 1 and "byte for byte" not in text, noisy.out
    assert (
        "role unknown: it was made between the call of %s in step 3 (which runs" % function in text
    )


@once
def ranks_meet():
    """Is this a machine on which two processes of JAX find each other, without twinrun?"""
    done = subprocess.run(
        [PYTHON, os.path.join(JOBS, "ranks.py")],
        env={**clean_environment(), "PYTHONPATH": os.path.join(ROOT, "python")},
        capture_output=True,
        timeout=300,
    )
    return done.returncode == 0


def test_ranks_of_jax_distributed_are_known_and_the_one_that_differs_is_named(
    recorded_once, twinrun
):
    if not ranks_meet():
        pytest.skip("two processes of JAX do not find each other here (gloo)")
    job = [PYTHON, os.path.join(JOBS, "ranks.py")]
    first, other = recorded_once(job)[0], recorded_once([*job, "other"])[0]
    traces = sorted((Trace(str(path)) for path in (first / "ranks").iterdir()), key=of_rank)
    assert [of_rank(t) for t in traces] == [(0, 2), (1, 2)]
    for rank, t in enumerate(traces):  # each records what it holds, and says that this is not all
        (shard,) = {r["name"] for r in t.records if r["name"].startswith("x on device")}
        assert ("2048" in shard) == (rank == 1)
        assert ("input.unseen", "0 train_step computes with what other processes hold") in t.notes
    same = twinrun("diff", first, recorded_once(job, number=1)[0])
    assert same.rc == 0 and same.out.startswith("SAME"), same
    differ = twinrun("diff", first, other)
    text = text_of(differ)
    assert differ.rc == 1 and "DIFFER from step 2 on" in text, differ
    # rank 0 got other weights in the same step, of what rank 1 gave to the call
    assert "first step 2 · rank 1 · data · x on device 2048 of train_step" in text
    assert "ranks.py:" in text and "diverging in the same step: rank 0" in text
    assert "ORIGIN" not in text


def test_the_pin_of_the_cache_and_the_job_s_own_wish(twinrun, tmp_path):
    """Free the program is stored; under the pin it is not, unless the job switches the cache on."""
    script = os.path.join(JOBS, "cached.py")
    for number, (pin, own, filled, said) in enumerate(
        (
            ("seed.python", (), True, "pinned: seed.python;"),
            ("jax-cache", (), False, "pinned: jax-cache;"),
            ("jax-cache", ("own",), True, "set by the job itself: jax-cache;"),
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        job = (PYTHON, script, str(folder), *own)
        environment = {"TWINRUN_HOME": str(tmp_path / "home")}
        done = twinrun("run", "--pin", pin, "--", *job, env=environment)
        assert done.rc == 0 and done.out == f"512.0\n{filled}\n", done
        assert said in done.err, done.err
