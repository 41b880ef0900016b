# SPDX-License-Identifier: Apache-2.0
"""The clock experiment on numbers in files, and between two commands.

Each job writes numbers of which nobody knows whether they are times. What follows the clock is one,
in each of the forms that are read by lines; what changes by itself, or has a result's name, is not.
"""

import copy
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

import test_clock  # noqa: E402
from test_clock import check, check_times, recheck, refuted  # noqa: E402

BEFORE = "rows = []\n"
# {v} is a number at the end of the job, rows holds one of each step.
FORMS = {
    "text": "open('r.txt', 'w').write('conv1 %.4f ms\\n' % {v})",
    "lines": "open('r.txt', 'w').writelines('conv1 %.4f ms\\n' % r for r in {rows})",
    "log": "open('r.log', 'w').write('\\rcell 1\\rconv1 %.4f ms\\n' % {v})",
    "json": "import json; json.dump({{'b': 1, 'a': [1, {{'half-life (ms)': {v}}}], 'k': 'x,\"y'}}, open('r.json', 'w'), indent=1)",
    "one line of json": "import json; json.dump({{'z': 3, 'half-life (ms)': {v}}}, open('r.json', 'w'))",
    "lines of json": "import json; open('r.jsonl', 'w').writelines(json.dumps({{'z': 1, 'half-life (ms)': r}}) + '\\n' for r in {rows})",
    "table": "open('r.csv', 'w').write('cell,half-life (ms)\\n' + ''.join('%d,%.6f\\n' % x for x in enumerate({rows})))",
    "table of another country": "open('r.csv', 'w').write('\"cell; 1\";half-life (ms)\\r\\n'"
    " + ''.join('%d;%.6f\\r\\n' % x for x in enumerate({rows})))",
    "a folder that counts": "import pathlib; n = len(list(pathlib.Path('.').glob('version_*'))); p = pathlib.Path('version_%d' % n);"
    " p.mkdir(); (p / 'r.txt').write_text('conv1 %.4f ms\\n' % {v})",
}


def body(form, v, rows):
    return "rows.append(dt * 1e3)\n    if step == 4: " + FORMS[form].format(v=v, rows=rows)


@pytest.mark.parametrize("form", FORMS)
def test_times_in_files(tmp_path, form):
    verdict, runs = check_times(tmp_path, body(form, "rows[-1]", "rows"), BEFORE)
    assert verdict["outcome"] == "same", verdict
    assert not refuted(verdict, runs)
    claims = [c for c in verdict["claims"] if c["claim"] == "clock"]
    assert len(claims) == 1 and claims[0]["columns"][0]["stream"].startswith(("r.", "version_"))


@pytest.mark.parametrize("form", FORMS)
def test_results_in_files(tmp_path, form):
    verdict, runs = check(
        tmp_path, body(form, "random.random() * 40", "[random.random() * 40 for r in rows]"), BEFORE
    )
    assert verdict["outcome"] != "same", verdict
    assert not refuted(verdict, runs)


def test_a_result_beside_a_time(tmp_path):
    both = "'conv1 %.4f ms, period %.4f s\\n' % (dt * 1e3, 3 + random.random())"
    verdict, _ = check(tmp_path, "if step == 4: open('r.txt', 'w').write(" + both + ")")
    assert verdict["outcome"] != "same", verdict


def test_equal_words_in_two_files_are_two_columns(tmp_path):
    """That the number in one file is a time says nothing of the same words in another."""
    both = "if step == 4: open('a.txt', 'w').write('conv1 %.4f ms\\n' % (dt * 1e3)); open('b.txt', 'w').write('conv1 %.4f ms\\n' % (30 + 9 * random.random()))"
    verdict, runs = check(tmp_path, both)
    assert verdict["outcome"] == "inconclusive", verdict
    assert "b.txt" in verdict["unseen"][0] and not refuted(verdict, runs)


def test_a_file_that_grows_stays_open(tmp_path):
    """Of its lines only the new ones are this run's, and whose those of a faster run are is not
    known.
    """
    verdict, _ = check(
        tmp_path, "if step == 4: open('r.txt', 'a').write('conv1 %.4f ms\\n' % (dt * 1e3))"
    )
    assert verdict["outcome"] == "inconclusive", verdict
    assert not any("clock experiment" in n for n in verdict["notes"])


def arms(tmp_path, body_a, body_b):
    import json
    import os
    import subprocess

    for name, text in (("a", body_a), ("b", body_b)):
        (tmp_path / (name + ".py")).write_text(test_clock.JOB % text)
    env = test_clock.pool.environment(tmp_path / "home")
    argv = [
        test_clock.BUILD / "cmd" / "twinrun",
        "check",
        "--runs",
        "2",
        "--json",
        "--a",
        "%s a.py" % sys.executable,
        "--b",
        "%s b.py" % sys.executable,
    ]
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout, done.stderr
    verdict = json.loads(done.stdout)
    assert all(os.path.isdir(d) for d in verdict["runs_dir"])
    return verdict, [recheck.Run(d) for d in verdict["runs_dir"]]


def test_times_of_two_commands(tmp_path):
    """The experiment is made with the first command; a number of the second that is near is a time,
    too.
    """
    shown = 'print("conv1: %.2f ms" % (dt * 1e3))'
    verdict, runs = check_times(tmp_path, shown, "pass; " + shown, how=arms)
    assert verdict["outcome"] == "same", verdict
    assert not refuted(verdict, runs)


@pytest.mark.parametrize(
    "other",
    ['print("conv1: %.2f ms" % (dt * 1e4))', 'print("conv1: %.2f ms" % (500 + random.random()))'],
)
def test_results_of_two_commands(tmp_path, other):
    """What is far from the first command's number is no time by that alone."""
    verdict, _ = arms(tmp_path, 'print("conv1: %.2f ms" % (dt * 1e3))', other)
    assert verdict["outcome"] != "same", verdict


def test_lies_about_files_are_refuted(tmp_path):
    verdict, runs = check_times(tmp_path, body("json", "rows[-1]", "rows"), BEFORE)
    claims = verdict["claims"]
    at = next(i for i, c in enumerate(claims) if c["claim"] == "clock")
    for change in (
        lambda c: c["columns"][0].__setitem__("stream", "other.json"),
        lambda c: c["columns"][0].__setitem__("line", 1),
        lambda c: c["columns"][0].__setitem__("line", 400),
        lambda c: c["columns"][0].__setitem__("number", "1"),
        lambda c: c["columns"][0].__setitem__("lines", 2),
    ):
        lie = copy.deepcopy(claims[at])
        change(lie)
        assert recheck.Recheck(claims, runs, verdict).one(lie)[0] == "refuted", lie
