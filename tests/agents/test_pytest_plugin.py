# SPDX-License-Identifier: Apache-2.0
"""@pytest.mark.reproducible, in a real pytest that finds the plugin by its entry point."""

import os
import re
import sys
import xml.etree.ElementTree as xml

import pytest

from conftest import ROOT, marker_line, version

TESTS = """
    import array, os, random
    import pytest
    import twinrun

    MADE = os.environ["MADE"]

    def train(noise=0.0, at=2):
        for step in range(4):
            twinrun.record("batch:x", array.array("d", [1, step]))
            w = 1.0 + (noise * random.random() if step == at else 0)
            twinrun.record("weight:w", array.array("d", [w, step]))  # ORIGIN
            twinrun.step()

    @pytest.fixture
    def seeded(request, tmp_path):
        # made where the test runs: once in each of its processes, never outside
        with open(MADE, "a") as f:
            f.write("%s %d\\n" % (request.node.name, os.getpid()))
        random.seed(request.getfixturevalue("seed"))
        (tmp_path / "kept").write_text(request.config.getoption("--word"))
        yield request.config.getoption("--word")
        random.seed()

    reproducible = pytest.mark.reproducible(runs=2, ignore="file:" + MADE)

    @reproducible
    def test_diverges():
        train(noise=1.0)

    @reproducible
    @pytest.mark.parametrize("seed", ["a::b[1]", "2"])
    def test_twin(seeded, seed):
        assert seeded == "given"
        train(noise=1.0)

    @pytest.mark.reproducible(runs=2, tolerance="allowed.toml")
    def test_within():
        train(noise=1e-9)

    class TestGroup:
        @pytest.mark.xfail(reason="known")
        @reproducible
        def test_known(self):
            train(noise=1.0)

    @reproducible
    def test_broken():
        train()
        assert "spam" == "eggs"

    @reproducible
    def test_leaves_itself_out():
        pytest.skip("no device here")

    @reproducible
    def test_shows_nothing():
        pass

    @pytest.mark.reproducible(run=2)
    def test_wrong_word():
        pass

    def test_without_mark():
        assert "TWINRUN_RUN_DIR" not in os.environ
"""


ALLOWED = """
    [[tolerance]]
    pattern = "*/weight/w"
    rtol = 1e-6
    reason = "what this test allows"
"""


@pytest.fixture
def site(tmp_path):
    """A folder for PYTHONPATH: the package as pip would have installed it, its entry points as
    pyproject.toml has them.
    """
    folder = tmp_path / "site"
    installed = folder / f"twinrun-{version()}.dist-info"
    installed.mkdir(parents=True)
    (folder / "twinrun").symlink_to(ROOT / "python" / "twinrun")
    metadata = f"Metadata-Version: 2.1\nName: twinrun\nVersion: {version()}\n"
    (installed / "METADATA").write_text(metadata)
    text = (ROOT / "pyproject.toml").read_text()
    points = re.search(r"\[project\.entry-points\.(pytest11)\]\n((?:\w.*\n)+)", text)
    (installed / "entry_points.txt").write_text(f"[{points[1]}]\n" + points[2].replace('"', ""))
    return folder


@pytest.fixture
def outer(build, run, work, home, site, script):
    """outer(*arguments): a pytest in the working folder."""
    script(
        "conftest.py",
        """
        def pytest_addoption(parser):
            parser.addoption("--word", default="not given")
        """,
    )

    def call(*args, env=None):
        path = os.pathsep.join([str(build / "cmd"), os.environ["PATH"]])
        env = {"PATH": path, "PYTHONPATH": str(site), "TWINRUN_HOME": str(home), **(env or {})}
        return run([sys.executable, "-m", "pytest", *args], work, env)

    return call


def outcomes(path):
    """What came of each test, and what was said of it, from pytest's own JUnit XML."""
    found = {}
    for case in xml.parse(path).getroot().iter("testcase"):
        child = next((c for c in case if c.tag in ("failure", "skipped", "error")), None)
        tag, message = ("passed", "") if child is None else (child.tag, child.get("message"))
        found[case.get("name")] = tag, message, "" if child is None else child.text or ""
    return found


def test_each_outcome(outer, script, tmp_path, work, home):
    script("test_it.py", TESTS)
    script("allowed.toml", ALLOWED)
    made = tmp_path / "made"
    done = outer(
        "-n", "2", "-o", "addopts=-m 'not never'", "--word", "given", "--junitxml", "out.xml",
        "test_it.py", env={"MADE": str(made)},
    )  # fmt: skip
    assert done.rc == 1, done
    found = outcomes(work / "out.xml")

    tag, message, text = found["test_diverges"]
    first = message.split("\n")[0]
    assert tag == "failure" and first.startswith(
        "twinrun: does not reproduce: step 2 · rank 0 · optimizer · weight w ORIGIN"
    ), done
    assert f"at     test_it.py:{marker_line(work / 'test_it.py')} in train" in text, text
    assert "in test_diverges" in text, text
    assert found["test_twin[a::b[1]]"][0] == found["test_twin[2]"][0] == "passed", done
    assert found["test_within"][0] == "passed", done
    tag, message, _ = found["test_known"]
    assert (tag, message) == ("skipped", "known"), done  # as pytest writes xfail
    tag, message, text = found["test_broken"]
    assert tag == "failure" and "fails in every run" in message.split("\n")[0], done
    assert "assert 'spam' == 'eggs'" in text
    tag, message, _ = found["test_leaves_itself_out"]
    assert tag == "skipped" and "no device here" in message, done
    tag, message, text = found["test_shows_nothing"]
    assert tag == "failure" and "not known to reproduce" in message.split("\n")[0], done
    assert "no process of the job left a record" in text
    tag, message, _ = found["test_wrong_word"]
    assert tag == "failure" and "found run" in message, done
    assert found["test_without_mark"][0] == "passed" and len(found) == 10, done

    # Each test in processes of its own, two each, and its fixtures there alone.
    lines = made.read_text().split("\n")[:-1]
    assert len(lines) == 4 and len({line.rsplit(" ", 1)[1] for line in lines}) == 4, lines
    # Runs are where they are told to be, and nothing is left among the project's files.
    assert {p.name for p in work.iterdir()} - {"__pycache__", ".pytest_cache"} == {
        "conftest.py", "test_it.py", "allowed.toml", "out.xml",
    }  # fmt: skip
    assert list(home.glob("runs/*/verdict.json"))


def test_under_twinrun_the_mark_means_nothing(outer, script, work, run, build, home, site):
    """`twinrun check -- pytest` watches the whole: its tests start no checks of their own."""
    script(
        "test_it.py",
        """
        import array, os, pytest, twinrun

        @pytest.mark.reproducible
        def test_it():
            assert "TWINRUN_RUN_DIR" in os.environ
            twinrun.record("x", array.array("d", [1]))
        """,
    )
    argv = [build / "cmd" / "twinrun", "record", "--", sys.executable, "-m", "pytest", "test_it.py"]
    done = run(argv, work, {"PYTHONPATH": str(site), "TWINRUN_HOME": str(home)})
    assert done.rc == 0 and "1 passed" in done.out, done
    assert len(list(home.glob("runs/*"))) == 1


def test_without_the_command(outer, script, tmp_path):
    script("test_it.py", "import pytest\n\n@pytest.mark.reproducible\ndef test_it():\n    pass\n")
    done = outer("test_it.py", env={"PATH": str(tmp_path)})
    assert done.rc == 1 and "the command twinrun was not found" in done.out, done
