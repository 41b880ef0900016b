# SPDX-License-Identifier: Apache-2.0
"""pack, verify, audit and replay end to end: what was packed on one checkout runs again without it;
hostile packages are in test_package_hostile.py.

Independent of us: git, sha256sum and openssl on what was written; with TWINRUN_FULL=1 also
bagit.py, the rocrate package, pip and PyTorch.
"""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys

import pytest

from conftest import FULL, ROOT
from package_helper import AREAS, COMMAND, git, job, package, packed, recorded, repack  # noqa: F401


def test_the_two_commands_of_the_readme(twinrun, run, build, packed, package):
    commands = [
        line.strip().split()
        for line in (package / "README.md").read_text().splitlines()
        if line.startswith("    twinrun ")
    ]
    assert [c[:3] for c in commands] == [["twinrun", "verify", "."], ["twinrun", "replay", "."]]
    for c in commands:
        r = run([str(build / "cmd" / "twinrun"), *c[1:]], cwd=package)
        assert r.rc == 0, r.out + r.err
    assert r.out.splitlines()[-1].startswith("REPRODUCED  bit for bit")
    code = package.parent / "copy-replay" / "code"
    away = packed[1]
    for name in [
        "model.c",
        "blob.bin",
        "lib/inner.c",
        "new file.txt",
        "lr.yaml",
        ".gitmodules",
        "train",
    ]:
        assert (code / name).read_bytes() == (away / name).read_bytes(), name
    assert git(code, "rev-parse", "HEAD") == git(away, "rev-parse", "HEAD")
    assert (package.parent / "copy-replay" / "data" / "images" / "empty").is_dir()
    # The package itself is as it was.
    assert twinrun("verify", str(package)).rc == 0


def test_sha256sum_and_openssl(twinrun, recorded, tmp_path, run):
    key = tmp_path / "k"
    assert twinrun("sign", "--new-key", str(key)).rc == 0
    p = tmp_path / "p"
    assert twinrun("pack", "last", "-o", str(p), "--key", str(key)).rc == 0
    for manifest in ["tagmanifest-sha256.txt", "manifest-sha256.txt"]:
        assert run(["sha256sum", "--quiet", "--strict", "-c", manifest], cwd=p).rc == 0
    envelope = json.loads((p / "signature.dsse.json").read_text())
    payload = base64.b64decode(envelope["payload"])
    statement = json.loads(payload)
    assert statement["subject"] == [
        {
            "name": "tagmanifest-sha256.txt",
            "digest": {
                "sha256": hashlib.sha256((p / "tagmanifest-sha256.txt").read_bytes()).hexdigest()
            },
        }
    ]
    kind = envelope["payloadType"].encode()
    (tmp_path / "pae").write_bytes(b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload))
    (tmp_path / "sig").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    r = run(
        [
            "openssl",
            "dgst",
            "-sha256",
            "-verify",
            str(key) + ".pub",
            "-signature",
            str(tmp_path / "sig"),
            str(tmp_path / "pae"),
        ]
    )
    assert r.rc == 0 and "Verified OK" in r.out
    assert twinrun("verify", str(p), "--key", str(key) + ".pub").rc == 0
    other = tmp_path / "other"
    assert twinrun("sign", "--new-key", str(other)).rc == 0
    assert twinrun("verify", str(p), "--key", str(other) + ".pub").rc == 1
    # The signature of another package is no signature of this one; without it a wanted one is
    # missing.
    q = tmp_path / "q"
    assert (
        twinrun(
            "pack", "last", "-o", str(q), "--key", str(key), "--code", "lr.yaml", "--data", "omit"
        ).rc
        == 0
    )
    shutil.copy(q / "signature.dsse.json", p / "signature.dsse.json")
    r = twinrun("verify", str(p), "--key", str(key) + ".pub")
    assert r.rc == 1 and "another package" in r.out
    (p / "signature.dsse.json").unlink()
    assert twinrun("verify", str(p), "--key", str(key) + ".pub").rc == 1
    assert twinrun("replay", str(p), "--key", str(key) + ".pub").rc == 1
    assert not (tmp_path / "p-replay").exists()
    # One that only looks the part: repacked by somebody else.
    (q / "data" / "code" / "files" / "lr.yaml").write_text("lr: 0.2\n")
    repack(q)
    assert twinrun("verify", str(q)).rc == 1  # the envelope is about the other tag manifest


def test_audit_names_what_was_taken_away(twinrun, package, tmp_path):
    r = twinrun("audit", str(package))
    assert r.rc == 0 and r.out.startswith("PASS")
    for area in AREAS:
        for by_whom in ["an accident", "somebody who repacks"]:
            copy = tmp_path / "c"
            shutil.copytree(package, copy)
            shutil.rmtree(copy / "data" / area)
            if by_whom == "somebody who repacks":
                repack(copy)
                assert twinrun("verify", str(copy)).rc == 0
            r = twinrun("audit", str(copy), "--json")
            checks = {c["name"]: c for c in r.json["targets"][0]["checks"]}
            assert r.rc == 1 and [n for n in AREAS if not checks[n]["pass"]] == [area], r.out
            assert (
                any(area in m for m in checks[area]["missing"])
                and checks[area]["risk"]
                and checks[area]["ask"]
            )
            if by_whom == "somebody who repacks":
                r = twinrun("replay", str(copy))
                assert r.rc == 2 and not (tmp_path / "c-replay").exists(), r.err
            shutil.rmtree(copy)


def test_a_run_without_one_of_the_five(twinrun, job, home, tmp_path):
    """The same from the other side: a run that was made without it."""
    work, data = job
    assert twinrun("snapshot", str(data)).rc == 0

    def failing(*record):
        assert twinrun("record", *record).rc == 0
        r = twinrun("audit", "last", "--json")
        return [c["name"] for c in r.json["targets"][0]["checks"] if not c["pass"]]

    whole = ["--data", "../images", "--", *COMMAND, "../images"]
    assert failing(*whole) == []
    assert failing("--", *COMMAND, "../images") == ["data"]
    assert failing(*[w for w in whole if w not in ("--seed", "7")]) == ["seeds"]
    assert failing(
        "--data", "../images", "--", "env", "API_TOKEN=abcdefgh1234", *COMMAND, "../images"
    ) == ["configuration"]
    os.rename(work / ".git", work / "not-git")
    lib = work / "lib" / ".git"
    lib.rename(work / "lib" / "not-git")
    failed = failing(*whole)
    # outside git the program itself, whose digest was recorded, is the code
    assert failed == [], failed
    (work / "not-git").rename(work / ".git")
    (work / "lib" / "not-git").rename(lib)
    assert failing(*whole) == []
    (work / "model.c").write_text("changed again, after the run\n")
    (work / "lr.yaml").write_text("changed, too\n")
    r = twinrun("audit", "last", "--json")
    code = r.json["targets"][0]["checks"][0]
    # what git knows was kept with the run
    assert not code["pass"] and code["missing"] == [
        "lr.yaml (untracked): it has changed since the run"
    ]
    run = max(
        (home / "runs").iterdir(),
        key=lambda d: json.loads((d / "run.json").read_text())["start_realtime_ns"],
    )
    record = json.loads((run / "provenance.json").read_text())
    record["complete"] = False
    (run / "provenance.json").write_text(json.dumps(record))
    r = twinrun("audit", "last", "--json")
    assert "environment" in [c["name"] for c in r.json["targets"][0]["checks"] if not c["pass"]]


def test_another_outcome_is_named(twinrun, package, tmp_path):
    """Somebody changes the code and repacks: it verifies (nobody signed), and the replay says where
    the runs part.
    """
    path = package / "data" / "configuration" / "configuration.json"
    config = json.loads(path.read_text())
    config["argv"][config["argv"].index("7")] = "8"
    path.write_text(json.dumps(config))
    assert twinrun("replay", str(package)).rc == 1
    repack(package)
    r = twinrun("replay", str(package), "--json")
    assert r.rc == 1 and r.json["outcome"] == "differ" and r.json["verdict"]["first"]["name"], r.out
    r = twinrun("replay", str(package))
    assert r.rc == 1 and r.out.splitlines()[-1].startswith("DIFFERS") and "step 0" in r.out, r.out


def test_a_job_that_fails_is_not_reproduced(twinrun, work, tmp_path):
    """Two runs that fail alike say nothing of what the job computes."""
    (work / "job.sh").write_text("exit 3\n")
    git(work, "init", "-q")
    git(work, "add", ".")
    git(work, "commit", "-qm", "a job that fails")
    assert twinrun("record", "-q", "--", "sh", "job.sh").rc == 3
    package = str(tmp_path / "p")
    twinrun("pack", "last", "-o", package)
    r = twinrun("replay", package)
    last = r.out.splitlines()[-1]
    assert r.rc == 2 and last.startswith("FAILED") and "REPRODUCED" not in r.out, r.out
    r = twinrun("replay", package, "--json")
    assert r.rc == 2 and r.json["outcome"] == "failed", r.out


def test_data_by_address_and_of_ones_own(twinrun, recorded, tmp_path):
    work, data = recorded
    p = tmp_path / "p"
    assert (
        twinrun("pack", "last", "-o", str(p), "--data", f"fetch=file://{tmp_path}/server").rc == 0
    )
    assert twinrun("audit", str(p)).rc == 0 and not (p / "data" / "data" / "images").exists()
    shutil.copytree(data, tmp_path / "server")
    os.rename(data, tmp_path / "away")
    r = twinrun("replay", str(p))
    assert r.rc == 2 and "--fetch" in r.err and not (tmp_path / "p-replay").exists()
    r = twinrun("replay", str(p), "--fetch")
    assert r.rc == 0, r.out + r.err
    # Another file at the address, and a longer one.
    labels = tmp_path / "server" / "train-labels-idx1-ubyte"
    bytes_of = labels.read_bytes()
    labels.write_bytes(bytes([bytes_of[0] ^ 1]) + bytes_of[1:])
    r = twinrun("replay", str(p), "--fetch")
    assert r.rc == 2 and "train-labels-idx1-ubyte changed" in r.err, r.err
    labels.write_bytes(bytes_of * 1000)
    assert twinrun("replay", str(p), "--fetch").rc == 2
    # A folder that is here: verified, never written to.
    r = twinrun("replay", str(p), "--data", f"images={tmp_path / 'away'}")
    assert r.rc == 0, r.err
    r = twinrun("replay", str(p), "--data", str(tmp_path / "server"))
    assert r.rc == 2 and "does not hold the data" in r.err
    assert sorted(x.name for x in tmp_path.glob("p-replay*")) == ["p-replay", "p-replay-2"]
    # Not in the package at all.
    q = tmp_path / "q"
    os.rename(tmp_path / "away", data)
    r = twinrun("pack", "last", "-o", str(q), "--data", "omit", "--json")
    assert [a["name"] for a in r.json["areas"] if not a["pass"]] == ["data"]
    assert twinrun("audit", str(q)).rc == 1
    assert twinrun("replay", str(q)).rc == 2
    assert twinrun("replay", str(q), "--data", str(data)).rc == 0


def test_secrets_stay_here(twinrun, job, home, tmp_path):
    work, data = job
    planted = "hunter2planted9"
    (work / "deploy.py").write_text(f'password = "{planted}"\n')
    (work / ".env").write_text(f"X={planted}\n")
    (work / "model.c").write_text(f'char *token = "{planted}";\n')
    assert twinrun("snapshot", str(data)).rc == 0
    env = {"MY_API_KEY": planted, "HF_TOKEN": planted}
    assert twinrun("record", "--data", "../images", "--", *COMMAND, "../images", env=env).rc == 0
    p = tmp_path / "p"
    r = twinrun("pack", "last", "-o", str(p), "--json")
    assert r.rc == 0
    missing = " ".join(r.json["areas"][0]["missing"])
    assert all(name in missing for name in ["deploy.py", ".env", "model.c"]), missing
    for f in p.rglob("*"):
        if f.is_file():
            assert planted.encode() not in f.read_bytes(), f
    assert not list(p.rglob("redaction*"))


@pytest.mark.parametrize("named", [".twinrun", "records"])
def test_no_home_is_packed(twinrun, job, tmp_path, named):
    """Whatever names it: another home in the checkout, made by hand and not hidden from git, is
    left out.
    """
    work, data = job
    planted = "printed by another job 4711"
    other = {"TWINRUN_HOME": str(work / named)}
    assert twinrun("record", "--", "echo", planted, env=other).rc == 0
    (work / named / ".gitignore").unlink()
    (work / named / "runs" / "README").write_text(planted)
    assert twinrun("snapshot", str(data)).rc == 0
    assert twinrun("record", "--data", "../images", "--", *COMMAND, "../images").rc == 0
    p = tmp_path / "p"
    r = twinrun("pack", "last", "-o", str(p), "--code", named, "--code", "new file.txt")
    assert r.rc == 0, r.err
    for f in p.rglob("*"):
        if f.is_file():
            assert planted.encode() not in f.read_bytes(), f


def test_a_script_outside_git(twinrun, python, work, script, tmp_path):
    script("helper.py", "def rate():\n    return 0.1\n")
    script("other.py", "unused = 1\n")
    script("train.py", "import os, json\nfrom helper import rate\nprint(rate(), __file__ and 1)\n")
    assert twinrun("record", "--", sys.executable, "train.py", "--seed", "1").rc == 0
    p = tmp_path / "p"
    r = twinrun("pack", "last", "-o", str(p), "--data", "none", "--json")
    assert r.rc == 0
    assert sorted(f.name for f in (p / "data" / "code" / "files").iterdir()) == [
        "helper.py",
        "train.py",
    ]
    areas = {a["name"]: a for a in r.json["areas"]}
    # nothing says that it is the helper that ran
    assert not areas["code"]["pass"] and "helper.py" in areas["code"]["missing"][0]
    assert areas["data"]["pass"] and "says that the job reads none" in areas["data"]["holds"]
    os.rename(work, tmp_path / "away")
    work.mkdir()
    r = twinrun("replay", str(p), "--environment", "here", "--python", sys.executable)
    # equal output, but no value of the training was seen
    assert r.rc == 3 and r.out.splitlines()[-1].startswith("INCONCLUSIVE"), r.out + r.err


def test_a_script_elsewhere(twinrun, work, tmp_path):
    """Started in an empty folder by its full path, without git: the script is the code; what it
    makes is no data, what it overwrites may have been.
    """
    job, out = tmp_path / "jobs" / "train.py", tmp_path / "results"
    job.parent.mkdir()
    out.mkdir()
    job.write_text("import sys\nfor name in sys.argv[3:]:\n    open(name, 'w').write('7')\n")

    def areas(*words):
        assert twinrun("record", "--", sys.executable, str(job), "--seed", "1", *words).rc == 0
        return {
            c["name"]: c for c in twinrun("audit", "last", "--json").json["targets"][0]["checks"]
        }

    first = areas(str(out / "new.txt"))
    assert (
        first["code"]["pass"]
        and first["code"]["holds"].startswith("1 file")
        and first["configuration"]["pass"]
        and first["seeds"]["pass"]
    ), first
    assert first["data"]["missing"] == [
        "nothing says which data the job read: run again with --data DIR, or pack with --data none when it reads none"
    ]
    p = tmp_path / "p"
    assert (
        twinrun("pack", "last", "-o", str(p), "--data", "none").rc in (0, 1)
        and (p / "data" / "code" / "files" / "train.py").read_text() == job.read_text()
    )
    again = areas(str(out / "new.txt"), "below.txt")
    assert any("new.txt" in m for m in again["data"]["missing"]) and not any(
        "below.txt" in m for m in again["data"]["missing"]
    )
    assert not again["configuration"]["pass"]  # it was there: whether the job read it nobody knows
    third = areas("below.txt")
    assert third["data"]["missing"][0].startswith(
        "below.txt: it was there before the run, which wrote to it"
    )
    job.write_text("print(1)\n")
    r = twinrun("audit", "last", "--json")
    assert r.json["targets"][0]["checks"][0]["missing"] == [
        "train.py (script): it has changed since the run"
    ]


def test_a_folder_that_nobody_packed(twinrun, tmp_path):
    f = tmp_path / "theirs"
    f.mkdir()
    r = twinrun("audit", str(f), "--json")
    assert (
        r.rc == 1 and [c["name"] for c in r.json["targets"][0]["checks"] if not c["pass"]] == AREAS
    )
    (f / "train.py").write_text("import torch\ntorch.manual_seed(42)\n")
    (f / "requirements.txt").write_text("torch\nnumpy==2.0\n")
    (f / "README.md").write_text("# Theirs\n\n    python train.py --lr 0.1\n")
    (f / "SHA256SUMS").write_text("")
    git(f, "init", "-q")
    git(f, "add", ".")
    git(f, "commit", "-qm", "x")
    r = twinrun("audit", str(f), "--json")
    checks = {c["name"]: c for c in r.json["targets"][0]["checks"]}
    assert [n for n in AREAS if not checks[n]["pass"]] == ["environment"]
    assert '"torch" names no exact version' in checks["environment"]["missing"][0]
    assert (
        checks["code"]["holds"].startswith("git, commit " + git(f, "rev-parse", "HEAD")[:12])
        and "manual_seed(42)" in checks["seeds"]["holds"]
    )
    (f / "requirements.txt").write_text("torch==2.1\nnumpy==2.0\n")
    assert twinrun("audit", str(f)).rc == 0
    assert twinrun("audit", str(f), "--checklist", "icml").rc == 0
    assert twinrun("audit", str(f), "--checklist", "other").rc == 2


def test_pins_are_set_again(twinrun, python, job, tmp_path):
    """A job that draws from the system's entropy and the clock repeats itself under pins only, here
    and in a replay.
    """
    code = job[0]
    (code / "drawn.py").write_text(
        "import array, os, random, time\nimport twinrun\n"
        "for step in range(3):\n"
        "    twinrun.record('batch:x', array.array('d', os.urandom(8)))\n"
        "    twinrun.record('weight:w', array.array('d', [time.time(), hash('a'), random.random()]))\n"
        "    twinrun.step()\n"
    )
    git(code, "add", "."), git(code, "commit", "-qm", "draws")
    assert twinrun("run", "-q", "--", python, "drawn.py").rc == 0
    r = twinrun("audit", "last", "--json")
    seeds = next(c for c in r.json["targets"][0]["checks"] if c["name"] == "seeds")
    assert seeds["pass"] and "pin" in seeds["holds"], seeds
    for name, rc in (("pinned", 0), ("free", 1)):
        if name == "free":
            assert twinrun("record", "-q", "--", python, "drawn.py").rc == 0
        assert twinrun("pack", "last", "--data", "none", "--out", str(tmp_path / name)).rc in (0, 1)
        again = twinrun("replay", str(tmp_path / name), "--environment", "here", "--python", python)
        assert again.rc == rc, (name, again)


def test_pins_of_old_runs_are_named(twinrun, job, home):
    """Before the pins were kept, only the file `factors` named them: the program has to
    set them.
    """
    assert twinrun("snapshot", str(job[1])).rc == 0
    assert (
        twinrun("run", "--pin", "all", "--data", "../images", "--", *COMMAND, "../images").rc == 0
    )
    path = max((home / "runs").iterdir()) / "run.json"
    run = json.loads(path.read_text())
    del run["factors"]["agents"]
    path.write_text(json.dumps(run))
    r = twinrun("audit", "last", "--json")
    failed = [c for c in r.json["targets"][0]["checks"] if not c["pass"]]
    assert [c["name"] for c in failed] == ["seeds"] and "malloc" in failed[0]["missing"][0], r.out


def test_a_statement_of_the_audit(twinrun, package, tmp_path):
    key, out = tmp_path / "k", tmp_path / "audit.json"
    assert twinrun("sign", "--new-key", str(key)).rc == 0
    assert twinrun("audit", str(package), "--statement", str(out), "--key", str(key)).rc == 0
    statement = json.loads(base64.b64decode(json.loads(out.read_text())["payload"]))
    assert statement["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    assert (
        statement["predicate"]["result"] == "PASSED"
        and statement["predicate"]["passedTests"] == AREAS + ["verify"]
        and statement["predicate"]["failedTests"] == []
    )
    assert (
        twinrun(
            "verify", str(out), "--key", str(key) + ".pub", str(package / "tagmanifest-sha256.txt")
        ).rc
        == 0
    )
    (package / "data" / "seeds" / "seeds.json").unlink()
    assert twinrun("audit", str(package), "--statement", str(out), "--key", str(key)).rc == 1
    statement = json.loads(base64.b64decode(json.loads(out.read_text())["payload"]))
    assert statement["predicate"]["result"] == "FAILED" and statement["predicate"][
        "failedTests"
    ] == ["seeds", "verify"]


# ---- PyTorch, a fresh virtual environment, other people's readers


@pytest.fixture(scope="session")
def clients(tmp_path_factory):
    """A virtual environment with bagit.py and rocrate."""
    venv = tmp_path_factory.mktemp("clients") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    subprocess.run(
        [
            str(venv / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
            "bagit==1.8.1",
            "setuptools<81",
            "rocrate",
        ],
        check=True,
    )
    return venv / "bin"


@pytest.mark.skipif(not FULL, reason="installs bagit.py and rocrate (TWINRUN_FULL=1)")
def test_other_readers_accept_it(clients, package, run):
    r = run([str(clients / "bagit.py"), "--validate", str(package)], timeout=120)
    assert r.rc == 0, r.err
    code = (
        "import sys; from rocrate.rocrate import ROCrate; c = ROCrate(sys.argv[1]); a = [e for e in c.get_entities() if e.type == 'CreateAction']\n"
        "assert len(a) == 1 and a[0]['instrument'].type == 'SoftwareApplication' and a[0]['endTime'], a\n"
        "d = c.root_dataset; assert d['conformsTo'].id == 'https://w3id.org/ro/wfrun/process/0.5' and d['datePublished'] and d['license'] and d['name'], d.properties()\n"
        "assert a[0] in d['mentions'] if isinstance(d['mentions'], list) else d['mentions'] == a[0]\n"
        "print(len(c.data_entities))"
    )
    r = run([str(clients / "python"), "-c", code, str(package / "data")], timeout=120)
    assert r.rc == 0 and int(r.out) >= 10, r.out + r.err


@pytest.mark.skipif(not FULL, reason="makes two virtual environments with PyTorch (TWINRUN_FULL=1)")
def test_done_when(twinrun, run, build, work, home, tmp_path, python):
    """The issue's own words: packed on one checkout, copied, everything renamed away; two commands
    from its README give the same bits in a fresh environment.
    """
    venv = tmp_path / "env"
    base = subprocess.run(
        [python, "-c", "import sys; print(sys._base_executable)"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    subprocess.run([base, "-m", "venv", str(venv)], check=True)
    version = subprocess.run(
        [python, "-c", "import torch; print(torch.__version__)"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    subprocess.run(
        [
            str(venv / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
            f"torch=={version}",
            "numpy",
        ],
        check=True,
        timeout=500,
    )
    shutil.copy(ROOT / "workloads" / "cnn.py", work / "train.py")
    git(work, "init", "-q")
    git(work, "add", ".")
    git(work, "commit", "-qm", "first")
    with open(work / "train.py", "a") as f:
        f.write("# a change that nobody committed\n")
    data = tmp_path / "fashion"
    shutil.copytree(ROOT / "workloads" / "data", data)
    assert twinrun("snapshot", str(data)).rc == 0
    job = [
        str(venv / "bin" / "python"),
        "train.py",
        "--deterministic",
        "--steps",
        "6",
        "--data",
        str(data),
        "--checkpoint",
        "model.pt",
    ]
    r = twinrun("record", "--data", str(data), "--", *job, timeout=300)
    assert r.rc == 0, r.err
    package = tmp_path / "package"
    r = twinrun("pack", "last", "-o", str(package), timeout=120)
    assert r.rc == 0 and "FAIL" not in r.out, r.out
    copy = tmp_path / "there" / "copy"
    shutil.copytree(package, copy)
    for path in [package, data, tmp_path / "fashion.snapshot", venv, home]:
        os.rename(path, str(path) + ".away")
    shutil.move(work, tmp_path / "work.away")
    work.mkdir()
    r = twinrun("audit", str(copy))
    assert r.rc == 0 and r.out.count(" pass ") == 5, r.out
    commands = [
        line.strip().split()
        for line in (copy / "README.md").read_text().splitlines()
        if line.startswith("    twinrun ")
    ]
    assert len(commands) == 2
    env = {"PATH": os.path.dirname(base) + ":" + os.environ["PATH"]}
    for c in commands:
        r = run([str(build / "cmd" / "twinrun"), *c[1:]], cwd=copy, env=env, timeout=580)
        assert r.rc == 0, r.out + r.err
    assert (
        r.out.splitlines()[-1].startswith("REPRODUCED  bit for bit")
        and "model.pt: tensors same" in r.out
    ), r.out
    assert (tmp_path / "there" / "copy-replay" / "venv" / "bin" / "python").exists()
    for area in AREAS:
        lacking = tmp_path / ("without-" + area)
        shutil.copytree(copy, lacking)
        shutil.rmtree(lacking / "data" / area)
        r = twinrun("audit", str(lacking), "--json")
        assert r.rc == 1 and [
            c["name"] for c in r.json["targets"][0]["checks"] if not c["pass"]
        ] == [area]
