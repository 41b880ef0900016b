# SPDX-License-Identifier: Apache-2.0
"""%%twinrun, in a real kernel (nbclient, ipykernel) and in a plain IPython."""

import html.parser
import os
import sys

import nbclient
import nbformat
import pytest

from conftest import ROOT, clean_environment

TRAIN = """
import array, random, twinrun
import beside
for step in range(4):
    twinrun.record("batch:x", array.array("d", [1, step]))
    twinrun.record("weight:w", array.array("d", [random.random() if step == 2 else 1.0]))
    twinrun.step()
print("printed <b>by</b> the cell")
"""


class Text(html.parser.HTMLParser):
    """The words of a page, and the elements in it."""

    def __init__(self, page):
        super().__init__()
        self.words, self.tags = "", []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.words += data


@pytest.fixture
def environment(build, work, home, script, monkeypatch):
    """The kernel's: the command and the package as they were built, a home of this test's."""
    script("beside.py", "pass\n")
    env = clean_environment(
        {
            "PATH": os.pathsep.join([str(build / "cmd"), os.environ["PATH"]]),
            "PYTHONPATH": str(ROOT / "python"),
            "TWINRUN_HOME": str(home),
            "IPYTHONDIR": str(work.parent / "ipython"),
        }
    )
    return env


def outputs(cell, kind):
    return [o for o in cell.outputs if o.output_type == kind]


def test_cells(environment, work, monkeypatch):
    """A cell that diverges, its deterministic twin, one that fails: what a reader sees of each."""
    cells = [
        "%load_ext twinrun",
        "%%twinrun -n 2\n" + TRAIN,
        "%%twinrun\n" + TRAIN.replace("import beside", "import beside; random.seed(7)"),
        "verdict = _\nprint(bool(verdict), verdict.outcome, len(verdict.runs))",
        "%%twinrun\nraise ValueError('<i>spam</i>')",
        "%%twinrun --level nonsense\npass",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(work)}}
    ).execute()
    _, bad, good, used, failing, misused = notebook.cells

    (shown,) = outputs(bad, "execute_result")
    page = Text(shown.data["text/html"])
    for words in (shown.data["text/plain"], page.words):
        assert "DIFFER" in words and "step 2 · rank 0 · optimizer · weight w" in words
        assert "cell.py:6 in <module>" in words
    assert set(page.tags) == {"div", "p", "strong", "pre"}
    assert "".join(o.text for o in outputs(bad, "stream")) == "printed <b>by</b> the cell\n"

    (shown,) = outputs(good, "execute_result")
    assert shown.data["text/plain"].startswith("SAME ")
    assert Text(shown.data["text/html"]).words.startswith("SAME ")
    assert "".join(o.text for o in outputs(used, "stream")) == "True SAME 2\n"

    (shown,) = outputs(failing, "execute_result")
    page = Text(shown.data["text/html"])
    assert page.words.startswith("ERROR") and "ValueError: <i>spam</i>" in page.words
    assert set(page.tags) == {"div", "p", "strong", "pre"}

    (shown,) = outputs(misused, "execute_result")
    assert "nonsense" in shown.data["text/plain"]
    assert {p.name for p in work.iterdir()} - {"__pycache__"} == {"beside.py"}


def test_plain_ipython(environment, work, run, script):
    """Without a notebook the verdict is text."""
    script("cell.ipy", "%load_ext twinrun\nget_ipython().run_cell('%%twinrun\\npass');\n")
    done = run([sys.executable, "-m", "IPython", "cell.ipy"], work, environment)
    assert "INCONCLUSIVE" in done.out and "left a record" in done.out, done


def test_without_the_command(environment, work, run, script, tmp_path):
    script("cell.ipy", "%load_ext twinrun\nget_ipython().run_cell('%%twinrun\\npass');\n")
    environment["PATH"] = str(tmp_path)
    done = run([sys.executable, "-m", "IPython", "cell.ipy"], work, environment)
    assert "the command twinrun was not found" in done.out, done
