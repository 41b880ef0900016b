# SPDX-License-Identifier: Apache-2.0
"""What speaks for a version must be about it: packages of other runs, replays that give something
else, runs that agree within a tolerance, contents that are not what they were.
"""

import hashlib
import json

import pytest

from package_helper import repack
from registry_helper import in_production, registry  # noqa: F401

JOB = ["--steps", "3", "--save-at", "2"]


def recorded(registry, *options, package=None, record=()):
    """Runs the job, whose weights become model.pt; packs the run."""
    (registry.work / "weights").unlink(missing_ok=True)
    job = [registry.build / "tests/cli/job", *JOB, *options]
    registry.run("record", "-q", *record, "--", *job)
    if package:
        registry.run("pack", "last", "-o", package, "--data", "none")
    (registry.work / "model.pt").write_bytes((registry.work / "weights").read_bytes())
    return (registry.work / "weights").read_bytes()


def with_package(registry, change=None):
    """Version 1 with the package of its run, retired by version 2."""
    registry.make()
    weights = recorded(registry, package="P")
    if change:
        change(registry.work / "P")
    registry("add", "resnet", "model.pt", "--key", "ci.key", "--evidence", "P")
    registry("promote", "resnet@1", "--to", "production", "--key", "ana.key")
    registry.add(content=b"newer")
    registry("promote", "resnet@2", "--to", "production", "--key", "ana.key")
    return weights


# ---- a rollback that runs it again


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_rollback_by_a_rerun(registry, form):
    """The job runs again, in a folder of its own; relative paths still mean what they meant."""
    weights = with_package(registry)
    env = {"TWINRUN_REGISTRY": "R", "TWINRUN_REGISTRY_TRUST": "trust.toml"}
    words = ["rollback", "resnet", "--rerun", "--into", "back.pt", "--key", "ana.key"]
    r = registry(*words, *(["--json"] if form == "json" else []), env=env)
    said = r.json["said"] if form == "json" else r.out
    assert "was replayed, and the same came out" in said
    assert (registry.work / "back.pt").read_bytes() == weights
    again = [p.read_bytes() for p in (registry.work / "back.pt.package-replay").rglob("weights")]
    assert again == [weights]
    assert not (registry.work / "back.pt.package").exists()
    assert registry.stages() == {1: "production", 2: "retired"}
    assert "nothing is wrong" in registry("verify", "--contents").out


def other_steps(package):
    """Whoever packed changed the command: the package verifies, and its run comes out otherwise."""
    path = package / "data" / "configuration" / "configuration.json"
    config = json.loads(path.read_text())
    config["argv"] += ["--part-at", "0", "--runs-file", "f", "--noise-at", "1"]
    path.write_text(json.dumps(config))
    repack(package)


def test_a_rerun_that_gives_something_else_rolls_nothing_back(registry):
    with_package(registry, other_steps)
    before = registry.entries()
    words = ["rollback", "resnet", "--rerun", "--into", "back.pt", "--key", "ana.key"]
    r = registry(*words, rc=1)
    assert "something else came out of the replay" in r.err
    assert registry.entries() == before and not (registry.work / "back.pt").exists()
    assert registry.stages() == {1: "retired", 2: "production"}


def test_a_rerun_without_a_package_rolls_nothing_back(registry):
    in_production(registry, b"one", b"two")
    words = ["rollback", "resnet", "--rerun", "--into", "back.pt", "--key", "ana.key"]
    r = registry(*words, rc=2)
    assert "expected a package of the run that made it" in r.err
    assert registry.stages() == {1: "retired", 2: "production"}


def test_a_package_of_another_run_is_no_evidence(registry):
    """It would replay well, and prove nothing of this version."""
    registry.policy("[[promote]]", 'to = "canary"', 'evidence = ["package"]')
    registry.make()
    recorded(registry, package="P")
    registry("add", "resnet", "model.pt", "--key", "ci.key")
    recorded(registry, "--steps", "5", "--save-at", "4", package="Q")
    before = registry.entries()
    r = registry("attach", "resnet@1", "--evidence", "Q", "--key", "ci.key", rc=2)
    assert "made other files" in r.err and registry.entries() == before
    (registry.work / "no").mkdir()
    r = registry("attach", "resnet@1", "--evidence", "no", "--key", "ci.key", rc=2)
    assert "expected the folder of a package" in r.err
    registry("promote", "resnet", "--key", "ana.key", rc=1)
    registry("attach", "resnet@1", "--evidence", "P", "--key", "ci.key")
    registry("promote", "resnet", "--key", "ana.key")


# ---- runs that agree within a tolerance


def test_runs_within_a_tolerance_count_where_the_policy_allows_it(registry):
    """Their files have other bytes, so that they agree with the one that made the version is what
    counts; another tolerance, or none, counts nothing."""
    (registry.work / "wide.toml").write_text(
        '[[tolerance]]\npattern = "*"\nrel_l2 = 1e6\nreason = "noise"\n'
    )
    wide = hashlib.sha256((registry.work / "wide.toml").read_bytes()).hexdigest()
    registry.make()
    made = [recorded(registry, "--noise-at", "1", record=["--sketch-every", "1"]) for _ in range(3)]
    assert len(set(made)) == 3
    (registry.work / "model.pt").write_bytes(made[1])
    sign = ["sign", "--reproduced", "--tolerance", "wide.toml", "--key", "ci.key"]
    registry.run(*sign, "last~1", "last", "last~2", "-o", "first.json")
    registry.run(*sign, "last", "last~1", "last~2", "-o", "other.json")

    def found(policy, evidence):
        registry.policy("[[promote]]", 'to = "canary"', "reproduced = 9", *policy)
        registry("add", "resnet", "model.pt", "--key", "ci.key", "--evidence", evidence)
        words = ["promote", "resnet", "--policy", "policy.toml", "--dry-run", "--json"]
        r = registry(*words, rc=1)
        return {c["check"]: c["found"] for c in r.json["checks"]}["reproduced"]

    allowed = [f'tolerance = "{wide}"']
    assert found(allowed, "first.json") == "3"  # all were compared with the one that made it
    assert found(allowed, "other.json") == "2"  # the first, with the one that made it
    assert found([], "first.json").startswith("0;")
    assert found([f'tolerance = "{"0" * 64}"'], "first.json").startswith("0;")


# ---- contents


def test_what_is_not_as_it_was_is_not_promoted(registry):
    """Of equal length, so that only its digest tells; bringing it again mends it."""
    registry.make().add(content=b"weights")
    content = registry.folder / "contents" / hashlib.sha256(b"weights").hexdigest()
    content.write_bytes(b"weightz")
    r = registry("promote", "resnet", "--key", "ana.key", rc=1)
    assert "FAIL  contents" in r.out and "damaged" in r.out
    assert registry.stages() == {1: "candidate"}
    registry.add(content=b"weights")
    assert content.read_bytes() == b"weights"
    registry("promote", "resnet@1", "--key", "ana.key")


def test_a_reason_that_is_no_text_is_refused(registry):
    registry.make().add()
    r = registry("hold", "resnet@1", "--why", "\udcff", "--key", "ana.key", rc=2)
    assert "--why" in r.err and "UTF-8" in r.err
    assert len(registry.entries()) == 2


def test_dry_run_writes_nothing(registry):
    registry.make().add()
    before = registry.entries()
    r = registry("promote", "resnet", "--dry-run")
    assert "may be promoted to canary" in r.out
    registry("gc", "--dry-run")
    for words in (["add", "resnet", "model.pt"], ["vouch", "--why", "x"]):
        r = registry(*words, "--dry-run", "--key", "ana.key", rc=2)
        assert "--dry-run" in r.err
    assert registry.entries() == before


def test_gc_sweeps_what_killed_writers_left(registry):
    registry.make().add()
    left = registry.folder / "tmp" / "1234-5-0"
    left.write_bytes(b"half a file")
    registry("gc", "--key", "ana.key")
    assert left.exists()  # it may be somebody's who writes now
    registry("gc", "--key", "ana.key", "--strays", "0")
    assert not left.exists() and len(registry.entries()) == 2


def test_a_policy_is_changed_in_the_log_alone(registry):
    """Whoever promotes does not bring the measure along."""
    registry.policy("[[promote]]", 'to = "canary"', "signed = 1")
    registry.make().add()
    registry("promote", "resnet", "--key", "ana.key", rc=1)
    (registry.work / "easy.toml").write_text('[[promote]]\nto = "canary"\n')
    r = registry("promote", "resnet", "--policy", "easy.toml", "--key", "ana.key", rc=2)
    assert "a policy of its own" in r.err and registry.stages() == {1: "candidate"}
    registry("promote", "resnet", "--policy", "easy.toml", "--dry-run")
    registry("policy", "easy.toml", "--why", "trials", "--key", "ana.key")
    registry("promote", "resnet", "--key", "ana.key")
    assert [e["kind"] for e in registry("log", "--json").json["entries"]][-2:] == ["policy", "move"]
    assert "nothing is wrong" in registry("verify", "--contents").out


# ---- who signed the package


def promoted_by_package(registry, need, *keys, change=None):
    """Version 1 with a package that these keys signed: the promotion's answer."""
    registry.policy("[[promote]]", 'to = "canary"', f"package_signed = {need}")
    registry.make()
    (registry.work / "weights").unlink(missing_ok=True)
    registry.run("record", "-q", "--", registry.build / "tests/cli/job", *JOB)
    signed = [word for key in keys for word in ("--key", f"{key}.key")]
    registry.run("pack", "last", "-o", "P", "--data", "none", *signed)
    (registry.work / "model.pt").write_bytes((registry.work / "weights").read_bytes())
    if change:
        change(registry.work / "P")
    registry("add", "resnet", "model.pt", "--key", "ci.key", "--evidence", "P")
    return registry("promote", "resnet", "--key", "ana.key", rc=None)


@pytest.mark.parametrize(
    "need, keys, found",
    [
        (2, ["ci", "ana"], None),
        (1, ["ana"], None),
        (0, [], None),
        (2, ["ci"], "found 1"),
        (2, ["ci", "stranger"], "found 1"),
        (1, ["stranger"], "nobody who is trusted"),
        (1, [], "has no signature.dsse.json"),
    ],
)
def test_a_package_that_so_many_signed(registry, need, keys, found):
    registry.run("sign", "--new-key", "stranger.key")
    r = promoted_by_package(registry, need, *keys)
    if found is None:
        assert r.rc == 0 and "pass  package_signed" in r.out, r
    else:
        assert r.rc == 1 and "FAIL  package_signed" in r.out and found in r.out, r
        assert registry.stages() == {1: "candidate"}


def more(package):
    (package / "data/extra").write_text("x")


def other_manifest(package):
    """The payload and its manifest agree; the tag manifest has another one."""
    file = package / "data/extra"
    file.write_text("x")
    line = f"{hashlib.sha256(b'x').hexdigest()}  data/extra\n"
    manifest = package / "manifest-sha256.txt"
    manifest.write_text("".join(sorted([*manifest.read_text().splitlines(True), line])))


def other_tags(package):
    """All lists agree, and the signature is of the old ones."""
    other_manifest(package)
    digest = hashlib.sha256((package / "manifest-sha256.txt").read_bytes()).hexdigest()
    tags = package / "tagmanifest-sha256.txt"
    lines = tags.read_text().splitlines()
    lines = [f"{digest}  manifest-sha256.txt" if "manifest-sha256" in x else x for x in lines]
    tags.write_text("\n".join(lines) + "\n")


def changed_info(package):
    with open(package / "bag-info.txt", "a") as f:
        f.write("Contact-Name: somebody\n")


def lost_file(package):
    first = (package / "manifest-sha256.txt").read_text().splitlines()[0]
    (package / first.split("  ")[1]).unlink()


def lost_info(package):
    (package / "bag-info.txt").unlink()


@pytest.mark.parametrize(
    "change, found",
    [
        (lost_file, "which was signed, is not there"),
        (lost_info, "bag-info.txt, which was signed, is not there"),
        (more, "data/extra is not what was signed"),
        (other_manifest, "is not the one of the tag manifest"),
        (other_tags, "is about another package"),
        (changed_info, "bag-info.txt is not what was signed"),
    ],
)
def test_a_package_that_was_changed_behind_its_signers(registry, change, found):
    r = promoted_by_package(registry, 1, "ci", "ana", change=change)
    assert r.rc == 1 and "FAIL  package_signed" in r.out and found in r.out, r


def test_data_by_address_is_not_missing(registry):
    """fetch.txt, which was signed, says where it is."""
    registry.policy("[[promote]]", 'to = "canary"', "package_signed = 1")
    registry.make()
    (registry.work / "images").mkdir()
    (registry.work / "images/one").write_bytes(b"pixels")
    registry.run("snapshot", "images")
    recorded(registry, record=["--data", "images"])
    registry.run(
        "pack", "last", "-o", "P", "--data", "fetch=http://data.example", "--key", "ci.key"
    )
    assert "data/data/images/one" in (registry.work / "P/fetch.txt").read_text()
    assert not (registry.work / "P/data/data/images").exists()
    registry("add", "resnet", "model.pt", "--key", "ci.key", "--evidence", "P")
    assert "pass  package_signed" in registry("promote", "resnet", "--key", "ana.key").out
