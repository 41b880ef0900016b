# SPDX-License-Identifier: Apache-2.0
"""The live page when it is given what nobody wants: names that are HTML, scripts, other directions
of writing or a megabyte; journals of searches that are damaged, cut off or gone. And the policy that
would hold if a name became HTML all the same.
"""

import json
import os
import shutil
import socket
import subprocess

import pytest
from live_helper import GONE, HOSTILE, UNREADABLE, Live, drawn, rows, screenshots
from serve_helper import BUILD, JOB, PATIENCE, TWINRUN, serving

pytestmark = [
    pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN),
    pytest.mark.usefixtures("elsewhere"),
]
TRAINER = os.path.join(BUILD, "workloads", "trainer")
EVIL = (
    '<img src=x onerror="window.ran=1"><script>window.ran=1</script>\r\n\x1b[2J\u202ekcab\u200b`**|'
)
# What a screen obeys or does not show; a line of its own is fine where the page makes lines.
OBEYED = "\u202e\u200b\x1b\r"


def twinrun(home, *words, code, **environment):
    r = subprocess.run(
        [TWINRUN, *words],
        env={**os.environ, "TWINRUN_LEDGER": "", "TWINRUN_HOME": str(home), **environment},
        capture_output=True,
        timeout=PATIENCE * 4,
    )
    assert r.returncode == code, (r.stdout + r.stderr).decode()


# ---- the policy

# Each way in which a name that became HTML could do something, and what the browser calls it.
WAYS = {
    "script-src-elem": "const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s);",
    "script-src-attr": 'main.innerHTML = \'<img src="data:," onerror="window.ran = 1">\';',
    "script-src": "main.innerHTML = '<a id=\"bad\" href=\"javascript:window.ran=1\">x</a>'; document.getElementById('bad').click();",
    "style-src-attr": "main.innerHTML = '<p style=\"position:fixed\">x</p>';",
    "img-src": "new Image().src = 'OTHER/x.png';",
    "connect-src": "fetch('OTHER/').catch(() => 0);",
    "frame-src": "const f = document.createElement('iframe'); f.src = 'OTHER/'; main.append(f);",
    "form-action": "main.innerHTML = '<form action=\"OTHER/\"><button id=\"b\">x</button></form>'; document.getElementById('b').click();",
    "base-uri": "const b = document.createElement('base'); b.href = 'OTHER/'; document.head.append(b);",
    "object-src": "const o = document.createElement('object'); o.data = 'OTHER/x'; main.append(o);",
}


def sent_to(server):
    """What somebody asked of this server: for a frame Chromium connects before it looks at the
    policy, and then sends nothing.
    """
    try:
        c, _ = server.accept()
    except BlockingIOError:
        return b""
    with c:
        c.settimeout(2)
        try:
            return c.recv(4096)
        except TimeoutError:
            return b""


def test_the_policy_is_sent_and_holds(browser, tmp_path):
    """An element is put into the page as if a name had become HTML: the browser refuses each way."""
    twinrun(tmp_path, "ls", code=0)
    with serving(tmp_path) as s:
        for path in ("/", "/assets/live.js", "/assets/live.css"):
            sent = s.get(path).headers["Content-Security-Policy"]
            policy = dict(part.strip().split(" ", 1) for part in sent.split(";"))
            assert policy["default-src"] == "'none'" and policy["script-src"] == "'self'"
            assert policy["base-uri"] == policy["form-action"] == "'none'"
            assert policy["frame-ancestors"] == "'none'"
            assert "unsafe" not in sent and "*" not in sent and "http" not in sent
        page = browser.new_page()
        other = socket.create_server(("127.0.0.1", 0))
        other.setblocking(False)
        where = "http://127.0.0.1:%d" % other.getsockname()[1]
        for directive, way in WAYS.items():
            page.goto(s.where + "#/runs")
            page.wait_for_selector("html[data-shown]")
            refused = page.evaluate(
                """way => new Promise(done => {
                addEventListener('securitypolicyviolation', e => done(e.effectiveDirective));
                setTimeout(() => done('nothing was refused'), 20000);
                new Function('main', way)(document.getElementById('main'));
            })""",
                way.replace("OTHER", where),
            )
            # a javascript: link is a script of an element, or an inline one, by browser
            assert refused == directive or directive == "script-src" in refused, (
                directive,
                refused,
            )
            assert page.evaluate("window.ran") is None, directive
            assert sent_to(other) == b"", directive
        page.close()
        other.close()


# ---- searches


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    home = tmp_path_factory.mktemp("searched") / "home"
    twinrun(home, "isolate", "--", JOB, "--steps", "6", "--noise-at", "3", code=1)
    return home


@pytest.fixture
def search(searched, tmp_path):
    """A copy of a home with one search that ended, and the folder of that."""
    home = tmp_path / "home"
    shutil.copytree(searched, home)
    (name,) = os.listdir(home / "searches")
    return home, home / "searches" / name


def text_of(p):
    return p.page.locator("main").text_content()


def test_a_damaged_journal(browser, search):
    """What can be read is shown, how much cannot is said, and no test is made up."""
    home, folder = search
    lines = (folder / "log.jsonl").read_bytes().splitlines()
    bad = [b"\xff\xfe", b"[" * 5000, b'{"number": 1e99, "run": 5}', b"{}"]
    (folder / "log.jsonl").write_bytes(b"\n".join([*bad, lines[0], bad[0], lines[1], b""]))
    os.utime(folder / "log.jsonl", (1_700_000_000, 1_700_000_000))  # older than its verdict
    with serving(home) as s:
        (row,) = rows(s, "searches")
        p = Live(browser, s, "#/search/" + row["id"])
        assert "5 lines of its journal" in text_of(p)
        assert p.page.locator(".steps > li").count() == 2
        assert p.page.locator("[data-test]").count() == 2
        # The verdict is the ledger's, and stays.
        assert p.page.locator("main .answer").text_content() == "cause: " + row["cause"]
        p.done()


def test_a_journal_that_is_gone(browser, search):
    home, folder = search
    with serving(home) as s:
        (row,) = rows(s, "searches")
        shutil.rmtree(folder)
        p = Live(browser, s, "#/search/" + row["id"])
        text = text_of(p)
        assert "Its journal is not there any more" in text and row["cause"] in text
        assert p.page.locator(".steps > li").count() == 0
        p.done()
        p = Live(browser, s, "#/search/" + folder.name, allowed=[GONE])
        assert p.title() == "This cannot be shown"
        p.done()


def test_an_interrupted_search_is_not_called_ended(browser, search):
    """Its process is gone and it has no verdict: neither a cause nor "none" is said."""
    home, folder = search
    ended = subprocess.Popen(["true"])
    ended.wait()
    cut = folder.with_name(f"{folder.name.rsplit('-', 1)[0]}-{ended.pid}")
    folder.rename(cut)
    (cut / "verdict.json").unlink()
    log = cut / "log.jsonl"
    log.write_bytes(log.read_bytes()[:-40])  # in the middle of a line
    os.utime(log, (1_700_000_000, 1_700_000_000))
    whole = log.read_bytes().count(b"\n")
    with serving(home) as s:
        p = Live(browser, s, "#/search/" + cut.name, width=400, color_scheme="dark")
        answer = p.page.locator("main .answer")
        said = "Interrupted, or nothing is known of it since its last test."
        assert answer.text_content() == said and "open" in answer.get_attribute("class").split()
        assert p.page.locator(".steps > li").count() == whole
        assert "cause: " not in text_of(p) and "no cause" not in text_of(p)
        assert p.fits() and p.page.evaluate(UNREADABLE) == []
        p.page.screenshot(path=f"{screenshots()}/live-search-cut.png", full_page=True)
        p.done()


@pytest.mark.parametrize("width,scheme", [(1000, "light"), (400, "dark")])
def test_a_search_of_hostile_words(browser, search, width, scheme):
    home, folder = search
    what = json.loads((folder / "search.json").read_text())
    line = json.loads((folder / "log.jsonl").read_text().splitlines()[0])
    what["factors"][0] = EVIL
    what["factors"][1] = "z" * 4000
    what["argv"] = ["job", *HOSTILE[:4], EVIL, "y" * 20000]
    (folder / "search.json").write_text(json.dumps(what))
    (folder / "plan.txt").write_text(EVIL * 200)
    tests = [{**line, "number": i + 1, "pinned": ["%016x" % (i % 8)]} for i in range(1200)]
    (folder / "log.jsonl").write_text("".join(json.dumps(t) + "\n" for t in tests))
    with serving(home) as s:
        p = Live(browser, s, "#/search/" + folder.name, width, color_scheme=scheme)
        p.page.click("summary")
        text = text_of(p)
        assert "<script>" in text and "onerror" in text and len(text) < 500_000
        assert not any(c in text for c in OBEYED)
        assert p.page.evaluate("document.querySelectorAll('main script, main img').length") == 0
        assert p.page.evaluate("window.ran") is None
        assert p.page.locator(".steps > li").count() == 300 and "of 1,200 tests" in text
        assert p.page.locator(".lane").count() == 8
        assert p.fits()
        p.page.screenshot(path=f"{screenshots()}/live-search-hostile-{scheme}.png")
        p.done()


def test_a_search_over_two_commands(browser, tmp_path):
    """Both commands are there, which is which, and the lanes are those of the journal."""
    home = tmp_path / "home"
    a, b = (f"A={k} {TRAINER} --ordered --quiet --steps 5 --seed {k}" for k in (1, 2))
    twinrun(home, "isolate", "-q", "--a", a, "--b", b, code=1)
    with serving(home) as s:
        (row,) = rows(s, "searches")
        told = s.get("/api/v1/searches/" + row["id"]).json["search"]
        assert told["arms"] == [a, b]
        p = Live(browser, s, "#/search/" + row["id"], width=400, color_scheme="dark")
        names = p.page.locator("main dt").all_text_contents()
        values = p.page.locator("main dd").all_text_contents()
        said = dict(zip(names, values))
        assert said["Command A"] == a and said["Command B"] == b and "Command" not in said
        assert p.page.locator("main .answer").text_content() == "cause: " + row["cause"]
        assert p.page.locator(".lane").count() == len(told["hypotheses"]) > 1
        assert p.page.locator(".steps > li").count() == told["tests_all"]
        assert p.fits() and p.page.evaluate(UNREADABLE) == []
        p.page.screenshot(path=f"{screenshots()}/live-search-arms.png", full_page=True)
        p.done()


# ---- comparisons and incident reports

NAMED = """
import ctypes, sys
lib = ctypes.CDLL({library!r})
values = (ctypes.c_float * 4)(1, 2, 3, 4)
shape = (ctypes.c_int64 * 1)(4)
names = {names!r}
for step in range(6):
    for name in names:
        values[0] = step + (int(sys.argv[1]) if step > 2 else 0)
        lib.twin_record(name.encode(), {f32}, 1, shape, None, values, 0)
    lib.twin_step()
"""
F32 = 1


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """Two runs of a job whose tensors have hostile names and which differ from step 3 on."""
    folder = tmp_path_factory.mktemp("named")
    job = folder / "<b>job\u202e.py"
    library = os.path.join(BUILD, "agents", "libtwinrun.so")
    names = ["forward:" + n for n in [*HOSTILE[:4], EVIL, "w" * 3000]]
    job.write_text(NAMED.format(library=library, names=names, f32=F32))
    home = folder / "home"
    for k in "01":
        words = ["record", "-q", "--", "python3", str(job), k, EVIL]
        twinrun(home, *words, code=0, TWINRUN_PROJECT=EVIL)
    twinrun(home, "diff", "last~1", "last", code=1)
    return home


@pytest.mark.parametrize("width,scheme", [(1000, "light"), (400, "dark")])
def test_hostile_names_in_a_comparison_and_its_report(browser, named, width, scheme):
    with serving(named) as s:
        verdict = rows(s, "verdicts", outcome="differ")[0]["id"]
        names = [r["name"] for r in s.get("/api/v1/comparisons/" + verdict).json["heatmap"]["rows"]]
        # written out once: what stands for what is certain
        assert len(names) == 6 and r"forward:\xe2\x80\xaereversed\xe2\x80\x8b" in names
        for route in ("#/comparison/", "#/postmortem/"):
            p = Live(browser, s, route + verdict, width, color_scheme=scheme)
            if "comparison" in route:
                drawn(p)
            p.page.wait_for_selector("main .answer")
            text = text_of(p)
            assert "<script>" in text and not any(c in text for c in OBEYED), route
            count = "document.querySelectorAll('main script, main img, main iframe').length"
            assert p.page.evaluate(count) == 0 and p.page.evaluate("window.ran") is None
            assert p.fits(), route
            if "comparison" in route:
                # the read-out of each row, as a screen reader has it
                p.page.locator("canvas.map").first.focus()
                for _ in range(6):
                    said = p.page.locator(".readout").first.text_content()
                    assert not any(c in said for c in OBEYED) and len(said) < 2000
                    p.page.keyboard.press("ArrowDown")
            name = route.strip("#/") + f"-hostile-{scheme}"
            p.page.screenshot(path=f"{screenshots()}/live-{name}.png", full_page=True)
            p.done()


# Texts of others in any answer; the other strings are ids, numbers and words of ours.
FOREIGN = {
    "place", "operation", "layer", "name", "headline", "what", "equal_before", "why", "command",
    "first", "cause", "plan", "project", "host", "label", "family", "contributor", "sweep", "verb",
    "path", "kind", "group", "size", "error", "purpose", "markdown",
}  # fmt: skip


def soiled(value, key=""):
    """An answer in which every text of others is hostile, also those that a server makes safe."""
    if isinstance(value, dict):
        return {k: soiled(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [soiled(v, key) for v in value]
    return EVIL + "q" * 5000 if isinstance(value, str) and key in FOREIGN else value


@pytest.mark.parametrize(
    "view", ["comparison", "postmortem", "search", "run", "runs", "incidents", ""]
)
def test_the_page_does_not_rely_on_a_careful_server(browser, named, searched, view):
    """Each answer is soiled on its way: the page alone keeps a name a name."""
    with serving(searched if view == "search" else named) as s:
        route = "#/" + view
        if view in ("comparison", "postmortem"):
            route += "/" + rows(s, "verdicts", outcome="differ")[0]["id"]
        elif view == "search":
            route += "/" + rows(s, "searches")[0]["id"]
        elif view == "run":
            route += "/" + rows(s, "runs")[0]["id"]
        page = browser.new_page(viewport={"width": 400, "height": 800})
        wrong = []
        page.on("pageerror", lambda e: wrong.append(str(e)))
        page.on("console", lambda m: wrong.append(m.text))
        page.on("dialog", lambda d: (wrong.append("dialog"), d.dismiss()))
        page.on("request", lambda r: r.url.startswith((s.where, "data:")) or wrong.append(r.url))
        seen = []

        def soil(way):
            if "/events" in way.request.url:
                return way.continue_()
            answer = way.fetch()
            seen.append(way.request.url)
            return way.fulfill(response=answer, json=soiled(answer.json()))

        page.route("**/api/v1/**", soil)
        page.goto(s.where + route)
        page.wait_for_selector("html[data-shown]", timeout=PATIENCE * 1000)
        page.wait_for_function(
            "() => document.querySelector('main').textContent.includes('onerror')",
            timeout=PATIENCE * 1000,
        )
        assert seen and page.locator("main h1").text_content() != "This cannot be shown"
        text = page.locator("main").text_content()
        assert not any(c in text for c in OBEYED) and "q" * 3000 not in text
        assert page.evaluate("document.querySelectorAll('main script, main img').length") == 0
        assert page.evaluate("window.ran") is None
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.unroute_all(behavior="ignoreErrors")
        page.close()
        assert wrong == []
