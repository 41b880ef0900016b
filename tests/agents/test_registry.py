# SPDX-License-Identifier: Apache-2.0
"""`twinrun registry`: a version from its runs to production and back; logs that somebody changed, two
who write at once, killed promotions, stores that lose or are full, keys that run out.
"""

import base64
import fcntl
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import time

import pytest

from conftest import FULL
from registry_helper import in_production, kill_promotions, kill_rollbacks
from registry_helper import one_log, promotions_at_once
from registry_helper import registry  # noqa: F401

KILLS = 1000 if FULL else 40


# ---- the whole way


def test_from_two_runs_that_agree_to_production_and_back(registry):
    """The evidence is what real runs made: a policy that asks for two runs does not take one, nor
    runs of another file."""
    registry.policy(
        "[[promote]]",
        'to = "canary"',
        "reproduced = 2",
        "[[promote]]",
        'to = "production"',
        "reproduced = 2",
        "signed = 2",
        "canary_hours = 0",
    )
    registry.make()
    job = [registry.build / "tests/cli/job", "--steps", "3", "--save-at", "2"]
    for i in range(2):
        registry.run("record", "--", *job)
    registry.run("sign", "--reproduced", "last~1", "last", "--key", "ci.key", "-o", "same.json")
    weights = (registry.work / "weights").read_bytes()
    (registry.work / "model.pt").write_bytes(weights)
    registry("add", "resnet", "model.pt", "--key", "ci.key", "--evidence", "same.json")

    # Evidence about another file is refused, and says nothing in its favour.
    (registry.work / "other.pt").write_bytes(weights[:-1] + b"x")
    r = registry("add", "resnet", "other.pt", "--key", "ci.key", "-e", "same.json", rc=2)
    assert "about other files" in r.err
    registry("add", "resnet", "other.pt", "--key", "ci.key")
    r = registry("promote", "resnet@2", "--key", "ana.key", rc=1)
    assert "FAIL  reproduced" in r.out and "found 0" in r.out

    registry("promote", "resnet@1", "--key", "ana.key")
    assert registry.stages() == {1: "canary", 2: "candidate"}
    r = registry("promote", "resnet@canary", "--key", "ana.key", rc=1)
    assert "nobody said whether it passed" in r.out and "FAIL  signed" in r.out
    registry("canary", "resnet", "passed", "--key", "ana.key")
    for name in "ci", "ana":  # of one key twice is one key
        registry.run("sign", "model.pt", "--key", f"{name}.key", "-o", f"{name}.json")
    registry("attach", "resnet@1", "-e", "ci.json", "-e", "ci.json", "--key", "ci.key")
    r = registry("promote", "resnet@canary", "--key", "ana.key", "--json", rc=1)
    checks = {c["check"]: c for c in r.json["checks"]}
    assert [n for n, c in checks.items() if not c["passed"]] == ["signed"], checks
    registry("attach", "resnet@1", "-e", "ana.json", "--key", "ci.key")
    registry("promote", "resnet@canary", "--key", "ana.key")
    assert registry.stages() == {1: "production", 2: "candidate"}
    registry("get", "resnet@production", "--into", "got.pt")
    assert (registry.work / "got.pt").read_bytes() == weights
    r = registry("verify", "--contents")
    assert "nothing is wrong" in r.out


def test_a_rollback_brings_the_old_one_back(registry):
    in_production(registry, b"one", b"two", b"three")
    assert registry.stages() == {1: "retired", 2: "retired", 3: "production"}
    r = registry("rollback", "resnet", "--into", "back.pt", "--key", "ana.key")
    assert "resnet@2 is in production again" in r.out and "not asked for" in r.out
    assert (registry.work / "back.pt").read_bytes() == b"two"
    assert registry.stages() == {1: "retired", 2: "production", 3: "retired"}
    registry("rollback", "resnet@1", "--into", "first.pt", "--key", "ana.key")
    assert registry.stages() == {1: "production", 2: "retired", 3: "retired"}
    assert "nothing is wrong" in registry("verify", "--contents").out
    r = registry.run("slo", "--json", rc=None)
    m8 = next(i for i in r.json["indicators"] if i["indicator"] == "M8")
    assert m8["counts"]["good"] == 2 and m8["counts"]["bad"] == 0, m8


@pytest.mark.parametrize("how", ["damaged", "lost", "in the way"])
def test_a_rollback_that_cannot_restore_changes_nothing(registry, how):
    in_production(registry, b"one", b"two")
    content = registry.folder / "contents" / hashlib.sha256(b"one").hexdigest()
    if how == "damaged":
        content.write_bytes(b"0ne")
    elif how == "lost":
        content.unlink()
    else:
        (registry.work / "back.pt").write_bytes(b"mine")
    before = registry.entries()
    registry("rollback", "resnet", "--into", "back.pt", "--key", "ana.key", rc=2)
    assert registry.entries() == before
    assert registry.stages() == {1: "retired", 2: "production"}
    if how == "in the way":
        assert (registry.work / "back.pt").read_bytes() == b"mine"
    else:
        assert not (registry.work / "back.pt").exists()
        assert registry("verify", "--contents", rc=1)
    assert not list(registry.work.glob("*.restoring*"))


def test_a_folder_comes_back_as_it_was(registry):
    registry.make()
    model = registry.work / "model"
    (model / "deep" / "er").mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (model / "deep" / "er" / "run.sh").write_text("#!/bin/sh\n")
    (model / "deep" / "er" / "run.sh").chmod(0o755)
    registry("add", "lm/small-1.5", "model", "--key", "ci.key")
    registry("get", "lm/small-1.5@1", "--into", "back")
    back = registry.work / "back"
    assert (back / "config.json").read_text() == "{}"
    assert os.access(back / "deep" / "er" / "run.sh", os.X_OK)
    assert not os.access(back / "config.json", os.X_OK)
    os.symlink("/etc/passwd", model / "link")
    r = registry("add", "lm/small-1.5", "model", "--key", "ci.key", rc=2)
    assert "link" in r.err


# ---- logs that somebody changed


def resigned(registry, path, key):
    """The same payload in an envelope that another key signed, by openssl alone."""
    envelope = json.loads(path.read_text())
    kind, payload = envelope["payloadType"], base64.b64decode(envelope["payload"])
    pae = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)
    (registry.work / "pae").write_bytes(pae)
    sig = subprocess.run(
        ["openssl", "dgst", "-sha256", "-sign", registry.work / key, registry.work / "pae"],
        check=True,
        capture_output=True,
    ).stdout
    pub = (registry.work / f"{key}.pub").read_bytes()
    envelope["signatures"] = [
        {"keyid": hashlib.sha256(pub).hexdigest(), "sig": base64.b64encode(sig).decode()}
    ]
    return json.dumps(envelope, separators=(",", ":"), sort_keys=True) + "\n"


def change(registry, how):
    log = registry.entries()
    if how == "removed":
        log[2].unlink()
    elif how == "reordered":
        a, b = log[2].read_bytes(), log[3].read_bytes()
        log[2].write_bytes(b)
        log[3].write_bytes(a)
    elif how == "signed again":
        # until openssl gives the lower s, which alone is taken
        for _ in range(40):
            log[2].write_text(resigned(registry, log[2], "ana.key"))
            if "lower" not in " ".join(registry.faults()):
                break
    elif how == "a bit":
        data = bytearray(log[2].read_bytes())
        data[len(data) // 2] ^= 1
        log[2].write_bytes(bytes(data))
    elif how == "twice":
        shutil.copy(log[-1], registry.folder / "log" / f"{len(log) + 1:08}.dsse.json")
    elif how == "another name":
        log[2].rename(registry.folder / "log" / "3.dsse.json")
    elif how == "empty":
        log[2].write_bytes(b"")
    elif how == "a link":
        target = registry.work / "elsewhere"
        log[2].rename(target)
        log[2].symlink_to(target)


@pytest.mark.parametrize(
    "how",
    ["removed", "reordered", "signed again", "a bit", "twice", "another name", "empty", "a link"],
)
def test_a_log_that_was_changed_is_found(registry, how):
    """By who has never seen it; and nothing is added to it, or given out of it."""
    in_production(registry, b"one", b"two")
    change(registry, how)
    fresh = {"TWINRUN_HOME": str(registry.work / "nobody")}
    found = registry.faults(env=fresh)
    assert found, how
    registry("get", "resnet@production", "--into", "x.pt", rc=2, env=fresh)
    before = registry.entries()
    for act in (
        ["promote", "resnet@1", "--key", "ana.key"],
        ["rollback", "resnet", "--into", "y.pt", "--key", "ana.key"],
        ["add", "resnet", "model.pt", "--key", "ci.key"],
        ["gc", "--key", "ci.key", "--older-than", "0", "--keep", "0", "--strays", "0"],
    ):
        registry(*act, rc=2, env=fresh)
    assert registry.entries() == before


def test_every_byte_of_an_entry_counts(registry):
    in_production(registry, b"one")
    log = registry.entries()[1]
    data = log.read_bytes()
    places = range(len(data)) if FULL else random.Random(7).sample(range(len(data)), 60)
    for at in places:
        log.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        assert registry.faults(env={"TWINRUN_HOME": "/nonexistent"}), at
    log.write_bytes(data)
    assert not registry.faults(rc=0)


@pytest.mark.parametrize("how", ["cut", "forked", "head signed again"])
def test_a_log_that_is_another_one_than_before_is_found_by_who_saw_it(registry, how):
    """Its chain is whole: only a memory tells. Who has none is told nothing wrong."""
    registry.make().add()
    shutil.copytree(registry.folder, registry.work / "copy")
    registry("promote", "resnet", "--key", "ana.key")
    assert registry.stages() == {1: "canary"}
    last = registry.entries()[-1]
    if how == "cut":
        last.unlink()
    elif how == "forked":
        other = {"TWINRUN_REGISTRY": str(registry.work / "copy"), "TWINRUN_HOME": "/nonexistent"}
        registry("retire", "resnet@1", "--why", "another way", "--key", "ci.key", env=other)
        shutil.rmtree(registry.folder)
        (registry.work / "copy").rename(registry.folder)
    else:
        for _ in range(60):
            last.write_text(resigned(registry, last, "ana.key"))
            if registry("verify", "--json", rc=None, env={"TWINRUN_HOME": "/none"}).rc == 0:
                break
    assert not registry.faults(rc=0, env={"TWINRUN_HOME": "/nonexistent"})
    said = " ".join(registry.faults())
    assert ("the log ends with entry 2" if how == "cut" else "forked or written anew") in said
    registry("promote", "resnet", "--key", "ana.key", rc=2)


def test_a_stranger_s_key_counts_for_nothing(registry):
    in_production(registry, b"one")
    registry.run("sign", "--new-key", "eve.key")
    before = registry.entries()
    shutil.copytree(registry.folder, registry.work / "before")
    # What eve writes with a trust of her own is a whole chain, and found by everybody else.
    (registry.work / "eve.toml").write_text(
        '[[trust]]\nneed = 1\nci = {file = "ci.key.pub"}\nana = {file = "ana.key.pub"}\n'
        'eve = {file = "eve.key.pub"}\n'
    )
    registry(
        "retire",
        "resnet@1",
        "--why",
        "mine now",
        "--key",
        "eve.key",
        "--trust",
        "eve.toml",
        env={"TWINRUN_HOME": str(registry.work / "eve")},
    )
    assert len(registry.entries()) == len(before) + 1
    assert "not to be trusted" in " ".join(registry.faults())


# ---- keys that run out, and are revoked


def test_a_key_that_has_run_out_was_good_then(registry):
    in_production(registry, b"one")
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
    registry.trust(
        f'ci = {{file = "ci.key.pub", until = "{soon}"}}', 'ana = {file = "ana.key.pub"}'
    )
    assert not registry.faults(rc=0)
    past = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3600))
    registry.trust(
        f'ci = {{file = "ci.key.pub", until = "{past}"}}', 'ana = {file = "ana.key.pub"}'
    )
    assert "not to be trusted" in " ".join(registry.faults())
    registry("promote", "resnet@1", "--key", "ana.key", rc=2)


def test_after_a_revoked_key_somebody_vouches(registry):
    in_production(registry, b"one", b"two")
    registry.trust(
        'ci = {file = "ci.key.pub", revoked = "the laptop was stolen"}',
        'ana = {file = "ana.key.pub"}',
    )
    assert "the laptop was stolen" in " ".join(registry.faults())
    before = registry.entries()
    registry("rollback", "resnet", "--into", "x.pt", "--key", "ana.key", rc=2)
    registry("vouch", "--key", "ci.key", "--why", "all well", rc=0)  # by the thief: counts nothing
    assert registry.faults()
    registry("vouch", "--key", "ana.key", "--why", "compared with the backup of Monday")
    assert not registry.faults(rc=0)
    registry("rollback", "resnet", "--into", "x.pt", "--key", "ana.key")
    assert len(registry.entries()) == len(before) + 3


# ---- two at once, kills, full stores


def test_of_two_promotions_at_once_one_is_told(registry):
    """Many at once: each entry has one author, the log is whole, and who lost has written nothing."""
    registry.make()
    one_log(registry, 7, promotions_at_once(registry, 6))


def test_a_killed_rollback_is_done_or_is_not(registry):
    """SIGKILL at random moments: the log is whole, every content is there, and the next command
    goes on."""
    kill_rollbacks(registry, KILLS)


def test_a_killed_promote_is_done_or_is_not(registry):
    kill_promotions(registry, KILLS)


def test_what_a_killed_restore_left_goes_with_the_next_one(registry):
    """As large as a model, and its plaintext; what somebody is still filling stays."""
    in_production(registry, b"one", b"two")
    left, filled, other = (
        registry.work / name
        for name in ("back.pt.restoring-7-abcdef", "back.pt.restoring-8-ghijkl", "back.pt.restored")
    )
    for folder in left, filled, other:
        folder.mkdir()
        (folder / "model.pt").write_bytes(b"half")
    held = os.open(filled, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    registry("rollback", "resnet", "--into", "back.pt", "--key", "ana.key")
    os.close(held)
    assert (registry.work / "back.pt").read_bytes() == b"one"
    assert not left.exists() and filled.exists() and other.exists()
    registry("get", "resnet@2", "--into", "back.pt.x")
    assert filled.exists()  # of another place


def test_a_full_store_takes_nothing(registry, work):
    """By a limit on the size of files, which fails as a full disk does: in the middle of a write."""
    registry.make().add()
    before = registry.entries()
    (work / "model.pt").write_bytes(os.urandom(3 << 20))

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    r = subprocess.run(
        [
            str(registry.build / "cmd/twinrun"),
            "registry",
            "add",
            "resnet",
            "model.pt",
            "--key",
            "ci.key",
        ],
        cwd=work,
        env={**os.environ, **registry.env},
        preexec_fn=limit,
        capture_output=True,
        timeout=60,
    )
    assert r.returncode == 2 and b"nothing was added" in r.stderr, r
    assert registry.entries() == before and not list((registry.folder / "tmp").iterdir())
    assert "nothing is wrong" in registry("verify", "--contents").out
    registry("add", "resnet", "model.pt", "--key", "ci.key")


# ---- what may go


def test_gc_takes_nothing_that_is_needed(registry):
    in_production(registry, b"one", b"two", b"three", b"four", b"five")
    registry.add(model="other", content=b"two")  # the same content by another name
    registry("hold", "resnet@1", "--why", "a court asks for it", "--key", "ana.key")
    (registry.folder / "contents" / ("0" * 64)).write_bytes(b"a stray, and young")
    gc = ["gc", "--key", "ana.key", "--older-than", "0", "--keep", "1"]
    time.sleep(1.1)  # times of entries are in seconds: retired before now
    r = registry(*gc, "--dry-run", "--json")
    assert [v["version"] for v in r.json["versions"]] == [2, 3] and not r.json["removed"]
    registry(*gc)
    have = {p.name for p in (registry.folder / "contents").iterdir()}
    for content, there in [
        (b"one", True),
        (b"two", True),
        (b"three", False),
        (b"four", True),
        (b"five", True),
    ]:
        assert (hashlib.sha256(content).hexdigest() in have) == there, content
    assert "0" * 64 in have
    assert "nothing is wrong" in registry("verify", "--contents").out
    r = registry("rollback", "resnet@3", "--into", "x.pt", "--key", "ana.key", rc=2)
    assert registry.stages()[5] == "production"
    registry("rollback", "resnet@1", "--into", "one.pt", "--key", "ana.key")
    registry("release", "resnet@1", "--why", "the court has it", "--key", "ana.key")
    registry("gc", "--key", "ana.key", "--strays", "0")
    assert "0" * 64 not in {p.name for p in (registry.folder / "contents").iterdir()}
    assert "nothing is wrong" in registry("verify", "--contents").out


@pytest.mark.parametrize(
    "name", ["", "a b", "../up", "/root", "a//b", ".hidden", "a/.b", "a/", "x" * 129, "é", "a@b"]
)
def test_hostile_names_are_refused(registry, name):
    registry.make()
    (registry.work / "model.pt").write_bytes(b"x")
    registry("add", "--key", "ci.key", "--", name, "model.pt", rc=2)
    assert len(registry.entries()) == 1


@pytest.mark.parametrize(
    "line",
    [
        'to = "retired"',
        'reproduced = "two"',
        "reproduced = -1",
        "signed = 1.5",
        'evidence = ["all"]',
        'tolerance = "ab"',
        "unknown = 1",
        'models = ""',
    ],
)
def test_a_policy_that_is_not_understood_promotes_nothing(registry, line):
    registry.policy("[[promote]]", *(['to = "canary"'] if not line.startswith("to") else []), line)
    registry.make().add()
    r = registry("promote", "resnet", "--key", "ana.key", rc=2)
    assert "line" in r.err and "nothing was promoted" in r.err
    assert registry.stages() == {1: "candidate"}
