# SPDX-License-Identifier: Apache-2.0
"""python -m twinrun.recheck confirms what isolate claims of a cause, and refutes every lie about
it.
"""

import copy
import json
import shutil
import sys
import textwrap

import pytest
from conftest import FULL, ROOT
from job_pool import counts_its_starts

sys.path.insert(0, str(ROOT / "python"))
from twinrun import recheck  # noqa: E402

ONE = """
    import os, twinrun
    print("result", os.urandom(4).hex())
"""
TWO = """
    import os
    print("result", os.urandom(4).hex())
    print("order", hash("word"))
"""
# Where entropy is not held, one of two results, as they were drawn once.
SOMETIMES = """
    import array, os, twinrun
    os.urandom(1)
    drawn = "0110100110010110011010011001011001101001100101100110100110010110"[TURN]
    held = "entropy=pin" in os.environ.get("TWINRUN_FACTORS", "")
    x = array.array("d", [1, 2, 0 if held else int(drawn)])
    for step in range(3):
        twinrun.record("batch:x", x)
        twinrun.step()
"""
WORDS = """
    print(*{"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"})
"""
ARMS = """
    import array, sys, twinrun
    for step in range(3):
        twinrun.record("batch:x", array.array("d", [step, len(sys.argv)]))
        twinrun.step()
"""


@pytest.fixture
def searched(twinrun, script, home):
    """searched(job, *options): the claims of a search that isolates something."""

    def call(text, *options, command=("--", "python3", "job.py")):
        script("job.py", text)
        done = twinrun("isolate", "-q", *options, *command)
        assert done.rc == 1, done
        newest = max((home / "searches").glob("2*"))
        return json.loads((newest / "verdict.json").read_text())

    return call


def states(verdict, tmp_path, runs=()):
    path = tmp_path / "claims-under-test.json"
    path.write_text(json.dumps(verdict))
    return recheck.recheck(str(path), [str(r) for r in runs])


def refuted(verdict, tmp_path, runs=()):
    return [
        (kind, text) for state, kind, text in states(verdict, tmp_path, runs) if state == "refuted"
    ]


def claim(verdict, kind):
    return next(c for c in verdict["claims"] if c["claim"] == kind)


def leaves(value, path=()):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, path + (key,))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from leaves(inner, path + (i,))
    else:
        yield path


def lie(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 0.75 if value else 0.5
    if isinstance(value, str):
        return str(int(value) + 1) if value.isdigit() else value + "x"
    return 1


def every_lie(verdict):
    """Each number, word and flag of the claims changed by itself; of pairs what is claimed, not the
    verdict behind it.
    """
    for i, c in enumerate(verdict["claims"]):
        for path in leaves({k: v for k, v in c.items() if k != "verdict"}):
            mutant = copy.deepcopy(verdict)
            at = mutant["claims"][i]
            for key in path[:-1]:
                at = at[key]
            if path[-1] == "number" and at.get("block", 0) is None:
                continue  # of a run before the confirmation: a label, as long as the order stays
            at[path[-1]] = lie(at[path[-1]])
            yield "%s of claim %d (%s)" % (".".join(map(str, path)), i, c["claim"]), mutant


def every_omission(verdict):
    for i, c in enumerate(verdict["claims"]):
        mutant = copy.deepcopy(verdict)
        del mutant["claims"][i]
        yield "without claim %d (%s)" % (i, c["claim"]), mutant
    for w, world in enumerate(claim(verdict, "confirmation")["worlds"]):
        for r, run in enumerate(world["runs"]):
            if run["block"] is not None:
                mutant = copy.deepcopy(verdict)
                del claim(mutant, "confirmation")["worlds"][w]["runs"][r]
                yield "without run %d of world %d" % (r, w), mutant


def survivors(mutants, tmp_path):
    return [what for what, mutant in mutants if not refuted(mutant, tmp_path)]


def test_a_cause(searched, tmp_path):
    v = searched(ONE, "--pin", "entropy,clock,hash-seed")
    assert refuted(v, tmp_path) == []
    assert {"search", "confirmation", "cause", "rate", "remaining", "last", "pair"} == {
        c["claim"] for c in v["claims"]
    }
    assert claim(v, "cause")["factor"] == "entropy" and not claim(v, "remaining")["sufficient"]
    assert survivors(every_lie(v), tmp_path) == []
    assert survivors(every_omission(v), tmp_path) == []


def test_words_alone(searched, tmp_path):
    """With --text: no pair differs in a result, and that it differs in words is held against what
    was printed.
    """
    v = searched(WORDS, "--text", "--pin", "entropy,hash-seed")
    assert refuted(v, tmp_path) == []
    assert {c["words"] for c in v["claims"] if c["claim"] == "pair" and c["diverged"]} == {True}
    assert survivors(every_lie(v), tmp_path) == []


def test_a_pair_that_differs_in_words_is_no_divergence(twinrun, script):
    """Without --text the verdict of such a pair names the words as not judged, and that is what it
    claims.
    """
    script(
        "job.py",
        """
        import os
        again = os.path.exists("once")
        open("once", "w").close()
        print("result", "beta" if again else "alpha")
    """,
    )
    v = twinrun("check", "--json", "--runs", "2", "--", "python3", "job.py").json
    assert v["outcome"] == "inconclusive", v
    runs = [recheck.Run(folder) for folder in v["runs_dir"]]
    recheck.recheck_pair(v, runs, False, False)
    said = [
        i
        for i, c in enumerate(v["claims"])
        if c["claim"] == "unseen" and c["text"].startswith("stdout: ")
    ]
    for i in reversed(said):
        del v["unseen"][v["unseen"].index(v["claims"].pop(i)["text"])]
    with pytest.raises(recheck.Refuted):
        recheck.recheck_pair(v, runs, False, False)


def test_the_recordings_decide(searched, tmp_path):
    """Claims as they were, recordings that say otherwise."""
    v = searched(ONE, "--pin", "entropy,hash-seed")
    worlds = claim(v, "confirmation")["worlds"]
    pinned, free = ([r["run"] for r in w["runs"] if r["block"] is not None] for w in worlds)
    folders = []
    for i, folder in enumerate(v["runs_dir"]):
        shutil.copytree(folder, tmp_path / str(i))
        folders.append(tmp_path / str(i))
    assert refuted(v, tmp_path, folders) == []
    swapped = list(folders)
    swapped[pinned[0] - 1], swapped[free[0] - 1] = swapped[free[0] - 1], swapped[pinned[0] - 1]
    assert refuted(v, tmp_path, swapped)
    again = list(folders)
    again[free[1] - 1] = again[free[0] - 1]
    assert refuted(v, tmp_path, again)
    stdout = folders[pinned[1] - 1] / "stdout"
    before = stdout.read_bytes()
    stdout.write_text("result deadbeef\n")
    assert refuted(v, tmp_path, folders)
    stdout.write_bytes(before)
    run = folders[pinned[1] - 1] / "run.json"
    run.write_text(run.read_text().replace("entropy=pin", "clock=pin"))
    assert refuted(v, tmp_path, folders)


def test_sufficient(searched, tmp_path):
    v = searched(ONE, "--thorough", "--pin", "entropy,hash-seed")
    assert refuted(v, tmp_path) == []
    remaining = claim(v, "remaining")
    assert remaining["sufficient"] and remaining["trials"] >= 14
    assert (
        survivors(
            ((w, m) for w, m in every_lie(v) if "(pair)" not in w and ".runs." not in w), tmp_path
        )
        == []
    )


def test_two_causes(searched, tmp_path):
    v = searched(TWO, "--pin", "entropy,hash-seed")
    assert refuted(v, tmp_path) == []
    assert sum(c["claim"] == "cause" for c in v["claims"]) == 2
    assert (
        survivors(
            ((w, m) for w, m in every_lie(v) if "(pair)" not in w and ".runs." not in w), tmp_path
        )
        == []
    )


def test_whether_a_repeats(searched, tmp_path):
    """--through: the runs of A by itself, which differ here."""
    arms = ("--a", "python3 job.py one", "--b", "python3 job.py two")
    v = searched(ONE, "--through", "--pin", "entropy,clock", command=arms)
    assert refuted(v, tmp_path) == []
    assert claim(v, "repeats")["diverged"] and len(claim(v, "repeats")["runs"]) == 1
    lies = [(what, mutant) for what, mutant in every_lie(v) if "(repeats)" in what]
    assert len(lies) >= 3 and survivors(lies, tmp_path) == []
    of_b = copy.deepcopy(v)
    claim(of_b, "repeats")["runs"] = [claim(v, "last")["run"]]
    assert refuted(of_b, tmp_path)


def test_no_divergence(twinrun, script, home, tmp_path):
    """That a search found none rests on every pair; each word and number, and each
    pair, is needed. So is that enough of each pair was compared.
    """
    script("job.py", ARMS.replace("batch:x", "value:x"))
    done = twinrun("isolate", "-q", "--pin", "entropy", "--", "python3", "job.py")
    assert done.rc == 0, done
    v = json.loads((max((home / "searches").glob("2*")) / "verdict.json").read_text())
    assert refuted(v, tmp_path) == []
    assert claim(v, "search")["comparisons"] == 14 == sum(c["claim"] == "pair" for c in v["claims"])
    assert survivors(every_lie(v), tmp_path) == []
    for i in range(len(v["claims"])):
        less = copy.deepcopy(v)
        del less["claims"][i]
        assert refuted(less, tmp_path)
    twice = copy.deepcopy(v)
    twice["runs_dir"][3] = twice["runs_dir"][4]
    assert refuted(twice, tmp_path)
    little = copy.deepcopy(v)
    next(c for c in little["claims"] if c["claim"] == "pair")["verdict"]["outcome"] = "inconclusive"
    assert "search" in [kind for kind, _text in refuted(little, tmp_path)]


def test_batches_alone_are_too_little(twinrun, script, home):
    """Such a search says nothing that could be confirmed."""
    script("job.py", ARMS)
    done = twinrun("isolate", "-q", "--pin", "entropy", "--", "python3", "job.py")
    assert done.rc == 3, done
    assert not (max((home / "searches").glob("2*")) / "verdict.json").exists()


def test_runs_that_form_classes(searched, tmp_path):
    """Runs with two possible results: those that agree among themselves and not with the first are
    a class of their own.
    """
    text = textwrap.dedent(SOMETIMES)
    v = searched(counts_its_starts(tmp_path / "starts") + text, "--pin", "entropy,hash-seed")
    assert refuted(v, tmp_path) == []
    runs = claim(v, "confirmation")["worlds"][1]["runs"]
    assert any(not r["diverged"] for r in runs)
    for i, r in enumerate(runs):
        if r["agrees"] is not None:
            mutant = copy.deepcopy(v)
            claim(mutant, "confirmation")["worlds"][1]["runs"][i]["agrees"] = None
            assert refuted(mutant, tmp_path)


@pytest.mark.skipif(not FULL, reason="a dozen runs of PyTorch: TWINRUN_FULL=1")
def test_a_job_with_records(searched, tmp_path, python, light):
    """PyTorch: what agrees and what differs are records; printed words are noise that nothing says
    more of.
    """
    pytest.importorskip("torch")
    text = """
        import os, random, torch
        print("hello", random.SystemRandom().choice(["apple", "cherry", "fig"]))
        torch.manual_seed(int.from_bytes(os.urandom(2), "little"))
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            loss = model(torch.ones(4, 3)).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """
    v = searched(text, "--pin", "entropy,clock", command=("--", python, "job.py"))
    assert refuted(v, tmp_path) == []
    assert claim(v, "cause")["factor"] == "entropy"


def test_two_commands(searched, tmp_path):
    a, b = "X=1 python3 job.py", "X=2 python3 job.py more"
    v = searched(ARMS, command=("--a", a, "--b", b))
    assert refuted(v, tmp_path) == []
    assert claim(v, "confirmation")["arms"] and claim(v, "cause")["factor"].startswith("arg:")
    assert (
        survivors(
            ((w, m) for w, m in every_lie(v) if "(pair)" not in w and ".runs." not in w), tmp_path
        )
        == []
    )
