# SPDX-License-Identifier: Apache-2.0
"""Notes of a verdict that state a fact of the recordings are rechecked; others are listed as
stated.

Each verdict is rechecked as it is; then each number in each confirmed note is altered, in the note
and in its claim alike: no such note is confirmed.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]

import pool  # noqa: E402
from mutant_tools import Copy  # noqa: E402
from test_claims import BUILD, recheck, recorded  # noqa: E402, F401
from test_tolerance import changed, diff  # noqa: E402
from traces import Edited, record  # noqa: E402
from twinrun.trace import KINDS, PHASES, Series, Trace  # noqa: E402


def states(verdict):
    """[(state, text)] of the verdict's notes, in their order."""
    runs = [recheck.Run(d) for d in verdict["runs_dir"]]
    r = recheck.Recheck(verdict["claims"], runs, verdict)
    results = [(c, *r.one(c)) for c in verdict["claims"]]
    assert [x for x in results if x[1] == "refuted"] == []
    return [(state, c["text"]) for c, state, _ in results if c["claim"] == "note"]


def survivors(verdict):
    """Altered notes that are confirmed all the same."""
    runs, out = [recheck.Run(d) for d in verdict["runs_dir"]], []
    for state, text in states(verdict):
        for m in re.finditer(r"\d+", text) if state == "confirmed" else ():
            other = text[: m.start()] + str(int(m.group()) + 1) + text[m.end() :]
            if other in verdict["notes"]:
                continue  # said of the other run, and true
            lie = json.loads(json.dumps(verdict).replace(json.dumps(text), json.dumps(other)))
            r = recheck.Recheck(lie["claims"], runs, lie)
            if [c for c in lie["claims"] if c.get("text") == other and r.one(c)[0] == "confirmed"]:
                out.append(other)
    return out


def confirmed(verdict, part):
    assert [(s, t) for s, t in states(verdict) if part in t and s == "confirmed"], states(verdict)
    assert survivors(verdict) == []


def compare(*runs, options=()):
    done = subprocess.run(
        [BUILD / "cmd" / "twinrun", "diff", "--json", *options, "--", *runs],
        env=pool.environment(runs[-1].parent / "home"),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def with_run(recorded, tmp_path, name, **changes):  # noqa: F811
    copy = Copy(recorded("values").b, tmp_path / name)
    copy.run = {**copy.run, **changes}
    return copy.folder


def test_of_a_tolerance(recorded, tmp_path):  # noqa: F811
    a = recorded("values").a
    confirmed(diff(a, changed(recorded, tmp_path, "b", 1 + 1e-6)), "5 differences measured")
    confirmed(
        diff(a, changed(recorded, tmp_path, "c", 1.5)),
        "outside the tolerance: forward/loss/loss at step 3: relative L2 0.5",
    )
    none = diff(a, changed(recorded, tmp_path, "d", 1 + 1e-6), policy=("x", "abs = 1.0"))
    confirmed(none, "no rule covers it")


def test_of_runs_that_failed(recorded, tmp_path):  # noqa: F811
    a = with_run(recorded, tmp_path, "a", exit_code=3)
    verdict = compare(a, with_run(recorded, tmp_path, "b", exit_code=3))
    assert verdict["outcome"] == "error"
    confirmed(verdict, "run 1: exit code 3, 8 steps recorded")
    allowed = diff(a, changed(recorded, tmp_path, "c", 1 + 1e-6))
    confirmed(allowed, "not judged by the tolerance: run 1 failed (exit code 3)")


def test_of_what_the_job_recorded(recorded, tmp_path):  # noqa: F811
    r = recorded("stepless")
    verdict = compare(r.a, r.b)
    if "values that the job records itself were compared, too" in verdict["notes"]:
        confirmed(verdict, "values that the job records itself")
    lie = compare(recorded("values").a, recorded("values").b)
    text = "values that the job records itself were compared, too"
    lie["notes"].append(text)
    claim = {"claim": "note", "text": text}
    runs = [recheck.Run(d) for d in lie["runs_dir"]]
    state = recheck.Recheck([*lie["claims"], claim], runs, lie).one(claim)[0]
    has = b"value:" in Path(pool.HERE / "jobs" / "values.py").read_bytes()
    assert state == ("confirmed" if has else "refuted")


def test_of_printed_results(recorded, tmp_path):  # noqa: F811
    copy = Copy(recorded("values").b, tmp_path / "b")
    out = (copy.folder / "stdout").read_text()
    copy.write("stdout", re.sub(r"loss [0-9.]+", "loss 0.25", out).encode())
    verdict = compare(recorded("values").a, copy.folder)
    confirmed(
        verdict, "all records are equal: what differs was made by something that was not seen"
    )
    verdict["runs_dir"][1] = str(changed(recorded, tmp_path, "c", 1.5))
    runs = [recheck.Run(d) for d in verdict["runs_dir"]]
    claim = next(
        c for c in verdict["claims"] if c["claim"] == "note" and "all records" in c["text"]
    )
    assert recheck.Recheck(verdict["claims"], runs, verdict).one(claim)[0] == "refuted"


def test_of_printed_results_of_runs_that_failed(recorded, tmp_path):  # noqa: F811
    """Their traces end where the death cut them: only what was compared is said to be equal."""
    a, b = (Copy(getattr(recorded("values"), k), tmp_path / k) for k in "ab")
    for copy in (a, b):
        copy.run = {**copy.run, "exit_code": 11}
    out = (b.folder / "stdout").read_text()
    b.write("stdout", re.sub(r"loss [0-9.]+", "loss 0.25", out).encode())
    verdict = compare(a.folder, b.folder)
    assert (verdict["outcome"], verdict["first"]) == ("error", None)
    assert [c["runs"] for c in verdict["classes"]] == [[0], [1]]
    text = (
        "all records that were compared are equal: what differs was made by something that was not "
        "seen, or after the last record of a run that failed or was ended"
    )
    confirmed(verdict, text)
    artifacts = [c for c in verdict["claims"] if c["claim"] == "artifact"]
    assert len(artifacts) == 1, "what differed is a claim, though none is called the first"
    runs = [recheck.Run(d) for d in verdict["runs_dir"]]
    judge = recheck.Recheck(verdict["claims"], runs, verdict)
    claim = next(c for c in verdict["claims"] if c.get("text") == text)
    lies = [{"claim": "class", "runs": [2], "parts_at_step": 3}]
    assert [judge.one(c)[0] for c in lies] == ["refuted"]
    # runs that print the same have no such classes; records that differ refute the note
    b.write("stdout", (a.folder / "stdout").read_bytes())
    leaves = next(c for c in verdict["claims"] if c["claim"] == "class" and c["runs"] == [2])
    judge = recheck.Recheck(
        verdict["claims"], [recheck.Run(d) for d in verdict["runs_dir"]], verdict
    )
    assert judge.one(leaves)[0] == "refuted"
    verdict["runs_dir"][1] = str(changed(recorded, tmp_path, "c", 1.5))
    judge = recheck.Recheck(
        verdict["claims"], [recheck.Run(d) for d in verdict["runs_dir"]], verdict
    )
    assert judge.one(claim)[0] == "refuted"


def test_of_lines_left_out(recorded, tmp_path):  # noqa: F811
    r = recorded("values")
    confirmed(
        compare(r.a, r.b, options=("--ignore", "line:^step [2-5]")),
        "left out by --ignore 'line:...': 4 lines of stdout of each run",
    )


def test_of_lines_left_out_of_one_run(recorded, tmp_path):  # noqa: F811
    r = recorded("values")
    copy = Copy(r.b, tmp_path / "b")
    copy.write("stdout", (copy.folder / "stdout").read_bytes() + b"step 5 again\n")
    verdict = compare(r.a, copy.folder, options=("--ignore", "line:^step [2-5]"))
    assert (
        "left out by --ignore 'line:...': 4 lines of stdout of run 1, 5 of run 2"
        in verdict["notes"]
    )


def edited(r, folder, change):
    """A run folder with its first trace changed."""
    copy = Copy(r, folder)
    name = copy.traces()[0]
    trace = Edited.read(copy.folder / name)
    change(trace)
    copy.write(name, trace.sealed())
    return copy.folder


def test_of_a_step_without_results(recorded, tmp_path):  # noqa: F811
    def bare(trace):
        inputs = PHASES.index("data")
        trace.records = [
            x for x in trace.records if x.step != 5 or trace.series[x.series].phase == inputs
        ]

    a, b = (edited(getattr(recorded("values"), k), tmp_path / k, bare) for k in "ab")
    verdict = compare(a, b)
    assert verdict["outcome"] == "inconclusive"
    assert (
        "weights, gradients or outputs: not at 1 of 8 steps, first at step 5" in verdict["unseen"]
    )
    states(verdict)


def test_of_other_bits_with_equal_numbers(recorded, tmp_path):  # noqa: F811
    def other(trace):
        for i, x in enumerate(trace.records):
            if (
                x.step == 4
                and trace.strings.get(trace.series[x.series].name) == b"w"
                and trace.series[x.series].phase == PHASES.index("optimizer")
            ):
                trace.records[i] = x._replace(digest=(1, 2))

    verdict = compare(recorded("values").a, edited(recorded("values").b, tmp_path / "b", other))
    said = "same sum, minimum and maximum: the same values in another order?"
    assert verdict["first"]["detail"]["text"] == said
    states(verdict)


def test_of_what_one_run_alone_was_given_again(recorded, tmp_path):  # noqa: F811
    """A function is given what it gave back in the step before, but for step 4 of run 2."""

    def loop(lost):
        def change(trace):
            names = [trace.string(n) for n in ("state", "train_step: result", "train_step")]
            n = len(trace.series)
            given, back = PHASES.index("data"), PHASES.index("forward")
            trace.series[n + 1] = Series(
                given, KINDS.index("in"), names[0], names[2], 0, names[2], 0
            )
            trace.series[n + 2] = Series(
                back, KINDS.index("activation"), names[1], names[2], 0, names[2], 0
            )
            for step in range(8):
                was = 99 if lost and step == 4 else step
                trace.records.append(record(step, 0, n + 1, 0, (was, 1)))
                trace.records.append(record(step, 0, n + 2, 0, (step + 1, 1)))
            trace.renumber()

        return change

    a = edited(recorded("values").a, tmp_path / "a", loop(False))
    verdict = compare(a, edited(recorded("values").b, tmp_path / "b", loop(True)))
    said = "run 1 was given, byte for byte, what train_step gave back in step 3; run 2 was not"
    assert verdict["first"]["name"] == "state" and verdict["first"]["role"] == "unknown"
    assert verdict["first"]["detail"]["text"] == said
    states(verdict)
    runs = [recheck.Run(d) for d in verdict["runs_dir"]]
    for lie in (
        said.replace("step 3", "step 2"),
        said.replace("train_step", "train"),
        "run 2 was given, byte for byte, what train_step gave back in step 3; run 1 was not",
    ):
        told = json.loads(json.dumps(verdict).replace(json.dumps(said), json.dumps(lie)))
        r = recheck.Recheck(told["claims"], runs, told)
        of_lie = [r.one(c)[0] for c in told["claims"] if c.get("text") == lie]
        assert of_lie and set(of_lie) == {"refuted"}, lie


def test_of_what_a_hash_alone_proves(recorded, tmp_path):  # noqa: F811
    """Records of a step were dropped, and the sums over all of them differ."""

    def dropped(trace):
        with_sums = Trace(trace.sealed()).steps()
        end = next(s for s in with_sums if s.step == 3)
        gone = [x for x in trace.records if x.step == 3][-2:]
        trace.records = [x for x in trace.records if x not in gone]
        sums = {p: (lo + 1, hi) for p, (lo, hi) in end.phases.items()}
        trace.dropped[3], trace.kept[3] = len(gone), end._replace(phases=sums)

    verdict = compare(recorded("values").a, edited(recorded("values").b, tmp_path / "b", dropped))
    assert (
        verdict["first"]["detail"]["text"]
        == "proven by the value hash; --lossless keeps the details"
    )
    states(verdict)


def check(tmp_path, *options):
    done = subprocess.run(
        [BUILD / "cmd" / "twinrun", "check", "--json", "--runs", "2", *options],
        env=pool.environment(tmp_path / "home"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return json.loads(done.stdout)


def test_of_arms_without_initial_weights(tmp_path):
    job = "%s %s" % (sys.executable, pool.HERE / "jobs" / "values.py")
    verdict = check(tmp_path, "--a", job, "--b", "env NUDGE=4 " + job)
    confirmed(
        verdict,
        "no initial weights were recorded, so where run 2 goes on from run 1 was not looked for; --b-starts-at K says it",
    )


def test_of_ranks_that_part_together(recorded, tmp_path):  # noqa: F811
    r = recorded("ranks")
    copy = Copy(r.b, tmp_path / "b")
    for name in copy.traces():
        trace = Edited.read(copy.folder / name)
        for i, row in enumerate(trace.records):
            if row.step == 2:
                trace.records[i] = row._replace(digest=(row.digest[0] + 1, row.digest[1]))
        copy.write(name, trace.sealed())
    confirmed(compare(r.a, copy.folder), "diverging in the same step: rank")


def test_of_what_the_runs_showed_first_where_a_zoom_moved_it(recorded, tmp_path):  # noqa: F811
    """A zoom names another step; the notes are of the runs, and a kind may have a space in it."""
    r, local = recorded("ranks"), KINDS.index("gradient (local)")
    folders = []
    for run, by in ((r.a, 0), (r.b, 1)):
        copy = Copy(run, tmp_path / ("run%d" % by))
        for name in copy.traces():
            trace = Edited.read(copy.folder / name)
            trace.series = {i: x._replace(kind=local) for i, x in trace.series.items()}
            trace.records = [
                row._replace(digest=(row.digest[0] + by * (row.step == 2), row.digest[1]))
                for row in trace.records
            ]
            copy.write(name, trace.sealed())
        folders.append(copy.folder)
    verdict = compare(*folders)
    (together,) = [n for n in verdict["notes"] if n.startswith("diverging in the same step: rank")]
    (first,) = [c for c in verdict["claims"] if c.get("first") is True]
    what = "%s/%s %s" % (verdict["first"]["phase"], KINDS[local], verdict["first"]["name"])
    moved = "in the runs themselves, which recorded no operations, the first that differs is %s of step %d"
    first.update(zoom=["a", "b"], step=[0, 0])
    true, false = moved % (what, 2), [moved % (what, 1), moved % (what + "x", 2)]
    verdict["notes"] += [true, *false]
    r = recheck.Recheck(verdict["claims"], [recheck.Run(d) for d in folders], verdict)

    def state(text):
        return r.one({"claim": "note", "text": text})[0]

    assert [state(together), state(true)] == ["confirmed", "confirmed"]
    assert [state(text) for text in false] == ["refuted", "refuted"]
    verdict["notes"].append("diverging in the same step: rank 7")
    assert state("diverging in the same step: rank 7") == "refuted"


def test_a_note_without_its_claim_and_a_claim_without_its_note(recorded, tmp_path):  # noqa: F811
    verdict = diff(recorded("values").a, changed(recorded, tmp_path, "b", 1 + 1e-6))
    runs = [recheck.Run(d) for d in verdict["runs_dir"]]
    headline = verdict["claims"][0]
    rest = [c for c in verdict["claims"] if c["claim"] != "note"]
    assert recheck.Recheck(rest, runs, verdict).one(headline)[0] == "refuted"
    more = {"claim": "note", "text": "run 1 is the better one"}
    assert recheck.Recheck([*rest, more], runs, verdict).one(more)[0] == "refuted"


@pytest.mark.parametrize(
    "text", ["A repeats itself (2 runs), so the difference lies between A and B"]
)
def test_what_lies_outside_of_the_recordings_is_stated(recorded, tmp_path, text):  # noqa: F811
    verdict = compare(recorded("values").a, recorded("values").b)
    verdict["notes"] = [text]
    claim = {"claim": "note", "text": text}
    runs = [recheck.Run(d) for d in verdict["runs_dir"]]
    assert recheck.Recheck([claim], runs, verdict).one(claim) == ("stated", text)
