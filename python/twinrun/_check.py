# SPDX-License-Identifier: Apache-2.0
"""`twinrun check`, called from Python: for the plugin of pytest and the magic of notebooks."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import xml.etree.ElementTree as xml

# Seconds that an interrupted check has to say what it has found and to end its jobs.
GRACE = 30

# What each exit code of `twinrun check` is called (docs/verdict.md).
REPRODUCED, DIFFERS, TROUBLE, UNKNOWN = 0, 1, 2, 3


class Trouble(Exception):
    """No verdict could be had; the text says why, and what to try."""


def program():
    """The path of the command `twinrun`: that of this package, else that of PATH."""
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_bin", "twinrun")
    found = own if os.access(own, os.X_OK) else shutil.which("twinrun")
    if not found:
        raise Trouble(
            "the command twinrun was not found: expected it in this package or in PATH; "
            "try `pip install --force-reinstall twinrun`"
        )
    return found


class Verdict:
    """What a check came to.

    code: the exit code; text: the verdict in words; said: what went to stderr, such as the last
    words of a job that failed; json: the verdict as an object; runs: the folders of the runs.
    """

    def __init__(self, code, text, said, found):
        self.code, self.text, self.said, self.json = code, text, said, found
        self.runs = found.get("runs_dir") or []

    @property
    def outcome(self):
        return self.text.split(None, 1)[0] if self.text else "ERROR"

    @property
    def headline(self):
        """The first difference in one line, or what was not seen, else the verdict's first line."""
        lines = self.text.splitlines() or [self.said.strip()]
        for line in lines[1:]:
            if line.startswith(("first ", "unseen ")):
                return " ".join(line.split()[1:])
        return " ".join(lines[0].split())


def options(runs=None, steps=None, tolerance=None, ignore=(), level=None, max_time=None):
    """The options of `twinrun check` for these; None leaves one out."""
    argv = []
    named = (
        ("runs", runs),
        ("steps", steps),
        ("tolerance", tolerance),
        ("level", level),
        ("max-time", max_time),
    )
    for name, value in named:
        if value is not None:
            argv += ["--" + name, str(value)]
    for pattern in [ignore] if isinstance(ignore, str) else ignore:
        argv += ["--ignore", pattern]
    return argv


def check(command, options=(), cwd=None, env=None):
    """Runs `twinrun check` and returns its Verdict."""
    with tempfile.TemporaryDirectory(prefix="twinrun-check-") as folder:
        words = os.path.join(folder, "verdict.xml")
        argv = [program(), "check", "--quiet", "--json", "--junit", words, *options, "--", *command]
        code, out, said = _finish(argv, cwd, env)
        if code == 128 + signal.SIGINT:
            raise KeyboardInterrupt
        try:
            found = json.loads(out)
            text = xml.parse(words).getroot().findtext(".//system-out") or ""
        except (ValueError, OSError, xml.ParseError):
            said = said.strip() or "twinrun check ended with %d and no word" % code
            raise Trouble(said) from None
        return Verdict(code, text.strip("\n"), said, found)


def _finish(argv, cwd, env):
    try:
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches it once, through us
        )
    except OSError as error:
        raise Trouble("%s cannot be started: %s" % (argv[0], error.strerror)) from None
    try:
        out, said = process.communicate()
    except BaseException:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        raise
    return process.returncode, out.decode("utf-8", "replace"), said.decode("utf-8", "replace")
