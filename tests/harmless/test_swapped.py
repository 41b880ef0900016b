# SPDX-License-Identifier: Apache-2.0
"""What was verified is what is used, whatever somebody else does to the files meanwhile.

A signed package lies where an attacker may write. He has a second one, complete and consistent in
itself, whose code leaves a mark, and swaps the two: each file at the moment it was opened once
(swap_shim.c), each file in its place, and the whole folder over and over from another process.
The mark must never be there; what ran, if anything, is what was signed.
"""

import ctypes
import os
import shutil
import stat
import subprocess
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TWINRUN_BUILD", "build")).resolve()
TWINRUN = BUILD / "cmd" / "twinrun"
FULL = os.environ.get("TWINRUN_FULL", "") not in ("", "0")
TRIES = 600 if FULL else 60
pytestmark = pytest.mark.skipif(not TWINRUN.exists(), reason=f"no build: {TWINRUN}")

GOOD = "#!/bin/sh\necho loss 1 for seed $2\n"
EVIL = "#!/bin/sh\necho loss 1 for seed $2\ntouch %s\n"


def environment(folder, **more):
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith("TWINRUN_") and k != "LD_PRELOAD"
    }
    return {
        **kept,
        "TWINRUN_HOME": str(folder / "home"),
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "NO_COLOR": "1",
        "LC_ALL": "C.UTF-8",
        **more,
    }


def call(folder, *words, cwd=None, **more):
    argv = [str(TWINRUN), *map(str, words)]
    return subprocess.run(
        argv,
        cwd=cwd or folder,
        env=environment(folder, **more),
        capture_output=True,
        text=True,
        timeout=120,
    )


def make_package(folder, name, text, key):
    """A package of one script, signed with a key."""
    work = folder / f"work-{name}"
    work.mkdir()
    script = work / "train.sh"
    script.write_text(text)
    script.chmod(0o755)
    done = call(folder, "record", "--", "./train.sh", "--seed", "7", cwd=work)
    assert done.returncode == 0, done.stderr
    done = call(
        folder, "pack", "last", "-o", folder / name, "--data", "none", "--key", key, cwd=work
    )
    assert (folder / name / "signature.dsse.json").exists(), done.stdout + done.stderr
    return folder / name


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(folder, key that is trusted): in it the packages `good`, signed with that key, and `evil`,
    signed with another.
    """
    folder = tmp_path_factory.mktemp("swapped")
    for key in ("ours", "theirs"):
        done = call(folder, "sign", "--new-key", folder / key)
        assert done.returncode == 0, done.stderr
    make_package(folder, "good", GOOD, folder / "ours")
    make_package(folder, "evil", EVIL % (folder / "mark"), folder / "theirs")
    return folder, folder / "ours.pub"


@pytest.fixture
def place(made, tmp_path):
    """(folder, key, package, evil, mark): fresh copies of both."""
    folder, key = made
    shutil.copytree(folder / "good", tmp_path / "package")
    shutil.copytree(folder / "evil", tmp_path / "other")
    (folder / "mark").unlink(missing_ok=True)
    return tmp_path, key, tmp_path / "package", tmp_path / "other", folder / "mark"


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler for the library that swaps files")
    out = tmp_path_factory.mktemp("shim") / "swap.so"
    source = Path(__file__).with_name("swap_shim.c")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", str(out), str(source), "-ldl"], check=True
    )
    return out


def replay(folder, key, package, into, **more):
    return call(
        folder, "replay", package, "--key", key, "--into", into, "--environment", "here", **more
    )


def ran(done):
    """The job ran and the same came out, as far as a shell script shows: nothing in it is recorded
    but its output.
    """
    return (
        done.returncode in (0, 3)
        and "replayed in" in done.stderr
        and "loss 1 for seed 7" in done.stdout
    )


def test_the_evil_package_would_leave_its_mark(place):
    """The tests below can fail: without a key the other package runs, and what it does is seen."""
    folder, key, package, other, mark = place
    assert ran(replay(folder, key, package, folder / "a")) and not mark.exists()
    assert replay(folder, key, other, folder / "b").returncode == 1 and not mark.exists()
    call(folder, "replay", other, "--into", folder / "c", "--environment", "here")
    assert mark.exists()


def test_no_file_is_opened_a_second_time(place, shim):
    """Each file becomes another one once it was opened; replay must not notice, since it never
    comes back.
    """
    folder, key, package, other, mark = place
    before = {p.relative_to(package) for p in package.rglob("*") if p.is_file()}
    swap = {"LD_PRELOAD": str(shim), "SWAP_PACKAGE": str(package), "SWAP_EVIL": str(other)}
    done = replay(folder, key, package, folder / "into", **swap)
    assert not mark.exists(), done.stdout + done.stderr
    assert ran(done), done.stdout + done.stderr
    # The swaps did happen: the script at the package's place is the evil one now.
    assert "touch" in (package / "data/code/files/train.sh").read_text()
    assert {p.relative_to(package) for p in package.rglob("*") if p.is_file()} == before


def test_a_file_that_changes_while_it_is_read(place, shim):
    """In place, after it was opened: other bytes are read, so they are not what was signed; nothing
    runs.
    """
    folder, key, package, other, mark = place
    swap = {
        "LD_PRELOAD": str(shim),
        "SWAP_PACKAGE": str(package),
        "SWAP_EVIL": str(other),
        "SWAP_IN_PLACE": "1",
    }
    done = replay(folder, key, package, folder / "into", **swap)
    assert not mark.exists(), done.stdout + done.stderr
    assert done.returncode == 1 and "nothing was run" in done.stderr, done.stdout + done.stderr
    assert not (folder / "into").exists()


def exchange(a, b):
    """Swaps two folders in one step (renameat2 with RENAME_EXCHANGE)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(-100, os.fsencode(a), -100, os.fsencode(b), 2) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


@pytest.mark.parametrize("what", ["folder", "payload", "file"])
def test_the_package_is_swapped_over_and_over(place, what):
    """By another thread, as fast as it can, over all tries: unsigned code never runs, signed code
    sometimes does.
    """
    folder, key, package, other, mark = place
    below = {"folder": "", "payload": "data", "file": "data/code/files/train.sh"}[what]
    stop = threading.Event()
    swaps = 0

    def swapper():
        nonlocal swaps
        while not stop.is_set():
            exchange(package / below, other / below)
            swaps += 1
            stop.wait(0.0005 if swaps % 7 else 0.02)

    thread = threading.Thread(target=swapper)
    thread.start()
    codes = []
    try:
        for i in range(TRIES // 3 + 1):
            done = replay(folder, key, package, folder / f"into-{i}")
            codes.append(done.returncode)
            assert not mark.exists(), f"try {i}\n{done.stdout}{done.stderr}"
            assert ran(done) or done.returncode in (1, 2), done.stdout + done.stderr
            if ran(done):
                assert "touch" not in (folder / f"into-{i}" / "code" / "train.sh").read_text()
    finally:
        stop.set()
        thread.join()
    assert swaps > len(codes)
    assert {1} < set(codes) or not FULL, codes  # both happened: it ran, and it was refused


def test_the_folder_of_the_replay_is_private(place):
    folder, key, package, _, _ = place
    assert ran(replay(folder, key, package, folder / "into"))
    for path in (folder / "into", folder / "into" / "verified"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700, path


def test_a_place_where_others_can_swap_the_replay_is_refused(place):
    """Whoever may rename the replay's folder could run other code: with a key that is refused, and
    nothing is left.
    """
    folder, key, package, _, _ = place
    open_to_all = folder / "shared"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    done = replay(folder, key, package, open_to_all / "into")
    assert done.returncode == 2 and "others can put" in done.stderr, done.stderr
    assert list(open_to_all.iterdir()) == []
    open_to_all.chmod(0o1777)  # sticky, as /tmp is: only owners rename
    assert ran(replay(folder, key, package, open_to_all / "into"))


def test_what_the_caller_had_stays(place):
    """An empty folder that was there before stays, empty, when the package is refused."""
    folder, key, package, other, _ = place
    (folder / "mine").mkdir()
    assert replay(folder, key, other, folder / "mine").returncode == 1
    assert list((folder / "mine").iterdir()) == []
