# SPDX-License-Identifier: Apache-2.0
"""Keys that run out, and clocks that are wrong: a job's clock may be pinned, and a machine's may be
set back. Neither makes an expired key good in silence.
"""

import calendar
import json
import os
import sys
import time

import pytest

from registry_helper import in_production, registry  # noqa: F401

SHOWN = {"2001": "clock=pin:1005000000", "2039": "clock=pin:2200000000"}
# verifies what two keys signed, one of which has run out, and keeps the answers
JOB = """\
import subprocess, sys, time
said = [time.time() > 0]
for key in ("old", "new"):
    words = [sys.argv[1], "verify", f"{key}.dsse.json", "model.pt", "--trust", f"{key}.toml"]
    done = subprocess.run(words, capture_output=True, text=True)
    said.append((done.returncode, done.stdout))
open("state", "w").write(repr(said))
"""


@pytest.fixture
def signed(twinrun, work):
    """model.pt, signed by `old`, which has run out, and by `new`, which runs out in 2035."""
    (work / "model.pt").write_bytes(b"weights")
    for name, until in (("old", "2026-01-01"), ("new", "2035-01-01")):
        assert twinrun("sign", "--new-key", f"{name}.key").rc == 0
        r = twinrun("sign", "model.pt", "--key", f"{name}.key", "-o", f"{name}.dsse.json")
        assert r.rc == 0, r
        limits = f'file = "{name}.key.pub", from = "2015-01-01", until = "{until}"'
        (work / f"{name}.toml").write_text(f"[[trust]]\nneed = 1\n{name} = {{{limits}}}\n")
    return work


def verify(name, *more):
    return ["verify", f"{name}.dsse.json", "model.pt", "--trust", f"{name}.toml", *more]


@pytest.mark.parametrize("shown", SHOWN)
def test_a_shown_clock_judges_no_key(twinrun, build, signed, shown):
    program = str(build / "cmd" / "twinrun")
    for name, rc, word in (("old", 1, "expired"), ("new", 0, "good")):
        plain = twinrun(*verify(name))
        r = twinrun("run", "-q", "--pin", SHOWN[shown], "--", program, *verify(name))
        assert (r.rc, r.out) == (plain.rc, plain.out) and r.rc == rc and word in r.out, r
        assert "keys are judged by this machine's clock" in r.err and f"shown, {shown}-" in r.err
        assert "are judged by" not in plain.err
    # a time that is given counts, and is no clock
    r = twinrun("run", "-q", "--pin", SHOWN[shown], "--", program,
                *verify("old", "--at", "2025-01-01"))  # fmt: skip
    assert r.rc == 0 and "are judged by" not in r.err, r


def test_a_drill_of_the_clock_with_keys(twinrun, build, signed, home):
    """The job verifies signatures: in none of the drill's clocks an expired key is good, and none
    makes a good one bad."""
    (signed / "job.py").write_text(JOB)
    program = str(build / "cmd" / "twinrun")
    r = twinrun("drill", "clock", "-c", "state", "--json", "--", sys.executable, "job.py", program)
    steps = "\n".join(r.json["steps"])
    assert r.rc == 0 and r.json["outcome"] == "restored", r
    for world in ("in November 2001", "in September 2039", "14 hours east", "set back by two"):
        assert f"{world}" in steps, steps
    assert r.json["detect_s"] is None, steps
    states = [p.read_text() for p in home.glob("runs/*-drill-*/work/state")]
    assert len(states) >= 6
    for state in states:
        assert state.count("VERIFIED") == 1 and state.count("expired") == 1, state


def test_a_machine_whose_clock_is_behind(twinrun, signed):
    """The trust file was changed later than it is now: by that clock nothing is said of keys that
    run out."""
    future = time.time() + 86400
    for name in ("old", "new"):
        os.utime(signed / f"{name}.toml", (future, future))
        r = twinrun(*verify(name), "--json")
        assert r.rc == 2 and "expected a clock that is right" in r.err and not r.out, r
        assert f"{name}.toml was changed at" in r.err
    # the time is given, or nothing runs out: then no clock is needed
    assert twinrun(*verify("old", "--at", "2025-01-01")).rc == 0
    assert twinrun(*verify("old", "--at", "2026-02-01")).rc == 1
    trust = signed / "old.toml"
    trust.write_text('[[trust]]\nneed = 1\nold = {file = "old.key.pub"}\n')
    os.utime(trust, (future, future))
    assert twinrun(*verify("old")).rc == 0
    # clocks of file servers differ a little
    os.utime(signed / "new.toml", (time.time() + 120,) * 2)
    assert twinrun(*verify("new")).rc == 0


def test_a_registry_is_written_by_the_machine_s_clock(registry, build):  # noqa: F811
    """In a job whose clock is pinned: else an entry of 2039 would be behind all later ones, and one
    of 2001 would make an expired key good."""
    r = in_production(registry, b"one")
    program = str(build / "cmd" / "twinrun")
    before = time.time() - 60
    for shown in SHOWN.values():
        (r.work / "model.pt").write_bytes(shown.encode())
        done = r.run("run", "-q", "--pin", shown, "--", program, "registry", "add", "resnet",
                     "model.pt", "--key", "ci.key", rc=None)  # fmt: skip
        assert done.rc == 0, done
    r.add(content=b"later")
    entries = json.loads(r("log", "--json").out)["entries"]
    times = [calendar.timegm(time.strptime(e["time"], "%Y-%m-%dT%H-%M-%SZ")) for e in entries]
    assert times == sorted(times) and before < times[-3] and times[-1] < time.time() + 60, times
    # and promote judges no evidence by a clock that is behind
    future = time.time() + 86400
    r.trust('ci = {file = "ci.key.pub", until = "2050-01-01"}', 'ana = {file = "ana.key.pub"}')
    os.utime(r.work / "trust.toml", (future, future))
    done = r("promote", "resnet", "--key", "ana.key", rc=2)
    assert "expected a clock that is right" in done.err and r.stages()[4] == "candidate"
