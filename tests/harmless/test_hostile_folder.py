# SPDX-License-Identifier: Apache-2.0
"""Run folders that somebody else made, given to the commands that read them.

Each file of a folder is replaced in turn by what no file should be (a pipe, a device, a socket, a
link, a folder), by one that claims a terabyte, grows while it is read, or holds nonsense. A command
may refuse the folder; it ends in time, of itself, within little memory, and prints nothing that a
terminal obeys. TWINRUN_FULL=1 gives each folder to every command, else to two of them in turn.
"""

import json
import os
import random
import resource
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "agents"))

import job_pool  # noqa: E402

BUILD = Path(os.environ.get("TWINRUN_BUILD", "build")).resolve()
TWINRUN = BUILD / "cmd" / "twinrun"
FULL = os.environ.get("TWINRUN_FULL", "") not in ("", "0")
pytestmark = pytest.mark.skipif(not TWINRUN.exists(), reason="no build: %s" % TWINRUN)
PATIENCE_S = 120  # of a machine under load; each takes some hundredths of a second, some a second

JOB = """
import array, sys
sys.path.append(sys.argv[1])
import twinrun
for s in range(20):
    twinrun.record("weight:w", array.array("d", [s, 1, 2]))
    twinrun.step()
open("result.txt", "w").write("accuracy 0.9\\n")
print("loss 1.5")
print("a warning", file=sys.stderr)
"""
COMMANDS = {
    "show": ["show", "{x}"],
    "diff": ["diff", "{x}", "{other}"],
    "diff-env": ["diff", "--env", "{other}", "{x}"],
    "ls": ["ls"],
    "gc": ["gc", "--keep", "0", "--dry-run"],
    "pack": ["pack", "{x}", "-o", "{out}", "--data", "none"],
    "report": ["report", "{x}"],
    "page": ["report", "{x}", "--html", "{out}.html"],
    "postmortem": ["report", "--postmortem", "{x}"],
    "verify": ["verify", "{x}"],
    "audit": ["audit", "{x}"],
    "zoom": ["zoom", "{x}", "{other}"],
    "recheck": None,
}
FILES = (
    "run.json processes progress provenance.json stdout stderr topology.xml TRACE TELEMETRY WORLD KEPT "
    "verdict.json factors faults"
).split()
FOLDERS = ("ranks", "telemetry", "worlds", "files")


def environment(folder, home):
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith("TWINRUN_") and k != "LD_PRELOAD"
    }
    return {
        **kept,
        "TWINRUN_HOME": str(home),
        "XDG_STATE_HOME": str(folder / "state"),
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "PYTHONPATH": str(ROOT / "python"),
    }


def two_runs(folder):
    """(folder, names of two runs below folder/home/runs)"""
    work = folder / "work"
    work.mkdir()
    (work / "job.py").write_text(JOB)
    for _ in range(2):
        subprocess.run(
            [str(TWINRUN), "record", "-q", "--", sys.executable, "job.py", str(ROOT / "python")],
            cwd=work,
            env=environment(folder, folder / "home"),
            check=True,
            capture_output=True,
            timeout=120,
        )
    return folder, sorted(p.name for p in (folder / "home" / "runs").iterdir())


@pytest.fixture
def made():
    """What two_runs returns, made once for all tests; each spoils a copy (Place)."""
    return job_pool.pooled(("hostile folder", JOB, sys.executable), two_runs)


class Place:
    """A fresh copy of the two runs, of which `x` is to be spoilt."""

    def __init__(self, made, folder):
        self.folder, source = folder, made[0] / "home"
        self.home = folder / "home"
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.copytree(source, self.home)
        self.x, self.other = [self.home / "runs" / name for name in made[1]]

    def file(self, name):
        below = {
            "TRACE": "ranks/*.twt",
            "TELEMETRY": "telemetry/0*",
            "WORLD": "worlds/*",
            "KEPT": "files/*",
        }
        return next(self.x.glob(below[name])) if name in below else self.x / name

    def command(self, name):
        """Runs it; (status, what it printed). The output of `pack` is in folder/out."""
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        words = COMMANDS[name]
        argv = [sys.executable, "-m", "twinrun.recheck", str(self.x)]
        if words:
            argv = [str(TWINRUN), *(w.format(x=self.x, other=self.other, out=out) for w in words)]
        done = subprocess.run(
            argv,
            cwd=self.folder,
            env=environment(self.folder, self.home),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE_S,
            preexec_fn=limits,
        )
        return done.returncode, done.stdout + done.stderr


def limits():
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    resource.setrlimit(resource.RLIMIT_FSIZE, (256 << 20, 256 << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def survives(place, names, label):
    for name in names:
        try:
            status, printed = place.command(name)
        except subprocess.TimeoutExpired:
            pytest.fail("%s: %s did not end" % (label, name))
        assert 0 <= status <= 3, "%s: %s ended with %d: %s" % (label, name, status, printed[-500:])
        text = printed.decode("utf-8", "replace")
        obeyed = [
            c
            for c in text
            if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 or c == "\u202e"
        ]
        assert not obeyed, "%s: %s prints %r" % (label, name, obeyed)


def some_commands(number):
    names = list(COMMANDS)
    return names if FULL else [names[number % len(names)], names[(number * 5 + 3) % len(names)]]


# ---- what may stand in place of a file


def pipe(path):
    os.mkfifo(path)


def a_socket(path):
    at = os.open(path.parent, os.O_RDONLY)
    s = socket.socket(socket.AF_UNIX)
    s.bind("/proc/self/fd/%d/%s" % (at, path.name))
    s.close()
    os.close(at)


def terabyte(path):
    path.touch()
    os.truncate(path, 1 << 40)


def nonsense(path):
    path.write_bytes(random.Random(path.name).randbytes(50_000))


KINDS = {
    "pipe": pipe,
    "socket": a_socket,
    "terabyte": terabyte,
    "nonsense": nonsense,
    "folder": lambda path: path.mkdir(),
    "loop": lambda path: path.symlink_to(path.name),
    "zeros": lambda path: path.symlink_to("/dev/zero"),
    "terminal": lambda path: path.symlink_to("/dev/tty"),
    "nothing": lambda path: None,
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_something_else(kind, made, tmp_path):
    place = Place(made, tmp_path)
    for i, name in enumerate((*FILES, *FOLDERS)):
        path = place.file(name)
        aside = tmp_path / "aside"
        if path.exists():
            os.rename(path, aside)
        KINDS[kind](path)
        survives(place, some_commands(i + 3 * list(KINDS).index(kind)), "%s for %s" % (kind, name))
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        if aside.exists():
            os.rename(aside, path)


def test_a_sound_file_claims_a_terabyte(made, tmp_path):
    """The bytes that are there are read, what was never written is not; pack does not
    write it out.
    """
    place = Place(made, tmp_path)
    for name in ("TRACE", "stdout", "topology.xml", "provenance.json", "TELEMETRY"):
        path = place.file(name)
        if not path.exists():
            continue
        size = path.stat().st_size
        os.truncate(path, 1 << 40)
        survives(
            place,
            COMMANDS if FULL else ("show", "diff", "pack", "report"),
            "terabyte behind " + name,
        )
        os.truncate(path, size)
    os.truncate(place.file("TRACE"), 1 << 40)
    status, printed = place.command("show")
    assert status == 0 and b"20 steps" in printed, printed


def test_a_file_grows_while_it_is_read(made, tmp_path):
    for name in FILES:
        place = Place(made, tmp_path)
        path = place.file(name)
        stop = threading.Event()

        def grow():
            with open(path, "ab") as f:
                while not stop.is_set() and f.tell() < 200 << 20:
                    f.write(b" " * 65536)
                    f.flush()
                    stop.wait(0.001)

        thread = threading.Thread(target=grow)
        thread.start()
        try:
            survives(place, some_commands(FILES.index(name)), "growing " + name)
        finally:
            stop.set()
            thread.join()


def test_a_package_has_no_file_that_a_run_folder_leads_to(made, tmp_path):
    """A foreign run folder's stdout that is a link to a file of the user's: what is packed is given
    away.
    """
    (tmp_path / "diary").write_text("what nobody is to read\n")
    for name in ("stdout", "topology.xml", "provenance.json", "TRACE", "KEPT", "verdict.json"):
        place = Place(made, tmp_path)
        path = place.file(name)
        path.unlink(missing_ok=True)
        path.symlink_to(tmp_path / "diary")
        place.command("pack")
        packed = [p for p in (tmp_path / "out").rglob("*") if p.is_file()]
        assert not [p for p in packed if b"nobody is to read" in p.read_bytes()], name


# ---- what a run.json may say


def deep(levels):
    return "[" * levels + "]" * levels


NUMBERS = (
    "1e400",
    "-1e400",
    "NaN",
    "9223372036854775808",
    "-1",
    "1.5",
    "1e-400",
    "0x10",
    '"1"',
    "null",
    "[]",
)


def altered(text, how):
    about = json.loads(text)
    if how == "deep":
        return text[:-2].rstrip().rstrip("}") + ', "deep": ' + deep(100_000) + "}"
    if how == "twice":
        return text.rstrip().rstrip("}") + ', "outcome": "exited", "outcome": "signaled"}'
    if how == "latin":
        return text.replace("job.py", "job\udcff\udcfe.py")
    if how == "escapes":
        about["argv"] = ["a\x1b[2J\u202e\u009b31m\nb", "\\x1b"]
        about["label"] = "\x1b]0;title\x07"
        about["host"] = "h\r\nst"
        about["message"] = "\u2028\u200b"
    if how == "many":
        about["files"] = about.get("files", [])[:1] * 40_000
    if how == "long":
        about["argv"] = ["x" * 4_000_000]
    return json.dumps(about)


@pytest.mark.parametrize("how", ["deep", "twice", "latin", "escapes", "many", "long"])
def test_what_run_json_says(how, made, tmp_path):
    place = Place(made, tmp_path)
    text = altered((place.x / "run.json").read_text(), how)
    (place.x / "run.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    survives(place, COMMANDS, how)


def test_every_number_of_run_json(made, tmp_path):
    place = Place(made, tmp_path)
    whole = (place.x / "run.json").read_text()
    about = json.loads(whole)
    fields = [k for k, v in about.items() if not isinstance(v, str)]
    for i, field in enumerate(fields):
        for k, number in enumerate(
            NUMBERS if FULL else (NUMBERS[i % len(NUMBERS)], NUMBERS[(i + 5) % len(NUMBERS)])
        ):
            text = json.dumps({**about, field: "@"}).replace('"@"', number)
            (place.x / "run.json").write_text(text)
            survives(place, some_commands(i + k), "%s of %s" % (number, field))


@pytest.mark.parametrize(
    "name", ["a\nb", "\x1b[31m", "-rf", "$(touch pwned)", "\udcff", "x" * 250, "..twt", "%s%n"]
)
def test_names_in_a_run_folder(name, made, tmp_path):
    place = Place(made, tmp_path)
    for folder, end in (("ranks", ".twt"), ("telemetry", ""), ("worlds", ""), ("files", "")):
        source = next((place.x / folder).iterdir())
        shutil.copy(source, place.x / folder / ((name + end)[-250:]))
    survives(place, COMMANDS, repr(name))
    assert not (tmp_path / "pwned").exists()
