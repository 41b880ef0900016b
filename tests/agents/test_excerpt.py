# SPDX-License-Identifier: Apache-2.0
"""The page of a verdict shows the user's lines, and only if they are still those that ran."""

import html
import re

from test_page import Page

JOB = """
    import array, os, twinrun
    for step in range(3):
        # the noise <b>
        noise = os.urandom(1)[0] / 7 + os.urandom(4)[0]
        twinrun.record("batch:x", array.array("d", [step, noise]))
        twinrun.record("weights", array.array("d", [step * noise]))
        twinrun.step()
"""
LINES = """\
     2  for step in range(3):
     3      # the noise <b>
     4      noise = os.urandom(1)[0] / 7 + os.urandom(4)[0]
>    5      twinrun.record("batch:x", array.array("d", [step, noise]))
     6      twinrun.record("weights", array.array("d", [step * noise]))
     7      twinrun.step()
"""


def shown(page):
    """The first block of text of the page, and all of its words."""
    text = page.read_text()
    block = re.findall(r"<pre>(.*?)</pre>", text, re.S)[0]
    return html.unescape(block), html.unescape(re.sub(r"<[^>]*>", "", text))


def test_the_lines_around_the_first_divergence(twinrun, script, tmp_path, browser):
    path = tmp_path / "page.html"
    check = ("check", "-q", "--html", path, "--runs", "2", "--", "python3")
    job = script("job.py", JOB)
    done = twinrun(*check, "job.py")
    assert done.rc == 1 and "at     job.py:5 in" in done.out, done
    block, text = shown(path)
    assert "job.py, as it was in run 1 (by its digest)." in text
    assert block == LINES
    p = Page(browser, path)
    p.page.set_viewport_size({"width": 400, "height": 700})
    p.settle()
    assert p.page.evaluate("document.documentElement.scrollWidth <= 400")
    assert p.page.locator("pre", has_text="the noise <b>").first.text_content() == LINES
    assert p.wrong == []
    p.page.close()
    # others since then, gone, and in a scratch copy as in the folder itself
    for change, why in (
        (lambda: job.write_text(job.read_text() + "#"), "it has changed since the run"),
        (lambda: job.write_text(job.read_text()[:-1].replace("7", "8")), "it has changed since"),
        (job.unlink, "it is not where it was"),
    ):
        change()
        assert twinrun("report", "--html", path, "last~1", "last").rc == 0
        assert f"The lines of job.py are not shown: {why}" in shown(path)[1], why
    # what looks like a secret stays out of a page that is handed around; also of a scratch copy
    script("job.py", JOB.replace("# the noise <b>", 'api_token = "hunter2hunter2"'))
    twinrun("check", "--fresh-dir", *check[1:], "job.py")
    block, _ = shown(path)
    assert "hunter2" not in block and "api_token" in block and "[redacted]" in block, block
    # nor a half of one where a line is cut; a tab is the space that it is in an editor
    token = "ghp_" + "0123456789abcdefghij" * 2
    script("job.py", JOB.replace("# the noise <b>", "a =\t1 #" + " " * 180 + token))
    twinrun(*check, "job.py")
    block, _ = shown(path)
    assert "ghp_" not in block and "     3      a = 1 # " in block, block
    # a file of which nothing was recorded, such as a module
    script("inner.py", JOB)
    script("outer.py", 'import runpy\nrunpy.run_path("inner.py")\n')
    twinrun(*check, "outer.py")
    said = "The lines of inner.py are not shown: no digest of it was recorded"
    assert said in shown(path)[1]
