# SPDX-License-Identifier: Apache-2.0
"""Calls of ours inside a function of another library: it keeps its lines and columns, and what it
does, however its file is laid out; a function that was made another way is left alone.
"""

import dis
import importlib.util
import sys
import types
from pathlib import Path

import pytest

AGENT = Path(__file__).resolve().parents[2] / "python" / "twinrun" / "_agent"

# what a file of a library may hold: an import over several lines, words that look like one,
# a method with a decorator, text at the left margin, a comment there, and what follows it
SOURCE = '''
"""A library.
import of goods is forbidden (
from here on
"""
from os import (
    path,
)
import sys, \\
    json


def same(function):
    return function


class Thing:
    @same
    def called(
        self,
        first, second=2,
    ):
        """What it does.

no indentation here, and
def words(
        """
# a comment at the margin
        if first:
            return path.join("a", str(first)), sys.getsizeof(second) > 0
        try:
            return json.dumps([first, second])
        finally:
            self.left = True

    def next(self):
        return 1


def plain(a, b=(1,
                2)):
    while a:
        a -= 1
        if a == 3: return (
            path.basename("x/y"),
            b,
        )
'''


@pytest.fixture()
def library(tmp_path):
    """(the agent's room, a library of the job's) as modules of their own."""
    spec = importlib.util.spec_from_file_location("inplace_under_test", AGENT / "inplace.py")
    inplace = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(inplace)
    file = tmp_path / "a_library.py"
    file.write_text(SOURCE)
    made = types.ModuleType("a_library")
    exec(compile(SOURCE, str(file), "exec"), made.__dict__)
    return inplace, made


def put(inplace, function, seen):
    return inplace.put_into(
        function,
        "token_ = None\nif SWITCH:\n    token_ = BEFORE(1)\nBODY",
        "if token_ is not None:\n    AFTER(token_, result_)",
        {"BEFORE": lambda n: n, "AFTER": lambda n, result: seen.append((n, result))},
    )


def test_functions_keep_what_they_do_and_where_they_stand(library):
    inplace, made = library
    thing, seen = made.Thing(), []
    for function in (made.Thing.called, made.plain):
        before = function.__code__
        again = inplace._compiled(*inplace._parsed(function), before)
        # all but the first instruction, which stands at the decorator where there is one
        assert list(dis.findlinestarts(again))[1:] == list(dis.findlinestarts(before))[1:]
        if sys.version_info >= (3, 11):
            assert list(again.co_positions())[1:] == list(before.co_positions())[1:]
        assert put(inplace, function, seen)
        assert function.__code__ is not before
        assert function.__code__.co_firstlineno == before.co_firstlineno
    assert thing.called(1) == ("a/1", True)
    assert thing.called(0) == "[0, 2]" and thing.left
    assert made.plain(5) == ("y", (1, 2))
    assert made.plain(2) is None
    assert seen == [(1, ("a/1", True)), (1, "[0, 2]"), (1, ("y", (1, 2))), (1, None)]


def test_only_the_functions_own_lines_are_parsed(library, monkeypatch):
    """The start of each process pays for what is parsed here."""
    inplace, made = library
    parsed = []
    parse = inplace.ast.parse

    def count(text, *more):
        parsed.append(text)
        return parse(text, *more)

    monkeypatch.setattr(inplace.ast, "parse", count)
    imports, node = inplace._parsed(made.Thing.called)
    assert [type(i).__name__ for i in imports] == ["ImportFrom", "Import"]
    assert (node.name, node.lineno, node.col_offset) == ("called", 19, 4)
    assert not [text for text in parsed if "def plain" in text or "def next" in text]


def test_a_file_that_says_something_else_changes_nothing(library):
    inplace, made = library
    file = Path(made.plain.__code__.co_filename)
    before = made.plain.__code__
    for text in (
        SOURCE.replace("a -= 1", "a -= 2"),  # another statement
        SOURCE.replace("\n\ndef plain", "\n\n\ndef plain"),  # one line further down
        SOURCE[: SOURCE.index("def plain")],
        "",
    ):
        file.write_text(text)
        inplace.linecache.clearcache()
        assert not put(inplace, made.plain, [])
        assert made.plain.__code__ is before
