# SPDX-License-Identifier: Apache-2.0
"""drill rollback and registry-loss: what they say is held against copies that are made here, and the
user's own registry and working folder stay as they are, byte for byte.
"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from registry_helper import in_production, registry  # noqa: F401
from test_registry_rerun import python_job

CHECK = """\
import sys
with open(sys.argv[1], "rb") as f:
    data = f.read()
mode = sys.argv[2]
if mode == "strict" and data.endswith(bytes(4)):
    sys.exit("a model of zeros")
print({"sum": sum(data), "blind": "fine", "strict": "fine"}.get(mode) or __import__("os").urandom(8))
"""
GOOD = bytes(range(1, 200)) * 5


def tree(folder):
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and "home" not in p.relative_to(folder).parts
    }


@pytest.fixture
def stocked(registry):  # noqa: F811
    """A registry of six entries whose second version is in production."""
    r = in_production(registry, b"first " + GOOD, GOOD)
    (r.work / "check.py").write_text(CHECK)
    return r


def events(r):
    found = [json.loads(p.read_text()) for p in (r.home / "events").glob("*.json")]
    return [(e["kind"], e["outcome"]) for e in found if e["kind"] in ("drill", "rollback")]


def drill(r, *args, rc=0):
    """The answer; the registry and all files around it have to be as they were, and nothing of the
    drill may lie about."""
    before, events_before = tree(r.work), len(events(r))
    done = (
        r.run("drill", *args, "--json", rc=rc)
        if "--" not in args
        else r.run("drill", *args[: args.index("--")], "--json", *args[args.index("--") :], rc=rc)
    )
    assert tree(r.work) == before
    assert not list((r.home / "drills").glob("*")), done
    assert len(events(r)) - events_before == (1 if rc in (0, 1) else 0), done
    return done.json if rc != 2 else done.err


def check(mode):
    return ("--", sys.executable, "check.py", "{}", mode)


# ---------------------------------------------------------------- rollback


@pytest.mark.parametrize("mode", ["sum", "strict"])
def test_a_bad_version_is_noticed_and_the_old_one_comes_back(stocked, mode):
    said = drill(stocked, "rollback", "resnet", *check(mode))
    steps = "\n".join(said["steps"])
    assert said["outcome"] == "restored" and said["fault"] == "rollback", said
    assert f"something else of it (exit code {int(mode == 'strict')})" in steps
    show = stocked("show", "resnet@2", "--json").json
    assert (
        f"rolled back: @2 is in production, artifact {show['version']['artifact'][:12]}" in steps
    ), show
    assert "the check says the same as before" in steps
    assert said["detect_s"] > 0 and said["reproduce_s"] > 0
    assert events(stocked) == [("drill", "restored")]
    # in the registry itself nothing was moved
    assert stocked.stages() == {1: "retired", 2: "production"}
    m8 = next(
        i
        for i in stocked.run("slo", "--json", rc=None).json["indicators"]
        if i["indicator"] == "M8" and i["scope"] == "all"
    )
    assert (m8["counts"]["good"], m8["counts"]["bad"]) == (1, 0)


def test_a_check_that_notices_nothing_fails_the_drill(stocked):
    said = drill(stocked, "rollback", "resnet", *check("blind"), rc=1)
    steps = "\n".join(said["steps"])
    assert said["outcome"] == "failed" and "nobody would notice" in steps
    assert said["detect_s"] is None and said["reproduce_s"] > 0
    assert "rolled back: @2 is in production" in steps


def test_a_check_that_does_not_repeat_itself_shows_nothing(stocked):
    said = drill(stocked, "rollback", "resnet", *check("random"), rc=3)
    assert said["outcome"] == "nothing shown" and not events(stocked)
    assert "the check does not repeat itself" in said["steps"]


def test_a_check_that_changes_its_mind_notices_nothing(stocked, tmp_path):
    """It says one thing and another in turns, whatever it looks at: what it says of the bad version
    is not what it says of the good one, and that shows nothing."""
    (stocked.work / "turns.py").write_text(
        "import os, sys\n"
        "starts = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)\n"
        "os.write(starts, b'.')\n"
        "print(os.fstat(starts).st_size % 2)\n"
    )
    check = ("--", sys.executable, "turns.py", "{}", tmp_path / "starts")
    said = drill(stocked, "rollback", "resnet", *check, rc=3)
    assert said["outcome"] == "nothing shown" and not events(stocked)
    assert said["detect_s"] is None
    assert "the check does not repeat itself" in said["steps"]


@pytest.mark.parametrize("flake", [3, 4])
def test_a_check_that_flakes_once_notices_nothing(stocked, tmp_path, flake):
    """It says the same of everything, but for one start out of many: that this one met the bad
    version is luck, and shows nothing."""
    (stocked.work / "flakes.py").write_text(
        "import os, sys\n"
        "starts = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)\n"
        "os.write(starts, b'.')\n"
        "print(os.fstat(starts).st_size == int(sys.argv[3]))\n"
    )
    check = ("--", sys.executable, "flakes.py", "{}", tmp_path / "starts", str(flake))
    said = drill(stocked, "rollback", "resnet", *check, rc=3)
    assert said["outcome"] == "nothing shown" and not events(stocked)
    assert said["detect_s"] is None and said["reproduce_s"] is None
    assert "the check does not repeat itself on the bad version" in said["steps"]
    assert not any("the check says" in s for s in said["steps"]), said


def test_without_a_check_digests_tell(stocked):
    said = drill(stocked, "rollback", "resnet")
    assert said["outcome"] == "restored"
    assert "no check was given: by its digest it is another one" in said["steps"]


def test_a_bad_version_of_the_users_own(stocked):
    (stocked.work / "bad.pt").write_bytes(b"bad")
    said = drill(stocked, "rollback", "resnet", "--bad", "bad.pt", *check("sum"))
    assert said["outcome"] == "restored" and "promoted: " in said["steps"][0]
    assert "bad.pt" in said["steps"][0]
    shutil.copyfile(stocked.work / "model.pt", stocked.work / "other.pt")
    said = drill(stocked, "rollback", "resnet", "--bad", "model.pt", *check("sum"), rc=2)
    assert "expected a bad version that is another one" in said


def test_a_version_that_is_a_folder(stocked):
    folder = stocked.work / "net"
    (folder / "part").mkdir(parents=True)
    (folder / "part" / "weights").write_bytes(GOOD)
    (folder / "config").write_text("{}")
    stocked("add", "net", "net", "--key", "ci.key")
    stocked("promote", "net@1", "--key", "ana.key", "--to", "production")
    (stocked.work / "sum.py").write_text(
        "import sys\nprint(sum(open(sys.argv[1] + '/part/weights', 'rb').read()))\n"
    )
    said = drill(stocked, "rollback", "net", "--", sys.executable, "sum.py", "{}")
    assert said["outcome"] == "restored", said


def test_a_rollback_that_cannot_be_replayed_is_said(stocked):
    """--rerun without a package among the evidence: the rollback refuses, and so nothing is back."""
    said = drill(stocked, "rollback", "resnet", "--rerun", *check("sum"), rc=1)
    assert said["outcome"] == "failed" and said["reproduce_s"] is None
    assert any(s.startswith("rolled back: no, exit code 2") for s in said["steps"]), said


def test_a_rollback_whose_environment_is_gone(registry):  # noqa: F811
    """It says what registry rollback would say: what is missing, what is proven, what helps."""
    registry.make()
    python_job(registry)
    registry("add", "resnet", "model.pt", "--key", "ci.key", "--evidence", "P")
    registry("promote", "resnet@1", "--to", "production", "--key", "ana.key")
    (registry.work / "python").symlink_to(sys.executable)
    words = ("rollback", "resnet", "--rerun", "--python", "./python")
    said = drill(registry, *words, rc=1)
    assert said["outcome"] == "failed" and said["reproduce_s"] is None
    at = next(
        i for i, s in enumerate(said["steps"]) if s.startswith("rolled back: no, exit code 2")
    )
    refused, why, package, proven, helps = said["steps"][at:]
    assert refused.endswith("@1 cannot be run again: its environment is not here, and was not made")
    assert why.startswith("why: ") and f"{registry.work}/./python" in why
    assert package == "the environment here: gone 1.0 is not installed"
    assert proven == "proven: 1 of its 1 files are in the registry, each with its digest"
    assert helps.startswith("try: --environment build with --python")
    assert "without --rerun it comes back" in helps
    # of the job of another version, whose environment is here, the same comes out
    registry.run("record", "-q", "--", registry.build / "tests/cli/job", "--save-at", "1")
    registry.run("pack", "last", "-o", "Q", "--data", "none")
    registry("add", "net", "weights", "--key", "ci.key", "--evidence", "Q")
    registry("promote", "net@1", "--to", "production", "--key", "ana.key")
    said = drill(registry, "rollback", "net", "--rerun", "--environment", "here")
    assert said["outcome"] == "restored"
    assert "the version's package was replayed, and the same came out" in said["steps"]


def test_registries_that_are_not_fit(stocked):
    assert "no model nobody" in drill(stocked, "rollback", "nobody", rc=2)
    stocked("add", "new", "model.pt", "--key", "ci.key")
    assert "found none of new" in drill(stocked, "rollback", "new", rc=2)
    assert "expected a check that ends well" in drill(
        stocked, "rollback", "resnet", "--", "false", "{}", rc=2
    )
    last = stocked.entries()[-1]
    kept = last.rename(stocked.work / "last")
    for words in (("rollback", "resnet"), ("registry-loss",)):
        assert "and the log ends with entry" in drill(stocked, *words, rc=2)
    kept.rename(last)
    stocked.entries()[2].unlink()
    for words in (("rollback", "resnet"), ("registry-loss",)):
        assert "expected a registry without fault" in drill(stocked, *words, rc=2)


# ---------------------------------------------------------------- registry-loss

# what is done, and a word of why it is found: not that the file cannot be read for another reason
LOSSES = (
    ("an entry taken away", "entry"),
    ("two entries exchanged", "entry"),
    ("a bit of an entry turned over", ""),
    ("the last entry cut off", "this home"),
    ("forked by a stranger", "no key that is trusted made it"),
    ("forked by somebody who is trusted", "this home"),
    ("a content lost", ""),
    ("a content cut in half", ""),
    ("a bit of a content turned over", ""),
)


def test_each_loss_is_found_and_the_mirror_restores(stocked):
    shutil.copytree(stocked.folder, stocked.work / "mirror")
    said = drill(stocked, "registry-loss", "--mirror", "mirror")
    assert said["outcome"] == "restored", said
    for loss, why in LOSSES:
        found = [s for s in said["steps"] if s.startswith(f"{loss}: found: ")]
        assert found and why in found[0], (loss, said)
    count = len(stocked.entries())
    assert f"from the mirror the same {count} entries and all contents" in said["steps"][-1]
    assert said["detect_s"] > 0 and said["reproduce_s"] > 0
    assert events(stocked) == [("drill", "restored")]


def test_what_no_mirror_has_is_lost(stocked):
    said = drill(stocked, "registry-loss", rc=1)
    assert said["outcome"] == "failed" and said["reproduce_s"] is None
    assert "nothing to restore it from (no --mirror)" in said["steps"][-1]


def damaged(stocked, how):
    mirror = stocked.work / "mirror"
    if how != "absent":
        shutil.copytree(stocked.folder, mirror)
    contents = sorted((mirror / "contents").glob("*")) if how != "absent" else []
    largest = max(contents, key=lambda p: p.stat().st_size, default=None)
    if how == "old":
        sorted((mirror / "log").iterdir())[-1].unlink()
    elif how == "lost":
        largest.unlink()
    elif how == "changed":
        data = bytearray(largest.read_bytes())
        largest.unlink()
        data[len(data) // 2] ^= 1
        largest.write_bytes(data)
    elif how == "other":
        shutil.rmtree(mirror)
        stocked("init", "--registry", "mirror", "--key", "ci.key", "--policy", "policy.toml")


@pytest.mark.parametrize("how", ["absent", "old", "lost", "changed", "other"])
def test_a_mirror_that_is_not_the_registry(stocked, how):
    damaged(stocked, how)
    said = drill(stocked, "registry-loss", "--mirror", "mirror", rc=1)
    assert said["outcome"] == "failed" and said["reproduce_s"] is None
    assert "mirror" in said["steps"][-1], said


def test_too_small_a_registry(registry):  # noqa: F811
    registry.make()
    registry.add()
    assert "of 4 entries at least, found 2" in drill(registry, "registry-loss", rc=2)


# ---------------------------------------------------------------- faults of the drill itself


def test_killed_in_the_middle(stocked, start, build):
    """SIGKILL while the check runs, and SIGINT: nothing of the user's is changed, and the next drill
    removes what the killed one left."""
    (stocked.work / "slow.py").write_text(
        "import os, sys, time\n"
        "open(os.environ['MARK'], 'w').write(str(os.getpid()))\n"
        "time.sleep(120)\n"
    )
    before = tree(stocked.work)
    mark = stocked.home / "mark"
    for sign, left in ((signal.SIGKILL, 1), (signal.SIGINT, 0)):
        mark.unlink(missing_ok=True)
        env = {**os.environ, **stocked.env, "MARK": str(mark)}
        job = start(
            [build / "cmd/twinrun", "drill", "rollback", "resnet"]
            + ["--", sys.executable, "slow.py", "{}"],
            cwd=stocked.work,
            env=env,
        )
        until = time.monotonic() + 60
        while not (mark.exists() and mark.read_text()) and time.monotonic() < until:
            time.sleep(0.05)
        job.send_signal(sign)
        job.wait(60)
        pid = int(mark.read_text())
        while os.path.exists(f"/proc/{pid}/exe") and time.monotonic() < until:
            time.sleep(0.05)
        if os.path.exists(f"/proc/{pid}/exe"):
            os.kill(pid, signal.SIGKILL)
            pytest.fail(f"the check still runs after {sign}")
        assert tree(stocked.work) == before
        assert len(list((stocked.home / "drills").glob("*"))) == left
        assert not events(stocked)
    assert drill(stocked, "rollback", "resnet")["outcome"] == "restored"


def test_a_full_disk(stocked):
    """The home is on a small disk: what is copied does not fit. Said, removed, nothing of the user's
    changed."""
    small = stocked.home / "drills"
    small.mkdir()
    (stocked.work / "noise").write_bytes(os.urandom(3 << 20))
    stocked("add", "big", "noise", "--key", "ci.key")
    before = tree(stocked.work)
    script = (
        f"mount -t tmpfs -o size=1m tmpfs {small} && "
        f"{stocked.build}/cmd/twinrun drill registry-loss; code=$?; "
        f"ls -A {small} | wc -l; exit $code"
    )
    env = {**os.environ, **stocked.env}
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script],
        cwd=stocked.work,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no mount of one's own here: {done.stderr.strip()}")
    assert done.returncode == 2 and "No space left" in done.stderr, done
    assert done.stdout.strip() == "0" and tree(stocked.work) == before
    assert not events(stocked)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("rollback",), "expected the name of a model"),
        (("rollback", "m", "x", "--registry", "R"), "expected -- and a check"),
        (("rollback", "m", "--registry", "R", "--", "true"), "with {} in"),
        (("rollback", "m"), "expected --registry"),
        (("rollback", "m", "--registry", "R"), "expected whom to trust"),
        (("rollback", "m", "--registry", "R", "-c", "x"), "drills of a job take them"),
        (("node", "-c", "x", "-i", "x", "--", "true"), "drills of a registry take them"),
        (("registry-loss", "m", "--registry", "R"), "expected nothing behind it"),
        (("registry-loss", "--registry", "R", "--rerun"), "--bad and --rerun with"),
        (("rollback", "m", "--registry", "R", "--fetch"), "expected --rerun with them"),
        (("rollback", "m", "--registry", "R", "--rerun", "--environment", "no"), 'found "no"'),
        (("rollback", "m", "--registry", "R", "--mirror", "x"), "--mirror goes with"),
        (("node", "-c", "x", "--mirror", "x", "--", "true"), "drills of a registry take them"),
        (("registry-loss", "--registry", "R", "--pub", "no.pub"), "no.pub"),
    ],
)
def test_bad_use(twinrun, argv, message):
    done = twinrun("drill", *argv)
    assert done.rc == 2 and message in done.err, done
