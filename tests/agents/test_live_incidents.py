# SPDX-License-Identifier: Apache-2.0
"""The live page's list of incidents, and the causal frontier of ranks, against what the API says and
what the jobs did.
"""

import os
import shutil
import subprocess

import pytest
from ledger_by_hand import HOUR, Ledger
from live_helper import HOSTILE, UNREADABLE, Live, drawn, rows, screenshots
from serve_helper import BUILD, PATIENCE, TWINRUN, serving

pytestmark = [
    pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN),
    pytest.mark.usefixtures("elsewhere"),
]
MINUTE = HOUR // 60


@pytest.fixture
def incidents(tmp_path):
    """A run that diverged and pages, one of the same command that is a ticket, one of which it cannot
    be said, and one whose job agreed again.
    """
    h = Ledger(tmp_path / "home")

    def ago(minutes):
        return h.now - minutes * MINUTE

    a, b, c, d, e, f, g = (h.run(command=x, project=x) for x in "aaabbcc")
    where = "step 3 · rank 0 · loss"
    h.compare([a, b], ["differs"], "differ", when=ago(200), command="a", layer="forward")
    h.compare([a, c], ["differs"], "differ", when=ago(190), command="a")
    h.compare([d, e], ["unknown"], "inconclusive", when=ago(150), command="b")
    h.compare([f, g], ["differs"], "differ", when=ago(100), command="c", cause="cudnn")
    h.db.execute("UPDATE comparisons SET first = ? WHERE outcome = 'differ'", (where,))
    late = [h.run(command="b", project="b", start=ago(60)) for _ in range(2)]
    h.compare(late, ["agrees"], "same", when=ago(50), command="b")
    return h.done()


@pytest.mark.parametrize("width,scheme", [(1000, "light"), (400, "dark")])
def test_the_list_says_what_the_api_says(browser, incidents, width, scheme):
    with serving(incidents) as s:
        told = s.get("/api/v1/incidents").json["incidents"]
        opened = [i for i in told if i["state"] == "open"]
        paging = [i for i in told if i["severity"] == "page"]
        assert (len(told), len(opened)) == (4, 3) and 0 < len(paging) < 4
        p = Live(browser, s, width=width, color_scheme=scheme)
        line = p.page.locator("#incidents a")
        many = sum(i["severity"] == "page" for i in opened)
        assert line.text_content() == f"3 open incidents, {many} of them for the pager"
        line.click()
        p.at("#/incidents")
        # Two of three are said to differ, so the answer does not say that of the third.
        said = "3 incidents of the last 24 h are open."
        assert p.page.locator("main .answer").text_content() == said
        items = p.page.locator("ul[aria-label='Incidents, newest first'] > li")
        assert items.count() == len(told)
        for item, i in zip(items.all(), told):
            text = item.text_content()
            assert i["run"][:8] in text and i["reference"][:8] in text
            assert ("= agreed again" in text) == (i["state"] == "agreed")
            assert ("pages" in text) == (i["severity"] == "page")
            unproven = i["kind"] == "unproven"
            assert ("not known whether it is the same" in text) == unproven
            assert ("step 3 · rank 0 · loss" in text) != unproven
            # what is not proven to differ does not look so
            assert item.locator(".badge.found").count() == 0 or not unproven
            assert item.locator("a").get_attribute("href") == "#/run/" + i["run"]
        assert p.page.evaluate(UNREADABLE) == [] and p.fits()
        p.page.screenshot(path=f"{screenshots()}/live-incidents-{scheme}.png", full_page=True)
        p.page.click("text=Open (3)")
        p.at("#/incidents?show=open")
        assert items.count() == len(opened)
        p.page.click(f"text=Those that page ({len(paging)})")
        p.at("#/incidents?show=page")
        assert items.count() == len(paging)
        items.first.locator("a").click()
        p.at("#/run/" + paging[0]["run"])
        p.done()


def test_what_is_not_proven_is_not_said_to_differ(browser, tmp_path):
    h = Ledger(tmp_path / "home")
    h.compare([h.run(), h.run()], ["unknown"], "inconclusive")
    with serving(h.done()) as s:
        p = Live(browser, s, "#/incidents")
        answer = p.page.locator("main .answer")
        assert "of 1 it is not known whether the run differs" in answer.text_content()
        assert "found" not in answer.get_attribute("class").split()
        p.done()


def test_none_and_a_new_one(browser, tmp_path):
    h = Ledger(tmp_path / "home")
    h.repeats(2)
    with serving(h.done()) as s:
        p = Live(browser, s, "#/incidents")
        said = "No run is known to have diverged in comparisons of the last 24 h."
        assert p.page.locator("main .answer").text_content() == said
        p.page.wait_for_selector("html[data-live=true]")
        h.compare([h.run(), h.run()], ["differs"], "differ", when=h.now)
        # news are what was written down within the hour
        h.db.execute("UPDATE comparisons SET recorded_ns = ? WHERE outcome = 'differ'", (h.now,))
        h.done()
        p.page.wait_for_selector("ul[aria-label='Incidents, newest first'] > li")
        assert "1 incident of the last 24 h is open." in p.page.locator("main").text_content()
        p.done()


def test_a_thousand_and_more(browser, tmp_path):
    """What is left out is counted, and the answer speaks of the listed ones alone."""
    h = Ledger(tmp_path / "home")
    for i in range(1010):
        pair = [h.run(command=f"c{i}") for _ in "ab"]
        h.compare(pair, ["differs"], "differ", when=h.now - i * 10**9, command=f"c{i}")
    with serving(h.done()) as s:
        told = s.get("/api/v1/incidents").json
        assert (len(told["incidents"]), told["left_out"]) == (1000, 10)
        p = Live(browser, s, "#/incidents")
        text = p.page.locator("main").text_content()
        assert "1,000 incidents of the last 24 h are open of those that are listed." in text
        assert "The newest 1,000; 10 more are left out." in text
        items = p.page.locator("ul[aria-label='Incidents, newest first'] > li")
        assert items.count() == 200
        p.page.click("text=Show all")
        assert items.count() == 1000
        p.done()


@pytest.mark.parametrize("width,scheme", [(400, "light"), (1000, "dark")])
def test_hostile_names_are_text(browser, tmp_path, width, scheme):
    h = Ledger(tmp_path / "home")
    for k, name in enumerate([*HOSTILE, "two\nlines\r\x1b[31m"]):
        pair = [h.run(project=name, command=name, host=name) for _ in "ab"]
        when = h.now - k * MINUTE
        h.compare(pair, ["differs"], "differ", when=when, command=name, layer=name, cause=name)
    h.db.execute("UPDATE comparisons SET first = command")
    with serving(h.done()) as s:
        p = Live(browser, s, "#/incidents", width, color_scheme=scheme)
        items = p.page.locator("ul[aria-label='Incidents, newest first'] > li")
        assert items.count() == len(HOSTILE) + 1
        text = p.page.locator("main").text_content()
        assert "<script>alert(1)</script>" in text and len(text) < 50_000
        assert not any(c in text for c in "\u202e\u200b\x1b\n\r")
        assert p.page.evaluate("document.querySelectorAll('main script, main img').length") == 0
        assert p.fits()
        p.page.screenshot(path=f"{screenshots()}/live-incidents-hostile-{scheme}.png")
        p.done()


# ---- the causal frontier: who took what differs from whom


@pytest.fixture(scope="module")
def served_late(tmp_path_factory):
    """A server takes messages in another order in the two runs and broadcasts what it made of them."""
    mpi = shutil.which("mpirun.openmpi")
    job = os.path.join(BUILD, "tests", "agents", "mpi_job_openmpi")
    if not mpi or not os.path.exists(job):
        pytest.skip("Open MPI is not installed: ./dev test installs it")
    home = tmp_path_factory.mktemp("frontier")
    how = f"{mpi} --allow-run-as-root --oversubscribe -n 4 {job} server"
    r = subprocess.run(
        [TWINRUN, "check", "--home", home, "--a", f"env LATE=1 {how}", "--b", f"env LATE=3 {how}"],
        env={**os.environ, "TWINRUN_LEDGER": ""},
        capture_output=True,
        timeout=PATIENCE * 4,
    )
    assert r.returncode == 1, r
    return home


@pytest.mark.parametrize("width,scheme", [(1000, "light"), (400, "dark")])
def test_the_frontier_is_what_the_messages_brought(browser, served_late, width, scheme):
    with serving(served_late) as s:
        verdict = rows(s, "verdicts", outcome="differ")[0]
        grid = s.get("/api/v1/comparisons/" + verdict["id"]).json["compared"]["grid"]
        # The server's rank was first, and the three others took it from there.
        assert [grid["rows"][o[0]] for o in grid["outlines"]] == [0]
        assert {(grid["rows"][a[0]], grid["rows"][a[2]]) for a in grid["arrows"]} == {
            (0, rank) for rank in (1, 2, 3)
        }
        p = Live(browser, s, "#/comparison/" + verdict["id"], width, color_scheme=scheme)
        drawn(p, 2)
        titles = p.page.locator("main h2").all_text_contents()
        known = "Causal frontier: ranks by steps"
        assert (known in titles) == grid["known"] and (
            known in titles or "Ranks by steps" in titles
        )
        label = p.page.locator("canvas.map").nth(1).get_attribute("aria-label")
        assert "1 outlined (rank 0), 3 arrows" in label
        p.page.click("details.frontier summary")
        text = p.page.locator("details.frontier").text_content()
        step = grid["columns"][grid["outlines"][0][1]]
        assert f"rank 0, step {step}: the first difference" in text
        for a in grid["arrows"]:
            at = f"rank {grid['rows'][a[2]]}, step {grid['columns'][a[3]]}"
            assert f"{at}: {a[4]} (rank 0, step {grid['columns'][a[1]]})" in text
        assert ("Taken from no other rank" in text) == grid["known"]
        assert p.page.evaluate(UNREADABLE) == [] and p.fits()
        p.page.screenshot(path=f"{screenshots()}/live-frontier-{scheme}.png", full_page=True)
        p.done()


def test_a_frontier_that_is_not_known_is_not_drawn_as_one(browser, served_late):
    """What a server says of an order that nobody knows: the page names no rank as its own cause."""
    with serving(served_late) as s:
        verdict = rows(s, "verdicts", outcome="differ")[0]["id"]
        answer = s.get("/api/v1/comparisons/" + verdict).json
        answer["compared"]["grid"].update(known=False, why="messages were not recorded")
        page = browser.new_page()
        page.route("**/api/v1/comparisons/**", lambda route: route.fulfill(json=answer))
        page.goto(s.where + "#/comparison/" + verdict)
        page.wait_for_selector("details.frontier")
        text = page.locator("main").text_content()
        assert "Causal frontier" not in text and "taken from no other rank" not in text.lower()
        assert "Which rank was first is not known: messages were not recorded" in text
        page.close()
