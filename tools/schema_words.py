#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Says which fields of the JSON Schemas no object has: schema_words.py FOLDER, which holds what
tests have kept (TWINRUN_JSON_SEEN=FOLDER, tests/agents/json_held.py). Exits with 1 when there are
some: a field that no test has seen may be one that nothing writes.
"""

import json
import sys
from pathlib import Path

SCHEMAS = Path(__file__).resolve().parents[1] / "src" / "report" / "schemas"


def named(schema):
    """The fields that a schema names, wherever they stand."""
    if isinstance(schema, list):
        return set().union(*map(named, schema))
    if not isinstance(schema, dict):
        return set()
    fields = set(schema.get("properties", {}))
    for key, value in schema.items():
        inner = value.values() if key in ("properties", "$defs") else [value]
        fields = fields.union(*map(named, inner))
    return fields


def written(value):
    if isinstance(value, list):
        return set().union(*map(written, value))
    if not isinstance(value, dict):
        return set()
    return set(value).union(*map(written, value.values()))


def main():
    seen = {}
    for path in Path(sys.argv[1]).glob("*.json"):
        for line in path.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            answer = json.loads(line)
            seen.setdefault(answer["schema"], set()).update(written(answer))
    lacking = 0
    for path in sorted(SCHEMAS.glob("*.json")):
        schema = json.loads(path.read_text())
        missing = named(schema) - seen.get(schema["title"], set())
        if missing:
            print(f"{schema['title']}: {', '.join(sorted(missing))}")
        lacking += len(missing)
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
