# SPDX-License-Identifier: Apache-2.0
"""/api/v1/incidents of twinrun serve: the same incidents that an Alertmanager is told of, which
test_serve_incidents.py looks at rule by rule.
"""

import os
import time

import jsonschema
import pytest
from ledger_by_hand import HOUR, Ledger
from serve_helper import TWINRUN, serving
from test_serve_incidents import ends, told

pytestmark = pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN)
MINUTE = HOUR // 60
EVIL = "<script>alert(1)</script>\n\x1b[31m\u202e"


def listed(home, *options):
    with serving(home, *options) as s:
        answer = s.get("/api/v1/incidents")
        assert answer.status == 200, answer.text
        schema = s.get("/api/v1/schemas/incidents").json
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.validate(answer.json, schema, jsonschema.Draft202012Validator)
        assert s.get("/api/v1/incidents?limit=1").status == 400
        assert s.get("/api/v1/incidents/").status == 404
    return answer


def test_they_are_those_that_an_alertmanager_is_told_of(tmp_path):
    h = Ledger(tmp_path / "home")
    ago = lambda minutes: h.now - minutes * MINUTE  # noqa: E731
    a, b, c, d, e, f, g, k = (h.run(command=x) for x in "aaabbccd")
    h.compare([a, b], ["differs"], "differ", when=ago(200), command="a", layer="forward")
    h.compare([a, c], ["differs"], "differ", when=ago(190), command="a")  # within the cool-down
    h.compare([d, e], ["unknown"], "inconclusive", when=ago(150), command="b")
    h.compare([f, g], ["differs"], "differ", when=ago(100), command="c", repeats=0, first=EVIL)
    h.compare([k, h.run(command="d")], ["differs"], "differ", when=ago(26 * 60), command="d")
    late = [h.run(command="b", start=ago(60)) for _ in range(2)]
    h.compare(late, ["agrees"], "same", when=ago(50), command="b")
    home = h.done()
    answer = listed(home)
    got = answer.json["incidents"]
    alerts = told(home)
    assert {i["run"] for i in got} == set(alerts) == {b, c, e, g}
    for i in got:
        alert = alerts[i["run"]]
        assert i["severity"] == alert["labels"]["severity"]
        assert i["project"] == alert["labels"]["project"]
        assert i["layer"] == alert["labels"].get("layer", "")
        assert (i["state"] == "agreed") == ends(alert)
        diverged = alert["labels"]["alertname"] == "TwinrunRunDiverged"
        assert i["kind"] == ("diverged" if diverged else "unproven")
    assert [i["run"] for i in got] == [g, e, c, b]  # the newest first
    assert [i["reference"] for i in got] == [f, d, a, a]
    assert b"\x1b" not in answer.body and b"u001b" not in answer.body
    assert h.now < answer.json["until_ns"] < time.time_ns()
    assert answer.json["left_out"] == 0 and answer.json["lasts_s"] == 24 * 3600


def test_a_fleet_that_is_fine(tmp_path):
    h = Ledger(tmp_path / "home")
    h.repeats(3)
    assert listed(h.done()).json["incidents"] == []
