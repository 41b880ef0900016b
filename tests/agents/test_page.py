# SPDX-License-Identifier: Apache-2.0
"""HTML pages in Chromium: what is drawn and read out is what was recorded; no request, no message,
no foreign script; by keyboard alone.

The first page comes from page_make.c, whose cells are computed again here. Screenshots:
BUILD/screenshots. TWINRUN_FULL=1: a million cells.
"""

import math
import re
import shutil
import subprocess

import pytest
from conftest import FULL, clean_environment

STATES = [
    "not recorded",
    "differs, but does not count",
    "unknown: its record was lost",
    "differs, by how much is not known",
    "recorded in one run only",
    "differs: NaN or infinity",
]


class Page:
    """A page that was opened and drawn, and everything it did that it should not do."""

    def __init__(self, browser, path, **how):
        self.wrong = []
        self.page = browser.new_page(viewport={"width": 1000, "height": 800}, **how)
        self.page.on("console", lambda m: self.wrong.append(f"console: {m.text}"))
        self.page.on("pageerror", lambda e: self.wrong.append(f"error: {e}"))
        self.page.on("dialog", lambda d: (self.wrong.append("dialog"), d.dismiss()))
        self.page.on(
            "request",
            lambda r: r.url == f"file://{path}" or self.wrong.append(f"request: {r.url[:100]}"),
        )
        self.page.goto(f"file://{path}")
        self.page.wait_for_selector("html[data-drawn]", timeout=60000)
        self.page.wait_for_function(
            "[...document.querySelectorAll('.draw')].every(d => d.picture && d.picture.area !== null)"
        )
        self.settle()

    def settle(self):
        """Two frames: the observers of sizes have been asked."""
        self.page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))"
        )

    def readout(self, figure=0):
        return self.page.locator("figure .readout").nth(figure).text_content()

    def pixel(self, column, row, corner=False):
        """The colour in the middle of a cell (or in its corner), as the canvas has it; and the
        cell's size.
        """
        return self.page.evaluate(
            """([c, r, corner]) => {
            const p = document.querySelector('.draw').picture, at = p.rectOf(c, r), x = at.x + (corner ? 1 : at.w >> 1), y = at.y + (corner ? 1 : at.h >> 1);
            const copy = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
            copy.drawImage(p.canvas, -x, -y);
            return [...copy.getImageData(0, 0, 1, 1).data.slice(0, 3), at.w, at.h];
        }""",
            [column, row, corner],
        )

    def style(self, name):
        return self.page.evaluate(
            "n => getComputedStyle(document.documentElement).getPropertyValue(n).trim()", name
        )


def rgb(text):
    text = text.strip()
    text = "#" + "".join(2 * c for c in text[1:]) if len(text) == 4 else text
    return [int(text[i : i + 2], 16) for i in (1, 3, 5)]


def value(column, columns):
    return 10 ** (-8 + 6 * column / columns)


def colour(page, x, low, high):
    """What the ramp of the style sheet gives, between two decades."""
    stops = [rgb(s) for s in page.style("--ramp").split(",")]
    at = (math.log10(x) - low) / (high - low) * (len(stops) - 1)
    k = min(int(at), len(stops) - 2)
    return [a + (b - a) * (at - k) for a, b in zip(stops[k], stops[k + 1])]


@pytest.fixture(scope="module")
def shots(build):
    folder = build / "screenshots"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def made(build, run, tmp_path):
    def make(columns, rows):
        path = tmp_path / "page.html"
        r = run([build / "tests" / "agents" / "page_make", path, columns, rows])
        assert r.rc == 0, r
        return path

    return make


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_cells_are_drawn_and_read_out_as_they_are(browser, made, shots, scheme):
    columns, rows = 40, 12
    p = Page(browser, made(columns, rows), color_scheme=scheme)
    p.page.screenshot(path=shots / f"cells-{scheme}.png", full_page=True)
    for c, r in [(10, 8), (25, 8), (39, 11)]:
        *found, w, h = p.pixel(c, r)
        want = colour(p, value(c, columns), -8, -2)
        assert max(abs(a - b) for a, b in zip(found, want)) <= 4, (c, r, found, want)
        assert w > 10 and h > 10
    equal = p.pixel(2, 8, corner=True)[:3]
    assert equal == rgb(p.style("--equal"))
    # By more than hue: what is equal and the smallest difference are far apart in lightness.
    light = [0.2126 * a + 0.7152 * b + 0.0722 * c for a, b, c in (equal, colour(p, 1e-8, -8, -2))]
    assert abs(light[0] - light[1]) > 35, light
    # From the keyboard alone: to the canvas, to the first difference, on from cell to cell.
    canvas = p.page.locator("canvas.map")
    canvas.focus()
    assert p.readout().startswith(
        "step 106 · weights · tensor.6<b>: differs, relative difference"
    ), p.readout()
    assert float(p.readout().split()[-1]) == pytest.approx(value(6, columns), rel=0.06)
    p.page.keyboard.press("ArrowRight")
    assert p.readout().startswith("step 107 · weights · tensor.6<b>") and float(
        p.readout().split()[-1]
    ) == pytest.approx(value(7, columns), rel=0.06)
    for key in ["ArrowLeft", "ArrowLeft"]:
        p.page.keyboard.press(key)
    assert p.readout() == "step 105 · weights · tensor.6<b>: equal, bit for bit"
    p.page.keyboard.press("n")
    assert p.readout().startswith("step 106 · weights · tensor.6<b>: differs")
    p.page.keyboard.press("End")
    for r in reversed(range(6)):  # one state a row
        p.page.keyboard.press("ArrowUp")
        assert p.readout().endswith(f"tensor.{r}: {STATES[r]}"), p.readout()
        assert p.readout().startswith("step 139 · </script><script>alert(1)")
    # Zoom: cells grow; Escape first shows all again, then leaves.
    before = p.pixel(39, 0)[3]
    p.page.keyboard.press("+")
    assert p.pixel(39, 0)[3] > 1.5 * before
    p.page.keyboard.press("Escape")
    assert p.pixel(39, 0)[3] == before
    p.page.keyboard.press("Escape")
    assert p.page.evaluate("document.activeElement === document.body")
    # With the mouse.
    box = p.page.evaluate("""() => { const p = document.querySelector('.draw').picture, a = p.rectOf(20, 9), b = p.canvas.getBoundingClientRect(), d = p.area.dpr;
        return [b.left + (a.x + a.w / 2) / d, b.top + (a.y + a.h / 2) / d]; }""")
    p.page.mouse.move(*box)
    assert p.readout().startswith("step 120 · weights · tensor.9: differs"), p.readout()
    assert p.wrong == []
    p.page.close()


def test_a_page_can_be_heard_and_asks_nobody(browser, made):
    path = made(30, 10)
    p = Page(browser, path)
    # Everything that takes the focus has a name; every picture has a heading; the plot reads its
    # points out.
    nameless = p.page.evaluate("""[...document.querySelectorAll('button, canvas[tabindex], [role=application]')]
        .filter(e => !(e.getAttribute('aria-label') || e.textContent).trim()).map(e => e.outerHTML)""")
    assert nameless == []
    assert p.page.locator("figure").count() == p.page.locator("figure h2").count() == 2
    plot = p.page.locator("[aria-roledescription=plot]")
    plot.focus()
    for _ in range(2):
        p.page.keyboard.press("ArrowRight")
    assert p.readout(1).startswith("workers 2: </script>") and p.readout(1).endswith(
        "19 (18 to 20) · other 2"
    ), p.readout(1)
    p.page.keyboard.press("ArrowRight")
    assert p.readout(1).endswith("not known · other 3"), p.readout(1)
    button = p.page.locator(".legend button", has_text="other")
    button.focus()
    p.page.keyboard.press("Space")
    assert button.get_attribute("aria-pressed") == "false"
    p.page.emulate_media(media="print")
    p.page.emulate_media(media="screen")
    assert p.wrong == []
    assert p.page.title().startswith("twinrun: </script>") and p.page.locator("img").count() == 0
    # Were an escape forgotten, the policy would still stop what it lets in.
    p.page.evaluate("""() => { const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s);
        const i = document.createElement('img'); i.src = 'http://127.0.0.1:9/x.png'; document.body.append(i); }""")
    stopped = lambda: len([w for w in p.wrong if "Content Security Policy" in w])
    for _ in range(200):  # it says so when it gets to it
        if stopped() >= 2:
            break
        p.page.wait_for_timeout(50)
    assert p.page.evaluate("window.ran") is None
    assert stopped() >= 2, p.wrong
    p.page.close()


def test_check_writes_what_it_says(browser, build, twinrun, tmp_path, shots):
    path = tmp_path / "check.html"
    hostile = "</script><script>alert(1)</script>"
    r = twinrun(
        "check",
        "--html",
        path,
        "--json",
        "--",
        "sh",
        "-c",
        '"$0" --quiet --steps 40',
        build / "workloads" / "trainer",
        hostile,
    )
    assert r.rc == 1, r
    p = Page(browser, path)
    p.page.screenshot(path=shots / "check.png", full_page=True)
    first = r.json["first"]
    assert p.page.locator(".word").text_content() == "DIFFER"
    assert hostile in p.page.locator("header .soft").text_content()
    p.page.locator("canvas.map").focus()
    said = p.readout()
    assert re.match(rf"step {first['step']} · .* · {re.escape(first['name'])}: differs", said), (
        said,
        first,
    )
    relative = first["detail"].get("rel_l2")
    if relative:
        assert float(said.split()[-1]) == pytest.approx(relative, rel=0.06)
    assert p.wrong == []
    # what stands under "What next?" is taken along by a button
    command = p.page.locator("main pre").first
    p.page.evaluate("""() => {
        window.taken = [];
        Object.defineProperty(navigator, 'clipboard', { value: { writeText: async t => { window.taken.push(t); } } });
    }""")
    p.page.locator(".copy").first.click()
    p.page.wait_for_function("document.querySelector('.copy').textContent === 'Copied'")
    assert p.page.evaluate("window.taken") == [command.text_content()]
    p.page.set_viewport_size({"width": 380, "height": 700})
    p.settle()
    assert p.page.evaluate("document.documentElement.scrollWidth <= 380")
    p.page.screenshot(path=shots / "check-narrow.png", full_page=True)
    assert p.wrong == []
    p.page.close()


def test_what_is_measured_in_some_steps_is_seen(browser, build, run, tmp_path, shots):
    """Dots, and a line that joins them; but no line where the value was NaN."""
    path = tmp_path / "curves.html"
    r = run([build / "tests" / "agents" / "page_make", path, "curves"])
    assert r.rc == 0, r
    p = Page(browser, path)
    p.page.screenshot(path=shots / "curves.png", full_page=True)
    loss, gradients, weights = (
        p.page.evaluate("""() => [...document.querySelectorAll('.draw')].map(({picture: p}) => {
        const canvas = p.u.root.querySelector('canvas'), c = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
        c.drawImage(canvas, 0, 0);
        const rgb = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
        // is anything of a run's colour seen in the column of a step?
        const at = step => p.lines.map(l => {
            const x = Math.round(p.u.valToPos(step, 'x', true)), b = p.u.bbox, d = c.getImageData(x, b.top, 1, b.height).data, want = rgb(p.colour(l.number));
            for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 99 && [0, 1, 2].every(k => Math.abs(d[i + k] - want[k]) < 40)) return true;
            return false;
        });
        return { dots: p.lines.map(l => l.sparse), at: [2, 7, 12].map(at) };
    })""")
    )
    everywhere = [[True, True]] * 3
    assert loss == {"dots": [False, False], "at": everywhere}
    assert gradients == {"dots": [True, True], "at": everywhere}
    assert weights == {"dots": [False, False], "at": [[True, True], [False, True], [True, True]]}
    # a loss that hardly moves: each label of its axis says something else
    labels = p.page.evaluate("document.querySelector('.draw').picture.u.axes[1]._values")
    assert len(labels) > 2 and len(set(labels)) == len(labels), labels
    assert all(re.fullmatch(r"2\.3\d{0,7}", label) for label in labels), labels
    said = p.page.get_by_text("A dot is a step in which it was measured")
    assert said.count() == 1
    assert (
        p.page.get_by_text("5 values are NaN or infinite; the lines are open there.").count() == 1
    )
    assert drawn(p.page) == []
    assert p.wrong == []
    p.page.close()


# ---- the grid of ranks: what each cell, outline and arrow says is what the verdict says


def grid_of(page):
    """The grid's block as the page holds it, and its cells by rank and step."""
    return page.page.evaluate(
        """() => {
        const p = [...document.querySelectorAll('.draw')].map(d => d.picture).find(p => p.head.differsName);
        const cells = {};
        for (let r = 0; r < p.rows; r++) for (let c = 0; c < p.columns; c++)
            cells[p.head.row[r] + ' ' + p.column[c]] = p.cell[r * p.columns + c];
        return { arrows: p.head.arrows || [], outlines: p.head.outlines || [], row: p.head.row, column: [...p.column], cells,
                 label: p.canvas.getAttribute('aria-label'), title: p.head.title };
    }"""
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_grid_of_ranks(browser, build, twinrun, tmp_path, shots, scheme):
    program, mpirun = build / "tests/agents/mpi_job_openmpi", shutil.which("mpirun.openmpi")
    if not mpirun or not program.exists():
        pytest.skip("no Open MPI")
    path = tmp_path / "ranks.html"
    job = [mpirun, "--oversubscribe", "-n", "4", program, "server"]
    arms = [" ".join(map(str, words)) for words in (["env", f"LATE={k}", *job] for k in (1, 3))]
    rooted = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    r = twinrun("check", "--json", "--html", path, "--a", arms[0], "--b", arms[1], env=rooted)
    assert r.rc == 1, r
    order = {d["rank"]: d for d in r.json["order"]["differing"]}
    assert order[0]["place"] == "first" and order[1]["place"] == "carried", order
    p = Page(browser, path, color_scheme=scheme)
    g = grid_of(p)
    assert g["title"] == "Which rank diverged first, and who took it from whom?"
    assert g["row"] == ["rank 0", "rank 1", "rank 2", "rank 3"]
    at = {(g["row"][o[0]], g["column"][o[1]]) for o in g["outlines"]}
    assert at == {("rank 0", order[0]["step"])}
    arrows = {tuple(a[:4]) for a in g["arrows"]}
    step = g["column"].index(order[0]["step"])
    assert arrows == {(0, step, rank, step) for rank in (1, 2, 3)}
    equal, differs = 1, 4
    if step:
        assert g["cells"]["rank 0 %d" % (order[0]["step"] - 1)] == equal
    assert all(g["cells"]["rank %d %d" % (k, d["step"])] == differs for k, d in order.items())
    assert "1 outlined (rank 0), 3 arrows" in g["label"]
    # by keyboard: from a rank that took it, back to the one that it came from
    p.page.locator("canvas.map").first.focus()
    said = (
        "step %d · rank 0: differs · the first difference · from here on to rank 1, rank 2, rank 3"
    )
    assert p.readout() == said % order[0]["step"]
    p.page.keyboard.press("ArrowDown")
    taken = "step %d · rank 1: differs · taken from rank 0 by call %d of MPI_Bcast"
    assert p.readout() == taken % (order[1]["step"], order[1]["number"][0])
    p.page.keyboard.press("a")
    assert p.readout() == said % order[0]["step"]
    p.page.locator("canvas.map").first.blur()
    p.settle()
    found = p.style("--found")
    outline = p.page.evaluate(
        """([c, r]) => {
        const p = document.querySelector('.draw').picture, at = p.rectOf(c, r), dpr = p.area.dpr;
        p.draw();
        const copy = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true }), wide = Math.max(0, (10 * dpr - Math.min(at.w, at.h)) / 2);
        copy.drawImage(p.canvas, -Math.round(at.x - wide + dpr), -Math.round(at.y + at.h / 2));
        return [...copy.getImageData(0, 0, 1, 1).data.slice(0, 3)];
    }""",
        [step, 0],
    )
    assert all(abs(a - b) < 60 for a, b in zip(outline, rgb(found))), (outline, found)
    p.page.screenshot(path=shots / f"ranks-{scheme}.png", full_page=True)
    p.page.set_viewport_size({"width": 400, "height": 800})
    p.settle()
    assert p.page.evaluate("document.documentElement.scrollWidth <= 400")
    p.page.screenshot(path=shots / f"ranks-{scheme}-narrow.png", full_page=True)
    assert p.wrong == []
    p.page.close()


# ---- a page of every command: what each promises is there, and there is something in it

# a moment is too short to time steps in
CURVES = ["Are the gradients of one size?", "Do the weights go the same way?"]
APART = [
    "Where do the runs differ, and by how much?",
    "Does the difference grow?",
    "Rounding, or something else?",
]
SCALED = [
    "How much faster do more workers make it?",
    "How much of each worker is left?",
    "What qualifies the figures",
    "How long do steps take?",
    "The figures",
    "Are the results the same?",
]
PROMISED = {
    "check-equal": ["Was every tensor of every step seen to be equal?", *CURVES],
    "check-classes": [
        "What next?",
        "Where do run 1 and run 2 differ, and by how much?",
        "Where do run 1 and run 3 differ, and by how much?",
        "Which runs are equal, and until when?",
        *APART[1:],
        *CURVES,
    ],
    "check-ranks": [*APART, *CURVES],
    "diff": [*APART, *CURVES, "Were they made in the same world?"],
    "report-one": CURVES,
    "report-several": [
        "Which runs are equal, and until when?",
        *APART[1:],
        *CURVES,
        "Were they made in the same world?",
    ],
    "isolate": [
        "Hypotheses: which factors make runs diverge?",
        "Confirmation: natural runs, with the suspects pinned or one of them free",
        "Where do the runs differ, and by how much?",
        "Plan, written before the first run",
        "Does the loss show it?",
    ],
    "lab": [
        "Where do the runs end?",
        "The runs of the first step, one beside the other",
        *(["What do the pins cost?"] if FULL else []),
        "Which runs are equal, and until when?",
        *APART[1:],
        "Does the loss show it?",
    ],
    "scale": [*SCALED, "Is the loss the same?"],
    "scale-from": SCALED,
}


@pytest.fixture(scope="module")
def pages(build, tmp_path_factory):
    """Of each command a page, made once, of jobs that take a moment."""
    folder = tmp_path_factory.mktemp("pages")
    for name in ("folder", "search"):
        (folder / name).mkdir()
    env = clean_environment({"TWINRUN_HOME": str(folder / "home")})
    job, wanderer, trainer = (
        build / "tests" / "cli" / "job",
        build / "tests" / "cli" / "wanderer",
        build / "workloads" / "trainer",
    )

    def make(name, *args, codes=(0,), page=True):
        argv = [
            build / "cmd" / "twinrun",
            args[0],
            *(["--html", f"{name}.html"] if page else []),
            *args[1:],
        ]
        done = subprocess.run(
            [str(a) for a in argv],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode in codes, (name, done)
        return folder / f"{name}.html"

    made = {
        "check-equal": make(
            "check-equal", "check", "-q", "--runs", "2", "--", job, "--steps", "12"
        ),
        "check-classes": make(
            "check-classes",
            "check",
            "-q",
            "--all",
            "--runs",
            "3",
            "--",
            job,
            "--steps",
            "12",
            "--noise-at",
            "7",
            codes=[1],
        ),
        "diff": make("diff", "diff", "last~1", "last", codes=[1]),
        "report-one": make("report-one", "report", "last"),
        "report-several": make("report-several", "report", "last~2", "last~1", "last"),
        "folder/index": make(
            "folder/index", "report", "--html", "folder", "last~2", "last", page=False
        ),
        "check-ranks": make(
            "check-ranks",
            "check",
            "-q",
            "--runs",
            "2",
            "--",
            "sh",
            "-c",
            f"for r in 0 1; do RANK=$r WORLD_SIZE=2 {job} --steps 9 --noise-at $((r + 3)) & done; wait",
            codes=[1],
        ),
        "lab": make(
            "lab",
            "lab",
            "-q",
            "--runs",
            "4",
            "--step",
            "noise,cost" if FULL else "noise",
            "--",
            wanderer,
            "--runs-file",
            "runs",
            "--wander",
            "0.01",
            codes=[0, 1, 3],
        ),
        "isolate": make(
            "search/index",
            "isolate",
            "--html",
            "search",
            "-q",
            "--a",
            f"A=1 {trainer} --ordered --quiet --steps 5 --seed 1",
            "--b",
            f"A=2 {trainer} --ordered --quiet --steps 5 --seed 2",
            codes=[1],
            page=False,
        ),
        "scale": make(
            "scale",
            "scale",
            "-q",
            "--counts",
            "1,2",
            "--",
            job,
            "--steps",
            "12",
            "--sleep-ms",
            "{n}",
        ),
        "scale-from": make(
            "scale-from",
            "scale",
            "-q",
            "--from",
            next((folder / "home" / "studies").glob("*/result.json")),
        ),
    }
    return made


def drawn(page):
    """What is empty: canvases of one colour, figures without a mark, tables without a row, lists
    without an item, headings with nothing below.
    """
    return page.evaluate("""() => {
        const empty = [], named = e => e.closest('figure')?.querySelector('h2')?.textContent || e.outerHTML.slice(0, 80);
        for (const c of document.querySelectorAll('.draw canvas:not([aria-hidden])')) {
            const copy = new OffscreenCanvas(c.width || 1, c.height || 1).getContext('2d', { willReadFrequently: true });
            if (c.width && c.height) copy.drawImage(c, 0, 0);
            if (new Set(new Uint32Array(copy.getImageData(0, 0, copy.canvas.width, copy.canvas.height).data.buffer)).size < 3) empty.push('canvas: ' + named(c));
        }
        const rgb = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
        const near = (d, i, c) => [0, 1, 2].every(k => Math.abs(d[i + k] - c[k]) < 12);
        for (const { picture } of document.querySelectorAll('.draw')) {
            if (!picture?.u) continue;  // a plot: of each line that has a value something is seen
            const canvas = picture.u.root.querySelector('canvas');
            const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
            copy.drawImage(canvas, 0, 0);
            const d = copy.getImageData(0, 0, canvas.width, canvas.height).data;
            const colours = picture.lines.filter(l => picture.columns[l.index].some(y => y != null)).map(l => rgb(picture.colour(l.number)));
            let seen = colours.length === 0;
            for (let i = 0; i < d.length && !seen; i += 4) seen = d[i + 3] === 255 && colours.some(c => near(d, i, c));
            if (!seen) empty.push('plot: ' + named(canvas));
        }
        for (const s of document.querySelectorAll('main svg')) if (!s.children.length) empty.push('svg: ' + named(s));
        for (const t of document.querySelectorAll('table')) if (t.querySelectorAll('tr').length < 2) empty.push('table: ' + t.textContent.slice(0, 80));
        for (const l of document.querySelectorAll('ul, dl, pre, h1, h2')) if (!l.textContent.trim()) empty.push(l.outerHTML.slice(0, 80));
        for (const f of document.querySelectorAll('figure')) if (!f.querySelector('canvas, svg')) empty.push('figure: ' + named(f));
        for (const h of document.querySelectorAll('main > h2')) if (!h.nextElementSibling || h.nextElementSibling.tagName === 'H2') empty.push('heading: ' + h.textContent);
        return empty;
    }""")


def misplaced(page):
    """Labels of axes that lie outside of their picture, run into each other or are broken; options
    of commands that are broken."""
    return page.evaluate("""() => {
        const wrong = [], named = e => e.closest('figure').querySelector('h2').textContent;
        for (const { picture } of document.querySelectorAll('.draw')) {
            if (!picture?.u) continue;
            const { u } = picture, { min, max } = u.scales.y, at = u.axes[1]._splits;
            if (at.length < 2 || at.some(y => y < min || y > max)) wrong.push([named(u.root), min, max, at]);
            if (new Set(u.axes[1]._values).size < at.length) wrong.push([named(u.root), u.axes[1]._values]);
        }
        for (const axis of document.querySelectorAll('.axis > div')) {
            const shown = [...axis.children].map(s => s.getBoundingClientRect()).filter(r => r.width);
            if (shown.length < 3 || shown.some((r, i) => r.height > 24 || (i && r.left < shown[i - 1].right + 4))) wrong.push([named(axis), axis.textContent]);
        }
        for (const pre of document.querySelectorAll('main pre')) {
            if (!pre.textContent.startsWith('twinrun ')) continue;
            const words = document.createTreeWalker(pre, NodeFilter.SHOW_TEXT), lines = new Range();
            for (let text; (text = words.nextNode());)
                for (const option of text.data.matchAll(/(?<![^ ])-[^ ]{1,24}(?![^ ])/g)) {
                    lines.setStart(text, option.index);
                    lines.setEnd(text, option.index + option[0].length);
                    if (new Set([...lines.getClientRects()].map(r => r.top)).size > 1) wrong.push([pre.textContent, option[0]]);
                }
        }
        return wrong;
    }""")


def tab_to(page, selector, most=60):
    """By the Tab key alone. Is it reached?"""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("s => document.activeElement.matches(s)", selector):
            return True
    return False


@pytest.mark.parametrize("name", PROMISED)
def test_the_page_of_every_command(browser, pages, shots, name):
    p = Page(browser, pages[name])
    found = [h.strip() for h in p.page.locator("h2").all_text_contents()]
    assert [h for h in PROMISED[name] if h not in found] == [], found
    assert (
        p.page.locator(".word").text_content().strip()
        and p.page.locator("h1").text_content().strip()
    )
    assert drawn(p.page) == []
    assert misplaced(p.page) == []
    p.page.screenshot(path=shots / f"{name}.png", full_page=True)
    if p.page.locator("canvas.map").count():
        said = p.page.locator("figure:has(canvas.map) .readout").first
        assert (
            tab_to(p.page, "canvas.map") and said.text_content()
        ), "a heatmap that the keyboard does not reach"
        before = said.text_content()
        p.page.keyboard.press("End")
        p.page.keyboard.press("ArrowUp")
        assert said.text_content() != before
    elif p.page.locator(".draw").count():
        assert tab_to(p.page, "[aria-roledescription=plot]")
        p.page.keyboard.press("ArrowRight")
        assert p.readout()
    p.page.emulate_media(color_scheme="dark")
    p.page.set_viewport_size({"width": 400, "height": 800})
    p.settle()
    assert p.page.evaluate("document.documentElement.scrollWidth") <= 400
    assert drawn(p.page) == []
    assert misplaced(p.page) == []
    p.page.screenshot(path=shots / f"{name}-narrow-dark.png", full_page=True)
    assert p.wrong == []
    p.page.close()


def test_a_folder_of_pages(browser, pages):
    """From the comparison to each run and back, with one number for a run on all of them."""
    p = Page(browser, pages["folder/index"])
    p.page.get_by_role("link", name="run 2", exact=True).first.click()
    p.page.wait_for_selector("html[data-drawn]")
    assert p.page.url.endswith("/folder/run-2.html")
    assert p.page.locator(".word").text_content() == "ONE RUN"
    names = p.page.locator(".legend button").all_text_contents()
    assert names and {name.strip() for name in names} == {"run 2"}, names
    p.page.get_by_role("link", name="all runs compared").click()
    p.page.wait_for_selector("html[data-drawn]")
    assert p.page.url.endswith("/folder/index.html")
    # the row of a run leads to its page, too
    p.page.locator("summary", has_text="The runs, and the verdict as text").click()
    assert p.page.locator("td a").first.get_attribute("href") == "run-1.html"
    # so do captions, and legends beside the button that hides a line
    assert p.page.locator("figcaption a").first.text_content() == "Run 1"
    legend = p.page.locator(".legend").last
    assert legend.locator("button").all_text_contents() == ["run 1", "run 2"]
    legend.get_by_role("link", name="the page of run 2").click()
    p.page.wait_for_selector("html[data-drawn]")
    assert p.page.url.endswith("/folder/run-2.html")
    assert [w for w in p.wrong if not w.endswith("/folder/run-2.html")] == []
    p.page.close()


def test_a_search_leads_to_its_runs(browser, pages):
    """Each of its runs has a page under the number that the search gave it."""
    folder = pages["isolate"].parent
    p = Page(browser, pages["isolate"])
    names = p.page.locator("nav a").all_text_contents()
    assert len(names) >= 10
    assert all((folder / f"{n.replace(' ', '-')}.html").exists() for n in names)
    for place in (".strip", ".tree", "figcaption"):
        assert p.page.locator(f"{place} a").first.text_content() in names, place
    p.page.locator("summary", has_text="All").click()
    rows = p.page.locator("details td a")
    assert rows.count() == len(names)
    rows.nth(2).click()
    p.page.wait_for_selector("html[data-drawn]")
    assert p.page.url.endswith("/run-3.html")
    assert {n.strip() for n in p.page.locator(".legend button").all_text_contents()} == {"run 3"}
    p.page.get_by_role("link", name="the search").click()
    p.page.wait_for_selector("html[data-drawn]")
    assert p.page.url.endswith("/search/index.html")
    # the page in the search's own folder has no page beside it, and no link
    (own,) = (folder.parent / "home" / "searches").glob("*/report.html")
    assert "<nav" not in own.read_text() and 'href="run-' not in own.read_text()
    p.page.close()


def test_names_of_groups_tell_ranks_apart_on_a_phone(browser, pages):
    p = Page(browser, pages["check-ranks"])
    p.page.set_viewport_size({"width": 400, "height": 800})
    p.settle()
    groups, written = p.page.evaluate("""() => {
        const map = [...document.querySelectorAll('.draw')].map(d => d.picture).find(p => p.head.group);
        const written = [], real = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (text, x, y) { if (x === 0) written.push([text, y, this.measureText(text).width]); return real.call(this, text, x, y); };
        map.draw();
        CanvasRenderingContext2D.prototype.fillText = real;
        return [[...new Set(map.head.group)], written];
    }""")
    names = [text for text, _, _ in written]
    assert len(names) == len(groups) and len(set(names)) == len(groups), (names, groups)
    for name, group in zip(names, groups):
        rank, what = re.fullmatch(r"rank (\d+), (.*)", group).groups()
        assert name.startswith((f"rank {rank}, ", f"r{rank} ")) and name[-3:] == what[-3:]
    places = [y for _, y, _ in written]
    assert all(below - above >= 11 for above, below in zip(places, places[1:])), places
    assert p.wrong == []
    p.page.close()


@pytest.mark.skipif(not FULL, reason="a million cells: TWINRUN_FULL=1")
def test_a_million_cells(browser, made, shots):
    path = made(1000, 1000)
    text = path.read_text()
    data = sum(
        len(m) for m in re.findall(r'<script type="text/plain" id="data\d+"[^>]*>([^<]*)<', text)
    )
    own = path.stat().st_size - data
    firsts, drawn, moves = [], [], []
    for _ in range(5):
        p = Page(browser, path)
        firsts.append(
            p.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        )
        drawn.append(int(p.page.evaluate("document.documentElement.dataset.drawn")))
        moves.append(
            p.page.evaluate("""() => { const p = document.querySelector('.draw').picture, t = performance.now();
            for (let i = 0; i < 20; i++) { p.visit(500 + i, 500); p.draw(); p.say(); }
            return (performance.now() - t) / 20; }""")
        )
        assert p.wrong == []
        if len(firsts) < 5:
            p.page.close()
    p.page.screenshot(path=shots / "million.png", full_page=True)
    p.page.close()
    median = [sorted(x)[2] for x in (firsts, drawn, moves)]
    print(
        f"\n1e6 cells: page {own} bytes + data {data}; first paint {median[0]:.0f} ms, drawn {median[1]} ms, a key press {median[2]:.1f} ms (medians of 5)"
    )
    assert own <= 3 << 20
    # the bars are 1 s and no lag; these are what a busy machine must hold, too
    assert median[0] < 3000 and median[2] < 250
