# SPDX-License-Identifier: Apache-2.0
"""docs/security.md: every promise names a test that is there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "security.md"


def promises():
    """The rows of the first table: [promise, against, test]."""
    table = PAGE.read_text().split("| promise |")[1].split("\n\n")[0]
    return [
        [cell.strip() for cell in row.strip("|").split(" | ")] for row in table.splitlines()[2:]
    ]


def test_every_promise_has_a_test():
    rows = promises()
    assert len(rows) >= 16
    for promise, against, test in rows:
        assert against, promise
        links = re.findall(r"\]\(([^)]+)\)((?:: (?:`\w+`(?:, )?)+)?)", test)
        assert [path for path, _ in links if "tests/" in path], promise
        for path, functions in links:
            file = (PAGE.parent / path).resolve()
            assert file.exists(), path
            for name in re.findall(r"`(\w+)`", functions):
                assert name in file.read_text(), "%s has no %s" % (path, name)
