# SPDX-License-Identifier: Apache-2.0
"""Holds what --json printed against its JSON Schema (src/report/schemas). The published schemas let
new fields come; here a field that its schema does not name is a fault, so that each is described.

TWINRUN_JSON_SEEN=FOLDER also keeps each object there: tools/schema_words.py says which words of the
schemas none of them has.
"""

import json
import os
import tempfile
from functools import cache
from pathlib import Path

SCHEMAS = Path(__file__).resolve().parents[2] / "src" / "report" / "schemas"


def closed(schema):
    """The schema without room for fields that it does not name, but where it says that it has."""
    if isinstance(schema, list):
        return [closed(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    named = ("properties", "$defs")
    out = {k: {n: closed(s) for n, s in v.items()} if k in named else closed(v)
           for k, v in schema.items()}  # fmt: skip
    if "properties" in out:
        out.setdefault("additionalProperties", False)
    return out


@cache
def validators():
    """{"twinrun.check/1": validator}; {} where jsonschema is not installed."""
    try:
        from jsonschema import Draft202012Validator
    except ImportError:
        return {}
    schemas = [json.loads(path.read_text()) for path in sorted(SCHEMAS.glob("*.json"))]
    return {s["title"]: Draft202012Validator(closed(s)) for s in schemas}


def fault(answer):
    """What of an object is not as its schema says; "" where all is, or it has no schema."""
    from jsonschema.exceptions import best_match

    validator = validators().get(answer.get("schema"))
    wrong = best_match(validator.iter_errors(answer)) if validator else None
    if wrong is None:
        return ""
    where = "/".join(str(part) for part in wrong.absolute_path)
    return f"{answer['schema']}: {where}: {wrong.message[-300:]}"


def faults(text):
    """The faults of what a command printed: one object on each line, or no JSON at all."""
    found = []
    for line in text.splitlines() if text.startswith('{"schema":') else ():
        try:
            answer = json.loads(line)
        except ValueError:  # the test that broke it off says so
            continue
        if os.environ.get("TWINRUN_JSON_SEEN"):
            keep = {"dir": os.environ["TWINRUN_JSON_SEEN"], "suffix": ".json", "delete": False}
            with tempfile.NamedTemporaryFile("w", **keep) as f:
                f.write(line)
        if validators():
            found += filter(None, [fault(answer)])
    return found
