# SPDX-License-Identifier: Apache-2.0
"""Where the processor time of the tests goes, by file: printed after the slowest tests.

Wall time of a test says little on a machine that has other work. Here each phase of a test (set-up,
call, tear-down) is charged with the seconds, user and system, of its worker and of the processes
that it started and waited for. Not counted: processes that are nobody's child any more, and what a
fixture of a whole module starts is charged to the test that asked for it first.
"""

import resource
from collections import Counter

import pytest

SHOWN = 15


def processor_seconds():
    """Of this process and of its children that have ended, since it started."""
    both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def table(by_file, shown=SHOWN):
    """The lines that are printed: seconds of all, then of the files that took most of them."""
    yield "%.0f s in all" % sum(by_file.values())
    for name, seconds in by_file.most_common(shown):
        yield "%8.1f s %s" % (seconds, name)


class SpentTime:
    """A plugin of pytest, in the process that reports and in each worker of xdist."""

    def __init__(self):
        self.last = processor_seconds()
        self.by_file = Counter()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self):
        report = (yield).get_result()
        now = processor_seconds()
        report.processor_s = now - self.last  # xdist sends a report's attributes along
        self.last = now

    def pytest_runtest_logreport(self, report):
        self.by_file[report.nodeid.split("::")[0]] += getattr(report, "processor_s", 0.0)

    def pytest_terminal_summary(self, terminalreporter):
        terminalreporter.section("processor time by file")
        for line in table(self.by_file):
            terminalreporter.write_line(line)
