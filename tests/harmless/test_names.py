# SPDX-License-Identifier: Apache-2.0
"""Foreign text in every place where a user or a hostile checkout can put it, and every command that
prints.

Names of files, folders, branches, remotes, authors, records, processes, variables and key files,
arguments, printed lines, exceptions, notes and fields of files edited by hand hold what a terminal
obeys, turns around or hides, what ends a line, an element, an attribute or a CDATA section, and
what a CI system takes for a command. Each command is run in each of its forms; what comes out is
read by parsers that know nothing of twinrun.
"""

import html.parser
import json
import os
import re
import subprocess
import sys
import unicodedata
import xml.dom.minidom
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = os.path.abspath(os.environ.get("TWINRUN_BUILD", "build"))
TWINRUN = os.path.join(BUILD, "cmd", "twinrun")
pytestmark = pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN)

# One text of each kind. A raw control and the same as somebody would write it: they must be told
# apart.
CONTROLS = (
    "E1\x1bE2 \x1b[31m \x1b]8;;http://evil\x07x\x1b]8;;\x07 \x1b]52;c;ZXZpbA==\x07 \x7f \r \x08 "
)
LITERAL = r"L1\x1bL2"
C1 = "\x9b31m \x85 "
BIDI = "\u202aa\u202eb\u2066c\u2069 \u061c "
HIDDEN = "\u200bx\u200f\ufeff\u2060\u00ad\ufe0f\U000e0041\u3164 "
MARKUP = "<script>alert(1)</script><img src=x onerror=a> \" ' & ]]> --> `` | "
LINES = "\n::error::forged\n##[error]forged\n\n# forged\n"
ALL = CONTROLS + LITERAL + C1 + BIDI + HIDDEN + MARKUP + LINES
NOT_UTF8 = b"\xff\xfe\x9b[31m\xc0\xaf\xed\xa0\x80 "
LONG = "w" * 5000
BYTES = ALL.encode() + NOT_UTF8
# As a name: no slash, at most 255 bytes.
NAME = (
    b"E1\x1bE2\x9b\xc2\x9b\xe2\x80\xae\xf3\xa0\x81\x81 L1\\x1bL2\n::error::forged\n<b>\"'&]]> \xff"
)

JOB = rb"""
import array, os, sys
import twinrun
text = os.fsdecode(bytes.fromhex(sys.argv[1]))
turn = sys.argv[2] if len(sys.argv) > 2 else "0"
print("printed", text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
sys.stdout.buffer.write(os.fsencode(text) + b"\n")
sys.stderr.write("x" + text.encode("utf-8", "replace").decode() + "\n")
with open(bytes.fromhex(sys.argv[3]) if len(sys.argv) > 3 else b"out", "wb") as f:
    f.write(os.urandom(4))
shown = text.encode("utf-8", "replace").decode()[:300]
for step in range(4):
    twinrun.record(shown, array.array("d", [1.0, step]))
    with twinrun.scope(shown[:100]):
        twinrun.record("loss" + shown, array.array("d", os.urandom(8) if step == 2 else [1.0]))
    twinrun.step()
if turn == "fail":
    raise RuntimeError(text)
"""


def hidden(c):
    """Does a terminal obey, turn or hide it? Asked of Unicode's own tables, not of ours."""
    if c == "\n":
        return False
    invisible = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"
    selector = 0xFE00 <= ord(c) <= 0xFE0F or 0xE0000 <= ord(c) <= 0xE0FFF
    return unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") or c in invisible or selector


def assert_harmless(data, where, lines=True):
    text = data.decode("utf-8")  # what is no UTF-8 fails here
    for at, c in enumerate(text):
        assert not hidden(c), f"{where}: U+{ord(c):04X} in {text[max(0, at - 80):at + 40]!r}"
    if lines:
        for line in text.split("\n"):
            begins = line.lstrip()
            ours = re.match(r"::(error|warning|notice) (file=.*,line=\d+,)?title=twinrun", begins)
            assert ours or not begins.startswith(
                ("::", "##[")
            ), f"{where}: a command is forged: {line!r}"
            assert not begins.startswith("# forged"), f"{where}: a line is forged: {line!r}"
    return text


def assert_escaped_once(text, where):
    twice = r"E1\x5cx1bE2"
    assert twice not in text, f"{where}: escaped twice: {around(text, twice)!r}"


def around(text, part):
    at = text.find(part)
    return text[max(0, at - 150) : at + 60]


class Page(html.parser.HTMLParser):
    """Elements and attributes that a browser would make of a page."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.seen = []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))


def assert_page(path):
    data = path.read_bytes()
    text = assert_harmless(data, path.name, lines=False)
    page = Page()
    page.feed(text)
    page.close()
    for tag, attributes in page.seen:
        assert tag not in ("img", "b", "iframe", "object"), f"{path.name}: <{tag}> is foreign"
        bad = [a for a in attributes if a.startswith("on") or a in ("srcdoc",)]
        assert not bad, f"{path.name}: <{tag} {bad}>"
        target = str(attributes.get("href") or "") + str(attributes.get("src") or "")
        assert "javascript:" not in target and "evil" not in target, f"{path.name}: {target}"
    assert "alert(1)</script>" not in text


def assert_junit(path):
    data = path.read_bytes()
    assert_harmless(data, path.name, lines=False)
    tags = {e.tagName for e in xml.dom.minidom.parseString(data).getElementsByTagName("*")}
    allowed = {"testsuites", "testsuite", "testcase", "failure", "error", "skipped", "system-out"}
    assert tags <= allowed, tags - allowed


class World:
    """A hostile checkout, and a home with what the commands look at."""

    def __init__(self, folder):
        self.out = folder / "out"
        self.out.mkdir()
        self.home = folder / "home"
        self.checkout = os.path.join(os.fsencode(folder), b"work " + NAME)
        os.mkdir(self.checkout)
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "TWINRUN_"))},
            "TWINRUN_HOME": str(self.home),
            "XDG_STATE_HOME": str(folder / "state"),
            "GITHUB_STEP_SUMMARY": str(self.out / "summary.md"),
            "GITHUB_ACTIONS": "true",
            "OMP_NUM_THREADS": "1",
            "NCCL_ALGO": ALL,
            "CUBLAS_WORKSPACE_CONFIG": ALL,
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            "COLUMNS": "100",
        }
        self.n = 0
        self.make_checkout()

    def write(self, name, data):
        with open(os.path.join(self.checkout, name), "wb") as f:
            f.write(data)

    def git(self, *words):
        subprocess.run(
            ["git", *words], cwd=self.checkout, env=self.env, check=True, capture_output=True
        )

    def make_checkout(self):
        self.write(b"job.py", JOB)
        self.write(NAME, b"tracked\n")
        self.git("init", "-q", "-b", "main\u202e\u200b<b>")
        self.git("config", "user.name", "x\x1b[31m\u202e<script>")
        self.git("config", "user.email", "a\u202e@b")
        self.git("config", "remote.origin.url", "https://host/\x1b]52;c;x\x07\u202e<script>.git")
        self.git("config", "core.quotePath", "false")
        self.git("add", "job.py")
        self.git("commit", "-q", "-m", ALL.replace("\r", ""))
        self.git("tag", "t\u202e\u200b")
        self.write(NAME, b"changed\n")
        self.write(b"untracked " + NAME, b"untracked\n")
        os.mkdir(os.path.join(self.checkout, b"data"))
        self.write(b"data/" + NAME, b"data\n")
        self.write(b"data/plain", b"data\n")
        os.symlink(BYTES[:200], os.path.join(self.checkout, b"data/link"))
        for file, change in ((b"a.json", 1), (b"b.json", 2)):
            self.write(
                file, json.dumps({ALL: {ALL: change}, "only" + ALL + str(change): ALL}).encode()
            )
        self.write(b"values-a", b"1.0\n1.1\n0.9\n1.05\n0.95\n")
        self.write(b"values-b " + NAME, b"2.0\n2.1\n1.9\n2.05\n1.95\n")
        self.write(b"x.csv", ('"' + ALL.replace('"', "") + '",loss\n1,2\n2,3\n3,4\n').encode())
        self.write(
            b"p.toml",
            ('[[precision]]\npattern = "*"\ndtypes = ["f64"]\nreason = "x\\n%s"\n' % BIDI).encode(),
        )
        self.write(b"study.json", self.study())
        self.write(
            b"t.dvc",
            (
                'outs:\n- md5: d41d8cd98f00b204e9800998ecf8427e\n  path: "a\\u202e\\e[31m"\n'
            ).encode(),
        )
        self.write(
            b"seeds " + NAME + b".py", b"import random\nrandom.seed()  # \x1b[31m\xe2\x80\xae\n"
        )

    def study(self):
        """A stranger's study, whose every text is hostile."""

        def spoil(j, key=""):
            if isinstance(j, dict):
                return {k: spoil(v, k) for k, v in j.items()}
            if isinstance(j, list):
                return [spoil(v, key) for v in j]
            keep = key in ("schema", "per", "state", "unit", "scaling", "made") or not isinstance(
                j, str
            )
            return j if keep else j + ALL

        return json.dumps(
            spoil(json.loads((ROOT / "tests/golden/scale/v1-study.json").read_text()))
        ).encode()

    def job(self, *words):
        argv = [sys.executable, "job.py", BYTES.hex(), *(words or ["0"]), NAME.hex()]
        return [*argv, b"--name=" + BYTES, LONG]

    def run(self, *words, cwd=None, stdin=b""):
        return subprocess.run(
            [TWINRUN, *words],
            cwd=cwd or self.checkout,
            env=self.env,
            input=stdin,
            capture_output=True,
            timeout=300,
        )

    def file(self, kind):
        self.n += 1
        return self.out / f"{self.n}.{kind}"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    w = World(tmp_path_factory.mktemp("names"))
    made = [w.run("snapshot", "data", "-o", "data.snapshot")]
    for turn in ("0", "1", "fail"):
        made.append(w.run("record", "-q", "--data", "data", "--", *w.job(turn)))
    made.append(w.run("sign", "--new-key", os.path.join(w.checkout, b"key " + NAME)))
    made.append(w.run("pack", "last~1", "-o", b"package " + NAME))
    assert [m.returncode for m in made] == [0, 0, 0, 1, 0, 0], made
    w.spoil = spoiled_home(w)
    w.runs = sorted(folder.name for folder in w.home.glob("runs/*"))
    return w


def spoiled_home(w):
    """A home whose runs say in every text of run.json, as edited by hand, what they like."""
    import shutil

    home = w.home.parent / "spoiled"
    shutil.copytree(w.home, home, symlinks=True)

    def spoil(j, key=""):
        if isinstance(j, dict):
            return {k: spoil(v, k) for k, v in j.items()}
        if isinstance(j, list):
            return [spoil(v, key) for v in j]
        keep = key in ("schema", "id", "level", "state", "trace") or "sha" in key or "_ns" in key
        return j if keep or not isinstance(j, str) else j + ALL

    for name in ("run.json", "provenance.json"):
        for path in home.glob("runs/*/" + name):
            path.write_text(json.dumps(spoil(json.loads(path.read_text()))))
    for path in home.glob("ledger*"):
        path.unlink()
    return str(home)


QUICK = ["--max-runs", "6", "-q"]
SHELL = "true '" + ALL.replace("'", "") + "'"
# Every command: the words behind it. `forms` are added one after the other; {page}, {junit}, {csv}
# name fresh files.
FORMS = [["--json"], ["--html", "{page}"], ["--junit", "{junit}", "--github"]]
REGISTRY = ["--registry", b"registry " + NAME, "--key", b"key " + NAME]
JUDGED = ["--pub", b"key " + NAME + b".pub"]
CASES = {
    "check": [
        (["-q", "--runs", "2"], "job", FORMS),
        (["--runs", "2"], "fails", FORMS),
        (["-q", "--a", SHELL, "--b", SHELL + " x"], None, FORMS),
        ([NAME], None, []),
        (["--ignore", ALL], "job", []),
    ],
    "isolate": [
        (QUICK, "job", [["--json"], ["--html", "{page}"]]),
        ([b"x" + NAME], None, []),
        ([*QUICK, "--a", SHELL, "--b", "A=1 " + SHELL], None, [["--json"]]),
    ],
    "shrink": [(["-q", "--max-runs", "4"], "job", [["--json"]])],
    "record": [
        (["-q"], "job", []),
        (["-q"], "fails", []),
        ([], "missing", []),
        (["-q", "--data", NAME], "job", []),
    ],
    "diff": [
        (["last~1", "last~2"], None, FORMS),
        (["--env", "last~1", "last~2"], None, [["--json"]]),
        ([BYTES, "last"], None, [["--json"]]),
    ],
    "zoom": [(["last~1", "last~2"], None, [["--json"]])],
    "run": [(["-q", "--pin", "hash-seed"], "job", []), (["--pin", ALL], "job", [])],
    "show": [
        (
            ["last~1"],
            None,
            [
                ["--json"],
                ["--step", "1"],
                ["--provenance"],
                ["--provenance", "--json"],
                ["--verify"],
                ["--record", "*"],
            ],
        ),
        (["last"], None, [["--json"]]),
        ([BYTES], None, []),
    ],
    "report": [
        (["last~1", "last~2"], None, [["--json"], ["--html", "{page}"]]),
        (["--postmortem", "last~1", "last~2"], None, [["--json"]]),
        (["last"], None, [["--json"]]),
        (["--html", "{page}", "last~1", "last~2"], None, []),
    ],
    "ls": [([], None, [["--json"], ["--command", ALL]])],
    "registry": [
        (["init", *REGISTRY, "--policy", b"./" + NAME], None, []),
        (["init", *REGISTRY], None, [["--json"]]),
        (["add", "m", b"key " + NAME, *REGISTRY, *JUDGED, "--why", ALL], None, [["--json"]]),
        (["add", "m", b"seeds " + NAME + b".py", *REGISTRY, *JUDGED], None, []),
        (["add", ALL, "lr.yaml", *REGISTRY, *JUDGED], None, []),
        (["hold", "m@1", *REGISTRY, *JUDGED, "--why", BYTES], None, []),
        (["hold", "m@1", *REGISTRY, *JUDGED, "--why", ALL], None, [["--json"]]),
        (["attach", "m@1", *REGISTRY, *JUDGED, "--evidence", b"package " + NAME], None, []),
        (["promote", "m@1", *REGISTRY, *JUDGED, "--policy", b"./" + NAME], None, []),
        (["promote", "m@1", *REGISTRY, *JUDGED, "--to", ALL], None, []),
        (["show", "m@" + ALL, *REGISTRY], None, [["--json"]]),
        (["show", "m@1", *REGISTRY], None, [["--json"]]),
        (["log", *REGISTRY], None, [["--json"]]),
        (["ls", *REGISTRY], None, [["--json"], [ALL]]),
        (["verify", "--contents", *REGISTRY], None, [["--json"]]),
        (["mirror", *REGISTRY, *JUDGED, "--mlflow", ALL], None, [["--json"]]),
        (["mirror", ALL, *REGISTRY, *JUDGED, "--mlflow", "http://127.0.0.1:1"], None, []),
        (["get", "m@1", *REGISTRY, *JUDGED, "--into", b"got " + NAME], None, [["--json"]]),
        ([ALL, *REGISTRY], None, []),
    ],
    "gc": [(["--keep", "1", "--dry-run"], None, [["--json"]]), (["--keep", ALL], None, [])],
    "top": [
        (["--once"], None, [["--json"], ["--against", "last~1"]]),
        (["--once", "--against", ALL], None, []),
        (["--every", ALL], None, []),
    ],
    "drill": [
        (
            ["node", "-c", b"out", "--", sys.executable, "job.py", ALL.encode().hex()],
            None,
            [["--json"]],
        ),
        (["preempt", "-c", b"no " + NAME, "-r", ALL, "--", "true"], None, []),
        (["upgrade", "-c", "x", "--with", b"no " + NAME, "--", "true"], None, []),
        (["rollback", "m", *REGISTRY[:2], *JUDGED, "--bad", b"no " + NAME], None, []),
        (["rollback", ALL, *REGISTRY[:2], *JUDGED], None, []),
        (["registry-loss", "--registry", b"no " + NAME, *JUDGED], None, []),
        ([ALL, "-c", "x", "--", "true"], None, []),
        ([BYTES], None, []),
    ],
    "manifest": [
        (["lint", b"./" + NAME], None, [["--json"]]),
        (["lint", "job.py"], None, []),
        (["lint", "--pool-label", ALL, b"./" + NAME], None, []),
        (["write", "k8s", "--", "echo", ALL], None, [["-o", b"out " + NAME]]),
        (["write", "slurm", "--", "echo", ALL], None, []),
        (["write", "k8s", "-i", ALL, "--", "echo"], None, []),
        (["write", ALL, "--", "echo"], None, []),
        ([BYTES], None, []),
    ],
    "slo": [
        ([], None, [["--json"], ["--csv"], ["--all-homes"]]),
        (["--targets", b"./" + NAME], None, []),
        (["--until", ALL], None, []),
        (["--rules", b"./" + NAME], None, []),
        (["--dashboards", b"./" + NAME], None, []),
    ],
    "shadow": [
        (["--share", "100%", "--dry-run"], None, [["--json"], ["--first", ALL]]),
        (["--seed", ALL, "--share", "0"], None, []),
        (["--share", ALL], None, []),
    ],
    "rollout": [
        (["list"], None, [["--json"]]),
        (["start", "hash-seed", "--flag", b"./" + NAME], None, []),
        (["start", ALL, "--flag", "new"], None, []),
        (["start", "threads", "--project", ALL, "--flag", "new"], None, []),
        (["step", "--flag", b"./" + NAME], None, []),
        (["status", "--flag", b"./" + NAME], None, []),
        (["stop", "--why", ALL, "--flag", b"./" + NAME], None, []),
        (["start", "threads", "--ladder", ALL, "--flag", "new"], None, []),
        ([ALL], None, []),
    ],
    "serve": [
        (["--textfile", "."], None, [["--targets", b"./" + NAME]]),
        (["--listen", ALL], None, []),
        (["--unix", b"./" + NAME + b"/x"], None, []),
        (["--token-file", b"./" + NAME], None, []),
        (["--cert", b"./" + NAME, "--key", b"./" + NAME], None, []),
    ],
    "gather": [
        ([b"./" + NAME], None, []),
        (["job.py", "--into", b"new " + NAME], None, []),
        ([BYTES], None, []),
    ],
    "export": [
        (["last~1", "last~2", "--force", "--parquet", b"tables " + NAME], None, []),
        (["last~1", "--parquet", "job.py"], None, []),
        ([BYTES, "--parquet", "tables"], None, []),
        (
            ["last~1", "last~2", "--force", "--perfetto", b"p " + NAME, "--otlp", b"o " + NAME]
            + ["--openlineage", b"l " + NAME],
            None,
            [],
        ),
        (["last~1", "--perfetto", b"no folder/" + NAME], None, []),
        (["last~1", "--mlflow", ALL, "--experiment", BYTES], None, []),
        (["last~1", "--wandb", ALL], None, []),
        (["last~1", "--tensorboard", b"t " + NAME, "--python", b"./" + NAME], None, []),
    ],
    "import": [
        (["--csv", b"./" + NAME, "--metric", ALL, "--force", "-o", b"c " + NAME], None, []),
        (["--csv", "x.csv", "--metric", ALL, "--run-column", BYTES, "-o", "c"], None, []),
        (["--tensorboard", b"t " + NAME, "-m", ALL, "-o", "c", "-p", b"./" + NAME], None, []),
        (["--mlflow", ALL, "-m", ALL, "--filter", BYTES, "-o", "c"], None, []),
        (["--csv", "x.csv", "-m", "x", "--take", ALL, "-o", "c"], None, []),
    ],
    "factors": [([], "job", [["--json"]])],
    "ops": [
        (["--python", b"./" + NAME], None, [["--json"]]),
        (["--op", ALL, "--device", ALL], None, []),
    ],
    "spread": [(["x.csv"], None, [["--json"]]), ([NAME], None, [["--json"]]), (["last"], None, [])],
    "simulate": [
        (["--ranks", "4", "--data", NAME], None, [["--json"]]),
        (["--algorithm", ALL], None, []),
    ],
    "lab": [
        (["--quiet", "--runs", "3", "--step", "config", "--"], "true", []),
        (["--step", ALL], None, [["--json"]]),
        (["--html", "{page}", "--quiet", "--runs", "2", "--step", "noise"], "job", []),
    ],
    "significant": [
        (["values-a", b"values-b " + NAME], None, [["--json"]]),
        (["last~1", "last~2"], None, [["--json"]]),
        (["--metric", ALL, "last~1", "last~2"], None, []),
    ],
    "scale": [
        (["--from", "study.json"], None, [["--json"], ["--csv", "{csv}"], ["--html", "{page}"]]),
        (["--from", NAME], None, []),
        (["-q", "-c", "1", "-r", "1"], "job", [["--json"]]),
    ],
    "digest": [
        (["--config", "a.json", "b.json"], None, [["--json"]]),
        ([NAME], None, [["--json"]]),
        (["--argv"], "job", [["--json"]]),
    ],
    "snapshot": [(["data", "-o", b"m " + NAME], None, [["--json"]]), ([NAME], None, [["--json"]])],
    "sign": [
        ([NAME, "--key", b"key " + NAME], None, [["--json"]]),
        (["job.py", "--key", BYTES[:200]], None, []),
    ],
    "pack": [(["last~1", "-o", b"other " + NAME], None, [["--json"]]), ([BYTES[:200]], None, [])],
    "replay": [
        ([b"package " + NAME, "--environment", "check"], None, [["--json"]]),
        ([b"package " + NAME, "--environment", "here", "--json"], None, []),
        ([b"package " + NAME, "--container", "bwrap", "--image", b"oci:" + NAME], None, []),
    ],
    "audit": [
        (
            [b"package " + NAME],
            None,
            [["--json"], ["--checklist", "neurips"], ["--checklist", "incident"]],
        ),
        (["last~1"], None, [["--json"]]),
        (["."], None, [["--json"]]),
    ],
    "verify": [
        (["data.snapshot", "."], None, [["--json"]]),
        (["data.snapshot", "data"], None, [["--json"]]),
        ([b"package " + NAME], None, [["--json"]]),
        ([b"package " + NAME, "--key", b"key " + NAME + b".pub"], None, [["--json"]]),
        (["last~1", "--precision", "p.toml"], None, [["--json"]]),
        (["t.dvc"], None, [["--json"]]),
        ([NAME + b".dsse.json", "--key", b"key " + NAME + b".pub"], None, [["--json"]]),
    ],
    "doctor": [([b"seeds " + NAME + b".py"], None, [["--json"]])],
}


def commands():
    """The commands as `twinrun help` lists them."""
    text = subprocess.run([TWINRUN, "help"], capture_output=True, text=True, check=True).stdout
    listed = text.split("\nEnvironment:\n")[0]
    return re.findall(r"^  ([a-z]+)  ", listed, flags=re.M)


def test_every_command_has_a_case():
    assert sorted(CASES) == sorted(commands())


def job_of(world, name):
    return {
        None: [],
        "job": ["--", *world.job()],
        "fails": ["--", *world.job("fail")],
        "missing": ["--", b"./no " + NAME],
        "true": ["true", ALL],
    }[name]


def judge(done, words, made):
    where = repr(words)[:300]
    # stdout is the job's there, and so is stderr before our last words
    jobs_own = words[0] in ("record", "run")
    err = done.stderr
    if jobs_own:
        err = b"".join(
            line for line in done.stderr.splitlines(True) if line.startswith(b"twinrun:")
        )
    said = assert_harmless(err, where + " stderr")
    assert_escaped_once(said, where + " stderr")
    assert b"Sanitizer" not in done.stderr and done.returncode >= 0, done
    if not jobs_own:
        out = assert_harmless(done.stdout, where + " stdout", lines="--json" not in words)
        if "--json" in words and out:
            json.loads(out)
        else:
            assert_escaped_once(out, where + " stdout")
    for path in made:
        if path.exists() and path.suffix == ".page":
            assert_page(path)
        elif path.exists() and path.suffix == ".junit":
            assert_junit(path)
        elif path.exists():
            assert_harmless(path.read_bytes(), str(words))


def each_case(command):
    for words, job, forms in CASES[command]:
        for form in [[], *forms]:
            yield words, job, form


@pytest.mark.parametrize("command", sorted(CASES))
def test_command(world, command):
    for words, job, form in each_case(command):
        made, given = [], [command]
        for word in [*form, *words]:
            if word in ("{page}", "{junit}", "{csv}"):
                made.append(world.file(word.strip("{}")))
                word = str(made[-1])
            given.append(word)
        done = world.run(*given, *job_of(world, job))
        judge(done, given, made)
    summary = Path(world.env["GITHUB_STEP_SUMMARY"])
    if summary.exists():
        ours = "### \u26a0\ufe0f twinrun"  # the one sign of ours that has a selector
        assert_harmless(summary.read_bytes().replace(ours.encode(), b"### twinrun"), "job summary")


@pytest.mark.parametrize(
    "words",
    [
        ["ls"],
        ["ls", "--json"],
        ["show", "last~1"],
        ["show", "last~1", "--json"],
        ["show", "last~1", "--provenance"],
        ["diff", "last~1", "last~2"],
        ["diff", "last~1", "last~2", "--json"],
        ["diff", "--env", "last~1", "last~2"],
        ["diff", "--env", "last~1", "last~2", "--json"],
        ["audit", "last~1"],
        ["audit", "last~1", "--json"],
        ["report", "--postmortem", "last~1", "last~2"],
        ["report", "last~1"],
        ["slo"],
        ["slo", "--json"],
        ["slo", "--csv"],
        ["shadow", "--share", "1", "--dry-run"],
        ["shadow", "--share", "1", "--dry-run", "--json"],
        ["gc", "--keep", "1", "--dry-run"],
        ["export", "last~1", "--parquet", "tables", "--force"],
        ["export", "last~1", "--perfetto", "p", "--otlp", "o", "--openlineage", "l", "--force"],
        ["zoom", "last~1", "last~2"],
        ["verify", "last~1", "--precision", "p.toml"],
        ["pack", "last~1"],
    ],
    ids=" ".join,
)
def test_run_folders_edited_by_hand(world, words):
    kept = world.env["TWINRUN_HOME"]
    world.env["TWINRUN_HOME"] = world.spoil
    try:
        judge(world.run(*words), words, [])
    finally:
        world.env["TWINRUN_HOME"] = kept


def test_a_verdict_tells_an_escape_of_ours_from_one_in_the_name(world):
    # by their names: other tests of this file make runs, too
    done = world.run("diff", *world.runs[:2])
    text = done.stdout.decode()
    assert done.returncode == 1, done
    assert r"E1\x1bE2" in text and r"L1\x5cx1bL2" in text, text
    assert LITERAL not in text, around(text, LITERAL)
