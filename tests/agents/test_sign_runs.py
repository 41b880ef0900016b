# SPDX-License-Identifier: Apache-2.0
"""Signed runs: the provenance and the reproduction that `twinrun sign` states of recorded runs, and
in-toto's schema, which takes these statements.
"""

import hashlib
import json
import shutil
import subprocess
import sys


from sign_helper import GOLDEN, sign, signers, statement, verify  # noqa: F401

KEY, PUB = GOLDEN / "keys" / "ana.key", GOLDEN / "keys" / "ana.key.pub"


def run_of(twinrun, home, *command, **kw):
    before = set((home / "runs").glob("*")) if home.exists() else set()
    r = twinrun("record", "--", *map(str, command), **kw)
    assert r.rc == 0, r
    return (set((home / "runs").glob("*")) - before).pop()


def test_a_run_s_provenance(sign, verify, twinrun, home, work):
    """SLSA's fields, digests of git's own making, and each file of the run counts."""
    git = (
        lambda *a: subprocess.run(
            ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *a],
            cwd=str(work),
            check=True,
            stdout=subprocess.PIPE,
        )
        .stdout.decode()
        .strip()
    )
    (work / "job.py").write_text(
        "import numpy, sys\nnumpy.savez('w.npz', w=numpy.arange(6.0))\nprint(sys.argv[1:])\n"
    )
    (work / "config.json").write_text('{"lr": 0.1}')
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "x")
    (work / "job.py").write_text((work / "job.py").read_text() + "# changed\n")
    folder = run_of(
        twinrun,
        home,
        sys.executable,
        "job.py",
        "--config",
        "config.json",
        "--token=hunter2secret",
        cwd=str(work),
    )
    r = sign("last", "--key", KEY)
    path = folder / "run.dsse.json"
    assert str(path) in r.out
    said = statement(json.loads(path.read_text()))
    assert said["predicateType"] == "https://slsa.dev/provenance/v1"
    build, details = said["predicate"]["buildDefinition"], said["predicate"]["runDetails"]
    assert (
        set(build)
        == {"buildType", "externalParameters", "internalParameters", "resolvedDependencies"}
        and details["builder"]["id"]
    )
    assert build["externalParameters"]["argv"][:4] == [
        sys.executable,
        "job.py",
        "--config",
        "config.json",
    ]
    assert "hunter2secret" not in json.dumps(said)
    run = json.loads((folder / "run.json").read_text())
    assert details["metadata"]["invocationId"] == run["id"]
    assert details["metadata"]["startedOn"] <= details["metadata"]["finishedOn"] and details[
        "metadata"
    ]["startedOn"].endswith("Z")
    depends = {d["name"]: d["digest"] for d in build["resolvedDependencies"]}
    assert depends["code"] == {
        "gitCommit": git("rev-parse", "HEAD"),
        "gitTree": git("rev-parse", "HEAD^{tree}"),
    }
    assert (
        depends["diff"]["sha256"]
        == hashlib.sha256(
            subprocess.run(
                ["git", "diff", "--binary", "--full-index", "HEAD"],
                cwd=str(work),
                stdout=subprocess.PIPE,
            ).stdout
        ).hexdigest()
    )
    sha256 = lambda p: hashlib.sha256(p.read_bytes()).hexdigest()
    assert any(
        name.startswith("config ") and d["sha256"] == sha256(work / "config.json")
        for name, d in depends.items()
    )
    assert any(name.startswith("program ") for name in depends) and any(
        name.startswith("library ") and "libc.so" in name for name in depends
    )
    assert (
        build["internalParameters"]["environment"]["kernel"]
        and build["internalParameters"]["complete"] is True
    )
    subjects = {s["name"]: s["digest"] for s in said["subject"]}
    for name in ("run.json", "provenance.json", "stdout"):
        assert subjects["%s/%s" % (run["id"], name)] == {"sha256": sha256(folder / name)}
    assert (
        subjects[run["id"] + "/files/w.npz"]["sha256"] == sha256(work / "w.npz")
        and "twinrunContent1" in subjects[run["id"] + "/files/w.npz"]
    )
    verify(path, "--key", PUB, folder)
    (folder / "later").write_text("came after")
    verify(path, "--key", PUB, "last")
    moved = folder.rename(work / "elsewhere")
    verify(moved / "run.dsse.json", "--key", PUB, moved)
    for name in ("run.json", "provenance.json", "stdout"):
        data = (moved / name).read_bytes()
        (moved / name).write_bytes(data.replace(b"0.1", b"0.2") if b"0.1" in data else data + b" ")
        assert name in verify(moved / "run.dsse.json", "--key", PUB, moved, rc=1).out
        (moved / name).write_bytes(data)
    # Its files by themselves: the same bytes, the same tensors in other bytes, others.
    assert "/files/w.npz" in verify(moved / "run.dsse.json", "--key", PUB, "w.npz").out
    shutil.copy(work / "w.npz", work / "renamed.npz")
    verify(moved / "run.dsse.json", "--key", PUB, "renamed.npz")
    subprocess.run(
        [
            sys.executable,
            "-c",
            "import numpy; numpy.savez_compressed('c.npz', w=numpy.arange(6.0)); numpy.savez('d.npz', w=numpy.arange(7.0))",
        ],
        cwd=str(work),
        check=True,
    )
    assert sha256(work / "c.npz") != sha256(work / "w.npz")
    verify(moved / "run.dsse.json", "--key", PUB, "c.npz")
    verify(moved / "run.dsse.json", "--key", PUB, "d.npz", rc=1)
    verify(moved / "run.dsse.json", "--key", PUB, "w.npz", "d.npz", rc=1)


def test_reproduced(sign, verify, twinrun, build, home, work):
    trainer = [build / "workloads" / "trainer", "--ordered", "--steps", "5"]
    a, b, other = (
        run_of(twinrun, home, *trainer, *more, cwd=str(work)) for more in ([], [], ["--seed", "9"])
    )
    sign("--reproduced", a, b, "--key", KEY, "-o", "same.json")
    said = statement(json.loads((work / "same.json").read_text()))
    assert said["predicateType"] == "urn:twinrun:reproduced:1"
    assert (
        said["predicate"]["outcome"] == said["predicate"]["bitwise"] == "same"
        and said["predicate"]["steps"] == 5
    )
    ids = [json.loads((x / "run.json").read_text())["id"] for x in (a, b)]
    assert said["predicate"]["runs"] == ids
    values = [
        {
            d["twinrunValues1"]
            for s in said["subject"]
            for d in [s["digest"]]
            if s["name"].startswith(i + "/") and "twinrunValues1" in d
        }
        for i in ids
    ]
    assert values[0] == values[1] and len(values[0]) == 1
    verify("same.json", "--key", PUB, b, a)
    verify("same.json", "--key", PUB, a, rc=3)
    assert "another run" in verify("same.json", "--key", PUB, a, other, rc=1).out
    assert "another run" in verify("same.json", "--key", PUB, a, b, other, rc=1).out
    sign("--reproduced", a, other, "--key", KEY, "-o", "no.json", rc=1)
    sign("--reproduced", a, a, "--key", KEY, "-o", "no.json", rc=2)
    sign("--reproduced", a, "--key", KEY, "-o", "no.json", rc=2)
    assert (
        json.loads(
            sign("--reproduced", a, other, "--key", KEY, "-o", "no.json", "--json", rc=1).out
        )["outcome"]
        == "differ"
    )
    assert not (work / "no.json").exists()
    # One run's own statement does not pass for another's, however equal their values are.
    sign(a, "--key", KEY, "-o", "a.json")
    verify("a.json", "--key", PUB, a)
    verify("a.json", "--key", PUB, b, rc=1)
    trace = next((a / "ranks").glob("*.twt"))
    data = bytearray(trace.read_bytes())
    data[len(data) // 2] ^= 1
    trace.write_bytes(data)
    assert verify("a.json", "--key", PUB, a, rc=1).out.count("changed") >= 1


def test_a_run_without_provenance_is_not_signed(sign, twinrun, build, home, work):
    folder = run_of(
        twinrun, home, build / "workloads" / "trainer", "--ordered", "--steps", "2", cwd=str(work)
    )
    (folder / "provenance.json").unlink()
    assert "no provenance.json" in sign(folder, "--key", KEY, rc=2).err
    assert not (folder / "run.dsse.json").exists()


def test_in_toto_s_own_schema_takes_our_statements(signers, sign, twinrun, build, home, work):
    """The attestation framework's protobufs refuse fields that they do not know: Statement v1,
    SLSA's Provenance v1.
    """
    folders = [
        run_of(
            twinrun,
            home,
            build / "workloads" / "trainer",
            "--ordered",
            "--steps",
            "2",
            cwd=str(work),
        )
        for _ in range(2)
    ]
    sign(folders[0], "--key", KEY, "-o", "run.json")
    sign("--reproduced", *folders, "--key", KEY, "-o", "same.json")
    sign("run.json", "--key", KEY, "-o", "file.json")
    (work / "client.py").write_text("""
import base64, json, sys
from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
from in_toto_attestation.v1 import statement, statement_pb2
for path in sys.argv[1:]:
    payload = base64.b64decode(json.load(open(path))["payload"], validate=True)
    statement.Statement.copy_from_pb(json_format.Parse(payload, statement_pb2.Statement())).validate()
    said = json.loads(payload)
    if said["predicateType"] == "https://slsa.dev/provenance/v1":
        p = json_format.ParseDict(said["predicate"], provenance_pb2.Provenance())
        assert p.build_definition.resolved_dependencies and p.run_details.metadata.started_on.seconds > 0
""")
    subprocess.run(
        [signers, "client.py", "run.json", "same.json", "file.json"], cwd=str(work), check=True
    )
