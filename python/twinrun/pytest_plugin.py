# SPDX-License-Identifier: Apache-2.0
"""The plugin of pytest: `@pytest.mark.reproducible` (docs/pytest.md).

A test with this mark is not run by the pytest that meets it. It hands the test to `twinrun check`,
which runs it several times, each time in a process of its own with a pytest of its own, fixtures
and all, and compares what these computed. In such a process, as in any that twinrun watches, the
mark means nothing: the test runs as it is.
"""

import json
import os
import shutil
import sys
import tempfile

import pytest

from . import _check

MARK = "reproducible"
# In the environment of a test's own pytest: the file with the options of the outer one.
ORDERS = "TWINRUN_PYTEST_ORDERS"
# Of the outer pytest's options those that would make another one write over its files, leave the
# test out, or start processes for it.
NOT_HANDED_ON = {
    "dist": "no",
    "numprocesses": None,
    "tx": [],
    "px": [],
    "distload": False,
    "looponfail": False,
    "xmlpath": None,
    "htmlpath": None,
    "report_log": None,
    "json_report": False,
    "log_file": None,
    "pastebin": None,
    "debug": None,
    "lf": False,
    "failedfirst": False,
    "newfirst": False,
    "stepwise": False,
    "stepwise_skip": False,
    "keyword": "",
    "markexpr": "",
    "deselect": None,
    "maxfail": 0,
    "collectonly": False,
    "showfixtures": False,
    "show_fixtures_per_test": False,
    "durations": None,
    "usepdb": False,
    "trace": False,
    "basetemp": None,
    "capture": "no",
    "runxfail": True,
    "setuponly": False,
    "setupshow": False,
    "setupplan": False,
    "file_or_dir": [],
}


# Of what a test that fails in every run has printed, so many lines are shown.
LINES = 60


class _Refusal(Exception):
    """The mark is used wrongly; the text says how."""


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "reproducible(runs=3, steps=None, tolerance=None, ignore=(), level=None, max_time=None): "
        "run this test several times, each in a process of its own under twinrun, and fail where "
        "the runs do not compute the same",
    )
    if ORDERS in os.environ:
        config.pluginmanager.register(_Inside(config), "twinrun-inside")


def pytest_itemcollected(item):
    mark = item.get_closest_marker(MARK)
    if mark is None or "TWINRUN_RUN_DIR" in os.environ:
        return
    # Its fixtures are made where it runs: in processes of their own.
    item.setup = item.teardown = lambda: None
    item.runtest = lambda: _judge(item, mark)
    repr_failure = item.repr_failure
    item.repr_failure = lambda excinfo, *a, **k: (
        _Message(item, excinfo.value)
        if isinstance(excinfo.value, _NotReproduced)
        else repr_failure(excinfo, *a, **k)
    )


# ---------------------------------------------------------------- outside


class _NotReproduced(Exception):
    """The message of a test that failed: its first line is the answer."""


class _Message:
    """How pytest shows it: the text as it is, and its first line in the summary."""

    def __init__(self, item, error):
        self.text = str(error)
        path, line, _ = item.location
        self.reprcrash = _Crash(path, (line or 0) + 1, self.text.split("\n", 1)[0])

    def __str__(self):
        return self.text

    def toterminal(self, tw):
        for line in self.text.split("\n"):
            tw.line(line)


class _Crash:
    def __init__(self, path, lineno, message):
        self.path, self.lineno, self.message = path, lineno, message

    def __str__(self):
        return "%s:%d: %s" % (self.path, self.lineno, self.message)


def _asked(item, mark):
    """The options of check that the mark asks for."""
    known = ("runs", "steps", "tolerance", "ignore", "level", "max_time")
    wrong = sorted(set(mark.kwargs) - set(known))
    if mark.args or wrong:
        raise _Refusal(
            "@pytest.mark.reproducible: expected %s by name, found %s"
            % (", ".join(k + "=" for k in known), ", ".join(wrong) or repr(mark.args[0]))
        )
    asked = dict(mark.kwargs)
    if asked.get("tolerance") is not None:
        # Beside the test, wherever pytest is started.
        asked["tolerance"] = os.path.join(os.path.dirname(str(item.path)), asked["tolerance"])
    return _check.options(**asked)


def _command(item, folder):
    config = item.config
    test = str(item.path) + item.nodeid[item.nodeid.find("::") :]
    argv = [sys.executable, "-m", "pytest", "-s", "--rootdir", str(config.rootpath)]
    if config.inipath:
        argv += ["-c", str(config.inipath)]
    named = list(config.option.plugins or ())
    own = sys.modules[__name__]
    found = [plugin for plugin, _ in config.pluginmanager.list_plugin_distinfo()]
    if own not in found and __name__ not in named:
        named.append(__name__)  # a conftest.py named it
    for name in named:
        argv += ["-p", name]
    if config.pluginmanager.hasplugin("_cov") or config.pluginmanager.hasplugin("pytest_cov"):
        argv.append("--no-cov")
    # The same names in every run, in no folder of the project.
    return [*argv, "--basetemp", os.path.join(folder, "tmp"), test]


def _write_orders(item, path):
    """The options that the outer pytest was given, as far as JSON holds them: a fixture may ask for
    any of them.
    """
    options = {}
    for name, value in vars(item.config.option).items():
        try:
            options[name] = json.loads(json.dumps(value))
        except (TypeError, ValueError):
            continue
    for name in list(NOT_HANDED_ON) + ["plugins", "override_ini", "rootdir", "inifilename"]:
        options.pop(name, None)
    with open(path, "w") as f:
        json.dump({"options": options}, f)


def _judge(item, mark):
    folder = tempfile.mkdtemp(prefix="twinrun-pytest-")
    try:
        orders = os.path.join(folder, "orders.json")
        _write_orders(item, orders)
        env = dict(os.environ)
        env[ORDERS] = orders
        for name in ("PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
            env.pop(name, None)
        env.setdefault("TWINRUN_HOME", os.path.join(str(item.config.rootpath), ".twinrun"))
        # Files below the working folder may be other tests' that run at this time; those in
        # tmp_path are this one's.
        options = [*_asked(item, mark), "--ignore", "file:[!/]*"]
        cwd = str(item.config.invocation_params.dir)
        found = _check.check(_command(item, folder), options, cwd, env)
        _conclude(item, found)
    except (_check.Trouble, _Refusal) as error:
        raise _NotReproduced("twinrun: " + str(error)) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _skipped(found):
    """Why the test skipped itself in the first run, or None."""
    for line in _printed(found):
        if line.startswith(SKIPPED):
            return line[len(SKIPPED) :].strip()
    return None


def _printed(found):
    """The lines on stderr of the first run."""
    try:
        with open(os.path.join(found.runs[0], "stderr"), errors="replace") as f:
            return f.read().splitlines()
    except (OSError, IndexError):
        return []


def _conclude(item, found):
    if found.code == _check.REPRODUCED or found.code == _check.UNKNOWN:
        why = _skipped(found)
        if why is not None:
            pytest.skip(why)
    if found.code == _check.REPRODUCED:
        item.add_report_section("call", "twinrun", found.text)
        return
    if found.code == _check.TROUBLE:
        first = "the test fails in every run, whether or not it reproduces"
        text = "\n".join(["stderr of run 1:", *_printed(found)[-LINES:], "", found.text])
    elif found.code == _check.UNKNOWN:
        first = "not known to reproduce: " + found.headline
        text = found.text
    else:
        first = "does not reproduce: " + found.headline
        text = found.text
    raise _NotReproduced("twinrun: %s\n\n%s" % (first, text.strip("\n")))


# ---------------------------------------------------------------- inside of a run

SKIPPED = "twinrun-pytest-skipped: "


class _Inside:
    """In the pytest that runs the test: says nothing but what the test says, and why it failed."""

    def __init__(self, config):
        with open(os.environ[ORDERS]) as f:
            options = json.load(f)["options"]
        for name, value in options.items():
            if hasattr(config.option, name):
                setattr(config.option, name, value)
        self.config = config
        for name, value in NOT_HANDED_ON.items():
            if hasattr(config.option, name) and name not in ("basetemp", "file_or_dir"):
                setattr(config.option, name, value)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self):
        # What pytest itself prints is no result: times, the number of its version.
        manager = self.config.pluginmanager
        reporter = manager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter._tw._file = open(os.devnull, "w")
        # They write down which tests there are and which failed: that is the outer one's.
        for name in ("lfplugin", "nfplugin", "stepwiseplugin"):
            if manager.has_plugin(name):
                manager.unregister(name=name)

    def pytest_runtest_logreport(self, report):
        if report.failed:
            sys.stderr.write("%s\n" % report.longreprtext)
        elif report.skipped:
            why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            why = str(why).split("\n")[0]
            sys.stderr.write(SKIPPED + (why[9:] if why.startswith("Skipped: ") else why) + "\n")
        sys.stderr.flush()
