# SPDX-License-Identifier: Apache-2.0
"""twinrun serve: the postmortem of a verdict, against what twinrun report --postmortem writes."""

import json
import os
import shutil
import sqlite3

import pytest
from serve_helper import JOB, TWINRUN, checked, serving, twinrun

pytestmark = pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Runs that differ (three of one command, one of another), a search that found why."""
    home = tmp_path_factory.mktemp("postmortem") / "home"
    twinrun(home, "isolate", "--", JOB, "--steps", "6", "--noise-at", "3", code=(1,))
    for noise in (["--noise-at", "3"], ["--noise-at", "3"], ["--noise-at", "3"], []):
        twinrun(home, "record", "-q", "--", JOB, "--steps", "6", *noise)
    twinrun(home, "diff", "last~3", "last~2", "last~1", code=(0, 1))
    twinrun(home, "diff", "last~1", "last", code=(1,))
    return home


def verdicts(s):
    return s.get("/api/v1/verdicts").json["verdicts"]


def test_it_is_what_report_writes(made):
    with serving(made) as s:
        rows = [v for v in verdicts(s) if len(v["runs"]) > 1]
        assert {v["verb"] for v in rows} >= {"diff", "isolate"}
        for row in rows:
            for other in range(1, len(row["runs"])):
                got = checked(
                    s, f"/api/v1/verdicts/{row['id']}/postmortem?other={other}", "postmortem"
                )
                a, b = got["runs"][0]["id"], got["runs"][other]["id"]
                report = json.loads(twinrun(made, "report", "--postmortem", a, b, "--json"))
                assert got["verdict"] == row and got["other"] == other
                for key in ("markdown", "outcome", "first_step", "world_known", "world", "checks"):
                    assert got[key] == report[key], key
                assert got["checks_all"] == len(report["checks"]) > 0
                assert str(made) not in json.dumps(
                    {**got, "markdown": "", "verdict": "", "world": ""}
                )
        # the cause that the search found stands in that of its command
        texts = [
            checked(s, f"/api/v1/verdicts/{r['id']}/postmortem", "postmortem")["markdown"]
            for r in rows
        ]
        assert any("Shown by controlled experiment" in t for t in texts)
        assert any("First divergence\n\n- where" in t for t in texts)
        # a new check shows at once, though the runs are the same
        path = f"/api/v1/verdicts/{rows[0]['id']}/postmortem"
        before = checked(s, path, "postmortem")["checks_all"]
        twinrun(made, "diff", "last~1", "last", code=(1,))
        assert checked(s, path, "postmortem")["checks_all"] == before + 1


def test_what_cannot_be_had(made, tmp_path):
    home = tmp_path / "home"
    shutil.copytree(made, home, symlinks=True)
    with serving(home) as s:
        (row, *_) = verdicts(s)
        path = f"/api/v1/verdicts/{row['id']}/postmortem"
        for wrong in ("rows=1", "other=0", "other=256", "other=1&other=1", "limit=1"):
            assert s.get(path + "?" + wrong).status == 400, wrong
        assert s.get(path + "?other=9").status == 409
        for name in ("0" * 31, "0" * 33, "..", "x" * 32, "", row["id"] + "/x", row["id"] + "/.."):
            assert s.get(f"/api/v1/verdicts/{name}/postmortem").status == 404, name
        for wrong in (path + "/", path + "x", path.replace("postmortem", "postmortems")):
            assert s.get(wrong).status == 404, wrong
        assert s.get(path.replace(row["id"], "0" * 32)).status == 404
        assert s.get(path).status == 200
        lies = {
            json.loads((home / "runs" / n / "run.json").read_text())["id"]: home / "runs" / n
            for n in os.listdir(home / "runs")
        }
        shutil.rmtree(lies[row["runs"][1]["id"]])
        gone = s.get(path)
        assert gone.status == 410 and str(tmp_path) not in gone.text


def test_a_ledger_of_hostile_words(made, tmp_path):
    """What others wrote into the ledger is text in code spans; so many checks that nobody can read
    them are an error, not a number that is wrong."""
    home = tmp_path / "home"
    shutil.copytree(made, home, symlinks=True)
    db = sqlite3.connect(home / "ledger.db")
    for (trigger,) in db.execute("SELECT name FROM sqlite_master WHERE type='trigger'").fetchall():
        db.execute(f"DROP TRIGGER {trigger}")
    evil = "<script>alert(1)</script>`` | \x1b[31m\n# x" + "y" * 1000000
    db.execute("UPDATE comparisons SET first = ?, cause = ?", (evil, evil))
    db.commit()
    with serving(home) as s:
        (row, *_) = verdicts(s)
        path = f"/api/v1/verdicts/{row['id']}/postmortem"
        text = checked(s, path, "postmortem")["markdown"]
        assert "\x1b" not in text and "\n# x" not in text and len(text) < 100000
        (command,) = db.execute(
            "SELECT command FROM runs WHERE id = ?", (row["runs"][0]["id"],)
        ).fetchone()
        columns = [c[1] for c in db.execute("PRAGMA table_info(comparisons)")]
        names = ",".join(columns)
        picked = ",".join(
            {"id": "printf('%032x', value)", "command": "?", "first": "''", "cause": "''"}.get(c, c)
            for c in columns
        )
        db.execute(
            f"WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value <"
            f" 20001) INSERT INTO comparisons ({names}) SELECT {picked} FROM n, (SELECT * FROM"
            f" comparisons LIMIT 1)",
            (command,),
        )
        db.commit()
        answer = s.get(path)
        assert answer.status == 503 and "20,000" in answer.text
        assert s.get("/healthz").status == 200
    db.close()
