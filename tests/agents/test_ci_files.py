# SPDX-License-Identifier: Apache-2.0
"""ci/: the shell of the GitHub Action and of the GitLab template, read out of the YAML and run as
their runners run it, against the built twinrun.
"""

import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import yaml

from conftest import FULL

CI = Path(__file__).resolve().parents[2] / "ci"
ACTION = yaml.safe_load((CI / "github" / "action.yml").read_text())
TEMPLATE = yaml.safe_load((CI / "gitlab" / "twinrun.yml").read_text())[".twinrun"]
INPUT = re.compile(r"\$\{\{ inputs\.([a-z-]+) \}\}")
# what a runner would ask pip for; it keeps the words
PYTHON = '#!/bin/sh\nfor word; do printf "%s\\n" "$word"; done > "$ASKED"\n'


class Runner:
    """runner(command, **inputs) -> exit code; .out, .job (exit code that later steps see)."""

    def __init__(self, where, build, home, work):
        self.where, self.work = where, work
        tools = work.parent / "tools"
        tools.mkdir()
        (tools / "python").write_text(PYTHON)
        (tools / "python").chmod(0o755)
        (tools / "twinrun").symlink_to(build / "cmd" / "twinrun")
        self.asked, self.summary = work.parent / "asked", work.parent / "summary"
        self.outputs = work.parent / "outputs"
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "TWINRUN_CI"))},
            "PATH": f"{tools}:{os.environ['PATH']}",
            "ASKED": str(self.asked),
            "TWINRUN_HOME": str(home),
        }

    def __call__(self, command, **inputs):
        inputs = {"command": command, "package": "", **inputs}
        return self.github(inputs) if self.where == "github" else self.gitlab(inputs)

    def shell(self, argv, script, env):
        path = self.work.parent / "script"
        path.write_text(script)
        done = subprocess.run(
            [*argv, path],
            cwd=self.work,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=300,
        )
        self.out = done.stdout.decode("utf-8", "replace")
        return done.returncode

    def github(self, given):
        values = {k: v.get("default", "") for k, v in ACTION["inputs"].items()}
        assert set(given) <= set(values)
        values.update(given)
        kept = {"GITHUB_OUTPUT": str(self.outputs), "GITHUB_STEP_SUMMARY": str(self.summary)}
        self.outputs.write_text("")
        for step in ACTION["runs"]["steps"]:
            assert step.get("if", "inputs.package != ''") == "inputs.package != ''"
            if "if" in step and not values["package"]:
                continue
            assert step["shell"] == "bash"
            env = {k: values[INPUT.fullmatch(v).group(1)] for k, v in step["env"].items()}
            argv = ["bash", "--noprofile", "--norc", "-eo", "pipefail"]
            rc = self.shell(argv, step["run"], {**env, **kept})
            if rc:
                break
        assert self.outputs.read_text() == f"exit-code={rc}\n"
        return rc

    def gitlab(self, given):
        given = {f"TWINRUN_CI_{k.upper()}": v for k, v in given.items()}
        assert set(given) <= set(TEMPLATE["variables"])
        env = {**TEMPLATE["variables"], **given}
        return self.shell(["sh", "-e"], "\n".join(TEMPLATE["script"]), env)


@pytest.fixture(params=["github", "gitlab"])
def runner(request, build, home, work):
    return Runner(request.param, build, home, work)


@pytest.fixture
def job(build, twinrun, work):
    """The words of a job whose baseline is in the working folder."""
    path = build / "tests" / "cli" / "job"
    done = twinrun("check", "--save-baseline", "expected.json", "--", path, "--steps", "12")
    assert done.rc == 0, done.out
    return f"'{path}' --steps 12"


def failures(path):
    return ElementTree.parse(path).getroot().findall(".//failure")


def test_the_same(runner, job, work):
    assert runner(job) == 0, runner.out
    assert "SAME" in runner.out
    assert failures(work / "twinrun.xml") == []


def test_differs(runner, job, work):
    (work / "count").write_text("5\n")
    assert runner(job + "\n  --runs-file count --part-at 7") == 1, runner.out
    assert "DIFFER" in runner.out
    assert len(failures(work / "twinrun.xml")) == 1
    if runner.where == "github":
        assert "::error" in runner.out
        assert "DIFFER" in runner.summary.read_text()


def test_no_baseline_is_trouble(runner, job, work):
    assert runner(job, baseline="not there.json") == 2, runner.out
    assert "not there.json" in runner.out


@pytest.mark.parametrize("command", ["", "  \n ", "job 'open"])
def test_a_command_that_is_none(runner, job, command):
    assert runner(command) == 2, runner.out
    assert "SAME" not in runner.out


def test_nothing_given_is_taken_for_shell(runner, job, work):
    evil = "$(touch pwned)`touch pwned`;touch pwned\"'"
    assert runner(job, baseline=evil) == 2, runner.out
    words = work / "words"
    words.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > ../said\n')
    words.chmod(0o755)
    runner("./words $(touch pwned) '`touch  pwned`'\n; touch \"pwned  *\" -- -x '' *")
    assert (work.parent / "said").read_text().split("\n")[:-1] == [
        *("$(touch", "pwned)", "`touch  pwned`", ";", "touch", "pwned  *", "--", "-x", "", "*")
    ]
    words.unlink()
    shutil.copy(work / "expected.json", work / evil)
    assert runner(job, baseline=evil) == 0, runner.out
    assert not (work / "pwned").exists()


def test_what_is_installed_is_one_word(runner, job):
    package = "twinrun==0.1; touch pwned"
    runner(job, package=package)
    assert runner.asked.read_text().split("\n")[:-1] == ["-m", "pip", "install", package]


HOOKS = os.environ.get("TWINRUN_HOOKS_PYTHON", "")


@pytest.mark.skipif(
    not (FULL and HOOKS),
    reason="TWINRUN_HOOKS_PYTHON names no Python with check-jsonschema (./dev test --full makes one)",
)
@pytest.mark.parametrize(
    "schema, file",
    [("github-actions", "github/action.yml"), ("gitlab-ci", "gitlab/twinrun.yml")],
)
def test_the_published_schema_takes_it(schema, file):
    words = ["--builtin-schema", "vendor." + schema, CI / file]
    done = subprocess.run([HOOKS, "-m", "check_jsonschema", *words], stdout=subprocess.PIPE)
    assert done.returncode == 0, done.stdout.decode()
