# SPDX-License-Identifier: Apache-2.0
"""The JSON Schemas of --json: valid, the program's own, of every command that has --json, and strict
enough to notice what is missing. That the answers are as they say, every test of a command sees
(json_held.py, tests/cli/run).
"""

import copy
import json
import re

import json_held
import pytest
from conftest import ROOT

jsonschema = pytest.importorskip("jsonschema")
FILES = sorted(json_held.SCHEMAS.glob("*.json"))


def objects(value):
    """Every part of a schema that speaks of an object's fields."""
    if isinstance(value, list):
        for item in value:
            yield from objects(item)
    elif isinstance(value, dict):
        if isinstance(value.get("properties"), dict):
            yield value
        for item in value.values():
            yield from objects(item)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_each_is_a_schema(path):
    schema = json.loads(path.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"] == f"twinrun.{path.stem}/1" and schema["x-printed-by"]
    for part in objects(schema):
        assert set(part.get("required", [])) <= set(part["properties"])
        # new fields may come
        assert part.get("additionalProperties", True) is not False


def test_the_program_has_them(build, run):
    program = build / "cmd" / "twinrun"
    listed = run([program, "--schema"]).out
    commands = set()
    for path in FILES:
        printed_by = json.loads(path.read_text())["x-printed-by"]
        assert re.search(rf"^{path.stem} +{', '.join(printed_by)}$", listed, re.M)
        commands.update(name.split()[0] for name in printed_by)
    for path in [p for p in FILES if p.stem in ("check", "diff-env", "slo")]:
        assert run([program, "--schema", path.stem]).raw_out == path.read_bytes()
    assert (
        run([program, "--schema", "record"]).raw_out == run([program, "--schema", "show"]).raw_out
    )
    names = re.findall(r"^\.BR twinrun\\-(\S+) \(1\)", run([program, "--man"]).out, re.M)
    assert commands == {n for n in names if "\n      --json" in run([program, "help", n]).out}
    page = (ROOT / "docs" / "json.md").read_text()
    for path in FILES:
        own = f"`twinrun.{path.stem}/1`"
        assert own in page or path.stem in ("significant", "spread", "simulate", "scale", "lab")


def refused(program, run, *args):
    done = run([program, *args])
    return done.rc, done.err.splitlines()[0]


def test_what_has_none_is_said(build, run):
    program = build / "cmd" / "twinrun"
    code, said = refused(program, run, "--schema", "serve")
    assert code == 2 and said.endswith(
        "serve has no --json; twinrun --schema lists those that have"
    )
    assert refused(program, run, "--schema", "chek")[0] == 2


# not in every answer
MAY_LACK = ("records", "comparisons", "a", "b", "job", "applies")


def places(value, at=()):
    """The path of every field."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*at, key)
            yield from places(item, (*at, key))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*at, 0))


def changed(answer, path, change):
    answer = copy.deepcopy(answer)
    inside = answer
    for step in path[:-1]:
        inside = inside[step]
    change(inside, path[-1])
    return answer


def without(inside, key):
    del inside[key]


def of_another_type(inside, key):
    inside[key] = {"a": "thing"} if not isinstance(inside[key], dict) else "a thing"


def with_more(inside, key):
    inside["not-" + str(key)] = 1


def test_what_is_missing_or_wrong_is_seen(build, twinrun, work):
    job = build / "tests" / "cli" / "job"
    for _ in range(2):
        twinrun("record", "-q", "--", job, "--steps", "3", "--runs-file", "runs", "--part-at", "1")
    (work / "data").mkdir()
    (work / "data" / "a").write_text("a")
    answers = [
        twinrun("diff", "--json", "last~1", "last").json,
        twinrun("show", "last", "--json", "--step", "1").json,
        twinrun("ls", "--json").json,
        twinrun("factors", "--json", "--", job).json,
        twinrun("gc", "--keep", "1", "--dry-run", "--json").json,
        twinrun("snapshot", "data", "-o", "data.snapshot", "--json").json,
        twinrun("simulate", "--ranks", "4", "--elements", "8", "--trials", "2", "--json").json,
    ]
    assert answers[0]["outcome"] == "differ" and answers[0]["first"]
    for answer in answers:
        open_ = json.loads((json_held.SCHEMAS / f"{answer['schema'][8:-2]}.json").read_text())
        reader = jsonschema.Draft202012Validator(open_)
        assert json_held.fault(answer) == "" and reader.is_valid(answer)
        for path in places(answer):
            # what claims hold is in docs/format/verdict.md; a side of a difference may be missing
            if path[0] in ("schema", "claims") or path[-1] in MAY_LACK:
                continue
            if path[-2:-1] in (("a",), ("b",)):  # a hash alone may be known
                continue
            assert json_held.fault(changed(answer, path, without)), path
            assert json_held.fault(changed(answer, path, of_another_type)), path
            more = changed(answer, path, with_more)
            assert json_held.fault(more) and reader.is_valid(more), path
