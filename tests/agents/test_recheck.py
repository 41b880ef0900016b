# SPDX-License-Identifier: Apache-2.0
"""python -m twinrun.recheck confirms true verdicts, refutes lies, and survives hostile files."""

import copy
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests" / "truth"))
sys.path.insert(0, str(ROOT / "python"))
from traces import Edited  # noqa: E402
from twinrun import recheck  # noqa: E402

JOB = """
    import array, os, sys
    import twinrun

    w = array.array("d", [1, 2, 3, 4])
    for step in range(6):
        x = array.array("d", [step + k for k in range(4)])
        odd = step == 3 and os.path.exists("other")
        by_lines = sys.argv[2] if len(sys.argv) > 2 else ""
        if odd and by_lines:
            x[2] += 1e-9
        if by_lines != "init:x" or step == 3:
            twinrun.record(by_lines or "batch:x", x)
        h = array.array("d", x)
        if odd and not by_lines:
            h[2] += 1e-9
        twinrun.record("activation:h", h)
        w = array.array("d", [a - 0.1 * (a - b) for a, b in zip(w, h)])
        twinrun.record("weight:w", w)
        twinrun.step()
        print("step", step, "loss", sum(w), "pid", os.getpid(), flush=True)
    if len(sys.argv) > 1:
        open("other", "w").close()
"""


@pytest.fixture
def checked(twinrun, script, work, tmp_path, python):
    """checked(*arguments of the job, options): the verdict of a check of two runs, as an object."""
    script("job.py", JOB)

    def call(*args, options=()):
        done = twinrun("check", "--json", "--runs", "2", *options, "--", python, "job.py", *args)
        assert done.rc in (0, 1, 3), done
        return done.json

    return call


def states(verdict, tmp_path, runs=()):
    path = tmp_path / "verdict-under-test.json"
    path.write_text(json.dumps(verdict))
    return recheck.recheck(str(path), [str(r) for r in runs])


def refuted(verdict, tmp_path, runs=()):
    return [
        (kind, text) for state, kind, text in states(verdict, tmp_path, runs) if state == "refuted"
    ]


def claim(verdict, kind):
    found = [c for c in verdict["claims"] if c["claim"] == kind]
    assert found, f"no claim {kind} in {[c['claim'] for c in verdict['claims']]}"
    return found[0]


def test_same_is_confirmed(checked, tmp_path):
    v = checked()
    assert v["outcome"] == "same"
    assert refuted(v, tmp_path) == []
    assert {"verdict", "same-range", "class"} <= {c["claim"] for c in v["claims"]}


CHAIN = """
    import array, os, sys
    import twinrun

    start, end = int(sys.argv[1]), int(sys.argv[2])
    w = 1.0
    for step in range(start):
        w -= 0.1 * step
    twinrun.record("init:w", array.array("d", [w]))
    for step in range(start, end):
        twinrun.record("batch:x", array.array("d", [float(step)]))
        w -= 0.1 * step
        twinrun.record("weight:w", array.array("d", [w]))
        twinrun.step()
"""


def test_an_arm_of_several_trainers(twinrun, script, work, tmp_path, python):
    script("chain.py", CHAIN)
    parts = " && ".join(f"{python} chain.py {k} {k + 3}" for k in (0, 3, 6))
    done = twinrun("check", "--json", "--a", f"{python} chain.py 0 9", "--b", parts)
    v = done.json
    assert v["outcome"] == "same", done
    assert [(r["first"], r["last"], r["number_b"]) for r in v["range"]] == [
        (0, 2, 1),
        (3, 5, 2),
        (6, 8, 3),
    ]
    assert v["steps"]["compared"] == 9
    assert refuted(v, tmp_path) == []
    claim(v, "verdict")["steps"] = 10
    assert refuted(v, tmp_path) == [("verdict", "the verdict says steps: 9")]
    v["steps"]["compared"] = 10
    assert refuted(v, tmp_path) == [("verdict", "9 steps are equal")]


def test_differ_is_confirmed(checked, tmp_path):
    v = checked("leave-a-mark")
    assert v["outcome"] == "differ"
    assert refuted(v, tmp_path) == []
    first = claim(v, "origin")
    assert first["first"] and first["step"] == [3, 3] and first["name"] == "h"
    assert claim(v, "same-range")["steps"] == 3


@pytest.mark.parametrize("name", ["batch:x", "indices:x", "init:x", "hyper:x", "x"])
def test_what_lines_of_the_job_make_is_no_origin(checked, tmp_path, name):
    v = checked("leave-a-mark", name)
    first = claim(v, "first")
    assert (first["name"], first["role"]) == ("x", "unknown") and refuted(v, tmp_path) == []
    first.update(claim="origin", role="origin")
    assert any("what made it is not recorded" in text for _, text in refuted(v, tmp_path))


def test_verdict_is_kept_beside_the_last_run(checked, run, tmp_path, python):
    v = checked("leave-a-mark")
    kept = v["runs_dir"][-1] + "/verdict.json"
    env = {"PYTHONPATH": str(ROOT / "python")}
    done = run([python, "-m", "twinrun.recheck", kept], env=env)
    assert done.rc == 0 and "0 refuted" in done.out, done
    done = run([python, "-m", "twinrun.recheck", "--json", kept, *v["runs_dir"]], env=env)
    assert done.rc == 0 and done.json["refuted"] == 0 and done.json["confirmed"] == len(v["claims"])
    done = run([python, "-m", "twinrun.recheck", kept, *reversed(v["runs_dir"])], env=env)
    assert done.rc == 1 and "REFUTED" in done.out, "runs in another order are other evidence"
    assert run([python, "-m", "twinrun.recheck", tmp_path / "none.json"], env=env).rc == 2


def lie(kind, path, value):
    def change(v):
        at = claim(v, kind)
        for key in path[:-1]:
            at = at[key]
        old = at[path[-1]]
        at[path[-1]] = value(old) if callable(value) else value
        assert at[path[-1]] != old, "this changes nothing"

    change.__name__ = f"{kind} {'.'.join(map(str, path))}"
    return change


LIES = [
    lie("verdict", ["outcome"], "same"),
    lie("verdict", ["runs"], 3),
    lie("same-range", ["steps"], 4),
    lie("same-range", ["steps"], 6),
    lie("same-range", ["steps"], 7),
    lie("same-range", ["of", 0], 5),
    lie("same-range", ["records", 1], 11),
    lie("same-range", ["shift"], 1),
    lie("same-range", ["rank"], 1),
    lie("same-range", ["process"], "loader worker 0"),
    lie("same-range", ["traces", 0], lambda t: t.replace("0.", "1.")),
    lie("same-range", ["traces", 0], "../../../../etc/passwd"),
    lie("same-range", ["runs", 1], 9),
    lie("same-range", ["steps"], "3"),
    lie("equal", ["equal", 0, "what"], "activations"),
    lie("equal", ["equal", 0, "what"], "the moon"),
    lie("equal", ["step"], 0),
    lie("origin", ["at", 0, "digest"], "0" * 32),
    lie("origin", ["at", 0, "record"], 3),
    lie("origin", ["at", 1, "record"], 99),
    lie("origin", ["at", 1, "step"], 2),
    lie("origin", ["step"], [2, 2]),
    lie("origin", ["name"], "y"),
    lie("origin", ["kind"], "weight"),
    lie("origin", ["phase"], "backward"),
    lie("origin", ["type"], "only-b"),
    lie("origin", ["type"], "layout"),
    lie("origin", ["at", 0], None),
    lie("origin", ["at"], [None, None]),
    lie("origin", ["at"], 7),
    lie("class", ["runs"], [1, 2]),
]


@pytest.mark.parametrize("change", LIES, ids=[c.__name__ for c in LIES])
def test_lies_are_refuted(checked, tmp_path, change):
    v = checked("leave-a-mark")
    change(v)
    assert refuted(v, tmp_path), "the lie was believed"


def test_a_consequence_is_no_origin(checked, tmp_path):
    v = checked("leave-a-mark")
    first = claim(v, "origin")
    runs = [recheck.Run(d) for d in v["runs_dir"]]
    for side in (0, 1):  # the weight that h was used for, claimed as the origin
        steps = runs[side].steps(first["at"][side]["file"])
        w = next(r for r in steps.rows[3] if r.key[2] == "w")
        first["at"][side].update(record=w.seq, digest="%016x%016x" % w.digest)
        first.update(name="w", kind="weight", phase=recheck_phase(w))
    assert any("may be its cause" in text for _, text in refuted(v, tmp_path))


def recheck_phase(row):
    from twinrun.trace import PHASES

    return PHASES[row.key[0]]


def test_same_needs_its_evidence(checked, tmp_path):
    good = checked()
    without = copy.deepcopy(good)
    without["claims"] = [c for c in good["claims"] if c["claim"] != "same-range"]
    assert refuted(without, tmp_path)
    headless = copy.deepcopy(good)
    headless["claims"] = [c for c in good["claims"] if c["claim"] != "verdict"]
    assert refuted(headless, tmp_path)
    short = copy.deepcopy(good)
    claim(short, "same-range")["steps"] = 5
    assert any(
        kind == "verdict" for kind, _ in refuted(short, tmp_path)
    ), "5 of 6 steps are not enough"
    contradicted = copy.deepcopy(good)
    contradicted["claims"].append({"claim": "unseen", "text": "weights: at no step"})
    assert any(kind == "verdict" for kind, _ in refuted(contradicted, tmp_path))


def copies(v, tmp_path):
    out = []
    for i, folder in enumerate(v["runs_dir"]):
        out.append(tmp_path / f"copy{i}")
        shutil.copytree(folder, out[-1])
    return out


def test_recordings_that_were_changed_refute_same(checked, tmp_path):
    v = checked()
    a, b = copies(v, tmp_path)
    assert refuted(v, tmp_path, [a, b]) == []
    trace = next(b.glob("ranks/*.twt"))
    honest = trace.read_bytes()
    edited = Edited.read(trace)
    edited.records[4] = edited.records[4]._replace(digest=(1, 2))
    trace.write_bytes(edited.sealed())
    assert {"verdict", "same-range"} & {kind for kind, _ in refuted(v, tmp_path, [a, b])}
    damaged = bytearray(honest)
    damaged[len(damaged) // 2] ^= 1
    trace.write_bytes(bytes(damaged))
    assert any(kind == "verdict" for kind, _ in refuted(v, tmp_path, [a, b]))
    trace.unlink()
    assert refuted(v, tmp_path, [a, b])
    trace.write_bytes(honest)
    text = (b / "stdout").read_bytes()
    (b / "stdout").write_bytes(text.replace(b"loss ", b"loss 1"))
    run = json.loads((b / "run.json").read_text())
    run["stdout"]["sha256"] = "0" * 64
    (b / "run.json").write_text(json.dumps(run))
    assert any(
        "no known noise" in text or "no line" in text for _, text in refuted(v, tmp_path, [a, b])
    )


def test_hostile_verdicts(checked, tmp_path, run, python):
    v = checked()
    env = {"PYTHONPATH": str(ROOT / "python")}
    hostile = tmp_path / "hostile.json"
    for claims in (
        7,
        [7],
        [None],
        [[]],
        [{"claim": "eval"}],
        [{"claim": "verdict"}],
        [{"claim": []}],
        "x",
        [
            {
                "claim": "same-range",
                "traces": ["ranks"] * 2,
                "runs": [1, 2],
                "rules": [{"ignore": 3}],
            }
        ],
        [{"claim": "lost", "first": -1, "last": 1 << 80, "records": True}],
        [
            {
                "claim": "artifact",
                "type": "file",
                "runs": [1, 2],
                "at": [{"file": "\0"}, {"file": 3}],
                "name": 3,
            }
        ],
    ):
        hostile.write_text(json.dumps(dict(v, claims=claims)))
        done = run([python, "-m", "twinrun.recheck", hostile], env=env)
        assert done.rc in (1, 2) and "Traceback" not in done.err, (claims, done)
    hostile.write_text("[" * 100000)
    done = run([python, "-m", "twinrun.recheck", hostile], env=env)
    assert done.rc == 2 and "Traceback" not in done.err
    (tmp_path / "empty").mkdir()
    hostile.write_text(json.dumps(v))
    assert run([python, "-m", "twinrun.recheck", hostile, tmp_path / "empty"], env=env).rc == 2


def test_a_run_folder_does_not_lead_out(checked, tmp_path):
    v = checked()
    a, b = copies(v, tmp_path)
    trace = next(b.glob("ranks/*.twt"))
    outside = tmp_path / "outside.twt"
    shutil.move(trace, outside)
    trace.symlink_to(outside)
    assert any("leads out" in text for _, text in refuted(v, tmp_path, [a, b]))


def test_packed_and_signed(checked, twinrun, home, tmp_path):
    """The verdict travels in the package, where each of its bytes counts, and is among what is
    signed.
    """
    v = checked("leave-a-mark")
    packed = tmp_path / "packed"
    done = twinrun("pack", "last", "-o", packed, "--data", "none")
    assert (packed / "data/expected/verdict.json").exists(), done
    files = {f.name: f.read_bytes() for f in Path(v["runs_dir"][-1], "files").iterdir()}
    assert files and files == {
        f.name: f.read_bytes() for f in (packed / "data/expected/files").iterdir()
    }
    kept = packed / "data/expected/verdict.json"
    assert (
        refuted(
            json.loads(kept.read_text()), tmp_path, [v["runs_dir"][0], packed / "data/expected"]
        )
        == []
    )
    assert twinrun("verify", packed).rc == 0
    kept.write_text(kept.read_text().replace('"origin"', '"carrier"'))
    done = twinrun("verify", packed)
    assert done.rc == 1 and "expected/verdict.json" in done.out

    key = tmp_path / "key"
    assert twinrun("sign", "--new-key", key).rc == 0
    assert twinrun("sign", "last", "--key", key).rc == 0
    envelope = v["runs_dir"][-1] + "/run.dsse.json"
    assert twinrun("verify", envelope, "--key", f"{key}.pub", "last").rc == 0
    kept = v["runs_dir"][-1] + "/verdict.json"
    with open(kept, "a") as f:
        f.write(" ")
    done = twinrun("verify", envelope, "--key", f"{key}.pub", "last")
    assert done.rc == 1 and "verdict.json" in done.out


def test_every_module_of_the_recheck_is_installed(build):
    """Where the package is installed file by file, beside the agents."""
    package = ROOT / "python" / "twinrun"
    introspect = ["meson", "introspect", "--installed", build]
    plan = json.loads(subprocess.run(introspect, capture_output=True, check=True).stdout)
    installed = {Path(p).name for p in plan if Path(p).parent == package}
    needed, waiting = set(), ["recheck.py"]
    while waiting:
        name = waiting.pop()
        needed.add(name)
        text = (package / name).read_text()
        found = re.findall(r"^from \.(\w+) import", text, re.M)
        for line in re.findall(r"^from \. import (.*)", text, re.M):
            found += re.findall(r"\w+", line)
        waiting += [f"{m}.py" for m in found if f"{m}.py" not in needed]
    assert len(needed) > 10 and needed <= installed, needed - installed
