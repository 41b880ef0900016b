# SPDX-License-Identifier: Apache-2.0
"""<twin/checkpoint.h>, twinrun.save and twinrun.atomic_write: whole or not at all, killed at any
moment; the digest beside it never wrong.
"""

import hashlib
import os
import random
import resource
import signal
import subprocess
import sys
import time

import pytest
from conftest import FULL, ROOT

KILLS = 1000 if FULL else 50
PYTHON_JOB = """
import sys
sys.path.insert(0, sys.argv[1])
import twinrun
k = 0
while True:
    with twinrun.atomic_write(sys.argv[2]) as f:
        for at in range(0, 20000 + 37 * k, 1000):
            f.write(bytes([k]) * min(1000, 20000 + 37 * k - at))
    if k == 0:
        print("going", flush=True)
    k = (k + 1) % 251
"""


@pytest.fixture
def twin(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "python"))
    for name in [n for n in sys.modules if n == "twinrun" or n.startswith("twinrun.")]:
        monkeypatch.delitem(sys.modules, name)
    import twinrun

    return twinrun


def check(path):
    """Whole, of some version; the digest right or absent. Which of the two."""
    data = path.read_bytes()
    assert len(set(data)) == 1 and len(data) == 20000 + 37 * data[0], (len(data), set(data))
    sidecar = path.parent / (path.name + ".sha256")
    if not sidecar.exists():
        return False
    assert sidecar.read_text() == "%s  %s\n" % (hashlib.sha256(data).hexdigest(), path.name)
    return True


@pytest.mark.parametrize("language", ["C", "Python"])
def test_killed_at_any_moment(build, tmp_path, language):
    path, draw, absent, left = tmp_path / "model.bin", random.Random(3), 0, 0
    argv = (
        [build / "tests/agents/checkpoint_job", path]
        if language == "C"
        else [sys.executable, "-S", "-c", PYTHON_JOB, ROOT / "python", path]
    )
    for _ in range(KILLS):
        job = subprocess.Popen(argv, stdout=subprocess.PIPE)
        assert job.stdout.readline() == b"going\n"
        time.sleep(draw.uniform(0, 0.01))
        job.send_signal(signal.SIGKILL)
        job.wait()
        job.stdout.close()
        absent += not check(path)
        names = set(os.listdir(tmp_path)) - {"model.bin", "model.bin.sha256"}
        assert all(n.startswith(".model.bin.twinrun-") for n in names) and len(names) <= 2, names
        left += len(names)
    assert left > 0  # it was killed in the middle of something
    subprocess.run([build / "tests/agents/checkpoint_job", path, "7"], check=True)
    assert check(path) and sorted(os.listdir(tmp_path)) == ["model.bin", "model.bin.sha256"]
    subprocess.run(
        ["sha256sum", "-c", "--strict", "--quiet", "model.bin.sha256"], cwd=tmp_path, check=True
    )


def limited():
    resource.setrlimit(resource.RLIMIT_FSIZE, (15000, 15000))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def test_full_disk_and_abort_leave_what_was_there(build, tmp_path):
    job, path = build / "tests/agents/checkpoint_job", tmp_path / "m"
    subprocess.run([job, path, "1"], check=True)
    before = path.read_bytes()
    r = subprocess.run([job, path, "2"], capture_output=True, text=True, preexec_fn=limited)
    assert r.returncode == 1 and "it is as it was" in r.stderr
    subprocess.run([job, path, "3", "abort"], check=True)
    assert path.read_bytes() == before and check(path) and len(os.listdir(tmp_path)) == 2
    assert (
        "No such file"
        in subprocess.run(
            [job, tmp_path / "none" / "m", "1"], capture_output=True, text=True
        ).stderr
    )


def test_link_mode_and_odd_names(build, tmp_path):
    job = build / "tests/agents/checkpoint_job"
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real/m")
    (tmp_path / "real" / "m").write_bytes(b"old")
    (tmp_path / "real" / "m").chmod(0o640)
    subprocess.run([job, tmp_path / "link", "5"], check=True)
    assert (
        (tmp_path / "link").is_symlink()
        and check(tmp_path / "real" / "m")
        and (tmp_path / "real" / "m").stat().st_mode & 0o777 == 0o640
    )
    subprocess.run([job, "a\nb\\c", "5"], check=True, cwd=tmp_path)
    subprocess.run(
        ["sha256sum", "-c", "--strict", "--quiet", "a\nb\\c.sha256"], cwd=tmp_path, check=True
    )


def test_two_writers_at_once(build, tmp_path):
    path = tmp_path / "model.bin"
    jobs = [
        subprocess.Popen(argv, stdout=subprocess.PIPE)
        for argv in (
            [build / "tests/agents/checkpoint_job", path],
            [build / "tests/agents/checkpoint_job", path],
            [sys.executable, "-S", "-c", PYTHON_JOB, ROOT / "python", path],
        )
    ]
    for j in jobs:
        j.stdout.readline()
    time.sleep(0.3)
    for j in jobs:
        assert j.poll() is None, "one took the other's file away"
        j.kill()
        j.wait()
        j.stdout.close()
    check(path)


def test_python(twin, tmp_path):
    path = tmp_path / "x"
    with twin.atomic_write(path) as f:
        f.write(b"one")
        f.write(memoryview(b"two"))
    assert (
        path.read_bytes() == b"onetwo"
        and (tmp_path / "x.sha256").read_text() == hashlib.sha256(b"onetwo").hexdigest() + "  x\n"
    )
    with pytest.raises(ZeroDivisionError):
        with twin.atomic_write(path) as f:
            f.write(b"half")
            1 / 0
    assert path.read_bytes() == b"onetwo" and len(os.listdir(tmp_path)) == 2
    with twin.atomic_write(path, digest=False) as f:  # not in order, and by its path
        f.write(b"0123")
        f.seek(1)
        f.write(b"X")
    assert path.read_bytes() == b"0X23" and os.listdir(tmp_path) == ["x"]
    place = twin.atomic_write(path)
    with place as f:
        with open(os.fspath(f), "wb") as other:
            other.write(b"by path")
    assert (
        path.read_bytes() == b"by path" and place.sha256 == hashlib.sha256(b"by path").hexdigest()
    )
    with twin.atomic_write(path) as f:  # a library that replaces what it is given
        (tmp_path / "own").write_bytes(b"replaced")
        os.replace(tmp_path / "own", os.fspath(f))
    assert (
        path.read_bytes() == b"replaced"
        and hashlib.sha256(b"replaced").hexdigest() in (tmp_path / "x.sha256").read_text()
    )


def test_torch_and_safetensors(twin, tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file

    state = {"w": torch.arange(12.0).reshape(3, 4), "step": 7}
    digest = twin.save(state, tmp_path / "m.pt")
    assert digest == hashlib.sha256((tmp_path / "m.pt").read_bytes()).hexdigest()
    back = torch.load(tmp_path / "m.pt", weights_only=True)
    assert torch.equal(back["w"], state["w"]) and back["step"] == 7
    assert twin.save(state, tmp_path / "other name.pt") == digest  # the name is not in the file
    twin.save(state, str(tmp_path / "old.pt"), _use_new_zipfile_serialization=False)
    assert torch.equal(torch.load(tmp_path / "old.pt", weights_only=True)["w"], state["w"])
    with twin.atomic_write(tmp_path / "m.safetensors") as f:
        save_file({"w": state["w"]}, os.fspath(f))
    assert torch.equal(load_file(tmp_path / "m.safetensors")["w"], state["w"])
    with pytest.raises(Exception):
        twin.save({"f": lambda: 0}, tmp_path / "m.pt")
    assert torch.equal(torch.load(tmp_path / "m.pt", weights_only=True)["w"], state["w"])
    for name in os.listdir(tmp_path):
        assert not name.startswith("."), name
    subprocess.run("sha256sum -c --strict --quiet *.sha256", shell=True, cwd=tmp_path, check=True)
