# SPDX-License-Identifier: Apache-2.0
"""Runs tests/unit/launch_driver, which is twin_launch behind a few options, and reads
what it left.
"""

import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TWINRUN_BUILD", ROOT / "build")).resolve()
DRIVER = BUILD / "tests" / "unit" / "launch_driver"
LIBRARY = BUILD / "agents" / "libtwinrun.so"
OUTCOMES = ["exited", "signaled", "not-started", "stopped", "interrupted"]


class Run:
    """One finished run: the driver's report, run.json, the driver's own output."""

    def __init__(self, result, report, stdout, stderr):
        self.returncode, self.stdout, self.stderr = result, stdout, stderr
        self.report = (
            dict(line.split("=", 1) for line in report.read_text().splitlines())
            if report.exists()
            else {}
        )
        self.dir = pathlib.Path(self.report["dir"]) if self.report else None
        self.json = json.loads((self.dir / "run.json").read_text()) if self.dir else None

    def stored(self, name):
        return (self.dir / name).read_bytes()

    def process(self, text):
        found = [
            p for p in self.json["processes"] if isinstance(p["argv"], str) and text in p["argv"]
        ]
        assert found, (text, self.json["processes"])
        return found[0]


def parts(folder):
    """A folder that holds our parts side by side, as TWINRUN_LIBDIR wants it."""
    folder.mkdir(exist_ok=True)
    for name, target in (("libtwinrun.so", LIBRARY), ("python", ROOT / "python")):
        if not (folder / name).exists():
            (folder / name).symlink_to(target)
    return folder


def command(tmp, job, *options):
    return [str(DRIVER), "--report", str(tmp / "report"), *map(str, options), "--", *job]


def environment(tmp, **more):
    env = {
        k: v for k, v in os.environ.items() if not k.startswith(("TWINRUN_", "LD_", "PYTHONPATH"))
    }
    env["TWINRUN_LIBDIR"] = str(parts(tmp.parent / (tmp.name + "-parts")))
    env["TWINRUN_HOME"] = str(tmp.parent / (tmp.name + "-home"))
    env.update({k: v for k, v in more.items() if v is not None})
    for k, v in more.items():
        if v is None:
            env.pop(k, None)
    return env


def launch(tmp, job, *options, env=None, timeout=300, **popen):
    """Runs the job to its end; tmp is the working folder."""
    report = tmp.parent / (tmp.name + "-report")
    report.unlink(missing_ok=True)
    argv = [str(DRIVER), "--report", str(report), *map(str, options), "--", *job]
    popen.setdefault("stdin", subprocess.DEVNULL)
    if "input" in popen:
        popen.pop("stdin")
    r = subprocess.run(
        argv,
        cwd=tmp,
        env=env or environment(tmp),
        timeout=timeout,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **popen,
    )
    return Run(r.returncode, report, r.stdout, r.stderr)


def start(tmp, job, *options, env=None, **popen):
    report = tmp.parent / (tmp.name + "-report")
    report.unlink(missing_ok=True)
    argv = [str(DRIVER), "--report", str(report), *map(str, options), "--", *job]
    popen.setdefault("stdin", subprocess.DEVNULL)
    p = subprocess.Popen(
        argv,
        cwd=tmp,
        env=env or environment(tmp),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **popen,
    )
    p.report_path = report
    return p


def finish(p, timeout=120):
    out, err = p.communicate(timeout=timeout)
    return Run(p.returncode, p.report_path, out, err)


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def children_cpu_s():
    """Processor time of all children that have been waited for: what they cost on a busy machine,
    too.
    """
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def compile_c(folder, name, source, *flags, compiler="gcc"):
    """Compiles a test program; None when the compiler cannot (no static libc, no
    sanitizer here).
    """
    path = folder / name
    (folder / (name + ".c")).write_text(source)
    if not shutil.which(compiler):
        return None
    r = subprocess.run(
        [compiler, "-o", str(path), str(folder / (name + ".c")), *flags], capture_output=True
    )
    return path if r.returncode == 0 else None


__all__ = [n for n in dir() if not n.startswith("_")] + ["signal"]
