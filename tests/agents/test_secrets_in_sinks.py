# SPDX-License-Identifier: Apache-2.0
"""A secret on the command line reaches no place where twinrun writes: every command and every form
of output is asked.

The verdict differs, so that each form has something to say and repeats the command in its
suggestions.
"""

import sys

import pytest

UNEQUAL = "import os; print(os.urandom(8).hex())"
WORDS = [
    "--api-key",
    "plantedbyname1",
    "--pass=plantedbyname2",
    "https://ana:plantedinaddress@host/x",
    "https://b.s3.aws/k?X-Amz-Signature=plantedsignature&x=1",
    "https://a.net/c?sig=plantedsig&se=1",
    "-u",
    "ana:plantedlogin",
    "sk_live_" + "plantedShape0123456789",
    "curl --user ana:plantedintext https://h",
    "hooks.slack.com/services/T0A1/B0A1/plantedHook0123456789",
]
JOB = [sys.executable, "-c", UNEQUAL, *WORDS]
SHELL = f"{sys.executable} -c '{UNEQUAL}' --token plantedinarm --password=plantedinarm2"


def everything(folder):
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def assert_nowhere(done, *folders):
    assert "planted" not in done.out, done
    assert "planted" not in done.err, done
    for folder in folders:
        for name, data in everything(folder).items():
            assert b"planted" not in data, (name, data[max(0, data.find(b"planted") - 200) :][:400])


@pytest.fixture
def sinks(work, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    return out, {"GITHUB_STEP_SUMMARY": str(out / "summary.md"), "GITHUB_ACTIONS": "true"}


def forms(out):
    return ["--junit", str(out / "junit.xml"), "--html", str(out / "page.html"), "--github"]


@pytest.mark.parametrize("arms", [False, True])
@pytest.mark.parametrize("json_form", [False, True])
def test_check(twinrun, home, sinks, arms, json_form):
    out, env = sinks
    job = ["--a", SHELL, "--b", SHELL + " --token=plantedinb"] if arms else ["--", *JOB]
    done = twinrun(
        "check", "--runs", "2", *forms(out), *(["--json"] if json_form else []), *job, env=env
    )
    assert done.rc in (1, 3), done
    assert (
        (out / "junit.xml").exists()
        and (out / "page.html").exists()
        and (out / "summary.md").exists()
    )
    assert_nowhere(done, home, out)


def test_the_commands_that_look_at_runs(twinrun, home, sinks):
    out, env = sinks
    for _ in range(2):
        assert_nowhere(twinrun("record", "--", *JOB), home)
    for words in [
        ("diff", "last~1", "last", *forms(out)),
        ("diff", "--env", "last~1", "last"),
        ("show", "last"),
        ("show", "last", "--json"),
        ("show", "last", "--provenance"),
        ("ls",),
        ("ls", "--json"),
        ("report", "last~1", "last", "-o", str(out / "report.html")),
        ("audit", "last"),
        ("zoom", "last~1", "last"),
        ("pack", "last", "-o", str(out / "package")),
    ]:
        assert_nowhere(twinrun(*words, env=env), home, out)


def test_isolate_and_run(twinrun, home, sinks):
    out, env = sinks
    assert_nowhere(twinrun("isolate", "--max-runs", "12", "--", *JOB, env=env), home)
    assert_nowhere(twinrun("run", "--pin", "hash-seed", "--", *JOB, env=env), home)
    # without --: the complaint repeats the command
    assert_nowhere(twinrun("isolate", *JOB, env=env), home)
