# SPDX-License-Identifier: Apache-2.0
"""The live page of `twinrun serve` in Chromium: runs that really diverged are found by mouse and by
keyboard, news come by themselves, names obey nobody, no request leaves the host, and the console
stays empty. Screenshots: BUILD/screenshots.
"""

import base64
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import urllib.parse

import pytest
from ledger_by_hand import Ledger
from live_helper import GONE, HOSTILE, UNREADABLE, Live, drawn, rows
from serve_helper import BUILD, PATIENCE, TWINRUN, serving

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRAINER = os.path.join(BUILD, "workloads", "trainer")
JOB = os.path.join(BUILD, "tests", "cli", "job")
DIST = os.path.join(ROOT, "web", "live", "dist")
pytestmark = [
    pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN),
    pytest.mark.usefixtures("elsewhere"),
]


@pytest.fixture(scope="module")
def shots():
    folder = os.path.join(BUILD, "screenshots")
    os.makedirs(folder, exist_ok=True)
    return folder


def check(home, *job, project, code):
    """A comparison as people make it."""
    r = subprocess.run(
        [TWINRUN, "check", "--home", home, "--", TRAINER, *job],
        env={**os.environ, "TWINRUN_PROJECT": project, "TWINRUN_LEDGER": ""},
        capture_output=True,
        timeout=PATIENCE * 4,
    )
    assert r.returncode == code, (r.stdout + r.stderr).decode()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """A job that diverges by the order of its threads, and its twin that does not."""
    home = str(tmp_path_factory.mktemp("fleet"))
    check(home, "--steps", "40", "--ordered", project="vision", code=0)
    check(home, "--steps", "40", project="speech", code=1)
    return home


def test_overview_says_what_is_wrong_and_leads_there(browser, fleet, shots):
    with serving(fleet) as s:
        diverged = rows(s, "verdicts", outcome="differ")
        p = Live(browser, s)
        links = p.page.locator("#latest li a")
        assert links.count() == len(diverged) == 1
        assert diverged[0]["first"] in links.first.text_content()
        for row in s.get("/api/v1/indicators?scope=all").json["indicators"]:
            assert row["words"] in p.page.locator("main").text_content()
        p.page.wait_for_selector(".draw canvas")
        p.page.screenshot(path=f"{shots}/live-overview.png", full_page=True)
        p.done()


def pixel(p, figure, column, row):
    """The colour at the corner of a cell, as the canvas has it."""
    return p.page.evaluate(
        """([f, c, r]) => {
        const p = document.querySelectorAll('.draw')[f].picture, at = p.rectOf(c, r);
        const copy = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
        copy.drawImage(p.canvas, -(at.x + 1), -(at.y + 1));
        return [...copy.getImageData(0, 0, 1, 1).data.slice(0, 3)];
    }""",
        [figure, column, row],
    )


def style(p, name):
    text = p.page.evaluate(
        "n => getComputedStyle(document.documentElement).getPropertyValue(n).trim()", name
    )
    return [int(text[i : i + 2], 16) for i in (1, 3, 5)]


def codes(field):
    return [c[0] for c in struct.iter_unpack("<H", base64.b64decode(field["cells"]))]


@pytest.mark.parametrize("width,scheme", [(1000, "light"), (400, "dark")])
def test_three_clicks_lead_to_the_tensor(browser, fleet, shots, width, scheme):
    """The project that is broken, its comparison, the cell; each states what the API says."""
    with serving(fleet) as s:
        verdict = rows(s, "verdicts", outcome="differ")[0]
        answer = s.get("/api/v1/comparisons/" + verdict["id"]).json
        first = answer["compared"]["verdict"]["first"]
        p = Live(browser, s, width=width, color_scheme=scheme)
        p.page.click("main a[href='#/incident/speech']")  # 1
        p.at("#/incident/speech")
        text = p.page.locator("main").text_content()
        assert verdict["first"] in text and "twinrun diff" in text
        assert "Open: the job did not agree since." in text
        assert p.fits()
        p.page.screenshot(path=f"{shots}/live-incident-{scheme}.png", full_page=True)
        p.page.click("text=Show where and why")  # 2
        p.at("#/comparison/" + verdict["id"])
        drawn(p)
        assert first["place"] in p.page.locator("main").text_content()
        p.page.locator(".tools button").first.click()  # 3
        field = answer["heatmap"]
        row, column = field["mark"]
        said = p.page.locator(".readout").first.text_content()
        assert said.startswith(f"step {field['columns'][column]['first']} · ")
        assert first["name"] in said and "differs" in said
        code = codes(field)
        wide = len(field["columns"])
        equal = code.index(1)
        assert pixel(p, 0, equal % wide, equal // wide) == style(p, "--equal")
        assert pixel(p, 0, column, row) != style(p, "--equal")
        assert p.fits()
        p.page.screenshot(path=f"{shots}/live-comparison-{scheme}.png", full_page=True)
        p.done()


def test_pictures_are_read_by_keyboard(browser, fleet):
    with serving(fleet) as s:
        verdict = rows(s, "verdicts", outcome="differ")[0]
        field = s.get("/api/v1/comparisons/" + verdict["id"]).json["heatmap"]
        code, wide = codes(field), len(field["columns"])
        p = Live(browser, s, "#/comparison/" + verdict["id"])
        drawn(p)
        for _ in range(40):
            p.page.keyboard.press("Tab")
            if p.page.evaluate("document.activeElement.className === 'map'"):
                break
        else:
            raise AssertionError("Tab does not reach the picture")
        p.page.keyboard.press("Home")
        for _ in range(len(field["rows"])):
            p.page.keyboard.press("ArrowUp")
        words = {0: "not recorded", 1: "equal, bit for bit"}
        for k, row in enumerate(field["rows"]):  # column 0 from the top to the bottom
            said = p.page.locator(".readout").first.text_content()
            assert row["name"] in said, (k, said)
            assert said.endswith(words.get(code[k * wide], "")) or "differs" in said
            outlined = row["first"] == field["columns"][0]["first"]
            assert ("first difference of this row" in said) == outlined
            p.page.keyboard.press("ArrowDown")
        # Only a part of it, by the form.
        p.page.fill("#q-tensor", "*w1*")
        p.page.fill("#q-to", "5")
        p.page.press("#q-to", "Enter")
        p.page.wait_for_function("() => location.hash.includes('tensor=')")
        p.page.wait_for_function(
            "() => document.querySelector('.draw')?.picture?.columns === 6"
            " && document.querySelector('.draw').picture.head.row.every(r => r.includes('w1'))"
        )
        p.done()


def test_classes_and_what_is_left_of_them(browser, tmp_path, shots):
    """Three runs that are the same and two that leave."""
    home = str(tmp_path)
    env = {**os.environ, "TWINRUN_LEDGER": "", "TWINRUN_HOME": home}
    for ordered in "11100":
        subprocess.run(
            [TWINRUN, "record", "--", TRAINER, "--steps", "12", *["--ordered"] * int(ordered)],
            env=env,
            check=True,
            capture_output=True,
            timeout=PATIENCE * 4,
        )
    folder = os.path.join(home, "runs")
    names = sorted(os.listdir(folder), key=lambda n: os.stat(os.path.join(folder, n)).st_mtime_ns)
    r = subprocess.run([TWINRUN, "diff", *names], env=env, capture_output=True, timeout=PATIENCE)
    assert r.returncode == 1, r
    with serving(home) as s:
        verdict = rows(s, "verdicts", outcome="differ")[0]
        answer = s.get("/api/v1/comparisons/" + verdict["id"]).json
        tree = answer["compared"]["classes"]
        p = Live(browser, s, "#/comparison/" + verdict["id"])
        drawn(p, 3)
        text = p.page.locator("main").text_content()
        for branch in tree:
            if branch["parent"] is not None:
                assert f"leaves at step {branch['step']}: " in text
        assert p.page.locator(".tree-rows li").count() == len(tree) > 1
        assert "Still identical" in text
        # The other runs are chosen one by one, and say what they are.
        agreeing = next(i for i, r in enumerate(answer["runs"]) if r["agreed"] == "agrees")
        p.page.click(f"main a[href='#/comparison/{verdict['id']}?other={agreeing}']")
        p.page.wait_for_function(
            "() => document.querySelector('main .answer')?.textContent.startsWith('Same: ')"
        )
        # There is nothing to zoom into, and no incident, where these two agree.
        text = p.page.locator("main").text_content()
        assert "twinrun diff" in text and "twinrun zoom" not in text
        assert "Incident report" not in text
        p.page.screenshot(path=f"{shots}/live-classes.png", full_page=True)
        p.done()


def test_ranks_have_a_grid(browser, tmp_path, shots):
    mpi, job = (
        shutil.which("mpirun.openmpi"),
        os.path.join(BUILD, "workloads", "trainer_mpi_openmpi"),
    )
    if not mpi or not os.path.exists(job):
        pytest.skip("Open MPI is not installed: ./dev test installs it")
    how = f"{mpi} --allow-run-as-root --oversubscribe -n 3 {job} --steps 6 --plain --permute "
    r = subprocess.run(
        [TWINRUN, "check", "--home", str(tmp_path), "--a", how + "0", "--b", how + "1"],
        env={**os.environ, "TWINRUN_LEDGER": ""},
        capture_output=True,
        timeout=PATIENCE * 4,
    )
    assert r.returncode == 1, r
    with serving(tmp_path) as s:
        verdict = rows(s, "verdicts", outcome="differ")[0]
        grid = s.get("/api/v1/comparisons/" + verdict["id"]).json["compared"]["grid"]
        p = Live(browser, s, "#/comparison/" + verdict["id"])
        drawn(p, 2)
        label = p.page.locator("canvas.map").nth(1).get_attribute("aria-label")
        assert f"{len(grid['rows'])} rows by {len(grid['columns'])} columns" in label
        assert f"{len(grid['outlines'])} outlined" in label
        p.page.screenshot(path=f"{shots}/live-ranks.png", full_page=True)
        p.done()


def test_a_removed_folder_leaves_the_verdict(browser, tmp_path):
    home = str(tmp_path)
    check(home, "--steps", "5", project="speech", code=1)
    with serving(home) as s:
        verdict = rows(s, "verdicts", outcome="differ")[0]
        for name in os.listdir(os.path.join(home, "runs")):
            shutil.rmtree(os.path.join(home, "runs", name))
        p = Live(
            browser,
            s,
            "#/comparison/" + verdict["id"],
            allowed=["Failed to load resource: the server responded with a status of 410 (Gone)"],
        )
        p.page.wait_for_selector("main .answer")
        text = p.page.locator("main").text_content()
        assert verdict["first"] in text and "No pictures: " in text
        assert p.page.locator("canvas").count() == 0
        p.done()


def test_a_run_is_found_by_keyboard_alone(browser, fleet, shots):
    with serving(fleet) as s:
        runs = rows(s, "runs")
        p = Live(browser, s, "#/")
        p.page.keyboard.press("/")
        p.at("#/runs")
        p.page.wait_for_function(
            "n => document.querySelectorAll('.run-row').length === n", arg=len(runs)
        )
        p.page.keyboard.press("/")
        p.page.keyboard.type("speech")
        speech = [r for r in runs if r["facts"]["project"] == "speech"]
        p.page.wait_for_function(
            "n => document.querySelectorAll('.run-row').length === n", arg=len(speech)
        )
        assert p.page.locator("#found").text_content().startswith(f"{len(speech)} of {len(runs)}")
        p.page.keyboard.press("ArrowDown")
        verdict = rows(s, "verdicts", outcome="differ")[0]
        differs = next(r["id"] for r in verdict["runs"] if r["agreed"] == "differs")
        at = [r["id"] for r in speech].index(differs)
        for _ in range(at):
            p.page.keyboard.press("ArrowDown")
        assert p.page.get_attribute(".list", "aria-activedescendant") == f"run-{at}"
        assert p.page.get_attribute(f"#run-{at}", "aria-selected") == "true"
        p.page.screenshot(path=f"{shots}/live-runs.png")
        p.page.keyboard.press("Enter")
        p.at("#/run/" + differs)
        text = p.page.locator("main").text_content()
        assert differs in text and speech[at]["command"] in text and verdict["first"] in text
        assert "Show where and why" in text
        p.page.screenshot(path=f"{shots}/live-run.png", full_page=True)
        p.done()


def test_news_come_by_themselves(browser, tmp_path):
    home = str(tmp_path)
    check(home, "--steps", "5", "--ordered", project="vision", code=0)
    with serving(home) as s:
        p = Live(browser, s)
        assert p.page.locator("#latest li").count() == 0
        p.page.wait_for_selector("html[data-live=true]")
        check(home, "--steps", "5", project="vision", code=1)
        p.page.wait_for_selector("#latest li")
        p.done()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_readable_and_has_names(browser, fleet, scheme):
    """WCAG's contrast of 4.5, a name for all that can be reached, one title, at 400 px."""
    with serving(fleet) as s:
        verdict = rows(s, "verdicts", outcome="differ")[0]["id"]
        run = rows(s, "runs")[0]["id"]
        routes = ["#/", "#/runs", "#/run/" + run, "#/searches", "#/incident/speech"]
        for route in [*routes, "#/comparison/" + verdict, "#/postmortem/" + verdict]:
            p = Live(browser, s, route, width=400, color_scheme=scheme)
            if "comparison" in route:
                drawn(p)
            assert p.page.evaluate(UNREADABLE) == [], route
            assert p.fits(), route
            # The checker itself: what it looks for is found where it is.
            p.page.evaluate(
                "document.querySelector('main h1').style.color ="
                " getComputedStyle(document.body).backgroundColor"
            )
            assert p.page.evaluate(UNREADABLE) != [], route
            p.done()


@pytest.mark.parametrize("width,scheme", [(1000, "light"), (400, "dark")])
def test_an_incident_report_says_what_to_do(browser, tmp_path_factory, shots, width, scheme):
    """From the overview to the report of a divergence whose cause isolate found."""
    home = tmp_path_factory.mktemp("incident") / "home"
    env = {
        **os.environ,
        "TWINRUN_LEDGER": "",
        "TWINRUN_HOME": str(home),
        "TWINRUN_PROJECT": "vision",
    }
    job = [JOB, "--steps", "6", "--noise-at", "3"]
    for verb, code in ("isolate", 1), ("record", 0), ("record", 0):
        r = subprocess.run(
            [TWINRUN, verb, "--", *job], env=env, capture_output=True, timeout=PATIENCE * 2
        )
        assert r.returncode == code, (r.stdout + r.stderr).decode()
    diff = [TWINRUN, "diff", "last~1", "last"]
    assert subprocess.run(diff, env=env, capture_output=True, timeout=PATIENCE).returncode == 1
    with serving(home) as s:
        verdict = next(v for v in rows(s, "verdicts", outcome="differ") if v["verb"] == "diff")
        told = s.get(f"/api/v1/verdicts/{verdict['id']}/postmortem").json
        p = Live(browser, s, "#/incident/vision", width=width, color_scheme=scheme)
        p.page.click("text=Incident report")
        p.at(f"#/postmortem/{verdict['id']}")
        text = p.page.locator("main").text_content()
        assert f"The two runs differ from step {told['first_step']} on." in text
        cause = next(c["cause"] for c in told["checks"] if c["cause"])
        assert "entropy" in cause
        assert f"Cause{cause}, which twinrun isolate showed for this command" in text
        # Everything that the document says is there, and none of its signs.
        for line in told["markdown"].splitlines()[1:]:
            if re.fullmatch(r"[\s|-]*|```\w*", line):
                continue
            for cell in line.split("|"):
                words = re.sub(r"^(#+|- \[ \]|-) |[`*\\]", "", cell.strip()).strip()
                words = re.sub(r"[`*]", "", words)
                assert words in text, words
        assert "`" not in text and "**" not in text
        assert p.page.locator("section.told h2").count() == told["markdown"].count("\n## ")
        assert p.page.locator("section.told table").count() == told["markdown"].count("\n|--") + (
            told["markdown"].count("\n| --")
        )
        assert p.fits()
        p.page.screenshot(path=f"{shots}/live-report-{scheme}.png", full_page=True)
        p.done()


def sign(test):
    if test["parted"]:
        return "≠"
    return "=" if test["steps"] else "·"


def test_a_search_is_followed_while_it_goes_on(browser, tmp_path, shots):
    """isolate is stopped in its middle, so that what the page shows then can be looked at at leisure."""
    home = tmp_path / "home"
    home.mkdir()
    env = {**os.environ, "TWINRUN_LEDGER": ""}
    subprocess.run([TWINRUN, "ls", "--home", home], env=env, check=True, timeout=PATIENCE)
    job = [JOB, "--steps", "6", "--noise-at", "3", "--sleep-ms", "60"]
    with serving(home) as s:
        p = Live(browser, s, "#/searches")
        p.page.wait_for_selector("html[data-live=true]")
        assert "None is in the ledger" in p.page.locator("main").text_content()
        isolate = subprocess.Popen(
            [TWINRUN, "isolate", "--home", home, "--", *job],
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            p.page.wait_for_selector("ul[aria-label='Searches that go on'] a")
            isolate.send_signal(signal.SIGSTOP)
            (name,) = os.listdir(home / "searches")
            with open(home / "searches" / name / "log.jsonl") as f:
                tests = [json.loads(line) for line in f]
            p.page.click("ul[aria-label='Searches that go on'] a")
            p.at("#/search/" + name)
            assert f"Going on: {len(tests)} test" in p.page.locator("main .answer").text_content()
            assert p.page.locator(".steps > li").count() == len(tests)
            p.page.screenshot(path=f"{shots}/live-search-going-on.png", full_page=True)
            isolate.send_signal(signal.SIGCONT)
            p.page.wait_for_function(
                "n => document.querySelectorAll('.steps > li').length > n", arg=len(tests)
            )
        finally:
            isolate.send_signal(signal.SIGCONT)
            assert isolate.wait(PATIENCE * 2) == 1  # a cause was found
        p.page.wait_for_function(
            "() => !document.querySelector('main .answer').textContent.startsWith('Going on')"
        )
        (row,) = rows(s, "searches")
        p.page.click("nav a[href='#/searches']")
        p.page.click(f"main a[href='#/search/{row['id']}']")
        p.at("#/search/" + row["id"])
        search = s.get("/api/v1/searches/" + row["id"]).json["search"]
        assert p.page.locator("main .answer").text_content() == "cause: " + row["cause"]
        lanes = p.page.locator(".lane")
        assert lanes.count() == len(search["hypotheses"]) > 1
        for i, h in enumerate(search["hypotheses"]):
            marks = lanes.nth(i).locator("[data-test]")
            of = [t for t in search["tests"] if h["first"] <= t["number"] <= h["last"]]
            of = [t for t in of if (t["purpose"], t["pinned"]) == (h["purpose"], h["pinned"])]
            assert marks.count() == len(of) == h["tests"]
            assert marks.all_text_contents() == [sign(t) for t in of]
        items = p.page.locator(".steps > li").all_text_contents()
        assert len(items) == len(search["tests"])
        for text, t in zip(reversed(items), search["tests"]):
            assert text.startswith(f"Test {t['number']}")
            assert {"≠": "≠ differed", "=": "= no difference", "·": "· not compared"}[
                sign(t)
            ] in text
            # what was never compared is not called the same
            assert (t["purpose"] == "reference" or t["number"] == 1) == (sign(t) == "·")
        p.page.screenshot(path=f"{shots}/live-search.png", full_page=True)
        p.page.set_viewport_size({"width": 400, "height": 800})
        assert p.fits()
        p.page.screenshot(path=f"{shots}/live-search-400.png", full_page=True)
        p.done()


@pytest.mark.parametrize("width,scheme", [(400, "light"), (1000, "dark")])
def test_hostile_names_are_text(browser, tmp_path, shots, width, scheme):
    home = Ledger(tmp_path)
    for name in HOSTILE:
        a, b = (home.run(project=name, command=name, who=name, host=name) for _ in "ab")
        home.compare([a, b], ["differs"], "differ", command=name, layer=name, cause=name)
    home.db.execute("UPDATE runs SET label = command")
    home.db.execute("UPDATE comparisons SET first = command")
    with serving(home.done()) as s:
        routes = ["#/", "#/runs", "#/searches"]
        routes += [f"#/run/{r['id']}" for r in rows(s, "runs")]
        routes += [f"#/incident/{urllib.parse.quote(n, safe='')}" for n in HOSTILE[:4]]
        for i, route in enumerate(routes):
            p = Live(browser, s, route, width, color_scheme=scheme)
            assert p.fits(), route
            assert p.page.evaluate("document.querySelectorAll('main script, main img').length") == 0
            text = p.page.locator("main").text_content()
            assert "\u202e" not in text and len(text) < 200_000
            dark = p.page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert dark == ("rgb(18, 22, 28)" if scheme == "dark" else "rgb(255, 255, 255)")
            p.page.screenshot(path=f"{shots}/live-hostile-{scheme}-{i}.png", full_page=True)
            p.done()


def test_ten_thousand_runs_are_searched_at_once(browser, tmp_path, record_property):
    home = Ledger(tmp_path)
    for i in range(10_000):
        home.run(start=home.now - i * 10**9, command=f"python t{i}.py", project=f"p{i % 97}")
    with serving(home.done()) as s:
        p = Live(browser, s, "#/runs")
        p.page.wait_for_function(
            "() => document.querySelector('#found').textContent === '10,000 runs.'"
        )
        assert p.page.locator(".run-row").count() < 60
        times = []
        texts = [f"python t{i}.py p{i % 97}" for i in range(10_000)]
        for query in ("t77", "P13 t1", "t9999.py", "no such", "p"):
            hits = sum(all(w in text for w in query.lower().split()) for text in texts)
            p.page.fill("#find", query)
            said = p.page.locator("#found").text_content()
            assert said.startswith(f"{hits:,} of 10,000 runs"), (query, hits, said)
            times.append(float(p.page.get_attribute(".list", "data-ms")))
        record_property("search_ms", max(times))
        print("search of 10,000 runs: at most %.1f ms" % max(times))
        assert (
            max(times) < 1000
        )  # 100 ms is what it should take; other processes are on the machine
        p.page.fill("#find", "")
        p.page.focus(".list")
        p.page.keyboard.press("End")
        p.page.wait_for_selector("#run-9999")
        p.done()


def test_a_token_is_asked_for(browser, fleet, tmp_path):
    token = tmp_path / "token"
    token.write_text("correct-horse-battery\n")
    token.chmod(0o600)
    refused = "Failed to load resource: the server responded with a status of 401 (Unauthorized)"
    with serving(fleet, "--token-file", str(token)) as s:
        p = Live(browser, s, "#/runs", allowed=[refused])
        p.page.fill("#token", "wrong-token-wrong-token")
        p.page.keyboard.press("Enter")
        p.page.wait_for_function(
            "() => document.querySelector('form [role=alert]').textContent === 'That is not the token.'"
        )
        p.page.fill("#token", "correct-horse-battery")
        p.page.keyboard.press("Enter")
        p.page.wait_for_selector(".run-row")
        p.page.wait_for_selector("html[data-live=true]")
        assert p.page.locator("#token").count() == 0
        p.done()


def test_what_is_not_there_is_said(browser, fleet):
    with serving(fleet) as s:
        for route in ("#/run/" + "0" * 32, "#/nowhere", "#/run/%E0%A4%A", "#/constructor"):
            p = Live(browser, s, route, allowed=[GONE])
            if route != "#/run/%E0%A4%A":
                assert p.title() == "This cannot be shown"
                assert p.page.locator("main .found").text_content()
                assert not p.wrong
            p.page.close()


def test_assets_are_small_and_painted_soon(browser, fleet):
    with serving(fleet) as s:
        packed = 0
        for path in ["/"] + ["/assets/" + n for n in os.listdir(os.path.join(DIST, "assets"))]:
            answer = s.get(path, Accept_Encoding="gzip")
            assert answer.status == 200
            packed += len(answer.body)
        assert packed <= 200 * 1024, packed
        p = Live(browser, s)
        paint = p.page.evaluate(
            "performance.getEntriesByName('first-contentful-paint').map(e => e.startTime)"
        )
        print("first paint after %.0f ms, %d bytes compressed" % (paint[0], packed))
        assert paint[0] < 5000  # 1 s is what it should take; other processes are on the machine
        p.done()


LIVE = os.environ.get("TWINRUN_LIVE_TOOLS", "")


@pytest.mark.skipif(not LIVE, reason="Vite is not installed: ./dev test --full installs it")
def test_the_files_are_what_the_sources_give(tmp_path):
    """node_modules as the lock file has them; the same sources, the same bytes."""
    web = tmp_path / "web"
    shutil.copytree(
        os.path.join(ROOT, "web"), web, ignore=shutil.ignore_patterns("node_modules", "dist")
    )
    os.symlink(os.path.join(LIVE, "node_modules"), web / "live" / "node_modules")
    lock = os.path.join("live", "package-lock.json")
    with open(os.path.join(LIVE, "package-lock.json"), "rb") as f:
        assert json.load(f) == json.loads((web / lock).read_text()), "TWINRUN_LIVE_TOOLS is old"
    r = subprocess.run(
        ["npm", "run", "build"], cwd=web / "live", capture_output=True, timeout=PATIENCE * 5
    )
    assert r.returncode == 0, r

    def files(folder):
        found = {}
        for where, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(where, name)
                with open(path, "rb") as f:
                    found[os.path.relpath(path, folder)] = f.read()
        return found

    made, kept = files(web / "live" / "dist"), files(DIST)
    assert sorted(made) == sorted(kept)
    for name in kept:
        assert made[name] == kept[name], f"npm run build in web/live, and commit dist/{name}"
