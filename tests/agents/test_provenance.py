# SPDX-License-Identifier: Apache-2.0
"""`provenance.json`: what it says of a real job is held against git, hashlib, importlib and /proc;
what it must never say is searched for in the whole home.

docs/format/provenance.md gives the fields, docs/provenance.md what counts as a secret.
"""

import hashlib
import json
import os
import platform
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import FULL, alive
from launch_helper import wait_for

JOB = """
import os, sys
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import torch
torch.manual_seed(int(os.environ.get("SEED", 7)))
if os.environ.get("ODD") and os.environ.get("RANK") == "1":
    os.environ["NCCL_ALGO"] = "Ring"
    torch.use_deterministic_algorithms(True)
if "RANK" in os.environ:
    torch.distributed.init_process_group("gloo")
model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(4, 8)).pow(2).mean()
    loss.backward()
    optimizer.step()
print(float(loss.detach()))
"""


def sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def git(folder, *words):
    who = [
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b.c",
        "-c",
        "protocol.file.allow=always",
        "-c",
        "init.defaultBranch=trunk",
    ]
    return subprocess.run(
        ["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


def last(home):
    return sorted(
        (home / "runs").iterdir(),
        key=lambda d: json.loads((d / "run.json").read_text())["start_realtime_ns"],
    )[-1]


def record_of(folder):
    return json.loads((folder / "provenance.json").read_text())


STATE = Path(os.environ.get("TWINRUN_TEST_SHARED", "/nonexistent")) / "state"


@pytest.fixture
def repository(work, script, tmp_path):
    """One file changed, one untracked, one submodule (with a change of its own), a remote with a
    password.
    """
    module = tmp_path / "module"
    module.mkdir()
    git(module, "init", "-q")
    (module / "inner.py").write_text("x = 1\n")
    git(module, "add", ".")
    git(module, "commit", "-qm", "inner")
    script("train.py", JOB)
    (work / "keys.py").write_text("nothing = 0\n")
    (work / "blob.bin").write_bytes(bytes(range(256)))
    git(work, "init", "-q")
    git(work, "submodule", "--quiet", "add", str(module), "lib")
    git(work, "add", ".")
    git(work, "commit", "-qm", "first")
    git(work, "remote", "add", "origin", "https://ana:plantedremote@example.org/x.git")
    with open(work / "train.py", "a") as f:
        f.write("# changed\n")
    (work / "blob.bin").write_bytes(bytes(range(255, -1, -1)))
    (work / "lib" / "inner.py").write_text("x = 2\n")
    (work / "new file.txt").write_text("untracked\n")
    (work / "conf.yaml").write_text("lr: 0.1   # comment\nsteps: 3\n")
    return work


def test_of_a_torch_job_in_a_dirty_repository(twinrun, python, repository, home, tmp_path, light):
    done = twinrun(
        "record", "-q", "--", python, "train.py", "--config=conf.yaml", env={"OMP_NUM_THREADS": "1"}
    )
    assert done.rc == 0, done
    folder = last(home)
    p = record_of(folder)
    code = p["code"]
    assert (
        p["schema"] == "twinrun.provenance/1"
        and p["complete"] is True
        and p["run"] == json.loads((folder / "run.json").read_text())["id"]
    )
    assert (
        code["commit"] == git(repository, "rev-parse", "HEAD").strip()
        and code["tree"] == git(repository, "rev-parse", "HEAD^{tree}").strip()
    )
    assert (code["branch"], code["dirty"], Path(code["top"])) == ("trunk", True, repository)
    assert {c["path"] for c in code["changed"]} >= {"train.py", "blob.bin"}
    assert {u["path"]: u["sha256"] for u in code["untracked"]} == {
        n: sha256(repository / n) for n in ("new file.txt", "conf.yaml")
    }
    assert [(m["path"], m["dirty"], m["commit"]) for m in code["submodules"]] == [
        ("lib", True, git(repository / "lib", "rev-parse", "HEAD").strip())
    ]
    assert (
        stat.S_IMODE((folder / "code.diff").stat().st_mode) == 0o600
        and sha256(folder / "code.diff") == code["diff"]["sha256"]
    )
    # A stranger has the files back.
    fresh = tmp_path / "fresh"
    git(tmp_path, "clone", "-q", "--recurse-submodules", str(repository), str(fresh))
    git(fresh, "apply", "--whitespace=nowarn", str(folder / "code.diff"))
    git(fresh / "lib", "apply", str(folder / code["submodules"][0]["diff"]["file"]))
    for name in ("train.py", "blob.bin", "lib/inner.py"):
        assert sha256(fresh / name) == sha256(repository / name), name
    assert p["programs"]["entry"]["sha256"] == sha256(repository / "train.py")
    assert p["programs"]["files"][0]["sha256"] == sha256(os.path.realpath(python))
    assert p["config"]["files"][0]["raw"] == sha256(repository / "conf.yaml")
    assert (
        p["config"]["files"][0]["canonical"] == hashlib.sha256(b'{"lr":0.1,"steps":3}').hexdigest()
    )
    (rank,) = p["ranks"]
    assert (
        rank["variables"]["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
        and rank["variables"]["OMP_NUM_THREADS"] == "1"
    )
    # not twinrun's own
    assert (
        rank["variables"].get("PYTHONPATH") == os.environ.get("PYTHONPATH")
        and "LD_PRELOAD" not in rank["variables"]
    )
    assert (
        rank["rank"],
        rank["host"],
        rank["settings"]["threads"],
        rank["settings"]["deterministic_algorithms"],
    ) == (0, platform.node(), "1", "False")
    version = subprocess.run(
        [python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True
    ).stdout.strip()
    assert rank["versions"]["torch"] == version and p["packages"]["python"]["torch"] == version
    mapped = {f.get("real_path", f["path"]): f for f in p["libraries"]["files"]}
    assert any("libtorch_cpu" in path for path in mapped) and any(
        "libc.so" in path for path in mapped
    )
    for path, f in mapped.items():
        if Path(path).stat().st_size < 1 << 22:
            assert f["sha256"] == sha256(path), path
    assert all("sha256" in f for f in mapped.values())
    assert (
        rank["generators"]["torch.first"] != rank["generators"]["torch.last"]
        and rank["generators"]["random.first"] == rank["generators"]["random.last"]
    )
    assert (
        p["environment"]["libc"] == platform.libc_ver()[1]
        and p["environment"]["kernel"]["release"] == platform.release()
    )
    assert p["environment"]["cpu"]["online"] == os.sysconf("SC_NPROCESSORS_ONLN")
    if not os.path.exists("/proc/driver/nvidia"):
        assert p["accelerators"]["gpus"] == [] and "driver" in p["accelerators"]["why"]
    assert p["before_job"]["seen"] or p["before_job"]["ms"] > 200  # a busy machine
    # The same again with another number of threads, another seed and a clean tree: three things,
    # ranked.
    git(repository, "checkout", "-q", "train.py", "blob.bin")
    git(repository / "lib", "checkout", "-q", ".")
    assert (
        twinrun(
            "record",
            "-q",
            "--",
            python,
            "train.py",
            "--config=conf.yaml",
            env={"OMP_NUM_THREADS": "2", "SEED": "8"},
        ).rc
        == 0
    )
    done = twinrun("diff", "--env", "--json", "last~1", "last")
    found = {
        (d["group"], d["what"]): (d["power"], d["a"], d["b"])
        for d in done.json["differences"]
        if d["power"] != "noise"
    }
    assert done.rc == 1
    assert found[("variables", "OMP_NUM_THREADS")] == ("high", "1", "2") and found[
        ("settings", "threads")
    ] == ("high", "1", "2")
    assert {
        ("code", "uncommitted changes"),
        ("code", "uncommitted changes of lib"),
        ("code", "train.py"),
        ("seeds", "state of PyTorch"),
    } <= set(found)
    assert len(found) == 6
    powers = [d["power"] for d in done.json["differences"]]
    assert powers == sorted(powers, key=("high", "medium", "low", "noise").index)
    shown = twinrun("show", "last", "--provenance")
    assert (
        shown.rc == 0
        and f"commit {code['commit'][:12]} on trunk, clean, 2 untracked, 1 submodule" in shown.out
        and f"torch {version}" in shown.out
    )


PLANTED = {
    "variable": {
        "MY_SERVICE_PASSWORD": "plantedvariable",
        "NCCL_AUTH_TOKEN": "plantednccl",
        "HTTPS_PROXY": "http://u:plantedproxy@proxy:3128",
        "UCX_NOTE": "http://u:plantedurl@h/x",
        "UNKNOWN": "plantedunknown",
    },
    "argv": [
        "--api-key",
        "plantedargone",
        "--password=plantedarg two",
        "https://me:plantedargthree@host/data",
        "DB_SECRET=plantedargfour",
        "--header",
        "Authorization: Bearer plantedargfive",
        "--url",
        "s3://b/k?access_token=plantedargsix&x=1",
        "ghp_plantedSeven0123456789abcdefghijkl",
        "--wandb-token",
        "plantedeight",
        '{"password": "plantednine"}',
    ],
}


def everything(home):
    return b"\n".join(path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file())


def test_secrets_are_nowhere_in_the_home(twinrun, repository, home):
    (repository / "keys.py").write_text('api_key = "plantedinsource0"\n')
    (repository / "child.sh").write_text("#!/bin/sh\nexec sleep 0.4\n")
    words = ["sh", "-c", 'sh child.sh --token plantedchild; : "$@"', "x", *PLANTED["argv"]]
    assert twinrun("record", "-q", "--", *words, env=PLANTED["variable"]).rc == 0
    first = last(home)
    assert b"planted" not in everything(home)
    p, run = record_of(first), json.loads((first / "run.json").read_text())
    assert (
        p["code"]["diff"]["withheld"] == ["keys.py"]
        and b"train.py" in (first / "code.diff").read_bytes()
    )
    assert (
        run["argv"] == p["config"]["argv"]
        and run["argv"][4] == "--api-key"
        and run["argv"][5].startswith("[redacted:")
    )
    key = STATE / "twinrun" / "redaction.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600 and not list(home.rglob("redaction*"))
    assert (
        stat.S_IMODE((first / "stdout").stat().st_mode)
        == 0o600
        == stat.S_IMODE((first / "stderr").stat().st_mode)
    )
    # The keyed hash: made again here. Equal secrets show as equal, another one as changed.
    import hmac

    digest = hmac.new(key.read_bytes(), b"plantedargone", "sha256").hexdigest()[:16]
    assert run["argv"][5] == f"[redacted:{digest}]"
    assert (
        twinrun(
            "record", "-q", "--", *words, env={**PLANTED["variable"], "UNKNOWN": "plantedother"}
        ).rc
        == 0
    )
    again = record_of(last(home))
    assert again["config"]["argv"] == p["config"]["argv"]
    changed = {
        n for n, v in p["launch"]["variables"].items() if again["launch"]["variables"].get(n) != v
    }
    assert changed == {"UNKNOWN"} and b"planted" not in everything(home)


def test_ordinary_options_are_kept(twinrun, work, home):
    words = [
        "--max-tokens",
        "512",
        "--pad-token",
        "<pad>",
        "--sort-key",
        "loss",
        "--num-keys=12",
        "--tokenizer",
        "gpt2",
        "--author",
        "ana",
        "https://host/path",
        "key-dim=64",
        "--token",
        "5",
        "--lr=0.1",
        "a=b",
        "http://h:80/x@y",
    ]
    assert twinrun("record", "-q", "--", "true", *words).rc == 0
    assert record_of(last(home))["config"]["argv"] == ["true", *words]


def test_outside_of_a_repository_and_without_git(twinrun, work, home, tmp_path, script):
    script("a.py", "print(1)\n")
    assert twinrun("record", "-q", "--", sys.executable, "a.py").rc == 0
    p = record_of(last(home))
    assert (
        p["code"]["why"] == "not in a git repository"
        and p["code"]["commit"] is None
        and p["programs"]["entry"]["sha256"] == sha256(work / "a.py")
    )
    bare = tmp_path / "bin"
    bare.mkdir()
    assert twinrun("record", "-q", "--", sys.executable, "a.py", env={"PATH": str(bare)}).rc == 0
    p = record_of(last(home))
    assert p["code"]["why"] == "git is not installed" and p["complete"]


def test_a_repository_without_a_commit(twinrun, work, home, script):
    script("a.py", "print(1)\n")
    git(work, "init", "-q")
    git(work, "add", "a.py")
    assert twinrun("record", "-q", "--", sys.executable, "a.py").rc == 0
    code = record_of(last(home))["code"]
    assert (
        code["commit"] is None
        and code["dirty"] is True
        and b"+print(1)" in (last(home) / code["diff"]["file"]).read_bytes()
    )


def test_a_git_that_hangs_or_asks_does_not_hold_the_job(twinrun, work, home, tmp_path):
    fake = tmp_path / "bin"
    fake.mkdir()
    started = fake / "started"
    (fake / "git").write_text(f"#!/bin/sh\nsleep 3000 & echo $! $$ >>{started}; exec sleep 3000\n")
    (fake / "git").chmod(0o755)
    (work / "job").write_text(
        f"i=0; while [ ! -s {started} ] && [ $i -lt 3000 ]; do sleep 0.01; i=$((i + 1)); done\n"
        f"kill -0 $(tail -n 1 {started}) && echo git hangs, the job runs\n"
    )
    done = twinrun("record", "--", "sh", "job", env={"PATH": f"{fake}:{os.environ['PATH']}"})
    assert done.rc == 0 and done.out == "git hangs, the job runs\n", done
    p = record_of(last(home))
    assert p["complete"] and not p["before_job"]["seen"] and "gave no answer" in p["code"]["why"]
    wait_for(lambda: not any(alive(int(pid)) for pid in started.read_text().split()))


def test_a_home_that_cannot_be_written(twinrun, work, tmp_path):
    sealed = tmp_path / "sealed"
    sealed.write_text("")
    done = twinrun(
        "record", "--", "echo", "runs all the same", env={"TWINRUN_HOME": str(sealed / "home")}
    )
    assert done.rc == 0 and done.out == "runs all the same\n" and "cannot record" in done.err


def test_a_key_that_others_may_read_is_not_used(twinrun, work, tmp_path, home):
    key = tmp_path / "state" / "twinrun" / "redaction.key"
    key.parent.mkdir(parents=True)
    key.write_bytes(bytes(32))
    key.chmod(0o644)
    done = twinrun(
        "record",
        "-q",
        "--",
        "true",
        "--token",
        "plantedhere",
        env={"XDG_STATE_HOME": str(tmp_path / "state")},
    )
    assert done.rc == 0
    p = record_of(last(home))
    assert p["config"]["argv"][2] == "[redacted]" and p["redaction_key"] == ""


def test_an_old_key_in_a_home_is_moved_out_of_it_and_kept(twinrun, work, tmp_path, home):
    """Version 0.1 kept the key in the home. What it redacted must go on being comparable."""
    import hmac

    old = bytes(range(32))
    home.mkdir()
    (home / "redaction.key").write_bytes(old)
    (home / "redaction.key").chmod(0o600)
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    wanted = "[redacted:" + hmac.new(old, b"plantedhere", "sha256").hexdigest()[:16] + "]"
    for _ in range(2):
        assert twinrun("record", "-q", "--", "true", "--token", "plantedhere", env=state).rc == 0
        assert record_of(last(home))["config"]["argv"][2] == wanted
    (moved,) = (tmp_path / "state" / "twinrun").glob("redaction-*.key")
    assert moved.read_bytes() == old and stat.S_IMODE(moved.stat().st_mode) == 0o600
    assert not (home / "redaction.key").exists() and old not in everything(home)
    # Another home of the same user has the user's own key, not this one.
    assert (
        twinrun(
            "record",
            "-q",
            "--",
            "true",
            "--token",
            "plantedhere",
            env={**state, "TWINRUN_HOME": str(tmp_path / "other")},
        ).rc
        == 0
    )
    assert record_of(last(tmp_path / "other"))["config"]["argv"][2] not in (wanted, "[redacted]")


@pytest.mark.parametrize(
    "first",
    [
        ("check", "-q", "--runs", "2"),
        ("record", "-q"),
        ("run", "-q", "--pin", "hash-seed"),
        ("isolate", "-q", "--max-runs", "4"),
    ],
)
def test_every_command_that_makes_a_home_hides_it_from_git(twinrun, repository, first):
    place = repository / "odd place"
    twinrun(*first, "--", "true", env={"TWINRUN_HOME": str(place)})
    assert (place / ".gitignore").read_text() == "*\n"
    shown = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=all"],
        cwd=repository,
        capture_output=True,
        text=True,
    )
    assert "odd place" not in shown.stdout


def test_a_folder_of_the_users_that_serves_as_home_stays_visible_to_git(twinrun, repository):
    mine = repository / "mine"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine\n")
    assert twinrun("record", "-q", "--", "true", env={"TWINRUN_HOME": str(mine)}).rc == 0
    assert not (mine / ".gitignore").exists()


@pytest.mark.parametrize(
    "text, why",
    [
        ("{", "line 1"),
        ('{"schema":"twinrun.provenance/1","schema":"x"}', "duplicate"),
        ("[]", "schema"),
        ('{"schema":"twinrun.provenance/9"}', "newer"),
    ],
)
def test_a_damaged_record_is_an_error(twinrun, work, home, text, why):
    assert twinrun("record", "-q", "--", "true").rc == 0
    (last(home) / "provenance.json").write_text(text)
    for command in (("show", "last", "--provenance"), ("diff", "--env", "last", "last")):
        done = twinrun(*command)
        assert done.rc == 2 and why in done.err and done.out == "", done
    (last(home) / "provenance.json").unlink()
    assert twinrun("show", "last", "--provenance").rc == 2


@pytest.mark.skipif(
    not FULL,
    reason="starts five PyTorch processes (TWINRUN_FULL=1); tests/cli/cases/show/parity.sh does it with small ones",
)
def test_ranks_that_are_not_alike(twinrun, python, script, work, home, light):
    torchrun = Path(python).parent / "torchrun"
    if not torchrun.exists():
        pytest.skip(f"no torchrun beside {python}")
    script("train.py", JOB)
    done = twinrun(
        "record",
        "-q",
        "--",
        torchrun,
        "--standalone",
        "--nproc-per-node=2",
        "train.py",
        env={"ODD": "1", "OMP_NUM_THREADS": "1"},
    )
    assert done.rc == 0, done
    p = record_of(last(home))
    assert (
        [r["rank"] for r in p["ranks"]] == [0, 1]
        and p["launch"]["world"] == 2
        and [q["rank"] for q in p["launch"]["places"]] == [0, 1]
    )
    assert (
        p["ranks"][0]["libraries"] == p["ranks"][1]["libraries"]
        or len(p["libraries"]["lists"]) == 2
    )
    shown = twinrun("show", "last", "--provenance", "--json").json
    odd = {
        d["what"]: (d["power"], d["a"], d["b"]) for d in shown["parity"] if d["power"] != "noise"
    }
    assert odd["rank 1: NCCL_ALGO"] == ("high", None, "Ring")
    assert odd["rank 1: deterministic_algorithms"] == ("high", "False", "True")
    assert not [w for w in odd if "RANK" in w]
    assert (
        "rank 1: NCCL_ALGO: Ring, the others: (not there)"
        in twinrun("show", "last", "--provenance").out
    )


def test_a_search_keeps_no_secret_either(twinrun, work, home, script):
    script("draw.py", "import random\nprint(random.random())\n")
    twinrun(
        "isolate",
        "-q",
        "--text",
        "--max-runs",
        "13",
        "--",
        sys.executable,
        "draw.py",
        "--api-key",
        "plantedsearch",
    )
    searches = 1
    if FULL:
        twinrun(
            "isolate",
            "-q",
            "--text",
            "--max-runs",
            "18",
            "--a",
            f"{sys.executable} draw.py --password plantedarm",
            "--b",
            f"DB_TOKEN=plantedarm {sys.executable} draw.py",
        )
        searches = 2
    assert len(list((home / "searches").iterdir())) == searches and b"planted" not in everything(
        home
    )


def test_topology(twinrun, work, home):
    """hwloc's XML beside the record, without what names the host; libhwloc15 comes with
    Open MPI.
    """
    import ctypes
    import xml.etree.ElementTree as xml

    try:
        ctypes.CDLL("libhwloc.so.15")
    except OSError:
        pytest.skip("libhwloc.so.15 is not installed")
    assert twinrun("record", "-q", "--", "true").rc == 0
    folder = last(home)
    said, text = (
        record_of(folder)["environment"]["topology"],
        (folder / "topology.xml").read_bytes(),
    )
    assert (
        said["file"] == "topology.xml"
        and said["sha256"] == sha256(folder / "topology.xml")
        and said["hwloc"].startswith("2.")
    )
    root = xml.fromstring(text)
    units = [o for o in root.iter("object") if o.get("type") == "PU"]
    assert len(units) == os.cpu_count() and b"HostName" not in text and b"ProcessName" not in text
