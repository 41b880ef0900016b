# SPDX-License-Identifier: Apache-2.0
"""Results in places that only the script knows: a path in its text, in a variable, in a temporary
folder.
"""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

import test_clock  # noqa: E402
from test_clock import BUILD, pool  # noqa: E402

if not os.path.exists(os.path.join(BUILD, "agents", "libtwinrun_hot.so")):
    pytest.skip("a sanitizer's build has no libc agent", allow_module_level=True)

# The job computes the same values in each run; what it writes to `out` is what `body` says, r being
# another number each time.
JOB = """
import os, random, shutil, socket, sys, tempfile, time
import numpy as np
import twinrun
from pathlib import Path
for step in range(3):
    x = np.float64([step])
    twinrun.record("input", x)
    twinrun.record("weights", x * 2)
    twinrun.step()
r = random.SystemRandom().random()
out = Path({out!r})
{body}
"""


def check(tmp_path, body, *, env=None, outside=True, words=()):
    work, out = tmp_path / "work", tmp_path / "elsewhere"
    for folder in (work, out):
        folder.mkdir(exist_ok=True)
    job = work / "job.py"
    job.write_text(JOB.format(out=str(out), body=textwrap.dedent(body)))
    argv = [
        BUILD / "cmd" / "twinrun",
        "check",
        "--runs",
        "2",
        "--json",
        *words,
        "--",
        sys.executable,
        "job.py",
    ]
    done = subprocess.run(
        argv,
        cwd=work,
        env={**pool.environment(tmp_path / "home"), **(env or {})},
        capture_output=True,
        text=True,
    )
    assert done.stdout, done.stderr
    verdict = json.loads(done.stdout)
    runs = [test_clock.recheck.Run(d) for d in verdict["runs_dir"]]
    assert not test_clock.refuted(verdict, runs)
    return verdict


RESULTS = {
    "array": "np.save(out / 'model.npy', np.float64([r]))",
    "json": "(out / 'metrics.json').write_text('{\"accuracy\": %.6f}' % r)",
    "by descriptor": "d = os.open(out, os.O_RDONLY); f = os.open('r.csv', os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=d);"
    " os.write(f, b'loss\\n%.6f\\n' % r)",
    "another folder": "os.chdir(out); open('r.csv', 'w').write('loss\\n%.6f\\n' % r)",
    "renamed": "p = out / ('.tmp%d' % os.getpid()); p.write_text('loss %.6f\\n' % r); os.replace(p, out / 'r.txt')",
    "linked": "p = out / ('.tmp%d' % os.getpid()); p.write_text('loss %.6f\\n' % r)\n"
    "(out / 'r.txt').unlink(missing_ok=True); os.link(p, out / 'r.txt'); p.unlink()",
    "folder renamed": "t = tempfile.mkdtemp(dir=out); np.save(t + '/model.npy', np.float64([r]))\n"
    "shutil.rmtree(out / 'best', True); os.rename(t, out / 'best')",
    "a shell": "os.system('echo loss %.6f > %s/r.txt' % (r, out))",
    "a copy": "Path('/tmp/x%d' % os.getpid()).write_text('loss %.6f' % r)\n"
    "shutil.move('/tmp/x%d' % os.getpid(), out / 'r.txt')",
    "updated in place": "p = out / 'r.bin'\nif not p.exists(): p.write_bytes(bytes(64))\n"
    "f = open(p, 'r+b'); f.seek(8); f.write(np.float64(r).tobytes())",
    "appended": "open(out / 'r.txt', 'a').write('accuracy %.6f\\n' % r)",
    "a time set back": "p = out / 'r.npy'; np.save(p, np.float64([r])); os.utime(p, (1e9, 1e9))",
    "a child of a child": "os.system('sh -c \"echo loss %.6f | tee %s/r.txt > /dev/null\"' % (r, out))",
}


@pytest.mark.parametrize("kind", RESULTS)
def test_results_of_a_hidden_place_count(tmp_path, kind):
    verdict = check(tmp_path, RESULTS[kind])
    assert verdict["outcome"] == "differ", verdict
    assert verdict["first"]["detail"]["type"] == "file"
    assert str(tmp_path / "elsewhere") in verdict["first"]["detail"]["text"]


@pytest.mark.parametrize("variable", ["RESULTS", "TMPDIR"])
def test_a_place_in_a_variable(tmp_path, variable):
    out = tmp_path / "elsewhere"
    verdict = check(
        tmp_path,
        "(Path(os.environ[%r]) / 'r.txt').write_text('loss %%.6f' %% r)" % variable,
        env={variable: str(out)},
    )
    assert verdict["outcome"] == "differ", verdict


def test_below_the_working_folder_where_the_listing_ends(tmp_path):
    deep = "p = Path('/'.join('abcdefghijklmnopqrst')); p.mkdir(parents=True, exist_ok=True); (p / 'r.txt').write_text('loss %.6f' % r)"
    verdict = check(tmp_path, deep)
    assert verdict["outcome"] == "differ", verdict


@pytest.mark.parametrize(
    "source",
    [
        'std::ofstream f("{out}/r.txt"); f << "loss " << r << "\\n";',
        'FILE *f = fopen("{out}/r.txt", "w"); fprintf(f, "loss %g\\n", r); fclose(f);',
        'int f = creat("{out}/r.txt", 0644); dprintf(f, "loss %g\\n", r); close(f);',
        'FILE *f = freopen("{out}/r.txt", "w", stdout); fprintf(f, "loss %g\\n", r);',
    ],
)
def test_programs_without_python(tmp_path, source):
    compiler = shutil.which("g++")
    if not compiler:
        pytest.skip("no C++ compiler")
    text = (
        "#include <fstream>\n#include <cstdio>\n#include <unistd.h>\n#include <fcntl.h>\n#include <sys/random.h>\n"
        "int main() { unsigned u; if (getrandom(&u, 4, 0) != 4) return 1; double r = u / 4294967296.0; %s return 0; }\n"
    )
    (tmp_path / "job.cc").write_text(text % source.replace("{out}", str(tmp_path / "elsewhere")))
    subprocess.run([compiler, "-O1", "-o", tmp_path / "job", tmp_path / "job.cc"], check=True)
    verdict = check(
        tmp_path,
        "sys.stdout.flush(); import subprocess; subprocess.run([%r], check=True)"
        % str(tmp_path / "job"),
    )
    assert verdict["outcome"] == "differ", verdict


HARMLESS = {
    "equal": "np.save(out / 'model.npy', np.float64([0.5])); (out / 'log.txt').write_text('took %.3f s\\n' % r)",
    "temporary": "f = tempfile.NamedTemporaryFile('w', dir=out); f.write('%f' % r); f.flush()",
    "temporary, moved away": "p = out / 'x'; p.write_text('%f' % r); p.unlink()",
    "temporary with a random name": "f, p = tempfile.mkstemp(dir=out); os.write(f, b'0.5'); os.close(f)",
    "a temporary folder stays": "p = Path(tempfile.mkdtemp(dir=out)); (p / 'a.json').write_text('{\"x\": 0.5}')",
    "a log": "f = open(out / 'log.txt', 'a')\nf.write(time.strftime('%Y-%m-%d %H:%M:%S') + ' pid %d done\\n' % os.getpid())",
    "a lock": "p = out / 'x.lock'; f = open(p, 'w'); f.write(str(os.getpid()))",
    "a socket": "s = socket.socket(socket.AF_UNIX); p = out / 'S'; p.unlink(missing_ok=True); s.bind(str(p))",
    "a fifo": "p = out / 'F'\nif not p.exists(): os.mkfifo(p)\nf = os.open(p, os.O_RDWR); os.write(f, b'%f' % r)",
    "devices": "open('/dev/null', 'w').write('%f' % r)",
    "bytecode": "p = out / '__pycache__'; p.mkdir(exist_ok=True); (p / 'm.cpython-311.pyc').write_bytes(os.urandom(64))",
    "compiled by Python": "(out / 'mod.py').write_text('x = 1\\n'); sys.path.insert(0, str(out)); import mod",
    "a cache": "p = out / 'cache.bin'\nif not p.exists(): p.write_bytes(os.urandom(64))",
    "a cache of several files": "for i in range(5):\n  p = out / ('k%d.so' % i)\n  if not p.exists(): p.write_bytes(os.urandom(64))",
    "opened, not written": "p = out / 'r.bin'\nif not p.exists(): p.write_bytes(bytes(8))\nopen(p, 'r+b').close()",
    "shared memory": "import multiprocessing.shared_memory as m; s = m.SharedMemory(create=True, size=64)\n"
    "s.buf[:8] = os.urandom(8); s.close(); s.unlink()",
}


@pytest.mark.parametrize("kind", HARMLESS)
def test_what_is_no_result(tmp_path, kind):
    verdict = check(tmp_path, HARMLESS[kind])
    assert verdict["outcome"] == "same", verdict


def test_a_log_with_a_past(tmp_path):
    """What earlier runs wrote to a log is no part of this one's."""
    out = tmp_path / "elsewhere"
    out.mkdir()
    (out / "log.txt").write_text("accuracy 0.125\naccuracy 0.25\n")
    body = "open(out / 'log.txt', 'a').write('accuracy %s\\n' % {})"
    assert check(tmp_path, body.format("0.5"))["outcome"] == "same"
    assert check(tmp_path, body.format("r"))["outcome"] == "differ"


def test_what_the_first_run_alone_wrote_is_named(tmp_path):
    verdict = check(tmp_path, HARMLESS["a cache"])
    assert any(
        "1 file outside of the working folder written by run 1 and not written again: not compared, such as "
        + str(tmp_path / "elsewhere" / "cache.bin")
        in note
        for note in verdict["notes"]
    ), verdict["notes"]


def test_what_the_second_run_alone_wrote_is_not_the_same(tmp_path):
    body = "p = out / 'mark'\nif p.exists(): (out / 'r.npy').write_bytes(b'1')\np.touch()"
    verdict = check(tmp_path, body)
    assert verdict["outcome"] == "inconclusive", verdict
    assert "r.npy" in json.dumps(verdict)


def test_a_format_that_is_not_read_is_named(tmp_path):
    body = "(out / 'r.pkl2').write_bytes(os.urandom(64))"
    verdict = check(tmp_path, body)
    assert verdict["outcome"] == "inconclusive", verdict
    assert str(tmp_path / "elsewhere" / "r.pkl2") in json.dumps(verdict)
    assert check(tmp_path, body, words=["--ignore", "file:*.pkl2"])["outcome"] == "same"


def test_paths_that_no_line_can_hold(tmp_path):
    verdict = check(tmp_path, "(out / 'a\\nb').write_text('loss %.6f' % r)")
    assert any("is not known in full" in note for note in verdict["notes"]), verdict["notes"]
